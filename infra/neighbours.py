"""The environments beside this one, as their files describe them: no two may own the same names in a cluster.

Pure but for reading the files. On EKS nobody asks: the cluster is the environment's own, and has the stack's name in its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra.environment_file import read_environment
from infra.settings import DEFAULTS, PROJECT
from infra.settings_models import Settings
from workload.errors import Problem, UserError


def problems(settings: Settings, folder: Path) -> list[Problem]:
    """Another environment with this one's namespace. The clusters are compared as they are typed: which cluster a
    kubeconfig reaches isn't asked."""
    own = settings.target
    found: list[Problem] = []
    for environment, target in _targets(folder):
        cluster = (target.get("kubeconfig"), target.get("context"))
        if environment == settings.environment or target.get("kind") != own.kind or cluster != (own.kubeconfig, own.context):
            continue
        if target.get("namespace", DEFAULTS["target"]["namespace"]) == own.namespace:
            reason = f"is that of environment {environment} too, in the same cluster: ConfigMaps and jobs would have one name"
            found.append(Problem("target.namespace", own.namespace, reason, "give each environment a namespace of its own"))
    return found


def _targets(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """By environment. A file that can't be read is its own environment's problem."""
    for path in sorted(folder.glob("Pulumi.*.yaml")):
        try:
            target = read_environment(path, PROJECT).get("target")
        except UserError:
            continue
        if isinstance(target, dict):
            yield path.stem.removeprefix("Pulumi."), target
