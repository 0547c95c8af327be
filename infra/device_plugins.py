"""DevicePlugins: what makes GPUs and EFA interfaces resources of Kubernetes. In kube-system, where privileged pods belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi_kubernetes as kubernetes
from pulumi import ComponentResource, Resource, ResourceOptions

from infra.device_plugin_values import efa_values, nvidia_values
from infra.eks_settings import RegistriesSettings
from infra.eks_versions import (
    EFA_DEVICE_PLUGIN,
    EFA_DEVICE_PLUGIN_CHARTS,
    NVIDIA_DEVICE_PLUGIN,
    NVIDIA_DEVICE_PLUGIN_CHARTS,
)

_SECONDS = 300  # an image pull, and the start of one pod per node


@dataclass(frozen=True, kw_only=True)
class DevicePluginsArgs:
    """`nodes`: those that the pods go to. `cluster`: when it goes, the releases are forgotten with it, not uninstalled."""

    efa: bool
    registries: RegistriesSettings
    provider: kubernetes.Provider
    nodes: Sequence[Resource]
    cluster: Resource


class DevicePlugins(ComponentResource):
    """Outputs: releases. That a release is deployed proves no device: look at the nodes' allocatable resources."""

    releases: list[Resource]

    def __init__(self, name: str, args: DevicePluginsArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("ray-train-eks:index:DevicePlugins", name, None, opts)
        self._name, self._args = name, args
        images = args.registries.images
        nvidia = (NVIDIA_DEVICE_PLUGIN_CHARTS, "nvidia-device-plugin", NVIDIA_DEVICE_PLUGIN)
        efa = (EFA_DEVICE_PLUGIN_CHARTS, "aws-efa-k8s-device-plugin", EFA_DEVICE_PLUGIN)
        self.releases = [self._create_release("nvidia", *nvidia, nvidia_values(images))]
        if args.efa:
            self.releases.append(self._create_release("efa", *efa, efa_values(images)))
        self.register_outputs({})

    def _create_release(self, role: str, charts: str, chart: str, version: str, values: dict[str, Any]) -> Resource:
        """One that fails leaves nothing behind, so that the next update starts from nothing."""
        return kubernetes.helm.v3.Release(
            f"{self._name}-{role}",
            name=chart,
            chart=chart,
            version=version,
            namespace="kube-system",
            repository_opts=kubernetes.helm.v3.RepositoryOptsArgs(repo=self._args.registries.charts or charts),
            values=values,
            atomic=True,
            timeout=_SECONDS,
            opts=ResourceOptions(
                parent=self,
                provider=self._args.provider,
                depends_on=[*self._args.nodes],
                deleted_with=self._args.cluster,
            ),
        )
