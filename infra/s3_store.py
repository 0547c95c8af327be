"""S3Store: a versioned, encrypted, private bucket with a key of its own. Part of CheckpointStore."""

from __future__ import annotations

import json
from typing import Any

import pulumi_aws as aws
from pulumi import ComponentResource, Output, ResourceOptions

_KEY_DELETION_DAYS = 30
_UPLOAD_DAYS = 7  # an upload that is not complete by then never will be


class S3Store(ComponentResource):
    """Outputs: bucket (its name), bucket_arn, key_arn.

    Unless `purge_on_destroy`, all of it stays when the stack goes: without its key a bucket is lost, without its
    policy it is open to plain HTTP. `purge_on_destroy` must have been applied by an update before the destroy.
    """

    bucket: Output[str]
    bucket_arn: Output[str]
    key_arn: Output[str]

    def __init__(
        self,
        name: str,
        noncurrent_days: int,
        purge_on_destroy: bool,
        *,
        lustre: bool = False,
        opts: ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-train-eks:index:S3Store", name, None, opts)
        self._name, self._child = name, ResourceOptions(parent=self, retain_on_delete=not purge_on_destroy)
        key = self._create_key()
        bucket = aws.s3.Bucket(f"{name}-bucket", force_destroy=purge_on_destroy, opts=self._child)
        if lustre:
            self._let_lustre_use(key, bucket)
        self._encrypt(bucket, key)
        self._close(bucket, key)
        self._keep_versions(bucket, noncurrent_days)
        self.bucket, self.bucket_arn, self.key_arn = bucket.bucket, bucket.arn, key.arn
        self.register_outputs({"bucket": self.bucket, "keyArn": self.key_arn})

    def _create_key(self) -> aws.kms.Key:
        """Its default policy lets the account's own policies say who may use it."""
        return aws.kms.Key(
            f"{self._name}-key",
            description="Checkpoints, evidence and records of ray-train-eks",
            enable_key_rotation=True,
            deletion_window_in_days=_KEY_DELETION_DAYS,
            opts=self._child,
        )

    def _let_lustre_use(self, key: aws.kms.Key, bucket: aws.s3.Bucket) -> None:
        aws.kms.KeyPolicy(
            f"{self._name}-key-policy",
            key_id=key.id,
            policy=Output.all(key.arn, bucket.arn, bucket.region).apply(lambda found: _lustre_key_policy(*found)),
            opts=self._child,
        )

    def _encrypt(self, bucket: aws.s3.Bucket, key: aws.kms.Key) -> None:
        aws.s3.BucketServerSideEncryptionConfiguration(
            f"{self._name}-encryption",
            bucket=bucket.bucket,
            rules=[
                aws.s3.BucketServerSideEncryptionConfigurationRuleArgs(
                    bucket_key_enabled=True,  # one request to KMS for many objects
                    apply_server_side_encryption_by_default=(
                        aws.s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
                            sse_algorithm="aws:kms", kms_master_key_id=key.arn
                        )
                    ),
                )
            ],
            opts=self._child,
        )

    def _close(self, bucket: aws.s3.Bucket, key: aws.kms.Key) -> None:
        """No ACLs, no public access; then a policy that only refuses, which needs the block to be there already."""
        block = aws.s3.BucketPublicAccessBlock(
            f"{self._name}-public-access-block",
            bucket=bucket.bucket,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=self._child,
        )
        aws.s3.BucketOwnershipControls(
            f"{self._name}-ownership",
            bucket=bucket.bucket,
            rule=aws.s3.BucketOwnershipControlsRuleArgs(object_ownership="BucketOwnerEnforced"),
            opts=self._child,
        )
        aws.s3.BucketPolicy(
            f"{self._name}-policy",
            bucket=bucket.bucket,
            policy=Output.all(bucket.arn, key.arn).apply(lambda found: _bucket_policy(*found)),
            opts=ResourceOptions.merge(self._child, ResourceOptions(depends_on=[block])),
        )

    def _keep_versions(self, bucket: aws.s3.Bucket, days: int) -> None:
        """0 days: what is replaced or deleted is gone at once, so there is nothing to version."""
        versioning = aws.s3.BucketVersioning(
            f"{self._name}-versioning",
            bucket=bucket.bucket,
            versioning_configuration=aws.s3.BucketVersioningVersioningConfigurationArgs(
                status="Enabled" if days else "Suspended"
            ),
            opts=self._child,
        )
        aws.s3.BucketLifecycleConfiguration(
            f"{self._name}-lifecycle",
            bucket=bucket.bucket,
            rules=_lifecycle_rules(days),
            opts=ResourceOptions.merge(self._child, ResourceOptions(depends_on=[versioning])),
        )


