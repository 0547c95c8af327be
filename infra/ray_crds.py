"""The CRDs of each version of the operator that this stack can install (`infra/crds/`). Pure.

An operator beside CRDs of another version drops the fields that they don't know, silently (ray-project/ray#44826).
"""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

from workload.errors import Problem

_FOLDER = Path(__file__).parent / "crds"
# What each version has in ray-operator/config/crd/bases; the patch releases of 1.6 do not differ there.
_FILES = {
    "1.6.0": "kuberay-1.6.json.gz",
    "1.6.1": "kuberay-1.6.json.gz",
    "1.6.2": "kuberay-1.6.json.gz",
}
RAY_JOBS = "rayjobs.ray.io"
RAY_JOB_VERSION = "v1"


def version_problems(version: str, key: str = "rayOperator.version") -> list[Problem]:
    """Whether the CRDs of this version are at hand."""
    if version in _FILES:
        return []
    fix = f"use one of: {', '.join(sorted(_FILES))}; infra/crds/README.md says how to add one"
    return [Problem(key, version, "its CRDs are not part of this project, and Helm never upgrades CRDs", fix)]


def operator_crds(version: str) -> list[dict[str, Any]]:
    """The definitions that `version` of the operator works with."""
    return json.loads(gzip.decompress((_FOLDER / _FILES[version]).read_bytes()))


def digest(version: str) -> str:
    """SHA-256 of the file that `operator_crds` reads: what a preview compares in place of a megabyte of schemas."""
    return hashlib.sha256((_FOLDER / _FILES[version]).read_bytes()).hexdigest()


def existing_problem(versions: list[dict[str, Any]]) -> Problem | None:
    """What is wrong with the versions that a cluster's RayJob CRD has."""
    served = [version["name"] for version in versions if version.get("served")]
    if RAY_JOB_VERSION in served:
        return None
    reason = f"the cluster's {RAY_JOBS} serves {', '.join(served) or 'no version'}, not {RAY_JOB_VERSION}"
    return Problem("rayOperator.kind", "existing", reason, "upgrade that operator and its CRDs, or set it to managed")
