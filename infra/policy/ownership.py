"""Whose a resource is, and what must not go by accident: tags, and the protection of state in production.

`retainOnDelete` isn't told to policies: a bucket is judged by what AWS itself keeps of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pulumi_policy import PolicyConfigSchema

from infra.policy import environment
from infra.policy.encryption import BUCKETS
from infra.policy.rules import UNKNOWN, Subject, is_true, of_kind, reach, refers_to, resource_policy, stack_policy

# Not the run: its tag would change every resource with every run. The policy's config can ask for it (`required`).
REQUIRED_TAGS = ("project", "environment", "owner")
# What costs money or holds state, or is found by its tags when a stack has gone.
TAGGED = (
    "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet", "aws:ec2/natGateway:NatGateway", "aws:ec2/eip:Eip",
    "aws:ec2/internetGateway:InternetGateway", "aws:ec2/securityGroup:SecurityGroup", "aws:ec2/vpcEndpoint:VpcEndpoint",
    "aws:ec2/launchTemplate:LaunchTemplate", "aws:ec2/placementGroup:PlacementGroup", "aws:ec2/flowLog:FlowLog",
    "aws:ec2/capacityReservation:CapacityReservation", "aws:ebs/volume:Volume", "aws:eks/cluster:Cluster",
    "aws:eks/nodeGroup:NodeGroup", "aws:eks/addon:Addon", "aws:iam/role:Role", "aws:iam/policy:Policy", "aws:kms/key:Key",
    "aws:efs/fileSystem:FileSystem", "aws:efs/accessPoint:AccessPoint", "aws:fsx/lustreFileSystem:LustreFileSystem",
    "aws:cloudwatch/logGroup:LogGroup", *BUCKETS,
)  # fmt: skip
_VERSIONING = ("aws:s3/bucketVersioning:BucketVersioning", "aws:s3/bucketVersioningV2:BucketVersioningV2")
_EFS, _EFS_BACKUP = "aws:efs/fileSystem:FileSystem", "aws:efs/backupPolicy:BackupPolicy"
_LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
_LUSTRE_LINK = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
_KEY_DAYS = 30  # the longest that KMS waits before a key is gone, and its default


def judge_tags(subject: Subject) -> Iterator[str]:
    if subject.kind not in TAGGED:
        return
    given = [subject.get("tags"), subject.get("tagsAll"), reach(subject.provider, "defaultTags.tags")]
    names = {name for one in given if isinstance(one, Mapping) for name, value in one.items() if value}
    missing = [name for name in subject.config.get("required") or REQUIRED_TAGS if name not in names]
    if missing and UNKNOWN in given:
        yield "its tags can't be known at preview. Fix: write them as plain values"
    elif missing:
        yield f"lacks the tags {', '.join(missing)}. Fix: add them to the provider's default tags"


def judge_protection(subject: Subject) -> Iterator[str]:
    if not environment.is_production():
        return
    match subject.kind:
        case "aws:eks/cluster:Cluster" | "eks:index:Cluster":
            if not is_true(subject.get("deletionProtection")):
                yield "can be deleted. Fix: set deletionProtection: true"
        case "aws:kms/key:Key":
            if _days(subject.get("deletionWindowInDays", _KEY_DAYS)) < _KEY_DAYS:
                yield f"is gone sooner than it has to be. Fix: set deletionWindowInDays: {_KEY_DAYS}"
        case kind if kind in BUCKETS:
            if is_true(subject.get("forceDestroy")):
                yield "goes with all that is in it. Fix: remove forceDestroy"
        case _:
            pass


def judge_versioning(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, str]]:
    if not environment.is_production():
        return
    versioned = [one for one in of_kind(subjects, *_VERSIONING) if one.get("versioningConfiguration.status") == "Enabled"]
    for bucket in of_kind(subjects, *BUCKETS):
        if not any(refers_to(one, "bucket", bucket, "bucket") for one in versioned):
            yield bucket, "keeps nothing of what is overwritten or deleted. Fix: add a BucketVersioning that is Enabled"


def judge_file_systems(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, str]]:
    """What is on them is elsewhere too, or they can't be deleted."""
    if not environment.is_production():
        return
    links = [one for one in of_kind(subjects, _LUSTRE_LINK) if one.get("s3.autoExportPolicy.events")]
    backups = [one for one in of_kind(subjects, _EFS_BACKUP) if one.get("backupPolicy.status") == "ENABLED"]
    for kind, copies, fix in ((_LUSTRE, links, "export it to a bucket"), (_EFS, backups, "add a BackupPolicy that is ENABLED")):
        for one in of_kind(subjects, kind):
            if not one.protect and not any(refers_to(copy, "fileSystemId", one, "id") for copy in copies):
                yield one, f"holds the only copy of what is on it. Fix: {fix}, or protect it"


def _days(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


POLICIES = [
    resource_policy(
        "required-tags",
        "What costs or holds something says whose it is.",
        judge_tags,
        PolicyConfigSchema(properties={"required": {"type": "array", "items": {"type": "string"}}}),
    ),
    resource_policy("state-is-protected", "In production, nothing that holds state goes by accident.", judge_protection),
    stack_policy("file-systems-have-copies", "In production, no file system is the only copy.", judge_file_systems),
    stack_policy("buckets-keep-versions", "In production, buckets keep what is overwritten.", judge_versioning),
]
