"""IAM documents: named actions on named resources pass, wildcards are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.policy.iam import ANY_RESOURCE, KEY_FAMILIES
from tests.infra.policy_judges import (
    KEY,
    ROLE,
    UNKNOWN,
    judge,
)

ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"

pytestmark = pytest.mark.usefixtures("policy_environment")


def document(**statement: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})


@pytest.mark.parametrize(
    "statement",
    [
        {"Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::bucket-1/runs/*"},
        {"Action": "s3:ListBucket", "Resource": ["arn:aws:s3:::bucket-1"]},
        {"Action": "logs:PutLogEvents", "Resource": "arn:aws:logs:us-east-1:123456789012:log-group:/ray/flow:*"},
        {"Action": sorted(ANY_RESOURCE), "Resource": "*"},
        {"Effect": "Deny", "Action": "*", "Resource": "*"},
    ],
)
def test_named_actions_on_named_resources_pass(statement: dict[str, Any]) -> None:
    assert judge("no-iam-wildcards", ROLE_POLICY, {"policy": document(**statement)}) == []


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ({"Action": "s3:*", "Resource": "arn:aws:s3:::bucket-1"}, "allows s3:*"),
        ({"Action": ["s3:Get*"], "Resource": "arn:aws:s3:::bucket-1/*"}, "allows s3:Get*"),
        ({"Action": "s3:GetObject", "Resource": "*"}, "allows s3:GetObject on *"),
        ({"Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket-*"}, "on arn:aws:s3:::bucket-*"),
        ({"Action": "kms:Decrypt", "Resource": "arn:aws:kms:us-east-1:123456789012:key/*"}, "on arn:aws:kms"),
        ({"Action": "kms:Decrypt", "Resource": "arn:aws:kms:*:123456789012:key/1"}, "on arn:aws:kms:*"),
        ({"Action": ["ecr:GetAuthorizationToken", "ecr:BatchGetImage"], "Resource": "*"}, "allows ecr:BatchGetImage on *"),
        ({"NotAction": "iam:PassRole", "Resource": "arn:aws:s3:::b/x"}, "all but some (NotAction)"),
        ({"Action": "s3:GetObject", "NotResource": "arn:aws:s3:::b/x"}, "all but some (NotResource)"),
    ],
)
def test_wildcards_are_refused(statement: dict[str, Any], words: str) -> None:
    assert [words in message for message in judge("no-iam-wildcards", ROLE_POLICY, {"policy": document(**statement)})] == [True]


def test_a_trust_that_is_for_everyone_is_refused() -> None:
    good = document(Action=["sts:AssumeRole", "sts:TagSession"], Principal={"Service": "pods.eks.amazonaws.com"})

    assert judge("no-iam-wildcards", ROLE, {"assumeRolePolicy": good}) == []
    for principal in ("*", {"AWS": "*"}, {"AWS": ["*"]}):
        bad = document(Action="sts:AssumeRole", Principal=principal)
        assert "assumeRolePolicy: allows everyone" in judge("no-iam-wildcards", ROLE, {"assumeRolePolicy": bad})[0]
        assert "allows everyone" in judge("no-iam-wildcards", "aws:s3/bucketPolicy:BucketPolicy", {"policy": bad})[0]


def test_inline_policies_of_a_role_are_judged_too() -> None:
    inline = [{"name": "a", "policy": document(Action="ec2:*", Resource="*")}]

    assert len(judge("no-iam-wildcards", ROLE, {"inlinePolicies": inline})) == 2


def test_a_key_is_managed_by_its_account_and_by_nobody_else() -> None:
    root = {"AWS": "arn:aws:iam::123456789012:root"}

    assert judge("no-iam-wildcards", KEY, {"policy": document(Action="kms:*", Resource="*", Principal=root)}) == []
    for principal in ({"AWS": "arn:aws:iam::123456789012:role/x"}, {"Service": "logs.amazonaws.com"}):
        text = document(Action="kms:*", Resource="*", Principal=principal)
        assert "allows kms:*" in judge("no-iam-wildcards", KEY, {"policy": text})[0]


def test_a_key_may_be_used_by_families_of_actions_that_a_policy_for_others_may_not() -> None:
    text = document(Action=sorted(KEY_FAMILIES), Resource="*", Principal={"AWS": "arn:aws:iam::123456789012:role/x"})

    assert judge("no-iam-wildcards", KEY, {"policy": text}) == []
    assert judge("no-iam-wildcards", "aws:kms/keyPolicy:KeyPolicy", {"policy": text}) == []
    assert len(judge("no-iam-wildcards", ROLE_POLICY, {"policy": text})) == 3
    assert len(judge("no-iam-wildcards", KEY, {"policy": document(Action="kms:Create*", Principal={"Service": "s"})})) == 1


def test_a_document_that_a_preview_does_not_know_passes_and_one_that_is_none_does_not() -> None:
    assert judge("no-iam-wildcards", ROLE_POLICY, {"policy": UNKNOWN}) == []
    for text in ("{", "[]", "{}"):
        assert "isn't an IAM policy document" in judge("no-iam-wildcards", ROLE_POLICY, {"policy": text})[0]


def test_full_access_is_not_attached() -> None:
    kind = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"

    assert judge("no-full-access", kind, {"policyArn": "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"}) == []
    for name in ("AdministratorAccess", "PowerUserAccess", "AmazonS3FullAccess"):
        arn = f"arn:aws:iam::aws:policy/{name}"
        assert arn in judge("no-full-access", kind, {"policyArn": arn})[0]
        assert arn in judge("no-full-access", ROLE, {"managedPolicyArns": [arn]})[0]
