"""The IAM actions, condition keys and principals that this project's documents use, and nothing else.

From https://docs.aws.amazon.com/service-authorization/latest/reference/ (S3, KMS, CloudWatch Logs, STS): an action that is
not here is a spelling mistake, or a new right that a review should see in this table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_ACCOUNT = r"arn:aws[a-z-]*:{service}:[a-z0-9-]+:\d{{12}}:"
BUCKET = re.compile(r"arn:aws[a-z-]*:s3:::[a-z0-9.-]+")
OBJECT = re.compile(r"arn:aws[a-z-]*:s3:::[a-z0-9.-]+/.+")
KEY = re.compile(_ACCOUNT.format(service="kms") + r"key/[0-9a-f-]{36}")
LOG_GROUP = re.compile(_ACCOUNT.format(service="logs") + r"log-group:[\w./#-]+(:\*)?")
LOG_STREAM = re.compile(_ACCOUNT.format(service="logs") + r"log-group:[\w./#-]+:(\*|log-stream:.+)")

# Asked of all groups at once, whatever name is looked for.
LOG_GROUPS = re.compile(_ACCOUNT.format(service="logs") + r"log-group:\*")

# Action -> the kind of resource that it is about.
ACTIONS: Mapping[str, re.Pattern[str]] = {
    "s3:ListBucket": BUCKET,
    "s3:GetObject": OBJECT,
    "s3:PutObject": OBJECT,
    "s3:DeleteObject": OBJECT,
    "s3:AbortMultipartUpload": OBJECT,
    "kms:Decrypt": KEY,
    "kms:DescribeKey": KEY,
    "kms:Encrypt": KEY,
    "kms:GenerateDataKey": KEY,
    "logs:CreateLogStream": LOG_GROUP,
    "logs:DescribeLogGroups": LOG_GROUPS,
    "logs:DescribeLogStreams": LOG_GROUP,
    "logs:PutLogEvents": LOG_STREAM,
}
# Of a role's trust: the resource is the role itself, so none is named.
TRUST_ACTIONS = {"sts:AssumeRole", "sts:TagSession"}
# Families, where a document may name them: only a key's own policy, and only to refuse in a bucket's.
KEY_FAMILIES = {"kms:*", "kms:GenerateDataKey*", "kms:ReEncrypt*"}
DENIED_FAMILIES = {"s3:*"}
# Who may take a role: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
SERVICES = {"ec2.amazonaws.com", "pods.eks.amazonaws.com", "vpc-flow-logs.amazonaws.com"}
# Condition key -> the operators that fit its type.
_TEXT = {"StringEquals", "StringNotEquals", "StringLike", "Null"}
_ARN = {"ArnEquals", "ArnLike", "Null"}
CONDITION_KEYS: Mapping[str, set[str]] = {
    "aws:PrincipalArn": _ARN,
    "aws:RequestTag/kubernetes-namespace": _TEXT,
    "aws:RequestTag/kubernetes-service-account": _TEXT,
    "aws:SecureTransport": {"Bool", "Null"},
    "aws:SourceAccount": _TEXT,
    "aws:SourceArn": _ARN,
    "kms:CallerAccount": _TEXT,
    "kms:EncryptionContext:aws:s3:arn": _TEXT,
    "kms:ViaService": _TEXT,
    "s3:prefix": _TEXT,
    "s3:x-amz-server-side-encryption": _TEXT,
    "s3:x-amz-server-side-encryption-aws-kms-key-id": _TEXT | _ARN,
}
# https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html
ACCESS_POLICIES = {
    "AmazonEKSAdminPolicy", "AmazonEKSAdminViewPolicy", "AmazonEKSClusterAdminPolicy", "AmazonEKSEditPolicy",
    "AmazonEKSViewPolicy",
}  # fmt: skip
