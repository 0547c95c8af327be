"""DevicePlugins: what makes GPUs and EFA interfaces resources of Kubernetes. In kube-system, where privileged pods belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi_kubernetes as kubernetes
from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions

from infra.device_plugin_values import efa_values, nvidia_values
from infra.eks_settings import RegistriesSettings
from infra.eks_versions import (
    EFA_DEVICE_PLUGIN,
    EFA_DEVICE_PLUGIN_CHARTS,
    NVIDIA_DEVICE_PLUGIN,
    NVIDIA_DEVICE_PLUGIN_CHARTS,
)
from infra.rollout_gate import rollout_gate


@dataclass(frozen=True, kw_only=True)
class DevicePluginsArgs:
    """`nodes`: those that the pods go to. `cluster`: when it goes, the releases are forgotten with it, not uninstalled."""

    efa: bool
    registries: RegistriesSettings
    provider: kubernetes.Provider
    kubeconfig: Input[str]  # JSON, for what is asked without the provider
    nodes: Sequence[Resource]
    cluster: Resource


class DevicePlugins(ComponentResource):
    """Outputs: ready, failures. That a plugin runs proves no device: look at the nodes' allocatable resources."""

    ready: list[Resource]
    failures: list[Output[str]]

    def __init__(self, name: str, args: DevicePluginsArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("ray-train-eks:index:DevicePlugins", name, None, opts)
        self._name, self._args, self.failures = name, args, []
        images = args.registries.images
        nvidia = (NVIDIA_DEVICE_PLUGIN_CHARTS, "nvidia-device-plugin", NVIDIA_DEVICE_PLUGIN)
        efa = (EFA_DEVICE_PLUGIN_CHARTS, "aws-efa-k8s-device-plugin", EFA_DEVICE_PLUGIN)
        self.ready = [self._create_release("nvidia", *nvidia, nvidia_values(images))]
        if args.efa:
            self.ready.append(self._create_release("efa", *efa, efa_values(images)))
        self.register_outputs({})

    def _create_release(self, role: str, charts: str, chart: str, version: str, values: dict[str, Any]) -> Resource:
        """Helm doesn't wait: the gate does, and knows why."""
        release = kubernetes.helm.v3.Release(
            f"{self._name}-{role}",
            name=chart,
            chart=chart,
            version=version,
            namespace="kube-system",
            repository_opts=kubernetes.helm.v3.RepositoryOptsArgs(repo=self._args.registries.charts or charts),
            values=values,
            skip_await=True,
            opts=ResourceOptions(
                parent=self,
                provider=self._args.provider,
                depends_on=[*self._args.nodes],
                deleted_with=self._args.cluster,
            ),
        )
        gate = rollout_gate(f"{self._name}-{role}-gate", self._args.kubeconfig, release, self._args.cluster, self)
        self.failures.append(gate.failure)
        return gate
