"""The RayJob of a run, as a plain object for KubeRay 1.6 and 1.7 (`ray.io/v1`). Pure.

No field is written with the value that it has anyway (`false`, `0`, empty): the operator drops such fields when it saves the
object, and they would show as changes at every refresh. Fields that are pointers in the operator's Go types keep theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.identity import Identity
from infra.job_placement import Placement, PodPlacement
from infra.quantities import amount
from infra.settings_models import PodResources, Settings

STORE_MOUNT = "/mnt/store"
CONFIG_MOUNT = "/etc/ray-train"
CONFIG_FILE = "run.json"
CODE_MOUNT = "/opt/ray-train/code"
CODE_FILE = "workload.zip"
TRAIN_COMMAND = f"python -m workload train --config {CONFIG_MOUNT}/{CONFIG_FILE}"

HEAD_CONTAINER = "ray-head"
STORE_VOLUME = "store"
# Nothing trains on the head, so its object store is as small as Ray allows for comfort.
_HEAD_SHARED_MEMORY = "512Mi"
_GRACE_SECONDS = 15  # what a checkpoint needs to survive isn't grace: a pod may die at any time


@dataclass(frozen=True, kw_only=True)
class JobParts:
    """What the job mounts and where it runs: names of ConfigMaps, the store's volume without its name (None: no mount)."""

    code_config_map: Any
    run_config_map: Any
    store_volume: Any
    placement: Placement


def ray_job(settings: Settings, identity: Identity, parts: JobParts) -> dict[str, Any]:
    """The whole object: metadata and spec."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {
            "name": identity.job_name,
            "namespace": settings.target.namespace,
            "labels": labels(identity, "job"),
            "annotations": {"ray-train-eks/identity": identity.sha256},
        },
        "spec": _spec(settings, identity, parts),
    }


def labels(identity: Identity, component: str) -> dict[str, str]:
    """What finds a run's objects; a label holds 63 characters, so the identity is shortened."""
    return {
        "app.kubernetes.io/name": "ray-train-eks",
        "app.kubernetes.io/instance": identity.job_name,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/managed-by": "pulumi",
        "ray-train-eks/run-name": identity.run_name,
        "ray-train-eks/identity": identity.sha256[:16],
    }


def _spec(settings: Settings, identity: Identity, parts: JobParts) -> dict[str, Any]:
    job = settings.job
    spec = {
        "entrypoint": TRAIN_COMMAND,
        "submissionMode": "K8sJobMode",
        "submitterConfig": {"backoffLimit": 0},  # a pointer; a second submission would start a second driver
        "submitterPodTemplate": _submitter_template(settings, identity, parts.placement),
        "backoffLimit": job.retries,
        "preRunningDeadlineSeconds": job.pre_running_deadline_seconds,
        "activeDeadlineSeconds": job.active_deadline_seconds,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": job.keep_cluster_seconds,
        "rayClusterSpec": {
            "rayVersion": settings.image.ray_version,
            **({"authOptions": {"mode": "token"}} if parts.placement.token_auth else {}),
            "headGroupSpec": _head_group(settings, identity, parts),
            "workerGroupSpecs": [_worker_group(settings, identity, parts)],
        },
    }
    return {key: value for key, value in spec.items() if value != 0}


def _head_group(settings: Settings, identity: Identity, parts: JobParts) -> dict[str, Any]:
    resources = _resources(settings.job.head)
    container = _ray_container(HEAD_CONTAINER, settings, resources, parts.placement.head)
    return {
        "serviceType": "ClusterIP",
        "rayStartParams": {"num-cpus": "0", "num-gpus": "0", **_object_store(_HEAD_SHARED_MEMORY)},
        "template": _ray_template(labels(identity, "head"), container, parts, parts.placement.head, _HEAD_SHARED_MEMORY),
    }


def _worker_group(settings: Settings, identity: Identity, parts: JobParts) -> dict[str, Any]:
    workers = settings.workers
    pods, gpus = workers.count // workers.per_pod, workers.gpus_per_worker * workers.per_pod
    placement = parts.placement.worker
    resources = _resources(PodResources(cpu=workers.cpu, memory=workers.memory), placement.devices)
    container = _ray_container("ray-worker", settings, resources, placement)
    return {
        "groupName": "workers",
        "replicas": pods,
        "minReplicas": pods,
        "maxReplicas": pods,
        "rayStartParams": {
            "num-cpus": str(workers.cpus_per_worker * workers.per_pod),
            "num-gpus": str(gpus),
            **_object_store(workers.shared_memory),
        },
        "template": _ray_template(labels(identity, "worker"), container, parts, placement, workers.shared_memory),
    }


def _ray_template(
    pod_labels: Mapping[str, str],
    container: Mapping[str, Any],
    parts: JobParts,
    placement: PodPlacement,
    shared_memory: str,
) -> dict[str, Any]:
    mounts = [
        {"name": "code", "mountPath": CODE_MOUNT, "readOnly": True},
        {"name": "run-config", "mountPath": CONFIG_MOUNT, "readOnly": True},
        *([{"name": STORE_VOLUME, "mountPath": STORE_MOUNT}] if parts.store_volume else []),
        {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 - where Ray's object store and NCCL expect it
    ]
    volumes = [
        {"name": "code", "configMap": {"name": parts.code_config_map}},
        {"name": "run-config", "configMap": {"name": parts.run_config_map}},
        *([{"name": STORE_VOLUME, **parts.store_volume}] if parts.store_volume else []),
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": shared_memory}},
    ]
    account = parts.placement.service_account
    more = {"volumes": volumes, **placement.pod_spec, **({"serviceAccountName": account} if account else {})}
    return _template(pod_labels, {**container, "volumeMounts": mounts}, more)


def _submitter_template(settings: Settings, identity: Identity, placement: Placement) -> dict[str, Any]:
    container = _container("ray-job-submitter", settings, _resources(settings.job.submitter))
    if placement.submitter.environment:
        container["env"] = _variables(placement.submitter.environment)
    more = {"restartPolicy": "Never", **placement.submitter.pod_spec}
    return _template(labels(identity, "submitter"), container, more)


def _template(pod_labels: Mapping[str, str], container: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"labels": dict(pod_labels)},
        "spec": {
            "automountServiceAccountToken": False,  # a pointer; nothing in a pod talks to Kubernetes
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [dict(container)],
            **more,
        },
    }


def _ray_container(name: str, settings: Settings, resources: Mapping[str, Any], placement: PodPlacement) -> dict[str, Any]:
    common = {"PYTHONPATH": f"{CODE_MOUNT}/{CODE_FILE}", "PYTHONUNBUFFERED": "1"}
    return {**_container(name, settings, resources), "env": _variables({**common, **placement.environment})}


def _variables(environment: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in environment.items()]


def _container(name: str, settings: Settings, resources: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "image": settings.image.reference,
        "imagePullPolicy": settings.image.pull_policy,
        "resources": dict(resources),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},  # a pointer
    }


def _resources(pod: PodResources, devices: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
    """Memory is guaranteed and bounded; CPU is guaranteed only, so that a start-up may use what idles."""
    more = devices or {}
    return {"requests": {"cpu": pod.cpu, "memory": pod.memory, **more}, "limits": {"memory": pod.memory, **more}}


def _object_store(shared_memory: str) -> dict[str, str]:
    """Half of /dev/shm: Ray would take 30% of the pod's memory, and spill to disk when /dev/shm is smaller than that."""
    return {"object-store-memory": str(int(amount(shared_memory)) // 2)}
