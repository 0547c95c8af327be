"""GpuNodes: the nodes that train, in one subnet, with the EFA interfaces that their type has.

Not here: device plugins, which run inside the cluster, and facts about instance types, which come as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi_aws as aws
from pulumi import ComponentResource, CustomTimeouts, Input, Output, Resource, ResourceOptions

from infra import launch_template
from infra.eks_settings import GpuNodesSettings
from infra.eks_versions import GPU_AMI_TYPE
from infra.node_labels import GPU_TAINTS, gpu_node_labels
from workload.errors import UserError

_TIMEOUTS = CustomTimeouts(create="30m", update="60m", delete="30m")


@dataclass(frozen=True, kw_only=True)
class GpuNodesArgs:
    """`efa_interfaces` and `local_disks`: what the type has. `ready`: what must outlive the nodes, such as routes and
    the role's policies. `instance_tags` and `lustre`: see `ClusterArgs`."""

    settings: GpuNodesSettings
    kubernetes_version: str
    efa_interfaces: int
    local_disks: int
    cluster_name: Input[str]
    cluster_security_group_id: Input[str]
    node_role_arn: Input[str]
    vpc_id: Input[str]
    subnet_id: Input[str]
    ready: Sequence[Resource]
    instance_tags: Mapping[str, str]
    lustre: bool = False


class GpuNodes(ComponentResource):
    """Outputs: node_group. It can be removed, resized or moved to another zone without anything else changing."""

    node_group: aws.eks.NodeGroup

    def __init__(self, name: str, args: GpuNodesArgs, opts: ResourceOptions | None = None) -> None:
        if problems := launch_template.gpu_nodes_problems(args.settings, args.kubernetes_version):
            raise UserError(*problems)
        super().__init__("ray-train-eks:index:GpuNodes", name, None, opts)
        self._name, self._args, self._settings, self._child = name, args, args.settings, ResourceOptions(parent=self)
        self._capacity = launch_template.capacity_of(args.settings.capacity)
        group, rules = self._create_efa_security_group() if args.settings.efa else (None, [])
        template = self._create_template(group, self._create_placement_group())
        self.node_group = self._create_node_group(template, rules)
        self.register_outputs({"nodeGroupName": self.node_group.node_group_name})

    def _create_efa_security_group(self) -> tuple[aws.ec2.SecurityGroup, list[Resource]]:
        """EFA needs all traffic in from AND out to the group itself; a rule to 0.0.0.0/0 doesn't count.

        https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html#efa-start-security
        """
        group = aws.ec2.SecurityGroup(
            f"{self._name}-efa",
            vpc_id=self._args.vpc_id,
            description="EFA traffic among the GPU nodes",
            revoke_rules_on_delete=True,
            tags={"Name": f"{self._name}-efa"},
            opts=self._child,
        )
        ingress = aws.vpc.SecurityGroupIngressRule(
            f"{self._name}-efa-ingress",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            ip_protocol="-1",
            description="Everything from the group itself",
            opts=self._child,
        )
        egress = aws.vpc.SecurityGroupEgressRule(
            f"{self._name}-efa-egress",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            ip_protocol="-1",
            description="Everything to the group itself",
            opts=self._child,
        )
        return group, [ingress, egress]

    def _create_placement_group(self) -> Input[str] | None:
        """The name of the group to launch into: our own, a reservation's, or none."""
        if not self._settings.placement_group:
            return self._capacity.placement_group
        group = aws.ec2.PlacementGroup(f"{self._name}-placement", strategy="cluster", opts=self._child)
        return group.name

    def _create_template(
        self, efa_group: aws.ec2.SecurityGroup | None, placement_group: Input[str] | None
    ) -> aws.ec2.LaunchTemplate:
        """Any change makes a new version, and a new version rolls the nodes: nothing is in it that needn't be."""
        market = self._capacity.market_type
        return aws.ec2.LaunchTemplate(
            f"{self._name}-template",
            instance_type=self._settings.instance_type,
            metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
                http_endpoint="enabled",
                http_tokens=launch_template.IMDS_TOKENS,
                http_put_response_hop_limit=launch_template.IMDS_HOP_LIMIT,
            ),
            block_device_mappings=[self._root_volume()],
            network_interfaces=self._interfaces(efa_group) if efa_group else None,
            placement=aws.ec2.LaunchTemplatePlacementArgs(group_name=placement_group) if placement_group else None,
            instance_market_options=aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type=market) if market else None,
            capacity_reservation_specification=self._reservation(),
            user_data=launch_template.user_data(self._args.local_disks, lustre=self._args.lustre),
            tag_specifications=[
                aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags={**self._args.instance_tags})
                for kind in launch_template.TAGGED
            ],
            opts=self._child,
        )

    def _root_volume(self) -> aws.ec2.LaunchTemplateBlockDeviceMappingArgs:
        volume = aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            volume_size=self._settings.root_volume_gib,
            volume_type="gp3",
            iops=self._settings.root_volume_iops,
            throughput=self._settings.root_volume_throughput,
            encrypted="true",
            delete_on_termination="true",
        )
        return aws.ec2.LaunchTemplateBlockDeviceMappingArgs(device_name=launch_template.ROOT_DEVICE, ebs=volume)

    def _interfaces(self, efa_group: aws.ec2.SecurityGroup) -> list[aws.ec2.LaunchTemplateNetworkInterfaceArgs]:
        """With groups of its own in the template, EKS doesn't attach the cluster's: it has to be listed.

        https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
        """
        return [
            aws.ec2.LaunchTemplateNetworkInterfaceArgs(
                network_card_index=interface.network_card_index,
                device_index=interface.device_index,
                interface_type=interface.interface_type,
                security_groups=[self._args.cluster_security_group_id, efa_group.id],
                delete_on_termination="true",
            )
            for interface in launch_template.efa_interfaces(self._args.efa_interfaces)
        ]

    def _reservation(self) -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs | None:
        if self._capacity.reservation_id is None:
            return None
        target = aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
            capacity_reservation_id=self._capacity.reservation_id
        )
        return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(capacity_reservation_target=target)

    def _create_node_group(self, template: aws.ec2.LaunchTemplate, rules: list[Resource]) -> aws.eks.NodeGroup:
        """Fixed in size, and updated by taking old nodes away first: there is no spare capacity of this kind."""
        count = self._settings.count
        version: Output[str] = template.latest_version.apply(str)
        return aws.eks.NodeGroup(
            f"{self._name}-nodes",
            cluster_name=self._args.cluster_name,
            node_role_arn=self._args.node_role_arn,
            subnet_ids=[self._args.subnet_id],
            ami_type=GPU_AMI_TYPE,
            version=self._args.kubernetes_version,
            release_version=self._settings.release_version,
            capacity_type=self._capacity.capacity_type,
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(id=template.id, version=version),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(desired_size=count, min_size=count, max_size=count),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable_percentage=100, update_strategy="MINIMAL"),
            labels=gpu_node_labels(self._settings.efa),
            taints=[
                aws.eks.NodeGroupTaintArgs(key=taint.key, value=taint.value, effect=taint.eks_effect) for taint in GPU_TAINTS
            ],
            node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=self._settings.repair),
            opts=ResourceOptions(
                parent=self,
                depends_on=[*self._args.ready, *rules],
                custom_timeouts=_TIMEOUTS,
                delete_before_replace=True,
            ),
        )
