"""What each role of an environment may do, and who may take it, answered from the documents that the program writes."""

from __future__ import annotations

import json

import pytest

from tests.infra.component import ACCOUNT
from tests.infra.iam_documents import document
from tests.infra.iam_evaluation import ALLOWED, DENIED, NOT_ALLOWED, Request, decide
from tests.infra.recordings import REGION, recorded


def text_of(environment: str, holder: str) -> str:
    return document(recorded(environment), holder).text


# What the pods of a run may do

BUCKET_ARN, OTHER_BUCKET = "arn:aws:s3:::the-bucket", "arn:aws:s3:::another-bucket"
OTHER_KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/00000000-0000-0000-0000-000000000000"
TLS = {"aws:SecureTransport": "true"}
IN_STORE = f"{BUCKET_ARN}/store/dev/run.json"
# A key without a policy of its own has this one: https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
DEFAULT_KEY_POLICY = json.dumps({
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "kms:*", "Resource": "*"}
    ],
})  # fmt: skip


def pods_may(action: str, resource: str, **context: str) -> str:
    """What the run's role may do in `dev`."""
    role = f"arn:aws:iam::{ACCOUNT}:role/pod-access-role-0a1b2c3"
    rights = [text_of("dev", "pod-access-policy")]
    of_resource = [DEFAULT_KEY_POLICY] if action.startswith("kms:") else []
    if resource.startswith(BUCKET_ARN):
        of_resource = [text_of("dev", "store-s3-policy")]
    return decide(Request(action, resource, role, {**TLS, **context}), rights, of_resource)


def key_of_the_store() -> str:
    encryption = recorded("dev").of("store-s3-encryption")["rules"][0]
    return encryption["applyServerSideEncryptionByDefault"]["kmsMasterKeyId"]


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"])
def test_pods_work_with_objects_under_their_prefix_and_nowhere_else(action: str) -> None:
    assert pods_may(action, IN_STORE) == ALLOWED
    assert pods_may(action, f"{BUCKET_ARN}/elsewhere/run.json") == NOT_ALLOWED
    assert pods_may(action, f"{BUCKET_ARN}/store") == NOT_ALLOWED
    assert pods_may(action, f"{BUCKET_ARN}/store-2/run.json") == NOT_ALLOWED
    assert pods_may(action, f"{OTHER_BUCKET}/store/dev/run.json") == NOT_ALLOWED


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("s3:DeleteObjectVersion", IN_STORE),
        ("s3:GetObjectVersion", IN_STORE),
        ("s3:PutObjectAcl", IN_STORE),
        ("s3:BypassGovernanceRetention", IN_STORE),
        ("s3:PutBucketPolicy", BUCKET_ARN),
        ("s3:DeleteBucketPolicy", BUCKET_ARN),
        ("s3:PutBucketVersioning", BUCKET_ARN),
        ("s3:PutLifecycleConfiguration", BUCKET_ARN),
        ("s3:PutEncryptionConfiguration", BUCKET_ARN),
        ("s3:DeleteBucket", BUCKET_ARN),
        ("s3:ListBucketVersions", BUCKET_ARN),
        ("s3:ListAllMyBuckets", "*"),
        ("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/cluster-node-role-0a1b2c3"),
        ("sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/cluster-node-role-0a1b2c3"),
        ("eks:DescribeCluster", f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/ray-train-eks-dev"),
    ],
)
def test_pods_cannot_lose_a_version_change_the_bucket_or_become_another(action: str, resource: str) -> None:
    assert pods_may(action, resource) == NOT_ALLOWED


