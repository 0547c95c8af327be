"""The gate behind a Helm release: an update passes it when what the release runs is ready, or says what keeps it.

Helm's own wait ends with "context deadline exceeded" and names no pod. A dynamic provider, found by its name, as
`job_gate.py` says.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pulumi_kubernetes as kubernetes
from pulumi import Input, Output, Resource, ResourceOptions
from pulumi.dynamic import CreateResult, DiffResult, ResourceProvider, UpdateResult
from pulumi.dynamic import Resource as DynamicResource

_WAIT_SECONDS = 300  # an image's pull, and the start of one pod for each node
_POLL_SECONDS = 2


class RolloutGateProvider(ResourceProvider):
    """create and update wait. `failure` is what went wrong, or empty; then the next update waits again."""

    serialize_as_secret_always = False  # the kubeconfig names a command, and holds no secret

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        changed = any(_olds.get(name) != _news.get(name) for name in ("kubeconfig", "namespace", "release", "revision"))
        return DiffResult(changes=changed or bool(_olds.get("failure")))

    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult(id_=props["release"], outs={**props, "failure": _wait_until_ready(props)})

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        return UpdateResult(outs={**_news, "failure": _wait_until_ready(_news)})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        pass


def _wait_until_ready(props: Mapping[str, Any]) -> str:
    from infra.live_rollout import LiveRollout  # noqa: PLC0415 - a program that is only previewed needs no client

    deadline = time.monotonic() + props["waitSeconds"]
    with LiveRollout(props["kubeconfig"], props["namespace"], props["release"]) as rollout:
        while problems := rollout.problems():
            if time.monotonic() > deadline:
                name = f"Helm release {props['namespace']}/{props['release']}"
                return "\n  ".join([f"{name} isn't ready after {props['waitSeconds']:.0f} s:", *problems])
            time.sleep(_POLL_SECONDS)
    return ""


class RolloutGate(DynamicResource, name="RolloutGate"):
    """Outputs: failure. `props`: kubeconfig (JSON), namespace, release, its revision, waitSeconds."""

    failure: Output[str]

    def __init__(self, name: str, props: Mapping[str, Input[Any]], opts: ResourceOptions) -> None:
        super().__init__(RolloutGateProvider(), name, {**props, "failure": None}, opts)


def rollout_gate(
    name: str, kubeconfig: Input[str], release: kubernetes.helm.v3.Release, cluster: Resource | None, parent: Resource
) -> RolloutGate:
    """The gate behind this release. `cluster`: when it goes, so does the gate."""
    props = {
        "kubeconfig": kubeconfig,
        "namespace": release.status.namespace,
        "release": release.status.name,
        "revision": release.status.revision,
        "waitSeconds": _WAIT_SECONDS,
    }
    return RolloutGate(name, props, ResourceOptions(parent=parent, depends_on=[release], deleted_with=cluster))
