"""How nodes are told apart, and what keeps pods off the GPU nodes: one home for labels, taints and tolerations.

Pods select by these labels alone, never by labels that an AMI, a cloud controller or an operator happens to set. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# A key for each role, so that one node may have both: on a laptop's cluster there is no other.
SYSTEM_NODE_LABELS = {"ray-train-eks/system": "true"}
GPU_NODE_LABELS = {"ray-train-eks/gpu": "true"}
# Only where EFA interfaces are attached: an EFA-able type without one makes the EFA device plugin crash in a loop
# (https://github.com/aws-samples/aws-efa-eks/issues/18).
EFA_NODE_LABELS = {"ray-train-eks/efa": "true"}


@dataclass(frozen=True)
class Taint:
    """Keeps pods without a matching toleration off a node; `effect` as Kubernetes writes it."""

    key: str
    value: str
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"]

    @property
    def eks_effect(self) -> str:
        """As the EKS API writes it: NO_SCHEDULE. https://docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html"""
        return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in self.effect).lstrip("_")


# AWS's own examples use this taint: https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia.html
GPU_TAINTS = (Taint("nvidia.com/gpu", "true", "NoSchedule"),)


def gpu_node_labels(efa: bool) -> dict[str, str]:
    return {**GPU_NODE_LABELS, **(EFA_NODE_LABELS if efa else {})}


def tolerations(taints: tuple[Taint, ...] = GPU_TAINTS) -> list[dict[str, str]]:
    """For every pod that belongs on the GPU nodes, in the form of a pod's spec."""
    return [{"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect} for taint in taints]


def required_affinity(labels: dict[str, str]) -> dict[str, object]:
    """A pod's affinity to nodes with all these labels."""
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
