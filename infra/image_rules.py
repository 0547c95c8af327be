"""Whether a locked image fits settings and cluster: Ray, Python, CUDA against the node's driver, the operator. Pure.

What can't be known here is a note, never a problem and never silent: a table that doesn't know a release says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.image import CustomImage, LockEntry, is_aws_image
from infra.image_releases import KUBERAY_MINORS, NODE_DRIVERS, OLDEST_RAY, minimum_driver, node_driver, numbers
from workload.errors import Problem

PACKAGED_PYTHON = "3.13"  # what `workload/` is written and tested for
_RELOCK = "lock the image again, or name another one"


@dataclass(frozen=True, kw_only=True)
class ImageUse:
    """Where an environment puts its image."""

    ray_version: str | None  # image.rayVersion, where it was typed
    custom: CustomImage | None
    uses_gpus: bool
    operator_version: str
    ami_release: str  # of the GPU nodes


@dataclass(frozen=True, kw_only=True)
class Coherence:
    """`problems` refuse the environment; `notes` are said at preview."""

    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


def coherence(entry: LockEntry, use: ImageUse) -> Coherence:
    """Every rule, over one lock entry and its use."""
    problems = [*_check_owner(entry, use), *_check_ray(entry, use), *_check_python(entry), *_check_operator(use)]
    driver_problems, notes = _check_driver(entry, use) if use.uses_gpus else ([], [])
    return Coherence(problems=(*problems, *driver_problems), notes=(*notes, *_note_operator(use)))


def _check_owner(entry: LockEntry, use: ImageUse) -> list[Problem]:
    if is_aws_image(entry.repository):
        reason = f"says why another image than AWS's is used, but {entry.repository} is AWS's"
        return [Problem("image.custom", "", reason, "remove it")] if use.custom else []
    reason = f"is required for {entry.repository}, which isn't AWS's image"
    return [] if use.custom else [Problem("image.custom", "", reason, "set reason and owner")]


def _check_ray(entry: LockEntry, use: ImageUse) -> list[Problem]:
    inside = entry.versions.get("ray")
    if inside is None:
        reason = "the lock entry doesn't say which Ray is inside"
        return [Problem("image.reference", entry.name, reason, _RELOCK)]
    problems = []
    if use.ray_version not in (None, inside):
        reason = f"the locked image has Ray {inside}, and the operator picks its probes by this version"
        problems.append(Problem("image.rayVersion", str(use.ray_version), reason, f"remove it, or write {inside}"))
    if numbers(inside) < OLDEST_RAY:
        oldest = ".".join(map(str, OLDEST_RAY))
        reason = f"Ray {inside} has no token authentication, without which whoever reaches the head runs code on it"
        problems.append(Problem("image.reference", entry.name, reason, f"use Ray {oldest} or newer"))
    return problems


def _check_python(entry: LockEntry) -> list[Problem]:
    inside = entry.versions.get("python")
    if inside is not None and numbers(inside)[:2] == numbers(PACKAGED_PYTHON):
        return []
    reason = f"has Python {inside}" if inside else "the lock entry doesn't say which Python is inside"
    fix = f"use an image with Python {PACKAGED_PYTHON}: the packaged code is for that one"
    return [Problem("image.reference", entry.name, reason, fix)]


def _check_operator(use: ImageUse) -> list[Problem]:
    minor = numbers(use.operator_version)[:2]
    if minor >= numbers(KUBERAY_MINORS[0]):
        return []
    reason = "drops fields of our RayJob without a word: deadline before running, token authentication"
    return [Problem("rayOperator.version", use.operator_version, reason, f"use {' or '.join(KUBERAY_MINORS)}")]


def _note_operator(use: ImageUse) -> list[str]:
    if numbers(use.operator_version)[:2] <= numbers(KUBERAY_MINORS[-1]):
        return []
    return [f"KubeRay {use.operator_version} is newer than what this project knows ({', '.join(KUBERAY_MINORS)})"]


def _check_driver(entry: LockEntry, use: ImageUse) -> tuple[list[Problem], list[str]]:
    cuda = entry.versions.get("cuda")
    if cuda is None:
        reason = "workers ask for GPUs, but the lock entry names no CUDA in this image"
        return [Problem("image.reference", entry.name, reason, _RELOCK)], []
    needed = entry.minimum_driver or minimum_driver(cuda)
    if needed is None:
        return [], [f"which NVIDIA driver CUDA {cuda} needs isn't known here; compare it with the nodes' nvidia-smi"]
    node = node_driver(use.ami_release)
    if node is None:
        newest = NODE_DRIVERS[-1]
        known = f"the newest release known here, {newest.last}, has {newest.driver}"
        return [], [f"CUDA {cuda} needs driver {needed} or newer; that of AMI {use.ami_release} isn't known here: {known}"]
    if numbers(node.driver) >= numbers(needed):
        return [], []
    reason = f"has NVIDIA driver {node.driver} ({node.source}), and CUDA {cuda} in the image needs {needed} or newer"
    return [Problem("gpuNodes.releaseVersion", use.ami_release, reason, "use a newer release")], []
