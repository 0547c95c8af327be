"""PodAccess: what the pods of a run may do in AWS, by EKS Pod Identity: their prefix of one bucket, and its key."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pulumi_aws as aws
from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions


@dataclass(frozen=True, kw_only=True)
class PodAccessArgs:
    cluster_name: Input[str]
    namespace: Input[str]
    service_account: str
    bucket_arn: Input[str]
    prefix: str
    key_arn: Input[str]


class PodAccess(ComponentResource):
    """Outputs: role_arn; ready: pods that start before it get no credentials."""

    role_arn: Output[str]
    ready: Resource

    def __init__(self, name: str, args: PodAccessArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("ray-train-eks:index:PodAccess", name, None, opts)
        self._name, self._args = name, args
        role = self._create_role()
        policy = self._create_policy(role)
        self.role_arn = role.arn
        self.ready = aws.eks.PodIdentityAssociation(
            f"{name}-association",
            cluster_name=args.cluster_name,
            namespace=args.namespace,
            service_account=args.service_account,
            role_arn=role.arn,
            opts=ResourceOptions(parent=self, depends_on=[policy]),
        )
        self.register_outputs({"roleArn": self.role_arn})

    def _create_role(self) -> aws.iam.Role:
        trust = Output.from_input(self._args.namespace).apply(lambda namespace: _trust(namespace, self._args.service_account))
        return aws.iam.Role(f"{self._name}-role", assume_role_policy=trust, opts=ResourceOptions(parent=self))

    def _create_policy(self, role: aws.iam.Role) -> aws.iam.RolePolicy:
        prefix = self._args.prefix
        arns = Output.all(self._args.bucket_arn, self._args.key_arn)
        rights = arns.apply(lambda found: _rights(bucket_arn=found[0], key_arn=found[1], prefix=prefix))
        return aws.iam.RolePolicy(f"{self._name}-policy", role=role.name, policy=rights, opts=ResourceOptions(parent=self))


def _document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def _trust(namespace: str, service_account: str) -> str:
    """https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html: the tags say which pod asks."""
    tags = {
        "aws:RequestTag/kubernetes-namespace": namespace,
        "aws:RequestTag/kubernetes-service-account": service_account,
    }
    return _document(
        {
            "Sid": "PodsOfTheRun",
            "Effect": "Allow",
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Condition": {"StringEquals": tags},
        }
    )


def _rights(bucket_arn: str, key_arn: str, prefix: str) -> str:
    """Listing has IfExists: S3 asks for the same right, without a prefix, before it says that one object is missing."""
    listing = {
        "Sid": "ListThePrefix",
        "Effect": "Allow",
        "Action": ["s3:ListBucket"],
        "Resource": [bucket_arn],
        "Condition": {"StringLikeIfExists": {"s3:prefix": [prefix, f"{prefix}/*"]}},
    }
    objects = {
        "Sid": "ObjectsOfThePrefix",
        "Effect": "Allow",
        "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
        "Resource": [f"{bucket_arn}/{prefix}/*"],
    }
    key = {
        "Sid": "KeyOfTheBucket",
        "Effect": "Allow",
        "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
        "Resource": [key_arn],
    }
    return _document(listing, objects, key)
