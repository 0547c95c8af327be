"""Every version that the cluster on AWS pins, each with its source, and which of them fit together. Pure.

Nothing here is looked up at run time: an add-on or AMI without a pin changes between two updates by itself.
"""

from __future__ import annotations

from workload.errors import Problem

# Standard support until 2027-03-27: https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html
KUBERNETES = "1.35"

# One table row per Kubernetes version that the environments may use. What a version offers:
#   aws eks describe-addon-versions --kubernetes-version 1.35 --addon-name NAME
# kube-proxy  https://docs.aws.amazon.com/eks/latest/userguide/managing-kube-proxy.html
# vpc-cni     https://docs.aws.amazon.com/eks/latest/userguide/managing-vpc-cni.html (efa-only interfaces need >= 1.18.5)
# coredns     https://docs.aws.amazon.com/eks/latest/userguide/managing-coredns.html
ADDONS: dict[str, dict[str, str]] = {
    "1.35": {
        "vpc-cni": "v1.22.4-eksbuild.3",
        "kube-proxy": "v1.35.3-eksbuild.29",
        "coredns": "v1.13.2-eksbuild.31",
        # https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html
        "eks-pod-identity-agent": "v1.3.10-eksbuild.3",
        # Tolerations of its dcgmAgent are settings since v1.3.0: https://github.com/aws/eks-node-monitoring-agent
        "eks-node-monitoring-agent": "v1.6.5-eksbuild.1",
    },
}
# The store's volumes, by kind of store: add-on and version.
# https://github.com/kubernetes-sigs/aws-efs-csi-driver/releases and .../aws-fsx-csi-driver/releases
STORE_DRIVERS = {
    "efs": ("aws-efs-csi-driver", "v3.4.1-eksbuild.1"),
    "fsx": ("aws-fsx-csi-driver", "v1.9.0-eksbuild.1"),
}

# AMI families: https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html (amiType)
SYSTEM_AMI_TYPE = "AL2023_x86_64_STANDARD"
GPU_AMI_TYPE = "AL2023_x86_64_NVIDIA"
# The release that fixes the kernel below: https://github.com/awslabs/amazon-eks-ami/releases/tag/v20261012
AMI_RELEASE = "1.35.8-20261012"
# Kernel 6.12.110 panics and reboots nodes: https://github.com/awslabs/amazon-eks-ami/issues/2845
BROKEN_AMI_DATES = ("20260930", "20261003")
BROKEN_AMI_KUBERNETES = ("1.31", "1.32", "1.33", "1.34", "1.35")

# https://github.com/NVIDIA/k8s-device-plugin/releases. 0.19.0 to 0.19.2 mount /dev/infiniband by default and clash with
# the EFA plugin: https://github.com/NVIDIA/k8s-device-plugin/issues/1837
NVIDIA_DEVICE_PLUGIN_CHARTS = "https://nvidia.github.io/k8s-device-plugin"
NVIDIA_DEVICE_PLUGIN = "0.20.0"
# https://github.com/aws/eks-charts/tree/master/stable/aws-efa-k8s-device-plugin
EFA_DEVICE_PLUGIN_CHARTS = "https://aws.github.io/eks-charts"
EFA_DEVICE_PLUGIN = "v0.5.32"


def kubernetes_problems(version: str, key: str = "cluster.kubernetesVersion") -> list[Problem]:
    """Whether this Kubernetes version has pins here."""
    if version in ADDONS:
        return []
    return [Problem(key, version, "has no pinned add-ons", f"use one of: {', '.join(sorted(ADDONS))}")]


def release_problems(kubernetes_version: str, release: str, key: str) -> list[Problem]:
    """Whether nodes of this AMI release fit the cluster's Kubernetes and stay up."""
    minor, date = ".".join(release.split(".")[:2]), release.rsplit("-", 1)[-1]
    problems: list[Problem] = []
    if minor != kubernetes_version:
        fix = f"take a release of {kubernetes_version} from https://github.com/awslabs/amazon-eks-ami/releases"
        problems.append(Problem(key, release, f"is an AMI for Kubernetes {minor}, the cluster has {kubernetes_version}", fix))
    if date in BROKEN_AMI_DATES and minor in BROKEN_AMI_KUBERNETES:
        reason = "has kernel 6.12.110, which panics and reboots nodes (awslabs/amazon-eks-ami#2845)"
        problems.append(Problem(key, release, reason, f"use a release of 20261012 or later, such as {AMI_RELEASE}"))
    return problems
