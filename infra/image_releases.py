"""What is known of images and nodes without asking anyone: tables, each row with its source. Pure.

A table says nothing of what isn't in it: then the answer is `None`, and whoever asked says that it isn't known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_CHANGELOG = "https://github.com/aws/deep-learning-containers/blob/main/docs/ray-train/changelog/index.md"
CHANGELOG_SOURCE = f"AWS's changelog: {_CHANGELOG}"
_V1_0: Mapping[str, str] = {
    "ray": "2.58.0", "python": "3.13", "cuda": "13.0.2", "torch": "2.13.0", "torchvision": "0.28.0", "nccl": "2.29.7",
    "efa": "1.47.0", "gdrcopy": "2.4.4", "flash-attn": "2.8.3", "transformer-engine": "2.13.0", "deepspeed": "0.19.2",
    "lightning": "2.6.5", "transformers": "5.13.0",
}  # fmt: skip
# By tag; the registry's own labels and environment win over it, and must not contradict it.
AWS_RELEASES: Mapping[str, Mapping[str, str]] = {
    "train-ml-cuda-v1.0.0": _V1_0,
    "train-ml-cuda-v1.1.0": {**_V1_0, "efa": "1.49.0", "aws-ofi-nccl": "1.20.0"},
}

# The lowest driver that runs a CUDA major version, any minor one of it ("CUDA minor version compatibility").
# KubeRay replaces the image's entrypoint, which would put CUDA's forward compatibility libraries first: the driver must do.
# https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ and
# https://docs.nvidia.com/datacenter/tesla/drivers/supported-drivers-and-cuda-toolkit-versions.html
MINIMUM_DRIVERS: Mapping[int, str] = {12: "525.60.13", 13: "580.65.06"}


@dataclass(frozen=True)
class NodeDriver:
    """The driver in `AL2023_x86_64_NVIDIA` from one AMI release date to another, both included."""

    first: int
    last: int
    driver: str
    source: str


_AMI_CHANGELOG = "https://github.com/awslabs/amazon-eks-ami/blob/main/CHANGELOG.md"
NODE_DRIVERS = (
    NodeDriver(20250519, 20250519, "570.133.20", _AMI_CHANGELOG),
    NodeDriver(20260610, 20260714, "580.159.03", _AMI_CHANGELOG),
)

# The RayJob uses `preRunningDeadlineSeconds` and `authOptions`, which older operators drop without a word.
KUBERAY_MINORS = ("1.6", "1.7")
# Token authentication, which every RayJob on EKS turns on: https://docs.ray.io/en/latest/ray-security/token-auth.html
OLDEST_RAY = (2, 52, 0)


def minimum_driver(cuda: str | None) -> str | None:
    """The driver that a CUDA version needs; `None`: no CUDA, or one that isn't in the table."""
    major = cuda.split(".")[0] if cuda else ""
    return MINIMUM_DRIVERS.get(int(major)) if major.isdigit() else None


def node_driver(ami_release: str) -> NodeDriver | None:
    """The driver of a release such as `1.35.4-20260714`, where a source says it."""
    date = ami_release.rpartition("-")[2]
    if not date.isdigit():
        return None
    return next((row for row in NODE_DRIVERS if row.first <= int(date) <= row.last), None)


def numbers(version: str) -> tuple[int, ...]:
    """`580.65.06` as (580, 65, 6), to compare; whatever follows the numbers doesn't count."""
    parts: list[int] = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)
