"""One component alone against the recording engine, without the program around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.infra.fake_engine import Recording, record

ACCOUNT = "123456789012"


def build(
    component: Callable[[], object], *, preview: bool = False, outputs: Mapping[str, dict[str, Any]] | None = None
) -> Recording:
    """What `component()` registers. `outputs` adds to what a provider would compute, by name of the resource.

    An Output inside an f-string is an error here: its warning would become the input.
    """
    arns = {
        "aws:cloudwatch/logGroup:LogGroup": f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:",
        "aws:iam/role:Role": f"arn:aws:iam::{ACCOUNT}:role/",
    }

    def computed(kind: str, name: str, _inputs: dict[str, Any]) -> dict[str, Any]:
        found = {"arn": arns[kind] + name, "name": name} if kind in arns else {}
        return {**found, **(outputs or {}).get(name, {})}

    def program() -> None:
        component()

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PULUMI_ERROR_OUTPUT_STRING", "true")
        recording = record(program, {}, "test", preview=preview, computed=computed)
    assert not recording.error, "\n".join([recording.error, *recording.logs])
    return recording
