"""A short-lived pod that prints what a run left in its store, made from the run's own RayJob. Pure.

It sees what the job saw, and can write nothing: store, code and run config are mounted read-only.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from infra.ray_job_manifest import CONFIG_FILE, CONFIG_MOUNT, HEAD_CONTAINER

COMPONENT = "reader"
_KEPT = ("image", "imagePullPolicy", "env", "securityContext")
_RESOURCES = {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}}
_DEADLINE_SECONDS = 600  # image pull included; the kubelet ends it then, whoever made it


def reader_pod(ray_job: Mapping[str, Any]) -> dict[str, Any]:
    """The pod that exports the run of `ray_job`, an object as the cluster returns it."""
    head = ray_job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]
    container = next(one for one in head["spec"]["containers"] if one["name"] == HEAD_CONTAINER)
    mounts = [{**mount, "readOnly": True} for mount in container["volumeMounts"] if mount["mountPath"] != "/dev/shm"]  # noqa: S108
    names = {mount["name"] for mount in mounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{ray_job['metadata']['name']}-reader-{secrets.token_hex(3)}",
            "labels": {**head["metadata"]["labels"], "app.kubernetes.io/component": COMPONENT},
        },
        "spec": {
            **{key: value for key, value in head["spec"].items() if key not in ("containers", "volumes", "initContainers")},
            "restartPolicy": "Never",
            "activeDeadlineSeconds": _DEADLINE_SECONDS,
            "volumes": [volume for volume in head["spec"]["volumes"] if volume["name"] in names],
            "containers": [
                {
                    **{key: container[key] for key in _KEPT if key in container},
                    "name": COMPONENT,
                    "command": ["python", "-m", "workload", "export", "--config", f"{CONFIG_MOUNT}/{CONFIG_FILE}"],
                    "resources": _RESOURCES,
                    "volumeMounts": mounts,
                }
            ],
        },
    }
