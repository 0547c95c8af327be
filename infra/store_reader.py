"""Gets what a run left out of its store, through a short-lived pod in the run's namespace."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from infra.cluster_access import REQUEST_SECONDS, plain
from infra.job_status import pod_troubles
from infra.reader_pod import reader_pod
from workload.errors import bad_input

_WAIT_SECONDS = 300  # for the pod to have printed all, image pull included
_LOG_SECONDS = 60
_POLL_SECONDS = 1


def export(api: client.ApiClient, ray_job: Mapping[str, Any]) -> str:
    """The JSON document that the run's export prints. The pod is removed, however this ends.

    Raises: UserError with what the export said, if it has nothing to give.
    """
    core, namespace = client.CoreV1Api(api), ray_job["metadata"]["namespace"]
    pod = reader_pod(ray_job)
    name = pod["metadata"]["name"]
    core.create_namespaced_pod(namespace, pod, _preload_content=False, _request_timeout=REQUEST_SECONDS)
    try:
        phase, described = _wait_for_end(core, namespace, name)
        if phase not in ("Succeeded", "Failed"):
            trouble = pod_troubles([described]) or [f"its phase is {phase}"]
            raise bad_input(f"pod/{name}", None, f"didn't end within {_WAIT_SECONDS} s: {trouble[0]}", "fetch again later")
        lines = _log(core, namespace, name).splitlines()
    finally:
        _delete(core, namespace, name)
    if phase == "Failed":
        said = next((line for line in reversed(lines) if line.strip()), "no output")
        raise bad_input(f"pod/{name}", None, f"the export ended with: {said}", "look at the job's own log")
    return next((line for line in reversed(lines) if line.startswith("{")), "")


def _wait_for_end(core: client.CoreV1Api, namespace: str, name: str) -> tuple[str, dict[str, Any]]:
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        pod = plain(core.read_namespaced_pod, name, namespace)
        phase = pod["status"].get("phase", "Pending")
        if phase in ("Succeeded", "Failed") or time.monotonic() > deadline:
            return phase, pod
        time.sleep(_POLL_SECONDS)


def _log(core: client.CoreV1Api, namespace: str, name: str) -> str:
    """As bytes: the client would turn text that is JSON into something else."""
    answer: Any = core.read_namespaced_pod_log(name, namespace, _preload_content=False, _request_timeout=_LOG_SECONDS)
    return answer.data.decode()


def _delete(core: client.CoreV1Api, namespace: str, name: str) -> None:
    try:
        core.delete_namespaced_pod(
            name, namespace, grace_period_seconds=0, _preload_content=False, _request_timeout=REQUEST_SECONDS
        )
    except ApiException as error:
        if error.status != 404:
            raise
