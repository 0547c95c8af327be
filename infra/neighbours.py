"""The environments beside this one, as their files describe them: no two may own one thing in a cluster. Pure.

On EKS nobody asks: the cluster is the environment's own, and has the stack's name in its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from infra.settings import DEFAULTS
from infra.settings_models import HostPathStore, Settings
from workload.errors import Problem


def problems(settings: Settings, environments: Mapping[str, Mapping[str, Any]]) -> list[Problem]:
    """What another of the `environments` (objects by name) has too, in the same cluster. Clusters are compared as they are
    typed: which one a kubeconfig reaches isn't asked."""
    found: list[Problem] = []
    for other, objects in _others(settings, environments):
        own = settings.target.namespace
        if objects["target"].get("namespace", DEFAULTS["target"]["namespace"]) == own:
            reason = f"is that of environment {other} too, in the same cluster: ConfigMaps and jobs would have one name"
            found.append(Problem("target.namespace", own, reason, "give each environment a namespace of its own"))
        if _runs(objects) == _own_runs(settings):
            reason = f"is that of environment {other} too, in the same folder: they would continue each other's checkpoints"
            fix = "give each run a name of its own, or each environment a store.path"
            found.append(Problem("training.runName", settings.training.run_name, reason, fix))
    return found


def _own_runs(settings: Settings) -> tuple[str, str] | None:
    """Folder on the nodes and name of the run, where others may reach them. A claim is its namespace's alone."""
    return (settings.store.path.rstrip("/"), settings.training.run_name) if isinstance(settings.store, HostPathStore) else None


def _runs(objects: Mapping[str, Any]) -> tuple[Any, Any]:
    store, training = (section if isinstance(section := objects.get(key), Mapping) else {} for key in ("store", "training"))
    return str(store.get("path")).rstrip("/"), training.get("runName")


def _others(settings: Settings, environments: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and objects of those on the same cluster."""
    own = settings.target
    for name, objects in environments.items():
        target = objects.get("target")
        if name == settings.environment or not isinstance(target, Mapping):
            continue
        if (target.get("kind"), target.get("kubeconfig"), target.get("context")) == (own.kind, own.kubeconfig, own.context):
            yield name, objects
