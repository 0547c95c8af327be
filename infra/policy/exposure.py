"""What reaches in from outside: buckets, security groups, the cluster's endpoint, addresses and metadata of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infra.policy.encryption import BUCKETS
from infra.policy.rules import UNKNOWN, Subject, is_true, items, of_kind, reach, refers_to, resource_policy, stack_policy

_BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
_BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
_PRIVATE_ACLS = (None, "private", "log-delivery-write", "bucket-owner-full-control", "bucket-owner-read")
_LAUNCHED = ("aws:ec2/launchTemplate:LaunchTemplate", "aws:ec2/instance:Instance")
_GROUPS = ("aws:ec2/securityGroup:SecurityGroup", "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup")


def is_anywhere(cidr: object) -> bool:
    """0.0.0.0/0 and ::/0, and halves of them, which together are the same."""
    if not isinstance(cidr, str) or "/" not in cidr:
        return False
    return cidr.rpartition("/")[2] in ("0", "1")


def judge_public_buckets(subject: Subject) -> Iterator[str]:
    if subject.kind == _BLOCK:
        for flag in _BLOCKS:
            if not is_true(subject.get(flag)):
                yield f"leaves a way to make the bucket public. Fix: set {flag}: true"
    elif subject.kind.startswith("aws:s3/bucketAcl") or subject.kind in BUCKETS:
        if subject.get("acl") not in _PRIVATE_ACLS:
            yield f"has the ACL {subject.get('acl')}. Fix: remove it"
    elif "Website" in subject.kind and subject.kind.startswith("aws:s3/"):
        yield "makes a bucket a public website. Fix: remove it"


def judge_blocked_buckets(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, str]]:
    blocks = list(of_kind(subjects, _BLOCK))
    for bucket in of_kind(subjects, *BUCKETS):
        if not any(refers_to(block, "bucket", bucket, "bucket") for block in blocks):
            yield bucket, "nothing keeps it from being made public. Fix: add a BucketPublicAccessBlock"


def judge_ingress(subject: Subject) -> Iterator[str]:
    found: list[object] = []
    if subject.kind == "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule":
        found = [subject.get("cidrIpv4"), subject.get("cidrIpv6")]
    elif subject.kind == "aws:ec2/securityGroupRule:SecurityGroupRule" and subject.get("type") == "ingress":
        found = [*items(subject.get("cidrBlocks")), *items(subject.get("ipv6CidrBlocks"))]
    elif subject.kind in _GROUPS:
        for rule in items(subject.get("ingress")):
            found += [*items(reach(rule, "cidrBlocks")), *items(reach(rule, "ipv6CidrBlocks"))]
    yield from (f"lets {cidr} in. Fix: name who needs it, best a security group" for cidr in found if is_anywhere(cidr))


def judge_endpoint(subject: Subject) -> Iterator[str]:
    """AWS's default is a public endpoint for everyone."""
    prefix = {"aws:eks/cluster:Cluster": "vpcConfig.", "eks:index:Cluster": ""}.get(subject.kind)
    if prefix is None:
        return
    if not is_true(subject.get(f"{prefix}endpointPrivateAccess")):
        yield "has no private endpoint, so that nodes talk to it over the internet. Fix: set endpointPrivateAccess: true"
    if subject.get(f"{prefix}endpointPublicAccess") is False:
        return
    cidrs = subject.get(f"{prefix}publicAccessCidrs")
    if cidrs is UNKNOWN or not cidrs:
        yield "has a public endpoint for 0.0.0.0/0. Fix: set endpointPublicAccess: false, or publicAccessCidrs"
    for cidr in items(cidrs):
        if is_anywhere(cidr):
            yield f"has a public endpoint for {cidr}. Fix: name the networks that need it in publicAccessCidrs"


def judge_nodes(subject: Subject) -> Iterator[str]:
    if subject.kind == "aws:ec2/subnet:Subnet" and is_true(subject.get("mapPublicIpOnLaunch")):
        yield "gives public addresses to whatever starts in it. Fix: set mapPublicIpOnLaunch: false"
    if subject.kind not in _LAUNCHED:
        return
    options = subject.get("metadataOptions")
    if reach(options, "httpTokens") != "required":
        yield "answers to IMDSv1. Fix: set metadataOptions.httpTokens: required"
    if reach(options, "httpPutResponseHopLimit") != 1:
        yield "lets pods ask for the node's credentials. Fix: set metadataOptions.httpPutResponseHopLimit: 1"
    interfaces = [subject.props, *items(subject.get("networkInterfaces"))]
    if any(is_true(reach(one, "associatePublicIpAddress")) for one in interfaces):
        yield "gets a public address. Fix: remove associatePublicIpAddress"


POLICIES = [
    resource_policy("no-public-buckets", "No bucket can be read by everyone.", judge_public_buckets),
    stack_policy("buckets-block-public-access", "Every bucket blocks public access.", judge_blocked_buckets),
    resource_policy("no-open-ingress", "No security group lets the whole internet in.", judge_ingress),
    resource_policy("no-open-endpoint", "The cluster's endpoint is private, or for named networks.", judge_endpoint),
    resource_policy("private-nodes", "Nodes have IMDSv2 with one hop, and no public address.", judge_nodes),
]
