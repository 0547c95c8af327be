"""Target `eks`: network, cluster, GPU nodes, device plugins, operator, store and the run's namespace, in this order.

Destroy is the mirror: the job, the namespace, the operator, the plugins, the nodes, the cluster, the network; the store stays.
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws
from pulumi import Resource, ResourceOptions

from infra.checkpoint_store import CheckpointStore
from infra.cluster import Cluster, ClusterArgs
from infra.device_plugins import DevicePlugins, DevicePluginsArgs
from infra.eks_plan import EksPlan
from infra.gpu_nodes import GpuNodes, GpuNodesArgs
from infra.job_placement import SERVICE_ACCOUNT, placement
from infra.job_space import JobSpace, JobSpaceArgs
from infra.mounted_volume import StoreSite
from infra.network import Network
from infra.node_labels import SYSTEM_NODE_LABELS
from infra.pod_access import PodAccess, PodAccessArgs
from infra.ray_operator import RayOperator, RayOperatorArgs
from infra.site import Site


class EksSite:
    """Builds the components of a plan, each from outputs of those before it."""

    def __init__(self, plan: EksPlan) -> None:
        self._plan, self._eks = plan, plan.eks
        self._say()
        self._account = aws.Provider(
            "aws", region=plan.eks.aws.region, default_tags=aws.ProviderDefaultTagsArgs(tags=dict(plan.tags))
        )
        self._on_account = ResourceOptions(providers=[self._account])
        self._network = Network("network", plan.eks.network, self._on_account)
        self._cluster = self._create_cluster()
        self._nodes = self._create_gpu_nodes()
        self._on_cluster = ResourceOptions(providers=[self._account, self._cluster.provider])
        self._plugins = self._create_plugins()
        self._operator = self._create_operator()

    def _say(self) -> None:
        pulumi.info(f"{self._plan.cluster_name}: {self._plan.cost}")
        for note in self._plan.notes:
            pulumi.warn(note)

    def _create_cluster(self) -> Cluster:
        args = ClusterArgs(
            settings=self._eks.cluster,
            cluster_name=self._plan.cluster_name,
            region=self._eks.aws.region,
            vpc_id=self._network.vpc_id,
            private_subnet_ids=self._network.private_subnet_ids,
            ready=self._network.ready,
            instance_tags=self._plan.instance_tags,
            lustre=self._plan.lustre,
        )
        return Cluster("cluster", args, self._on_account)

    def _create_gpu_nodes(self) -> GpuNodes:
        args = GpuNodesArgs(
            settings=self._eks.gpu_nodes,
            kubernetes_version=self._eks.cluster.kubernetes_version,
            efa_interfaces=self._plan.efa_interfaces,
            local_disks=self._plan.local_disks,
            cluster_name=self._cluster.name,
            cluster_security_group_id=self._cluster.security_group_id,
            node_role_arn=self._cluster.node_role_arn,
            vpc_id=self._network.vpc_id,
            subnet_id=self._network.private_subnet_id(self._eks.gpu_nodes.zone),
            ready=[*self._network.ready, *self._cluster.node_policies],
            instance_tags=self._plan.instance_tags,
            lustre=self._plan.lustre,
        )
        return GpuNodes("gpu-nodes", args, self._on_account)

    def _create_plugins(self) -> DevicePlugins:
        args = DevicePluginsArgs(
            efa=self._eks.gpu_nodes.efa,
            registries=self._eks.registries,
            provider=self._cluster.provider,
            kubeconfig=self._cluster.control_plane.kubeconfig_json,
            nodes=[self._nodes.node_group],
            cluster=self._cluster.control_plane,
        )
        return DevicePlugins("device-plugins", args, self._on_cluster)

    def _create_operator(self) -> RayOperator:
        args = RayOperatorArgs(
            settings=self._eks.ray_operator,
            registries=self._eks.registries,
            node_labels=SYSTEM_NODE_LABELS,
            nodes=[self._cluster.system_nodes, *self._cluster.addons],
            kubeconfig=self._cluster.control_plane.kubeconfig_json,
            cluster=self._cluster.control_plane,
        )
        return RayOperator("ray-operator", args, self._on_cluster)

    def _create_space(self) -> JobSpace:
        args = JobSpaceArgs(
            namespace=self._plan.settings.target.namespace,
            service_account=SERVICE_ACCOUNT,
            operator_namespace=self._eks.ray_operator.namespace,
            ready=[self._cluster.system_nodes, *self._cluster.addons],
            cluster=self._cluster.control_plane,
            store_port=self._plan.store_port,
        )
        return JobSpace("job-space", args, self._on_cluster)

    def _create_store(self, space: JobSpace) -> tuple[CheckpointStore, list[Resource]]:
        site = StoreSite(
            region=self._eks.aws.region,
            cluster_name=self._cluster.name,
            vpc_id=self._network.vpc_id,
            subnet_ids=self._network.private_subnet_ids,
            gpu_zone=self._eks.gpu_nodes.zone,
            node_security_group_id=self._cluster.security_group_id,
            nodes=[self._cluster.system_nodes, self._nodes.node_group],
            cluster=self._cluster.control_plane,
        )
        store = CheckpointStore("store", self._plan.settings.store, space.namespace, self._on_cluster, site=site)
        if store.bucket is None or store.volume is not None:
            return store, []
        args = PodAccessArgs(
            cluster_name=self._cluster.name,
            namespace=space.namespace,
            service_account=SERVICE_ACCOUNT,
            bucket_arn=store.bucket.arn,
            prefix=store.bucket.prefix,
            key_arn=store.bucket.key_arn,
        )
        return store, [PodAccess("pod-access", args, self._on_account).ready]

    def site(self) -> Site:
        """The run's namespace and store on top, and what a job needs to know."""
        space = self._create_space()
        store, access = self._create_store(space)
        ready: list[Resource] = [*space.ready, *access, *self._plugins.ready, self._operator.ready, self._nodes.node_group]
        return Site(
            settings=self._plan.settings,
            provider=self._cluster.provider,
            kubeconfig=self._cluster.control_plane.kubeconfig_json,
            context="",
            namespace=space.namespace,
            placement=placement(self._plan.settings, self._plan.efa_interfaces),
            store_location=store.location,
            store_volume=store.volume,
            ready=ready,
            failures=[*self._plugins.failures, *self._operator.failures],
            cluster=self._cluster.control_plane,
            outputs={
                "clusterName": self._cluster.name,
                "region": self._eks.aws.region,
                "bucket": store.bucket.name if store.bucket else "",
                "costPerHour": str(self._plan.cost),
                "image": self._plan.settings.image.reference,
            },
        )
