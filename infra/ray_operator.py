"""RayOperator: KubeRay and the CRDs that it works with; or the look at what a cluster has already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi_kubernetes as kubernetes
from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions, RunError

from infra import ray_crds
from infra.eks_settings import RayOperatorSettings, RegistriesSettings
from infra.operator_crds import OperatorCrds
from infra.rollout_gate import rollout_gate
from infra.versions import KUBERAY_CHARTS
from workload.errors import UserError

_CHART = "kuberay-operator"
_IMAGE = "kuberay/operator"  # in quay.io, or in the mirror


@dataclass(frozen=True, kw_only=True)
class RayOperatorArgs:
    settings: RayOperatorSettings
    registries: RegistriesSettings
    node_labels: Mapping[str, str]  # of the nodes that it runs on
    nodes: Sequence[Resource]  # what must be there first: nodes, and their DNS
    kubeconfig: Input[str]  # JSON, for what is applied without the provider
    cluster: Resource | None = None  # when it goes, the release is forgotten with it, not uninstalled


class RayOperator(ComponentResource):
    """Outputs: ready (the operator, or the cluster's CRD): jobs come after it, and so go before it; failures.

    CRDs come first, change first, and stay when the stack goes: with them would go every RayJob of the cluster.
    """

    ready: Resource
    failures: list[Output[str]]

    def __init__(self, name: str, args: RayOperatorArgs, opts: ResourceOptions | None = None) -> None:
        if args.settings.kind == "managed" and (problems := ray_crds.version_problems(args.settings.version)):
            raise UserError(*problems)
        super().__init__("ray-train-eks:index:RayOperator", name, None, opts)
        self._name, self._args, self.failures = name, args, []
        if args.settings.kind == "managed":
            namespace = self._create_namespace()
            self.ready = self._create_release(namespace, self._create_crds())
        else:
            self.ready = self._find_crd()
        self.register_outputs({})

    def _create_namespace(self) -> Input[str]:
        namespace = kubernetes.core.v1.Namespace(
            f"{self._name}-namespace",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=self._args.settings.namespace, labels={"app.kubernetes.io/managed-by": "pulumi"}
            ),
            opts=ResourceOptions(parent=self, depends_on=list(self._args.nodes), deleted_with=self._args.cluster),
        )
        return namespace.metadata.name

    def _create_crds(self) -> Resource:
        version = self._args.settings.version
        return OperatorCrds(
            f"{self._name}-crds",
            {"kubeconfig": self._args.kubeconfig, "version": version, "digest": ray_crds.digest(version)},
            ResourceOptions(parent=self, deleted_with=self._args.cluster),
        )

    def _create_release(self, namespace: Input[str], crds: Resource) -> Resource:
        """Helm doesn't wait: the gate does, and knows why."""
        release = kubernetes.helm.v3.Release(
            f"{self._name}-release",
            kubernetes.helm.v3.ReleaseArgs(
                name=_CHART,
                chart=_CHART,
                version=self._args.settings.version,
                namespace=namespace,
                repository_opts=kubernetes.helm.v3.RepositoryOptsArgs(repo=self._args.registries.charts or KUBERAY_CHARTS),
                skip_crds=True,
                skip_await=True,
                values=self._values(),
            ),
            opts=ResourceOptions(parent=self, depends_on=[crds, *self._args.nodes], deleted_with=self._args.cluster),
        )
        gate = rollout_gate(f"{self._name}-gate", self._args.kubeconfig, release, self._args.cluster, self)
        self.failures = [gate.failure]
        return gate

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "fullnameOverride": _CHART,
            "nodeSelector": dict(self._args.node_labels),
            "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}},
            # Deletion rules of the job need it; it is on by default, and named so that it stays.
            "featureGates": [
                {"name": "RayClusterStatusConditions", "enabled": True},
                {"name": "RayJobDeletionPolicy", "enabled": True},
            ],
        }
        if mirror := self._args.registries.images:
            values["image"] = {"repository": f"{mirror}/{_IMAGE}", "tag": f"v{self._args.settings.version}"}
        return values

    def _find_crd(self) -> Resource:
        """Fails the update where the cluster has no RayJobs, or only of a version that the job is not written in."""
        found = kubernetes.apiextensions.v1.CustomResourceDefinition.get(
            f"{self._name}-{ray_crds.RAY_JOBS}",
            ray_crds.RAY_JOBS,
            ResourceOptions(parent=self, depends_on=list(self._args.nodes)),
        )
        Output.all(versions=found.spec.versions).apply(_check_versions)
        return found


def _check_versions(found: dict[str, Any]) -> None:
    versions = [{"name": version["name"], "served": version["served"]} for version in found["versions"]]
    if problem := ray_crds.existing_problem(versions):
        raise RunError(str(UserError(problem)))  # no traceback: inside an apply nobody catches it
