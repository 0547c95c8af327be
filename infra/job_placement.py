"""Where the pods of a job run and which devices and environment they get there, by target. Pure.

On an existing cluster nothing is assumed about its nodes. On EKS head and submitter belong on the system nodes, workers on the
GPU nodes; with EFA on, NCCL is told to fail rather than fall back to sockets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.node_labels import SYSTEM_NODE_LABELS, gpu_node_labels, tolerations
from infra.settings_models import Settings

SERVICE_ACCOUNT = "ray-train"
EFA_RESOURCE = "vpc.amazonaws.com/efa"
GPU_RESOURCE = "nvidia.com/gpu"

# https://github.com/aws/deep-learning-containers/blob/main/docs/ray-train/deployment/eks.md: without it the NVIDIA runtime's
# hook ends a container of this image on a node without a GPU.
_NO_GPU = {"NVIDIA_VISIBLE_DEVICES": "void"}
# eth0 is the bootstrap interface of an EKS pod. NCCL_NET names the only network that may be used: initialisation fails
# without it (https://github.com/NVIDIA/nccl, src/plugin/net.cc). What the plugin sets by itself is left to it.
_NCCL = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_SOCKET_IFNAME": "eth0"}
_EFA = {"FI_PROVIDER": "efa", "FI_EFA_USE_HUGE_PAGE": "0", "NCCL_NET": "Libfabric", "NCCL_NET_PLUGIN": "ofi"}
# The declared arm without EFA, to compare with; the image itself sets FI_PROVIDER=efa.
_TCP = {"FI_PROVIDER": "tcp", "NCCL_NET": "Socket", "NCCL_NET_PLUGIN": "none"}


@dataclass(frozen=True, kw_only=True)
class PodPlacement:
    """What one kind of pod adds to its template; `devices` are requested and limited alike."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)

    @property
    def pod_spec(self) -> dict[str, Any]:
        """The part of a pod's spec; nothing empty in it."""
        parts = {"nodeSelector": dict(self.node_selector), "tolerations": [dict(each) for each in self.tolerations]}
        return {key: value for key, value in parts.items() if value}


@dataclass(frozen=True, kw_only=True)
class Placement:
    """All pods of a job. `service_account` is theirs alone; `token_auth`: Ray's ports ask for a token."""

    head: PodPlacement
    submitter: PodPlacement
    worker: PodPlacement
    service_account: str | None
    token_auth: bool


def placement(settings: Settings, efa_interfaces: int = 0) -> Placement:
    """`efa_interfaces`: of one GPU node, 0 without EFA."""
    workers = settings.workers
    gpus = {GPU_RESOURCE: str(workers.gpus_per_worker * workers.per_pod)} if workers.gpus_per_worker else {}
    if settings.eks is None:
        anywhere = PodPlacement()
        return Placement(
            head=anywhere, submitter=anywhere, worker=PodPlacement(devices=gpus), service_account=None, token_auth=False
        )
    system = PodPlacement(node_selector=SYSTEM_NODE_LABELS, environment=_NO_GPU)
    efa = {EFA_RESOURCE: str(efa_interfaces)} if efa_interfaces else {}
    worker = PodPlacement(
        node_selector=gpu_node_labels(settings.eks.gpu_nodes.efa),
        tolerations=tuple(tolerations()),
        environment={**_NCCL, **(_EFA if efa_interfaces else _TCP)} if gpus else _NO_GPU,
        devices={**gpus, **efa},
    )
    return Placement(head=system, submitter=system, worker=worker, service_account=SERVICE_ACCOUNT, token_auth=True)
