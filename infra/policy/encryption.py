"""Encryption at rest: disks, buckets, cluster secrets, file systems.

CloudWatch's log groups and FSx for Lustre are always encrypted, with a key of AWS's; `requireOwnKeys` of the policy's config
asks for one of the account's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pulumi_policy import PolicyConfigSchema

from infra.policy.rules import UNKNOWN, Subject, is_true, items, of_kind, reach, refers_to, resource_policy, stack_policy

BUCKETS = ("aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2")
_BUCKET_ENCRYPTION = (
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
    "aws:s3/bucketServerSideEncryptionConfigurationV2:BucketServerSideEncryptionConfigurationV2",
)
_OWN_KEYS = {
    "aws:cloudwatch/logGroup:LogGroup": "kmsKeyId",
    "aws:fsx/lustreFileSystem:LustreFileSystem": "kmsKeyId",
    "aws:efs/fileSystem:FileSystem": "kmsKeyId",
    "aws:ebs/volume:Volume": "kmsKeyId",
}


def judge_encryption(subject: Subject) -> Iterator[str]:
    match subject.kind:
        case "aws:ec2/launchTemplate:LaunchTemplate":
            yield from _launch_template(subject)
        case "aws:eks/nodeGroup:NodeGroup":
            if subject.get("launchTemplate") is None:
                yield "has no launch template, so its disks are not encrypted. Fix: give it one with encrypted: true"
        case "aws:ebs/volume:Volume" | "aws:efs/fileSystem:FileSystem":
            if not is_true(subject.get("encrypted")):
                yield "is not encrypted. Fix: set encrypted: true"
        case "aws:eks/cluster:Cluster" | "eks:index:Cluster":
            if not _has_encrypted_secrets(subject):
                yield "does not encrypt Kubernetes secrets. Fix: set a key in encryptionConfig, for secrets"
        case _:
            pass
    key = _OWN_KEYS.get(subject.kind)
    if key and subject.config.get("requireOwnKeys") and subject.get(key) is None:
        yield f"is encrypted with a key of AWS's, and this policy's config asks for an own one. Fix: set {key}"


def _has_encrypted_secrets(cluster: Subject) -> bool:
    if cluster.kind == "eks:index:Cluster":
        return cluster.get("encryptionConfigKeyArn") is not None
    if cluster.get("encryptionConfig") is UNKNOWN:  # made from a key that isn't there yet, so there will be one
        return True
    has_key = cluster.get("encryptionConfig.provider.keyArn") is not None
    return has_key and "secrets" in items(cluster.get("encryptionConfig.resources"))


def _launch_template(subject: Subject) -> Iterator[str]:
    mappings = items(subject.get("blockDeviceMappings"))
    if not mappings:
        yield "names no disk, so the image's own is used, unencrypted. Fix: map /dev/xvda with encrypted: true"
    for mapping in mappings:
        if not is_true(reach(mapping, "ebs.encrypted")):
            yield f"its disk {reach(mapping, 'deviceName', '?')} is not encrypted. Fix: set ebs.encrypted: true"


def judge_buckets(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, str]]:
    """AWS encrypts every object anyway, with a key that is nobody's: whoever may read the bucket reads them."""
    settings = list(of_kind(subjects, *_BUCKET_ENCRYPTION))
    for bucket in of_kind(subjects, *BUCKETS):
        own = [one for one in settings if refers_to(one, "bucket", bucket, "bucket")]
        if not any(_uses_kms(one) for one in own):
            yield bucket, "is not encrypted with a KMS key. Fix: add a BucketServerSideEncryptionConfiguration with aws:kms"


def _uses_kms(settings: Subject) -> bool:
    rules = items(settings.get("rules"))
    default = "applyServerSideEncryptionByDefault"
    algorithms = [reach(rule, f"{default}.sseAlgorithm") for rule in rules]
    has_keys = all(reach(rule, f"{default}.kmsMasterKeyId") is not None for rule in rules)
    return bool(algorithms) and set(map(str, algorithms)) <= {"aws:kms", "aws:kms:dsse"} and has_keys


POLICIES = [
    resource_policy(
        "encrypted-at-rest",
        "Disks, file systems and Kubernetes secrets are encrypted.",
        judge_encryption,
        PolicyConfigSchema(properties={"requireOwnKeys": {"type": "boolean", "default": False}}),
    ),
    stack_policy("encrypted-buckets", "Buckets are encrypted with a key of the account's own.", judge_buckets),
]