def test_pods_list_their_prefix_alone() -> None:
    """Without a prefix too: S3 asks so before it says that one object is missing."""
    assert pods_may("s3:ListBucket", BUCKET_ARN, **{"s3:prefix": "store/dev/"}) == ALLOWED
    assert pods_may("s3:ListBucket", BUCKET_ARN, **{"s3:prefix": "store"}) == ALLOWED
    assert pods_may("s3:ListBucket", BUCKET_ARN) == ALLOWED
    assert pods_may("s3:ListBucket", BUCKET_ARN, **{"s3:prefix": ""}) == NOT_ALLOWED
    assert pods_may("s3:ListBucket", BUCKET_ARN, **{"s3:prefix": "elsewhere/"}) == NOT_ALLOWED
    assert pods_may("s3:ListBucket", OTHER_BUCKET, **{"s3:prefix": "store/dev/"}) == NOT_ALLOWED


def test_plain_http_is_refused_whatever_is_allowed() -> None:
    assert pods_may("s3:GetObject", IN_STORE, **{"aws:SecureTransport": "false"}) == DENIED
    assert pods_may("s3:ListBucket", BUCKET_ARN, **{"aws:SecureTransport": "false"}) == DENIED


def test_an_object_under_another_key_or_without_kms_is_refused() -> None:
    algorithm, key = "s3:x-amz-server-side-encryption", "s3:x-amz-server-side-encryption-aws-kms-key-id"

    assert pods_may("s3:PutObject", IN_STORE, **{algorithm: "aws:kms", key: key_of_the_store()}) == ALLOWED
    assert pods_may("s3:PutObject", IN_STORE, **{algorithm: "aws:kms"}) == ALLOWED
    assert pods_may("s3:PutObject", IN_STORE, **{algorithm: "AES256"}) == DENIED
    assert pods_may("s3:PutObject", IN_STORE, **{algorithm: "aws:kms", key: OTHER_KEY}) == DENIED


@pytest.mark.parametrize("action", ["kms:Decrypt", "kms:GenerateDataKey"])
def test_pods_use_the_key_of_the_store_and_no_other(action: str) -> None:
    assert pods_may(action, key_of_the_store()) == ALLOWED
    assert pods_may(action, OTHER_KEY) == NOT_ALLOWED


@pytest.mark.parametrize("action", ["kms:PutKeyPolicy", "kms:ScheduleKeyDeletion", "kms:DisableKey", "kms:CreateGrant"])
def test_pods_cannot_take_the_key_away(action: str) -> None:
    assert pods_may(action, key_of_the_store()) == NOT_ALLOWED


# Who may take a role

OF_THE_RUN = {
    "aws:RequestTag/kubernetes-namespace": "ray-train",
    "aws:RequestTag/kubernetes-service-account": "ray-train",
}


@pytest.mark.parametrize(
    ("environment", "holder", "principal", "context", "outcome"),
    [
        ("dev", "pod-access-role", "pods.eks.amazonaws.com", OF_THE_RUN, ALLOWED),
        ("dev", "pod-access-role", "pods.eks.amazonaws.com", {}, NOT_ALLOWED),
        ("dev", "pod-access-role", "pods.eks.amazonaws.com",
         {**OF_THE_RUN, "aws:RequestTag/kubernetes-namespace": "default"}, NOT_ALLOWED),
        ("dev", "pod-access-role", "pods.eks.amazonaws.com",
         {**OF_THE_RUN, "aws:RequestTag/kubernetes-service-account": "default"}, NOT_ALLOWED),
        ("dev", "pod-access-role", "ec2.amazonaws.com", OF_THE_RUN, NOT_ALLOWED),
        ("dev", "cluster-node-role", "ec2.amazonaws.com", {}, ALLOWED),
        ("dev", "cluster-node-role", "pods.eks.amazonaws.com", OF_THE_RUN, NOT_ALLOWED),
        ("prod", "network-flow-logs-role", "vpc-flow-logs.amazonaws.com",
         {"aws:SourceAccount": ACCOUNT, "aws:SourceArn": f"arn:aws:ec2:{REGION}:{ACCOUNT}:vpc-flow-log/fl-1"}, ALLOWED),
        ("prod", "network-flow-logs-role", "vpc-flow-logs.amazonaws.com",
         {"aws:SourceAccount": "999999999999", "aws:SourceArn": f"arn:aws:ec2:{REGION}:999999999999:vpc-flow-log/fl-1"},
         NOT_ALLOWED),
    ],
)  # fmt: skip
def test_a_role_is_taken_by_its_service_for_its_purpose_alone(
    environment: str, holder: str, principal: str, context: dict[str, str], outcome: str
) -> None:
    trust = text_of(environment, holder)

    assert decide(Request("sts:AssumeRole", "*", principal, context), resource=[trust]) == outcome


