"""The pack as a whole, and whose a resource is: tags, and the protection of state in production."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.policy.pack import POLICIES
from infra.policy.rules import resource_policy
from tests.infra.policy_judges import (
    BUCKET,
    BY_NAME,
    CLUSTER,
    COMPONENT,
    KEY,
    RAY_JOB,
    SERVICE,
    UNKNOWN,
    Made,
    Setting,
    judge,
    judge_stack,
    ray_job,
)

VERSIONING = "aws:s3/bucketVersioning:BucketVersioning"

pytestmark = pytest.mark.usefixtures("policy_environment")


def test_every_policy_has_its_own_name_and_is_mandatory() -> None:
    assert len(BY_NAME) == len(POLICIES) == 18
    assert {policy.enforcement_level.value for policy in POLICIES if policy.enforcement_level} == {"mandatory"}


def test_a_policy_that_fails_names_the_resource_and_does_not_pass_it() -> None:
    def broken(_subject: Any) -> list[str]:
        raise KeyError("spec")

    policy = resource_policy("broken-one", "d", broken)
    BY_NAME["broken-one"] = policy
    try:
        assert judge("broken-one", SERVICE, {}) == [f"it ({SERVICE}): this policy failed on it: KeyError: 'spec'"]
    finally:
        del BY_NAME["broken-one"]


TAGS = {"project": "p", "environment": "dev", "owner": "team"}
VPC = "aws:ec2/vpc:Vpc"


def test_tags_are_the_resources_own_or_its_providers() -> None:
    assert judge("required-tags", VPC, {"tags": TAGS}) == []
    assert judge("required-tags", VPC, {"tags": {"Name": "n"}}, provider={"defaultTags": json.dumps({"tags": TAGS})}) == []
    assert (
        judge("required-tags", VPC, {"tags": {"owner": "o"}}, provider={"defaultTags": {"tags": {**TAGS, "owner": ""}}}) == []
    )
    assert judge("required-tags", "aws:ec2/route:Route", {}) == []


def test_missing_tags_are_named() -> None:
    assert "lacks the tags environment, owner" in judge("required-tags", VPC, {"tags": {"project": "p"}})[0]
    assert "lacks the tags owner" in judge("required-tags", VPC, {"tags": {**TAGS, "owner": ""}})[0]
    assert "can't be known at preview" in judge("required-tags", VPC, {"tags": UNKNOWN})[0]
    assert judge("required-tags", VPC, {"tags": {"team": "t"}}, config={"required": ["team"]}) == []


@pytest.mark.parametrize(
    ("kind", "props", "protect", "words"),
    [
        (CLUSTER, {}, False, "deletionProtection: true"),
        (COMPONENT, {"name": "c", "deletionProtection": False}, False, "deletionProtection: true"),
        (BUCKET, {"forceDestroy": True}, False, "remove forceDestroy"),
        (KEY, {"deletionWindowInDays": 7}, False, "deletionWindowInDays: 30"),
    ],
)
def test_state_in_production_is_protected(
    kind: str, props: dict[str, Any], protect: bool, words: str, policy_environment: Setting
) -> None:
    assert judge("state-is-protected", kind, props, protect=protect) == []
    policy_environment(production=True)
    assert [words in message for message in judge("state-is-protected", kind, props, protect=protect)] == [True]


def test_protected_state_passes_in_production(policy_environment: Setting) -> None:
    policy_environment(production=True)

    assert judge("state-is-protected", CLUSTER, {"deletionProtection": True}) == []
    assert judge("state-is-protected", BUCKET, {}) == []
    assert judge("state-is-protected", KEY, {}) == []


@pytest.mark.parametrize(
    ("kind", "copy", "props"),
    [
        (
            "aws:fsx/lustreFileSystem:LustreFileSystem",
            "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
            {"s3": {"autoExportPolicy": {"events": ["NEW"]}}},
        ),
        ("aws:efs/fileSystem:FileSystem", "aws:efs/backupPolicy:BackupPolicy", {"backupPolicy": {"status": "ENABLED"}}),
    ],
)
def test_file_systems_in_production_are_not_the_only_copy(
    kind: str, copy: str, props: dict[str, Any], policy_environment: Setting
) -> None:
    alone, copied = Made(kind, "files", {}), Made(copy, "copy", {"fileSystemId": UNKNOWN, **props}, {"fileSystemId": "files"})

    assert judge_stack("file-systems-have-copies", alone) == []
    policy_environment(production=True)
    assert judge_stack("file-systems-have-copies", alone, copied) == []
    assert judge_stack("file-systems-have-copies", Made(kind, "files", {}, protect=True)) == []
    for others in ([], [Made(copy, "copy", props)], [Made(copy, "copy", {}, {"fileSystemId": "files"})]):
        assert "files: holds the only copy" in judge_stack("file-systems-have-copies", alone, *others)[0]


def test_buckets_in_production_keep_versions(policy_environment: Setting) -> None:
    bucket = Made(BUCKET, "s", {})
    enabled, suspended = ({"versioningConfiguration": {"status": status}} for status in ("Enabled", "Suspended"))

    assert judge_stack("buckets-keep-versions", bucket) == []
    policy_environment(production=True)
    assert judge_stack("buckets-keep-versions", bucket, Made(VERSIONING, "v", enabled, {"bucket": "s"})) == []
    assert (
        "s: keeps nothing" in judge_stack("buckets-keep-versions", bucket, Made(VERSIONING, "v", suspended, {"bucket": "s"}))[0]
    )
    assert "s: keeps nothing" in judge_stack("buckets-keep-versions", bucket)[0]


@pytest.mark.parametrize("config", ["", "{}", '{"ray-train-eks:target": "not an object"}'])
def test_an_environment_that_says_nothing_of_its_target_is_judged_as_eks(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if config:
        monkeypatch.setenv("PULUMI_CONFIG", config)
    else:
        monkeypatch.delenv("PULUMI_CONFIG")

    assert len(judge("pinned-images", RAY_JOB, ray_job({"image": "ray:1.0"}))) == 3
