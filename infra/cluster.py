"""Cluster: the EKS control plane, the CPU nodes that everything but the training runs on, and the way into it.

Not here: GPU nodes. CoreDNS is an add-on of our own: asked of `pulumi_eks.Cluster`, it would wait 20 minutes for nodes
that wait for the cluster, since any use of an output of that component waits for all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi_aws as aws
import pulumi_eks as eks
import pulumi_kubernetes as kubernetes
from pulumi import (
    ComponentResource,
    CustomTimeouts,
    Input,
    Output,
    Resource,
    ResourceOptions,
    ResourceTransformArgs,
    ResourceTransformResult,
)

from infra import cluster_rules, launch_template
from infra.eks_settings import ClusterSettings
from infra.eks_versions import ADDONS, SYSTEM_AMI_TYPE
from infra.node_labels import SYSTEM_NODE_LABELS
from workload.errors import UserError

_NODE_MINUTES = CustomTimeouts(create="20m", update="60m", delete="30m")
_ADDON_MINUTES = CustomTimeouts(create="15m", update="15m", delete="15m")


@dataclass(frozen=True, kw_only=True)
class ClusterArgs:
    """`ready`: what nodes need before they start and after they stop, such as routes.

    `instance_tags` are on instances and volumes, in the launch template: only what never changes in an environment's
    life belongs there, because a new template version rolls the nodes. `lustre`: pods on the nodes mount such a store.
    """

    settings: ClusterSettings
    cluster_name: str
    region: str
    vpc_id: Input[str]
    private_subnet_ids: Mapping[str, Input[str]]
    ready: Sequence[Resource]
    instance_tags: Mapping[str, str]
    lustre: bool = False


class Cluster(ComponentResource):
    """Outputs: name; provider, for what runs inside; security_group_id, of control plane and nodes; node_role_arn;
    node_policies, which must outlive every node; control_plane, for `deleted_with`; system_nodes; addons.

    Name and role are fixed: a change of either would replace the cluster, so it takes a destroy and an update.
    """

    name: Output[str]
    provider: kubernetes.Provider
    security_group_id: Output[str]
    node_role_arn: Output[str]
    node_policies: list[Resource]
    control_plane: eks.Cluster
    system_nodes: aws.eks.NodeGroup
    addons: list[Resource]

    def __init__(self, name: str, args: ClusterArgs, opts: ResourceOptions | None = None) -> None:
        if problems := cluster_rules.cluster_problems(args.settings):
            raise UserError(*problems)
        super().__init__("ray-train-eks:index:Cluster", name, None, opts)
        self._name, self._args, self._child = name, args, ResourceOptions(parent=self)
        control_plane = self._create_control_plane(self._create_key(), self._create_log_group())
        self.control_plane = control_plane
        self.name = control_plane.eks_cluster.name
        self.security_group_id = control_plane.cluster_security_group_id
        role = self._create_node_role()
        self.node_role_arn = role.arn
        self.system_nodes = self._create_system_nodes(role, self._create_system_template())
        self.addons = self._create_addons()
        self.provider = self._create_provider(control_plane)
        self.register_outputs({"name": self.name, "securityGroupId": self.security_group_id, "nodeRoleArn": self.node_role_arn})

    def _create_key(self) -> aws.kms.Key:
        """For the cluster's secrets. Deleting it only schedules its end, after the longest wait that KMS knows."""
        return aws.kms.Key(
            f"{self._name}-key",
            description=f"Kubernetes secrets of {self._args.cluster_name}",
            enable_key_rotation=True,
            deletion_window_in_days=30,
            opts=self._child,
        )

    def _create_log_group(self) -> list[Resource]:
        """Made before EKS makes it without an end of retention: the name is EKS's own choice."""
        if not self._args.settings.log_types:
            return []
        group = aws.cloudwatch.LogGroup(
            f"{self._name}-logs",
            name=f"/aws/eks/{self._args.cluster_name}/cluster",
            retention_in_days=self._args.settings.log_retention_days,
            opts=self._child,
        )
        return [group]

    def _create_control_plane(self, key: aws.kms.Key, before: list[Resource]) -> eks.Cluster:
        """The public endpoint is written out only to switch it off: written out as on, each update would wait for it,
        5 minutes where the CIDRs shut this machine out."""
        settings, versions = self._args.settings, ADDONS[self._args.settings.kubernetes_version]
        return eks.Cluster(
            f"{self._name}-control-plane",
            name=self._args.cluster_name,
            version=settings.kubernetes_version,
            upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(support_type="STANDARD"),
            authentication_mode=eks.AuthenticationMode.API,
            access_entries=self._access_entries(),
            vpc_id=self._args.vpc_id,
            private_subnet_ids=list(self._args.private_subnet_ids.values()),
            kubernetes_service_ip_address_range=settings.service_cidr,
            endpoint_private_access=True,
            endpoint_public_access=None if settings.public_access_cidrs else False,
            public_access_cidrs=list(settings.public_access_cidrs) or None,
            encryption_config_key_arn=key.arn,
            enabled_cluster_log_types=list(settings.log_types),
            deletion_protection=settings.deletion_protection,
            skip_default_node_group=True,
            skip_default_security_groups=True,
            vpc_cni_options=eks.VpcCniOptionsArgs(
                addon_version=versions["vpc-cni"], configuration_values={"enableNetworkPolicy": "true"}
            ),
            kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(version=versions["kube-proxy"]),
            opts=ResourceOptions(
                parent=self, depends_on=before, transforms=[_protect_cluster] if settings.deletion_protection else None
            ),
        )

    def _access_entries(self) -> dict[str, eks.AccessEntryArgs]:
        part = cluster_rules.partition(self._args.region)
        policy = f"arn:{part}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
        scope = aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster")
        association = eks.AccessPolicyAssociationArgs(policy_arn=policy, access_scope=scope)
        return {
            key: eks.AccessEntryArgs(principal_arn=arn, access_policies={"admin": association})
            for key, arn in cluster_rules.admin_keys(self._args.settings.admins).items()
        }

    def _create_node_role(self) -> aws.iam.Role:
        role = aws.iam.Role(
            f"{self._name}-node-role",
            description=f"Nodes of {self._args.cluster_name}",
            assume_role_policy=cluster_rules.NODE_TRUST,
            opts=self._child,
        )
        part = cluster_rules.partition(self._args.region)
        self.node_policies = [
            aws.iam.RolePolicyAttachment(
                f"{self._name}-node-{policy}",
                role=role.name,
                policy_arn=f"arn:{part}:iam::aws:policy/{policy}",
                opts=self._child,
            )
            for policy in cluster_rules.NODE_POLICIES
        ]
        return role

    def _create_system_template(self) -> aws.ec2.LaunchTemplate:
        nodes = self._args.settings.system_nodes
        disk = aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            volume_size=nodes.root_volume_gib, volume_type="gp3", encrypted="true", delete_on_termination="true"
        )
        return aws.ec2.LaunchTemplate(
            f"{self._name}-system-template",
            instance_type=nodes.instance_type,
            metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
                http_endpoint="enabled",
                http_tokens=launch_template.IMDS_TOKENS,
                http_put_response_hop_limit=launch_template.IMDS_HOP_LIMIT,
            ),
            block_device_mappings=[
                aws.ec2.LaunchTemplateBlockDeviceMappingArgs(device_name=launch_template.ROOT_DEVICE, ebs=disk)
            ],
            tag_specifications=[
                aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags={**self._args.instance_tags})
                for kind in launch_template.TAGGED
            ],
            user_data=launch_template.user_data(lustre=self._args.lustre),
            opts=self._child,
        )

    def _create_system_nodes(self, role: aws.iam.Role, template: aws.ec2.LaunchTemplate) -> aws.eks.NodeGroup:
        settings = self._args.settings
        nodes = settings.system_nodes
        return aws.eks.NodeGroup(
            f"{self._name}-system-nodes",
            cluster_name=self.name,
            node_role_arn=role.arn,
            subnet_ids=list(self._args.private_subnet_ids.values())[: cluster_rules.SYSTEM_ZONES],
            ami_type=SYSTEM_AMI_TYPE,
            version=settings.kubernetes_version,
            release_version=nodes.release_version,
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(id=template.id, version=template.latest_version.apply(str)),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(
                desired_size=nodes.count, min_size=nodes.count, max_size=nodes.count
            ),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=1),
            labels=SYSTEM_NODE_LABELS,
            node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=True),
            opts=ResourceOptions(
                parent=self, depends_on=[*self._args.ready, *self.node_policies], custom_timeouts=_NODE_MINUTES
            ),
        )

    def _create_addons(self) -> list[Resource]:
        """Those that need a node to become active."""
        configurations = {
            "coredns": None,
            "eks-pod-identity-agent": None,
            "eks-node-monitoring-agent": cluster_rules.monitoring_configuration(),
        }
        return [
            aws.eks.Addon(
                f"{self._name}-{addon}",
                cluster_name=self.name,
                addon_name=addon,
                addon_version=ADDONS[self._args.settings.kubernetes_version][addon],
                configuration_values=configuration,
                resolve_conflicts_on_create="OVERWRITE",  # EKS has put an unmanaged CoreDNS there
                resolve_conflicts_on_update="OVERWRITE",
                opts=ResourceOptions(parent=self, depends_on=[self.system_nodes], custom_timeouts=_ADDON_MINUTES),
            )
            for addon, configuration in configurations.items()
        ]

    def _create_provider(self, control_plane: eks.Cluster) -> kubernetes.Provider:
        """Behind the nodes and add-ons: what is deleted through it goes while controllers still run.

        The kubeconfig holds no credential: it calls `aws eks get-token`. A cluster that is gone deletes nothing.
        """
        return kubernetes.Provider(
            f"{self._name}-provider",
            kubeconfig=control_plane.kubeconfig_json,
            delete_unreachable=True,
            opts=ResourceOptions(parent=self, depends_on=[self.system_nodes, *self.addons]),
        )


def _protect_cluster(args: ResourceTransformArgs) -> ResourceTransformResult | None:
    """Of what the component makes, the cluster alone: access entries and add-ons must still come and go.

    AWS's own protection speaks last, when what is in the cluster has gone (pulumi/pulumi#6191); this one ends the plan.
    """
    if args.type_ != "aws:eks/cluster:Cluster":
        return None
    return ResourceTransformResult(args.props, ResourceOptions.merge(args.opts, ResourceOptions(protect=True)))
