"""Whether AWS still offers what is pinned: Kubernetes, add-ons, node images. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from infra.eks_settings import EksConfiguration
from infra.preflight.check import Check, result
from workload.errors import Problem

_SSM = "/aws/service/eks/optimized-ami"
_RELEASES = "https://github.com/awslabs/amazon-eks-ami/releases"
_STANDARD_SUPPORT = "STANDARD_SUPPORT"


def kubernetes_check(found: Sequence[Mapping[str, Any]], version: str, today: date) -> Check:
    """`found`: eks describe-cluster-versions. Clusters here pay for no extended support, so AWS must offer the standard one."""
    key, name = "cluster.kubernetesVersion", f"Kubernetes {version}"
    one = next((each for each in found if each["clusterVersion"] == version), None)
    if one is None:
        fix = "use one that eks describe-cluster-versions lists, with pins in infra/eks_versions.py"
        return result(name, "", Problem(key, version, "EKS offers no such version", fix))
    status = one.get("versionStatus") or str(one.get("status", "")).upper().replace("-", "_")
    if status != _STANDARD_SUPPORT:
        reason = f"is in {status.lower().replace('_', ' ')}, and clusters here are made with standard support only"
        return result(name, "", Problem(key, version, reason, "use a newer version, with pins in infra/eks_versions.py"))
    end = one.get("endOfStandardSupportDate")
    left = f"; {(end.date() - today).days} days of standard support left, until {end:%Y-%m-%d}" if end else ""
    return result(name, f"offered{left}")


def addons_check(offered: Mapping[str, Sequence[str]], pinned: Mapping[str, str], version: str) -> Check:
    """`offered`: versions by add-on, from eks describe-addon-versions for this Kubernetes."""
    problems = [
        Problem("infra/eks_versions.py", f"{name} {wanted}", f"isn't offered for Kubernetes {version}", _newest(offered[name]))
        for name, wanted in pinned.items()
        if wanted not in offered[name]
    ]
    return result("add-ons", ", ".join(f"{name} {wanted}" for name, wanted in pinned.items()), *problems)


def _newest(versions: Sequence[str]) -> str:
    """AWS lists the newest first."""
    return f"pin one that is, such as {versions[0]}" if versions else "use another Kubernetes version"


@dataclass(frozen=True)
class NodeImage:
    """An AMI release by the names of its public parameters in SSM.

    `.../<family>-<kubernetes>-v<date>/image_id` for one release:
    https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html and the source of Karpenter (pkg/providers/amifamily).
    """

    key: str
    release: str
    variant: str  # nvidia or standard

    @property
    def parameter(self) -> str:
        kubernetes, day = ".".join(self.release.split(".")[:2]), self.release.rsplit("-", 1)[-1]
        family = f"amazon-eks-node-al2023-x86_64-{self.variant}"
        return f"{_SSM}/{kubernetes}/amazon-linux-2023/x86_64/{self.variant}/{family}-{kubernetes}-v{day}"

    @property
    def id_parameter(self) -> str:
        return f"{self.parameter}/image_id"

    @property
    def release_parameter(self) -> str:
        return f"{self.parameter}/release_version"


def node_images(eks: EksConfiguration) -> tuple[NodeImage, NodeImage]:
    return (
        NodeImage("gpuNodes.releaseVersion", eks.gpu_nodes.release_version, "nvidia"),
        NodeImage("cluster.systemNodes.releaseVersion", eks.cluster.system_nodes.release_version, "standard"),
    )


def images_check(found: Mapping[str, str], images: Iterable[NodeImage]) -> Check:
    """`found`: value by parameter, from ssm get-parameters. A release's own version is compared where it is said."""
    images = list(images)
    problems = [problem for one in images for problem in _image_problems(found, one)]
    detail = ", ".join(f"{one.variant} {one.release} ({found.get(one.id_parameter)})" for one in images)
    return result("node images", detail, *problems)


def _image_problems(found: Mapping[str, str], image: NodeImage) -> Iterator[Problem]:
    if image.id_parameter not in found:
        reason = f"AWS publishes no such image here (SSM parameter {image.id_parameter})"
        yield Problem(image.key, image.release, reason, f"take a release of {_RELEASES}")
        return
    said = found.get(image.release_parameter, image.release)
    if said != image.release:
        yield Problem(image.key, image.release, f"the release of that day is {said}", f"set it to {said}")
