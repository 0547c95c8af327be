"""The gate behind a RayJob: `pulumi up` passes it when the job runs, `pulumi destroy` when nothing of the job is left.

A dynamic provider, because both need the cluster while the engine works. It isn't kept in state by value: the class is found
by its name, so a newer version of this file serves an older stack.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pulumi import Input, Output, ResourceOptions
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from infra.job_status import Failed, Started

_TRIGGERS = ("uid", "jobName", "namespace")
_POLL_SECONDS = 2


class JobGateProvider(ResourceProvider):
    """create and update wait for the job to run; delete takes it away. `failure` is what went wrong, or empty.

    `blocked`: why it cannot run, if what it needs has said so already; then nobody waits.
    """

    serialize_as_secret_always = False  # there is no secret in it

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        replaces = [name for name in _TRIGGERS if _olds.get(name) != _news.get(name)]
        changed = any(_olds.get(name) != _news.get(name) for name in ("kubeconfig", "context", "waitSeconds", "blocked"))
        return DiffResult(
            changes=bool(replaces) or changed or bool(_olds.get("failure")), replaces=replaces, delete_before_replace=True
        )

    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult(id_=props["uid"], outs={**props, "failure": props["blocked"] or _wait_until_running(props)})

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        return UpdateResult(outs={**_news, "failure": _news["blocked"] or _wait_until_running(_news)})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        with _open(_props) as job:
            job.remove(_props["uid"])


def _open(props: Mapping[str, Any]) -> Any:
    from infra.live_job import LiveJob  # noqa: PLC0415 - a program that is only previewed needs no client

    return LiveJob(props["kubeconfig"], props["context"], props["namespace"], props["jobName"])


def _wait_until_running(props: Mapping[str, Any]) -> str:
    """Empty once the job runs or has succeeded, else why not."""
    name = f"RayJob {props['namespace']}/{props['jobName']}"
    deadline = time.monotonic() + props["waitSeconds"]
    with _open(props) as job:
        while True:
            verdict = job.verdict()
            if isinstance(verdict, Started):
                return ""
            if isinstance(verdict, Failed):
                return f"{name} is {verdict.reason}"
            if time.monotonic() > deadline:
                detail = "\n  ".join([verdict.detail, *job.troubles()])
                return f"{name} doesn't run after {props['waitSeconds']:.0f} s (job.waitForRunningSeconds): {detail}"
            time.sleep(_POLL_SECONDS)


class JobGate(Resource, name="JobGate"):
    """Outputs: failure. Depends on the RayJob by its uid, so another RayJob means another gate."""

    failure: Output[str]

    def __init__(self, name: str, props: Mapping[str, Input[Any]], opts: ResourceOptions) -> None:
        super().__init__(JobGateProvider(), name, {**props, "failure": None}, opts)