def test_flow_logs_write_to_their_group_and_to_no_other() -> None:
    rights = [text_of("prod", "network-flow-logs-rights")]
    groups = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:"
    own, clusters = f"{groups}network-flow-logs-group-0a1b2c3", f"{groups}/aws/eks/ray-train-eks-prod/cluster"

    def may(action: str, resource: str) -> str:
        return decide(Request(action, resource, f"arn:aws:iam::{ACCOUNT}:role/flow"), rights)

    assert may("logs:CreateLogStream", own) == may("logs:PutLogEvents", f"{own}:log-stream:eni-1") == ALLOWED
    assert may("logs:CreateLogStream", clusters) == may("logs:PutLogEvents", f"{clusters}:log-stream:a") == NOT_ALLOWED
    assert may("logs:DescribeLogGroups", f"{groups}:log-stream:") == ALLOWED  # as CloudWatch asks, for any name
    assert may("logs:DeleteLogGroup", own) == may("logs:DeleteLogStream", f"{own}:log-stream:eni-1") == NOT_ALLOWED


# The key of a store that Lustre lies over

LUSTRE = (
    f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_fs-1"
)
THROUGH_S3 = {
    "kms:CallerAccount": ACCOUNT, "kms:ViaService": f"s3.{REGION}.amazonaws.com",
    "kms:EncryptionContext:aws:s3:arn": BUCKET_ARN,
}  # fmt: skip


def key_says(action: str, principal: str, context: dict[str, str], identity: tuple[str, ...] = ()) -> str:
    found = text_of("store-fsx", "store-s3-key-policy")
    return decide(Request(action, OTHER_KEY, principal, {"aws:PrincipalArn": principal, **context}), identity, [found])


@pytest.mark.parametrize("action", ["kms:Decrypt", "kms:GenerateDataKey", "kms:Encrypt", "kms:ReEncryptTo", "kms:DescribeKey"])
def test_lustres_own_role_uses_the_key_though_no_policy_of_its_own_says_so(action: str) -> None:
    """FSx gives that role rights in S3 alone: https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-service-linked-roles.html"""
    assert key_says(action, LUSTRE, THROUGH_S3) == ALLOWED


@pytest.mark.parametrize(
    ("principal", "changes"),
    [
        (f"arn:aws:iam::{ACCOUNT}:role/another", {}),
        (LUSTRE.replace(ACCOUNT, "999999999999"), {"kms:CallerAccount": "999999999999"}),
        (LUSTRE, {"kms:ViaService": f"ec2.{REGION}.amazonaws.com"}),
        (LUSTRE, {"kms:EncryptionContext:aws:s3:arn": OTHER_BUCKET}),
    ],
)
def test_nobody_else_and_nothing_else_uses_it_by_that_statement(principal: str, changes: dict[str, str]) -> None:
    assert key_says("kms:Decrypt", principal, {**THROUGH_S3, **changes}) == NOT_ALLOWED


def test_the_accounts_own_policies_still_say_who_manages_the_key() -> None:
    may_do_all = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "kms:*", "Resource": "*"}]})
    admin = f"arn:aws:iam::{ACCOUNT}:role/admin"

    assert key_says("kms:PutKeyPolicy", admin, {}, (may_do_all,)) == ALLOWED
    assert key_says("kms:PutKeyPolicy", admin, {}) == NOT_ALLOWED
    assert key_says("kms:PutKeyPolicy", LUSTRE, THROUGH_S3) == NOT_ALLOWED
