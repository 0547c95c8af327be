"""Every IAM document of every environment, read as IAM reads it. What a role may do: test_program_access.py."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from infra.policy.iam import judge_document
from tests.infra.iam_actions import ACCESS_POLICIES, ACTIONS, TRUST_ACTIONS
from tests.infra.iam_documents import BUCKET, IDENTITY, KEY, TRUST, Document, document, documents, findings
from tests.infra.recordings import ALL, recorded


def holders(environment: str, kind: str) -> set[str]:
    return {each.holder for each in documents(recorded(environment)) if each.kind == kind}


@pytest.mark.parametrize("name", ALL)
def test_every_document_is_one_that_iam_takes_and_holds_nothing_that_is_not_listed(name: str) -> None:
    found = {each.holder: findings(each) for each in documents(recorded(name))}

    assert {holder: said for holder, said in found.items() if said} == {}


@pytest.mark.parametrize("name", ALL)
def test_the_policy_pack_has_nothing_to_say_of_them(name: str) -> None:
    recording = recorded(name)
    said = {each.holder: list(judge_document(each.text, recording.request(each.holder).type)) for each in documents(recording)}

    assert {holder: messages for holder, messages in said.items() if messages} == {}


def test_the_documents_are_these() -> None:
    assert holders("dev", TRUST) == {"cluster-node-role", "pod-access-role"}
    assert holders("prod", TRUST) == {"cluster-node-role", "pod-access-role", "network-flow-logs-role"}
    assert holders("prod", IDENTITY) == {"pod-access-policy", "network-flow-logs-rights"}
    assert holders("dev", BUCKET) == {"store-s3-policy"}
    assert holders("store-fsx", KEY) == {"store-s3-key-policy"}
    assert documents(recorded("local")) == []


Mistake = Callable[[dict[str, Any]], Any]
MISTAKES: list[tuple[str, str, Mistake, str]] = [
    ("dev", "pod-access-policy", lambda s: s.update(Action=["s3:GettObject"]), "is no action"),
    ("dev", "pod-access-policy", lambda s: s.update(Action="s3:*"), "s3:* is no action"),
    ("dev", "pod-access-policy", lambda s: s.update(Resource=["arn:aws:s3:::the-bucket/store/*"]), "s3:ListBucket on"),
    ("dev", "pod-access-policy", lambda s: s.update(Resource="*"), "s3:ListBucket on *"),
    ("dev", "pod-access-policy", lambda s: s.update(Principal="*"), "Principal has no place"),
    ("dev", "pod-access-policy", lambda s: s.update(Efect="Allow"), "Efect has no place"),
    ("dev", "pod-access-policy", lambda s: s.update(Effect="allow"), "Effect allow"),
    ("dev", "pod-access-policy", lambda s: s.update(Sid="List-it"), "letters and digits"),
    ("dev", "pod-access-policy", lambda s: s.update(Sid="KeyOfTheBucket"), "twice"),
    ("dev", "pod-access-policy", lambda s: s.pop("Resource"), "Resource is missing"),
    ("dev", "pod-access-policy", lambda s: s.update(NotAction="s3:*"), "NotAction has no place"),
    ("dev", "pod-access-policy", lambda s: s.update(Condition={"StringLike": {"s3:prefx": "a"}}), "no condition key"),
    ("dev", "pod-access-policy", lambda s: s.update(Condition={"Bool": {"s3:prefix": "a"}}), "does not fit s3:prefix"),
    ("dev", "pod-access-role", lambda s: s.update(Principal={"Service": "eks.amazonaws.com"}), "no service that takes"),
    ("dev", "pod-access-role", lambda s: s.update(Principal={"AWS": "*"}), "may take the role"),
    ("dev", "pod-access-role", lambda s: s.update(Action="sts:AssumeRoleX"), "no way to take a role"),
    ("dev", "pod-access-role", lambda s: s.update(Resource="*"), "Resource has no place"),
    ("dev", "store-s3-policy", lambda s: s.update(Resource=["arn:aws:s3:::the-bucket"]), "name both"),
    ("dev", "store-s3-policy", lambda s: (s.update(Effect="Allow", Action="s3:GetObject"), s.pop("Condition")), "everyone"),
    ("store-fsx", "store-s3-key-policy", lambda s: s.update(Principal={"AWS": "*"}), "allows everyone"),
    ("store-fsx", "store-s3-key-policy", lambda s: s.update(Resource=["arn:aws:kms:::key/1"]), "* is the key"),
]


@pytest.mark.parametrize(("name", "holder", "mistake", "said"), MISTAKES, ids=[f"{one[1]}: {one[3]}" for one in MISTAKES])
def test_a_document_that_says_something_else_is_refused(name: str, holder: str, mistake: Mistake, said: str) -> None:
    found = document(recorded(name), holder)
    content = json.loads(found.text)
    mistake(content["Statement"][0])

    judged = findings(replace(found, text=json.dumps(content)))
    assert any(said in each for each in judged), judged


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ('{"Version": "2012-10-17", "Version": "2012-10-17", "Statement": []}', "a key twice"),
        ('{"Version": "2008-10-17", "Statement": []}', "not a Version 2012-10-17"),
        ('{"Version": "2012-10-17", "Statement": [], "Comment": ""}', "and nothing else"),
        ('{"Version": "2012-10-17", "Statement": [], "' + "x" * 2048 + '": 1}', "where 2048 are allowed"),
    ],
)
def test_a_text_that_is_no_document_is_refused(text: str, said: str) -> None:
    assert any(said in each for each in findings(Document("role", TRUST, text, 2048)))


# What AWS wrote


@cache
def managed_by_aws() -> dict[str, Any]:
    """AWS's own policies as moto ships them: read as a file, since the import of moto takes seconds."""
    spec = find_spec("moto")
    assert spec
    assert spec.origin
    text = (Path(spec.origin).parent / "iam" / "aws_managed_policies.py").read_text(encoding="utf-8")
    return json.loads(text.split('"""')[1])


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_every_managed_policy_exists(name: str) -> None:
    recording = recorded(name)
    attached = [
        recording.inputs[urn]["policyArn"].removeprefix("arn:aws:iam::aws:policy/")
        for urn, request in recording.requests.items()
        if request.type.endswith(":RolePolicyAttachment")
    ]

    assert len(attached) == 3
    assert [each for each in attached if managed_by_aws()[each].get("Path", "/") != "/"] == []


def test_every_action_in_the_table_is_one_that_aws_names_too() -> None:
    text = json.dumps([policy["Document"] for policy in managed_by_aws().values()])
    known = set(re.findall(r'"([a-z0-9-]+:[A-Za-z]+)"', text))

    assert sorted({*ACTIONS, *TRUST_ACTIONS} - known) == []


def test_every_access_policy_of_the_cluster_exists() -> None:
    entries = recorded("prod").of("cluster-control-plane")["accessEntries"].values()
    names = {policy["policyArn"].rsplit("/", 1)[-1] for entry in entries for policy in entry["accessPolicies"].values()}

    assert names
    assert names <= ACCESS_POLICIES
