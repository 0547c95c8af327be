"""What the device plugins' charts are told: our nodes, our taints, nothing that the charts guess. Pure."""

from __future__ import annotations

from typing import Any

from infra.node_labels import EFA_NODE_LABELS, GPU_NODE_LABELS, required_affinity, tolerations

# Values of nvidia-device-plugin 0.20.0: https://github.com/NVIDIA/k8s-device-plugin, deployments/helm/nvidia-device-plugin
NVIDIA_IMAGE = "nvcr.io/nvidia/k8s-device-plugin"
# Values of aws-efa-k8s-device-plugin: https://github.com/aws/eks-charts, stable/aws-efa-k8s-device-plugin
EFA_IMAGE = "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin"


def nvidia_values(image_prefix: str | None) -> dict[str, Any]:
    """RDMA devices belong to the EFA plugin alone: MOFED, GDS and GDRCopy are off, and said to be.

    The affinity replaces the chart's, which goes by labels that others set; a list replaces the chart's list whole.
    """
    return {
        **_image(NVIDIA_IMAGE, image_prefix),
        "mofedEnabled": False,
        "gdsEnabled": False,
        "gdrcopyEnabled": False,
        "affinity": required_affinity(GPU_NODE_LABELS),
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, *tolerations()],
    }


def efa_values(image_prefix: str | None) -> dict[str, Any]:
    """The chart goes by a list of instance types: one that isn't in it gets no pod, no event and no EFA, without an error
    (https://github.com/aws/eks-charts/issues/1348). Its template takes any label, so it gets ours instead of the list.
    """
    ((key, value),) = EFA_NODE_LABELS.items()
    return {
        **_image(EFA_IMAGE, image_prefix),
        "supportedInstanceLabels": {"keys": [key], "values": [value]},
        "tolerations": tolerations(),
    }


def _image(repository: str, prefix: str | None) -> dict[str, Any]:
    """A mirror holds the same path under its own name."""
    if prefix is None:
        return {}
    return {"image": {"repository": f"{prefix.rstrip('/')}/{repository.split('/', 1)[1]}"}}
