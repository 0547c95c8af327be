"""What a RayJob's status means, decided apart from any cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# jobDeploymentStatus of a job that the operator is done with; STOPPED jobs end as Complete too, so it isn't success.
_ENDED = ("Complete", "Failed", "ValidationFailed")
_LAST_LINES = 15


@dataclass(frozen=True)
class Waiting:
    detail: str


@dataclass(frozen=True)
class Started:
    """It runs, or it has run and succeeded (`ended`)."""

    ended: bool


@dataclass(frozen=True)
class Failed:
    reason: str


def judge(status: Mapping[str, Any]) -> Waiting | Started | Failed:
    """The three things that can be said of a job. A try that failed while another will follow is still waiting."""
    job, deployment = status.get("jobStatus", ""), status.get("jobDeploymentStatus", "")
    if deployment in _ENDED:
        return Started(ended=True) if job == "SUCCEEDED" else Failed(_why(status))
    if job in ("RUNNING", "SUCCEEDED"):
        return Started(ended=False)
    if not status:
        return Waiting("the KubeRay operator hasn't taken it up; is it running?")
    return Waiting(f"jobDeploymentStatus {deployment or 'empty'}, jobStatus {job or 'empty'}")


def _why(status: Mapping[str, Any]) -> str:
    """`FAILED, AppFailed`, then the last lines of what the operator passes on, which ends with the driver's output."""
    words = [status.get("jobStatus") or status["jobDeploymentStatus"], status.get("reason", "")]
    lines = [line for line in status.get("message", "").splitlines() if line.strip()][-_LAST_LINES:]
    head = ", ".join(word for word in words if word)
    return f"{head}: {lines[0]}" if len(lines) == 1 else "\n  ".join([head, *lines])


def pod_troubles(pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """One line for each container or pod that can't start, as Kubernetes' API describes pods."""
    troubles: list[str] = []
    for pod in pods:
        name, status = pod["metadata"]["name"], pod.get("status", {})
        unplaced = [c for c in status.get("conditions") or () if c["type"] == "PodScheduled" and c["status"] == "False"]
        troubles += [f"pod {name}: {condition.get('reason')}: {condition.get('message')}" for condition in unplaced]
        containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        for container in containers:
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason", "PodInitializing") not in ("PodInitializing", "ContainerCreating"):
                text = f"{waiting['reason']}: {waiting.get('message', '')}".removesuffix(": ")
                troubles.append(f"pod {name}, container {container['name']}: {text}{_last_end(container)}")
    return troubles


def _last_end(container: Mapping[str, Any]) -> str:
    """How the container ended before it was started again: `CrashLoopBackOff` alone doesn't say (ray-project/kuberay#4272)."""
    ended = (container.get("lastState") or {}).get("terminated")
    return f" (it ended with exit code {ended['exitCode']}, {ended.get('reason', 'no reason')})" if ended else ""
