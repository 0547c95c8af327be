"""Whether what a Helm release runs is ready, decided apart from any cluster. Pure.

The rules of `kubectl rollout status`: https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#complete-deployment
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Helm notes it on everything that it installs, whatever labels the chart has.
RELEASE_ANNOTATION = "meta.helm.sh/release-name"
HELM_LABEL = "app.kubernetes.io/managed-by=Helm"


def is_of(workload: Mapping[str, Any], release: str) -> bool:
    """Whether a Deployment or DaemonSet came with this release."""
    return (workload["metadata"].get("annotations") or {}).get(RELEASE_ANNOTATION) == release


def shortfall(workload: Mapping[str, Any]) -> str:
    """What a Deployment or DaemonSet, as the API describes it, still lacks; empty when all its pods are new and ready."""
    status, metadata = workload.get("status") or {}, workload["metadata"]
    if status.get("observedGeneration", 0) < metadata.get("generation", 1):
        return "its change has not been looked at yet"
    if "replicas" in workload["spec"]:
        wanted, updated, ready = (
            workload["spec"]["replicas"],
            status.get("updatedReplicas", 0),
            status.get("availableReplicas", 0),
        )
    else:
        wanted = status.get("desiredNumberScheduled", 0)
        updated, ready = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
        if not wanted:
            return "it is wanted on no node: none has the labels that it asks for"
    return "" if min(updated, ready) >= wanted else f"{min(updated, ready)} of {wanted} pods are ready"
