"""Buckets, keys, file systems, logs and roles: what keeps data, or rights, when all else is gone."""

from __future__ import annotations

from typing import Any

from infra.answers import NotAsked
from infra.cluster_rules import partition
from infra.sweep.search import Search
from infra.teardown.found import Found

# Roles, buckets and log groups are named `<component>-<role>-` and seven random characters; tags tell environments apart.
ROLE_NAMES = ("cluster-node-role-", "cluster-control-plane-", "pod-access-role-", "network-flow-logs-role-")
BUCKET_NAMES = ("store-s3-bucket-",)
LOG_GROUP_NAMES = ("network-flow-logs-group-",)


def log_groups(search: Search) -> list[Found] | NotAsked:
    """EKS writes on into a group that was deleted with it, and so makes it again, without tags: its name is enough."""
    names = (f"/aws/eks/{search.cluster_name}/", f"/aws/containerinsights/{search.cluster_name}/")
    found: dict[str, Found] = {}
    for prefix in (*names, *LOG_GROUP_NAMES, *search.hinted("logs:log-group")):
        groups = search.account.ask_pages(
            "logs:DescribeLogGroups", "logs", "describe_log_groups", "logGroups", logGroupNamePrefix=prefix
        )
        if isinstance(groups, NotAsked):
            return groups
        for group in groups:
            name, arn = group["logGroupName"], group["arn"].removesuffix(":*")
            ours = name.startswith(names) or _group_is_ours(search, arn)
            if isinstance(ours, NotAsked):
                return ours
            if ours:
                found[name] = Found(kind="logs:log-group", name=name, arn=arn)
    return list(found.values())


def _group_is_ours(search: Search, arn: str) -> bool | NotAsked:
    client = search.account.client("logs")
    tags = search.account.ask("logs:ListTagsForResource", lambda: client.list_tags_for_resource(resourceArn=arn)["tags"])
    return tags if isinstance(tags, NotAsked) else search.is_ours(tags)


def keys(search: Search) -> list[Found] | NotAsked:
    """A key whose own policy shuts the caller out isn't ours: ours leave that to the account's policies.

    Any other silence may hide one of ours: KMS answers few of these questions in a second.
    """
    client, account = search.account.client("kms"), search.account
    listed = account.ask_pages("kms:ListKeys", "kms", "list_keys", "Keys")
    if isinstance(listed, NotAsked):
        return listed
    tags = {
        one["KeyId"]: account.ask(
            "kms:ListResourceTags",
            lambda one=one: client.list_resource_tags(KeyId=one["KeyId"])["Tags"],
            ("NotFoundException",),
        )
        for one in listed
    }
    silent = [answer for answer in tags.values() if isinstance(answer, NotAsked)]
    unanswered = [answer for answer in silent if not answer.denied]
    if unanswered or (silent and len(silent) == len(tags)):
        return (unanswered or silent)[0]
    found: list[Found] = []
    for name, answer in tags.items():
        if isinstance(answer, NotAsked) or not search.is_ours(answer):
            continue
        about = account.ask("kms:DescribeKey", lambda name=name: client.describe_key(KeyId=name)["KeyMetadata"])
        if isinstance(about, NotAsked):
            return about
        ends = f"{about['DeletionDate']:%Y-%m-%d}" if "DeletionDate" in about else ""
        found.append(Found(kind="kms:key", name=name, arn=about["Arn"], state=about["KeyState"], ends=ends))
    return found


def roles(search: Search) -> list[Found] | NotAsked:
    """The tagging API knows no roles, and listing them shows no tags."""
    client, account = search.account.client("iam"), search.account
    listed = account.ask_pages("iam:ListRoles", "iam", "list_roles", "Roles")
    if isinstance(listed, NotAsked):
        return listed
    found: list[Found] = []
    for name in (one["RoleName"] for one in listed if one["RoleName"].startswith(ROLE_NAMES)):
        tags = account.ask(
            "iam:ListRoleTags", lambda name=name: client.list_role_tags(RoleName=name)["Tags"], ("NoSuchEntity",)
        )
        if isinstance(tags, NotAsked):
            return tags
        if search.is_ours(tags):
            found.append(Found(kind="iam:role", name=name))
    return found


def buckets(search: Search) -> list[Found] | NotAsked:
    """With the key of each: what is kept with a bucket is only worth as much as its key."""
    client, account, hinted = search.account.client("s3"), search.account, search.hinted("s3:bucket")
    listed = account.ask("s3:ListAllMyBuckets", lambda: client.list_buckets()["Buckets"])
    if isinstance(listed, NotAsked):
        return listed
    found: list[Found] = []
    for name in (one["Name"] for one in listed if one["Name"].startswith(BUCKET_NAMES) or one["Name"] in hinted):
        tags = account.ask(
            "s3:GetBucketTagging",
            lambda name=name: client.get_bucket_tagging(Bucket=name)["TagSet"],
            ("NoSuchTagSet", "NoSuchBucket"),
        )
        if isinstance(tags, NotAsked):
            return tags
        if search.is_ours(tags):
            arn = f"arn:{partition(account.region)}:s3:::{name}"
            found.append(Found(kind="s3:bucket", name=name, arn=arn, key=_key_of(search, name)))
    return found


def _key_of(search: Search, bucket: str) -> str | None:
    client, missing = search.account.client("s3"), ("ServerSideEncryptionConfigurationNotFoundError",)
    found: Any = search.account.ask(
        "s3:GetEncryptionConfiguration",
        lambda: client.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"],
        missing,
    )
    if isinstance(found, NotAsked):
        return None
    defaults = [rule.get("ApplyServerSideEncryptionByDefault", {}) for rule in found or ()]
    return next((one["KMSMasterKeyID"] for one in defaults if "KMSMasterKeyID" in one), "")


def elastic_file_systems(search: Search) -> list[Found] | NotAsked:
    return _with_tags(search, "efs", "elasticfilesystem:DescribeFileSystems", "elasticfilesystem:file-system",
                      ("describe_file_systems", "FileSystems", "FileSystemId", "LifeCycleState"))  # fmt: skip


def access_points(search: Search) -> list[Found] | NotAsked:
    return _with_tags(search, "efs", "elasticfilesystem:DescribeAccessPoints", "elasticfilesystem:access-point",
                      ("describe_access_points", "AccessPoints", "AccessPointId", "LifeCycleState"))  # fmt: skip


def lustre_file_systems(search: Search) -> list[Found] | NotAsked:
    return _with_tags(search, "fsx", "fsx:DescribeFileSystems", "fsx:file-system",
                      ("describe_file_systems", "FileSystems", "FileSystemId", "Lifecycle"))  # fmt: skip


def _with_tags(
    search: Search, service: str, permission: str, kind: str, fields: tuple[str, str, str, str]
) -> list[Found] | NotAsked:
    """Of services that list things with their tags."""
    operation, key, name, state = fields
    found = search.account.ask_pages(permission, service, operation, key)
    if isinstance(found, NotAsked):
        return found
    return [Found(kind=kind, name=one[name], state=one.get(state, "")) for one in found if search.is_ours(one.get("Tags"))]
