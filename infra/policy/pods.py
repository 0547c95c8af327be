"""What pods may do to a node, and which image they run: everything with a pod template, RayJobs included."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from infra.policy import environment
from infra.policy.rules import UNKNOWN, Subject, is_true, items, reach, resource_policy
from infra.policy.services import RAY_KINDS, RELEASES

# Device plugins register a node's devices with its kubelet, and can't without the node itself.
_PRIVILEGED_NAMESPACE, _PRIVILEGED_KIND = "kube-system", "DaemonSet"
_PINNED = re.compile(r"^[^@\s]+@sha256:[0-9a-f]{64}$")
# What Kubernetes' baseline lets a container add, and IPC_LOCK, with which EFA's buffers stay in memory:
# https://kubernetes.io/docs/concepts/security/pod-security-standards/
_CAPABILITIES = {
    "IPC_LOCK", "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
_SSH = 22


def pod_specs(value: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every pod template in a resource, with where it is: an object with a list of containers."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from pod_specs(item, f"{path}[{index}]")
    elif isinstance(value, Mapping):
        if isinstance(value.get("containers"), list):
            yield path, value
        for key, item in value.items():
            yield from pod_specs(item, f"{path}.{key}" if path else str(key))


def containers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name in ("initContainers", "containers", "ephemeralContainers"):
        yield from (one for one in items(spec.get(name)) if isinstance(one, Mapping))


def _may_run(subject: Subject) -> bool:
    """Whether pods may be in it; a CRD only describes what others hold."""
    return subject.kind.startswith("kubernetes:") and not subject.kind.endswith(":CustomResourceDefinition")


def judge_pods(subject: Subject) -> Iterator[str]:
    if not _may_run(subject):
        return
    if subject.kind in RELEASES and subject.get("namespace") != _PRIVILEGED_NAMESPACE:
        yield from _values(subject.get("values"), "values")
    if subject.kind.endswith(f":{_PRIVILEGED_KIND}") and subject.get("metadata.namespace") == _PRIVILEGED_NAMESPACE:
        return
    if environment.on_eks() and subject.kind.endswith(":PersistentVolume") and subject.get("spec.hostPath") is not None:
        yield "is a folder of a node. Fix: use s3, fsx or efs"
    for path, spec in pod_specs(subject.props):
        yield from (f"{path}: {message}" for message in _pod(spec))
        yield from (f"{path}: {message}" for one in containers(spec) for message in _container(one))


def _pod(spec: Mapping[str, Any]) -> Iterator[str]:
    for share in ("hostNetwork", "hostPID", "hostIPC"):
        if is_true(spec.get(share)) or spec.get(share) is UNKNOWN:
            yield f"shares the node's {share.removeprefix('host')}. Fix: remove {share}"
    if environment.on_eks():
        for volume in items(spec.get("volumes")):
            if reach(volume, "hostPath") is not None:
                path = reach(volume, "hostPath.path")
                yield f"mounts {path} of the node. Fix: use another volume: this is for existing clusters"


def _container(container: Mapping[str, Any]) -> Iterator[str]:
    name, context = container.get("name", "?"), container.get("securityContext")
    if is_true(reach(context, "privileged")) or reach(context, "privileged") is UNKNOWN:
        yield f"container {name} is privileged. Fix: remove privileged"
    added = {str(one).removeprefix("CAP_") for one in items(reach(context, "capabilities.add"))}
    if added - _CAPABILITIES:
        yield f"container {name} adds {', '.join(sorted(added - _CAPABILITIES))}. Fix: remove it from capabilities.add"
    for port in items(container.get("ports")):
        if reach(port, "hostPort"):
            yield f"container {name} takes port {reach(port, 'hostPort')} of the node. Fix: remove hostPort"
        if reach(port, "containerPort") == _SSH:
            yield f"container {name} offers SSH. Fix: remove port 22, and use kubectl exec"


def _values(values: Any, path: str) -> Iterator[str]:
    for key, value in values.items() if isinstance(values, Mapping) else enumerate(values) if isinstance(values, list) else ():
        if key in ("privileged", "hostNetwork", "hostPID", "hostIPC") and value is True:
            yield f"{path}.{key} is true outside {_PRIVILEGED_NAMESPACE}. Fix: remove it, or move the plugin there"
        else:
            yield from _values(value, f"{path}.{key}")


def judge_ray_pods(subject: Subject) -> Iterator[str]:
    """AWS's image runs as root and ships an SSH server: what keeps its processes small must be in the pod."""
    if subject.kind not in RAY_KINDS:
        return
    for path, spec in pod_specs(subject.props):
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{path}: gets a token for Kubernetes that it has no use for. Fix: set automountServiceAccountToken: false"
        for container in containers(spec):
            if reach(container, "securityContext.allowPrivilegeEscalation") is not False:
                name = container.get("name", "?")
                yield f"{path}: container {name} may gain rights. Fix: set allowPrivilegeEscalation: false"


def judge_images(subject: Subject) -> Iterator[str]:
    if not environment.on_eks() or not _may_run(subject):
        return
    for path, spec in pod_specs(subject.props):
        for container in containers(spec):
            image = container.get("image")
            if not isinstance(image, str) or not _PINNED.match(image):
                fix = "Fix: pin it with python -m infra image lock"
                yield f"{path}: container {container.get('name', '?')} runs {image}, which isn't pinned by digest. {fix}"


POLICIES = [
    resource_policy("no-privileged-pods", "Pods keep off their node, but for device plugins in kube-system.", judge_pods),
    resource_policy("small-ray-pods", "Ray's pods have no token for Kubernetes and gain no rights.", judge_ray_pods),
    resource_policy("pinned-images", "On EKS, pods run images by digest.", judge_images),
]
