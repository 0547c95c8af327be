"""IAM: no wildcard action, no wildcard resource, no principal that is everyone, beyond what is named here with its reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from infra.policy.rules import UNKNOWN, Subject, items, resource_policy

# What has no resource to name: https://docs.aws.amazon.com/service-authorization/latest/reference/
ANY_RESOURCE: Mapping[str, str] = {
    "ecr:GetAuthorizationToken": "a login for the registry, not for an image",
    "sts:GetCallerIdentity": "about the caller alone",
    "ec2:DescribeInstances": "EC2's Describe actions take no resource",
    "ec2:DescribeInstanceTypes": "EC2's Describe actions take no resource",
    "ec2:DescribeSubnets": "EC2's Describe actions take no resource",
    "ec2:DescribeAvailabilityZones": "EC2's Describe actions take no resource",
    "fsx:DescribeFileSystems": "the FSx driver looks for its file system among all",
    "elasticfilesystem:DescribeMountTargets": "the EFS driver looks for mount targets before it knows them",
    "logs:DescribeLogGroups": "CloudWatch's list of groups takes no resource",
}
# In a key's own policy `*` is that key, and without this statement nobody could manage it, AWS's support included.
# https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
KEY_ADMINISTRATION = "kms:*"
# Wildcards that a key's own policy may hold: AWS's services ask for the whole family.
# https://docs.aws.amazon.com/fsx/latest/LustreGuide/s3-server-side-encryption-support.html
KEY_FAMILIES: Mapping[str, str] = {
    "kms:GenerateDataKey*": "a data key with its plain text, or without",
    "kms:ReEncrypt*": "from this key and to it, which work together only",
}
_ROOT = re.compile(r"^(arn:aws[a-z-]*:iam::\d{12}:root|\d{12})$")
_KEY_KINDS = ("aws:kms/key:Key", "aws:kms/keyPolicy:KeyPolicy")
# Where a document is, by type of resource. Not a VPC endpoint's: it only narrows what others allow.
_DOCUMENTS: Mapping[str, tuple[str, ...]] = {
    "aws:iam/policy:Policy": ("policy",),
    "aws:iam/rolePolicy:RolePolicy": ("policy",),
    "aws:iam/userPolicy:UserPolicy": ("policy",),
    "aws:iam/groupPolicy:GroupPolicy": ("policy",),
    "aws:iam/role:Role": ("assumeRolePolicy", "inlinePolicies"),
    "aws:s3/bucketPolicy:BucketPolicy": ("policy",),
    "aws:efs/fileSystemPolicy:FileSystemPolicy": ("policy",),
    **dict.fromkeys(_KEY_KINDS, ("policy",)),
}
_TOO_MUCH = re.compile(r"/(AdministratorAccess|PowerUserAccess|IAMFullAccess|[A-Za-z0-9]+FullAccess)$")
# A type, and at least the beginning of a name: `role/ray-*`, `log-group:/aws/eks/ray:*`.
_NAMED = re.compile(r"^[^:/]+[:/].+")


def judge_documents(subject: Subject) -> Iterator[str]:
    for prop in _DOCUMENTS.get(subject.kind, ()):
        for document in items(subject.get(prop)):
            text = document.get("policy") if isinstance(document, Mapping) and prop == "inlinePolicies" else document
            yield from (f"{prop}: {message}" for message in judge_document(text, subject.kind))


def judge_document(document: Any, kind: str) -> Iterator[str]:
    """A document that a preview doesn't know is judged by the update, before it is made."""
    if document is UNKNOWN or document is None:
        return
    try:
        content = json.loads(document) if isinstance(document, str) else document
        statements = items(content["Statement"])
    except (ValueError, KeyError, TypeError):
        yield "isn't an IAM policy document. Fix: write JSON with a Statement"
        return
    for statement in statements:
        if isinstance(statement, Mapping) and statement.get("Effect") == "Allow":
            yield from _statement(statement, kind)


def _statement(statement: Mapping[str, Any], kind: str) -> Iterator[str]:
    for inverted in ("NotAction", "NotResource", "NotPrincipal"):
        if inverted in statement:
            yield f"allows all but some ({inverted}). Fix: name what is allowed"
    if _everyone(statement.get("Principal")) and "Condition" not in statement:
        yield "allows everyone. Fix: name the principal"
    actions = [str(action) for action in items(statement.get("Action"))]
    if kind in _KEY_KINDS:
        yield from _key_statement(statement, actions)
        return
    yield from (f"allows {action}. Fix: name each action" for action in actions if "*" in action or "?" in action)
    for resource in items(statement.get("Resource")):
        if resource is not UNKNOWN and _is_wide(str(resource)):
            unnamed = [action for action in actions if action not in ANY_RESOURCE]
            if unnamed:
                yield f"allows {', '.join(unnamed)} on {resource}. Fix: name the resource"


def _key_statement(statement: Mapping[str, Any], actions: list[str]) -> Iterator[str]:
    for action in actions:
        if "*" not in action or action in KEY_FAMILIES:
            continue
        principals = items(_principals(statement).get("AWS"))
        if action != KEY_ADMINISTRATION or not principals or not all(_ROOT.match(str(one)) for one in principals):
            yield f"allows {action} to {principals or 'a service'}. Fix: name each action; only the account itself may {action}"


def _principals(statement: Mapping[str, Any]) -> Mapping[str, Any]:
    found = statement.get("Principal")
    return found if isinstance(found, Mapping) else {}


def _everyone(principal: Any) -> bool:
    if isinstance(principal, Mapping):
        return any("*" in items(value) for value in principal.values())
    return principal == "*"


def _is_wide(resource: str) -> bool:
    """Whether a wildcard stands for more than what is below one name."""
    if "*" not in resource and "?" not in resource:
        return False
    parts = resource.split(":", 5)
    if len(parts) < 6:
        return True
    head = re.split(r"[*?]", parts[5])[0]
    if any("*" in part for part in parts[:5]):
        return True
    return "/" not in head if parts[2] == "s3" else not _NAMED.match(head)


def judge_attachments(subject: Subject) -> Iterator[str]:
    found: list[Any] = []
    if subject.kind.startswith("aws:iam/") and subject.kind.endswith("PolicyAttachment"):
        found = [subject.get("policyArn")]
    elif subject.kind == "aws:iam/role:Role":
        found = items(subject.get("managedPolicyArns"))
    for arn in found:
        if isinstance(arn, str) and _TOO_MUCH.search(arn):
            yield f"attaches {arn}. Fix: write a policy with the actions that are needed"


POLICIES = [
    resource_policy("no-iam-wildcards", "IAM names actions, resources and principals.", judge_documents),
    resource_policy("no-full-access", "No managed policy with full access is attached.", judge_attachments),
]
