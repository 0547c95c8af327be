"""Where a job goes: what a cluster of either target offers to it. Wires only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi_kubernetes as kubernetes
from pulumi import Input, Output, Resource

from infra.job_placement import Placement
from infra.settings_models import Settings


@dataclass(frozen=True, kw_only=True)
class Site:
    """`kubeconfig`: a file's path, a kubeconfig's JSON, or empty for the one that kubectl would read.

    `ready`: what must be there before the job's objects, and go after them. `cluster`: when it goes, they are gone too.
    """

    settings: Settings
    provider: kubernetes.Provider
    kubeconfig: Input[str]
    context: Input[str]
    namespace: Input[str]
    placement: Placement
    store_location: Input[Mapping[str, Any]]
    store_volume: dict[str, Any] | None
    ready: Sequence[Resource] = ()
    failures: Sequence[Input[str]] = ()  # of what the job needs in the cluster; each empty when all is well
    cluster: Resource | None = None
    outputs: Mapping[str, Input[Any]] = field(default_factory=dict)

    def path_of(self, run_name: str) -> Output[str]:
        """Where a run keeps what it leaves: a path in the pods, or a URL of the bucket."""
        return Output.from_input(self.store_location).apply(lambda location: f"{_root(location)}/{run_name}")


def _root(location: Mapping[str, Any]) -> str:
    return location["path"] if "path" in location else f"s3://{location['bucket']}/{location['prefix']}"
