"""Pods get their prefix and its key, nothing else, and only the pods of the run get it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.pod_access import PodAccess, PodAccessArgs
from tests.infra.component import build
from tests.infra.fake_engine import Recording

BUCKET, KEY = "arn:aws:s3:::made-up", "arn:aws:kms:us-east-2:123456789012:key/abc"


@pytest.fixture(scope="module")
def access() -> Recording:
    args = PodAccessArgs(
        cluster_name="dev", namespace="ray-train", service_account="ray-train", bucket_arn=BUCKET, prefix="store", key_arn=KEY
    )
    return build(lambda: PodAccess("access", args))


def statements(text: str) -> dict[str, dict[str, Any]]:
    return {each["Sid"]: each for each in json.loads(text)["Statement"]}


def test_only_pods_of_the_runs_service_account_are_trusted(access: Recording) -> None:
    (trust,) = json.loads(access.of("access-role")["assumeRolePolicy"])["Statement"]

    assert trust["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert trust["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    assert trust["Condition"] == {
        "StringEquals": {
            "aws:RequestTag/kubernetes-namespace": "ray-train",
            "aws:RequestTag/kubernetes-service-account": "ray-train",
        }
    }


@pytest.mark.case("C136")
def test_rights_end_at_the_prefix_and_name_no_wildcard_action(access: Recording) -> None:
    found = statements(access.of("access-policy")["policy"])

    assert found["ObjectsOfThePrefix"]["Resource"] == [f"{BUCKET}/store/*"]
    assert found["ListThePrefix"]["Resource"] == [BUCKET]
    assert found["ListThePrefix"]["Condition"]["StringLikeIfExists"] == {"s3:prefix": ["store", "store/*"]}
    assert found["KeyOfTheBucket"]["Resource"] == [KEY]
    actions = {action for each in found.values() for action in each["Action"]}
    assert actions == {
        "s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload",
        "kms:Decrypt", "kms:GenerateDataKey",
    }  # fmt: skip


def test_the_association_comes_when_the_rights_are_there(access: Recording) -> None:
    association = access.of("access-association")

    assert (association["clusterName"], association["namespace"], association["serviceAccount"]) == (
        "dev", "ray-train", "ray-train",
    )  # fmt: skip
    assert association["roleArn"].endswith(":role/access-role")
    assert "access-policy" in access.comes_after("access-association")