def _lifecycle_rules(days: int) -> list[aws.s3.BucketLifecycleConfigurationRuleArgs]:
    everything = aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix="")
    uploads = aws.s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(days_after_initiation=_UPLOAD_DAYS)
    rules = [
        aws.s3.BucketLifecycleConfigurationRuleArgs(
            id="unfinished-uploads", status="Enabled", filter=everything, abort_incomplete_multipart_upload=uploads
        )
    ]
    if days:
        replaced = aws.s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(noncurrent_days=days)
        markers = aws.s3.BucketLifecycleConfigurationRuleExpirationArgs(expired_object_delete_marker=True)
        rules.append(
            aws.s3.BucketLifecycleConfigurationRuleArgs(
                id="replaced-and-deleted",
                status="Enabled",
                filter=everything,
                noncurrent_version_expiration=replaced,
                expiration=markers,
            )
        )
    return rules


def _bucket_policy(bucket_arn: str, key_arn: str) -> str:
    """Refuses plain HTTP, and objects under another key or none; without a word the bucket's default is used."""
    algorithm, key = "s3:x-amz-server-side-encryption", "s3:x-amz-server-side-encryption-aws-kms-key-id"

    def deny(sid: str, action: str, resources: list[str], condition: dict[str, Any]) -> dict[str, Any]:
        who = {"Sid": sid, "Effect": "Deny", "Principal": "*"}
        return {**who, "Action": action, "Resource": resources, "Condition": condition}

    objects = [f"{bucket_arn}/*"]
    insecure = {"Bool": {"aws:SecureTransport": "false"}}
    other_algorithm = {"StringNotEquals": {algorithm: "aws:kms"}, "Null": {algorithm: "false"}}
    other_key = {"StringNotEquals": {key: key_arn}, "Null": {key: "false"}}
    statements = [
        deny("TlsOnly", "s3:*", [bucket_arn, *objects], insecure),
        deny("NoOtherEncryption", "s3:PutObject", objects, other_algorithm),
        deny("NoOtherKey", "s3:PutObject", objects, other_key),
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def _lustre_key_policy(key_arn: str, bucket_arn: str, region: str) -> str:
    """What the default policy says, and the rights of the role that FSx makes for itself.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/s3-server-side-encryption-support.html: with a bucket key, the
    encryption context is the bucket. The role's name ends in the file system's id, which is not known here, so a condition
    names it. The principal can't be the account: that would only let policies of the account give the rights, and the
    role's own, which FSx wrote, has none for KMS
    (https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html).
    """
    partition, account = key_arn.split(":")[1], key_arn.split(":")[4]
    role = f"arn:{partition}:iam::{account}:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/*"
    root = f"arn:{partition}:iam::{account}:root"
    of_the_account = {"Sid": "Account", "Effect": "Allow", "Principal": {"AWS": root}, "Action": "kms:*", "Resource": "*"}
    of_lustre = {
        "Sid": "Lustre",
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"],
        "Resource": "*",
        "Condition": {
            "StringEquals": {
                "kms:CallerAccount": account,
                "kms:ViaService": f"s3.{region}.amazonaws.com",
                "kms:EncryptionContext:aws:s3:arn": bucket_arn,
            },
            "ArnLike": {"aws:PrincipalArn": role},
        },
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [of_the_account, of_lustre]})
