"""ExistingCluster: a Kubernetes that is there already, and the run's namespace in it."""

from __future__ import annotations

import pulumi_kubernetes as kubernetes
from pulumi import ComponentResource, Input, ResourceOptions

from infra import cluster_access
from infra.settings_models import TargetSettings


class ExistingCluster(ComponentResource):
    """Outputs: provider, context, namespace. Not here: the operator, which the cluster must have already.

    The namespace is made and goes with the stack, unless `adopt_namespace`: then it belongs to whoever made it.
    State holds the kubeconfig's path at most, never what is in it.
    """

    provider: kubernetes.Provider
    context: str
    namespace: Input[str]

    def __init__(self, name: str, target: TargetSettings, adopt_namespace: bool, opts: ResourceOptions | None = None) -> None:
        self.context = cluster_access.check_cluster(target, needs_namespace=adopt_namespace)
        super().__init__("ray-train-eks:index:ExistingCluster", name, None, opts)
        self.provider = kubernetes.Provider(
            f"{name}-provider", kubeconfig=target.kubeconfig, context=self.context, opts=ResourceOptions(parent=self)
        )
        self.namespace = target.namespace if adopt_namespace else self._create_namespace(name, target.namespace)
        self.register_outputs({"context": self.context, "namespace": self.namespace})

    def _create_namespace(self, name: str, namespace: str) -> Input[str]:
        created = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=namespace, labels={"app.kubernetes.io/managed-by": "pulumi"}),
            opts=ResourceOptions(parent=self, provider=self.provider),
        )
        return created.metadata.name
