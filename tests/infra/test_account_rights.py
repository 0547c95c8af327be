"""The IAM policy in docs/security.md is what `preflight` and `teardown-check` call, whole and no more."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from infra.sweep.compute import EC2_KINDS
from tests.infra.environments import ROOT
from tests.infra.fake_account import LOADER, READS

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
STATEMENTS: dict[str, Any] = {
    one["Sid"]: one for one in json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])["Statement"]
}
ACTION = re.compile(r"[a-z0-9-]+:[A-Z]\w+")
# Where IAM has another name than the SDK for a service, or for a call of it.
SERVICES = {
    "elasticfilesystem": "efs", "elasticloadbalancing": "elbv2", "servicequotas": "service-quotas",
    "tag": "resourcegroupstaggingapi",
}  # fmt: skip
CALLS = {"s3:ListAllMyBuckets": "ListBuckets", "s3:GetEncryptionConfiguration": "GetBucketEncryption"}


def actions(*sids: str) -> set[str]:
    listed = [STATEMENTS[sid]["Action"] for sid in sids]
    return {action for some in listed for action in ([some] if isinstance(some, str) else some)}


def named(paths: Iterable[Path]) -> set[str]:
    """Every text in the code that has the form of an action: the permission beside each call."""
    texts = [
        node.value for path in paths for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)
    ]
    return {text for text in texts if isinstance(text, str) and ACTION.fullmatch(text)}


def test_the_rights_of_preflight_are_what_it_asks() -> None:
    assert actions("Preflight", "PreflightImages") == named([ROOT / "infra" / "preflight_questions.py"])


def test_the_rights_of_teardown_check_are_what_it_asks() -> None:
    asked = named((ROOT / "infra" / "sweep").glob("*.py")) | {kind.permission for kind in EC2_KINDS}

    assert actions("TeardownCheck") == asked


def test_no_other_statement_gives_more() -> None:
    assert set(STATEMENTS) == {"Preflight", "PreflightImages", "TeardownCheck"}
    assert {key for one in STATEMENTS.values() for key in one} == {"Sid", "Effect", "Action", "Resource"}


@pytest.mark.parametrize("action", sorted(actions(*STATEMENTS)))
def test_an_action_is_a_reading_call_that_the_sdk_knows(action: str) -> None:
    service, name = action.split(":")
    call = CALLS.get(action, name)

    assert call in LOADER.load_service_model(SERVICES.get(service, service), "service-2")["operations"]
    assert call.startswith(READS)
