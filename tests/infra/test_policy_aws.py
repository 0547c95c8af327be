"""Encryption, and what reaches in from outside: what passes, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infra.policy_judges import (
    BLOCK,
    BUCKET,
    CLUSTER,
    COMPONENT,
    NODES,
    TEMPLATE,
    UNKNOWN,
    Made,
    judge,
    judge_stack,
)

ENCRYPTION = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"

pytestmark = pytest.mark.usefixtures("policy_environment")


DISK = {"deviceName": "/dev/xvda", "ebs": {"encrypted": "true"}}


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        (TEMPLATE, {"blockDeviceMappings": [DISK]}),
        (NODES, {"launchTemplate": {"id": UNKNOWN, "version": UNKNOWN}}),
        ("aws:ebs/volume:Volume", {"encrypted": True}),
        ("aws:efs/fileSystem:FileSystem", {"encrypted": True}),
        (COMPONENT, {"encryptionConfigKeyArn": UNKNOWN}),
        (CLUSTER, {"encryptionConfig": {"resources": ["secrets"], "provider": {"keyArn": UNKNOWN}}}),
        (CLUSTER, {"encryptionConfig": UNKNOWN}),
        ("aws:cloudwatch/logGroup:LogGroup", {}),
        ("aws:fsx/lustreFileSystem:LustreFileSystem", {}),
    ],
)
def test_encrypted_resources_pass(kind: str, props: dict[str, Any]) -> None:
    assert judge("encrypted-at-rest", kind, props) == []


@pytest.mark.parametrize(
    ("kind", "props", "words"),
    [
        (TEMPLATE, {}, "names no disk"),
        (TEMPLATE, {"blockDeviceMappings": [DISK, {"deviceName": "/dev/xvdb", "ebs": {}}]}, "disk /dev/xvdb is not encrypted"),
        (TEMPLATE, {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"encrypted": UNKNOWN}}]}, "is not encrypted"),
        (NODES, {}, "has no launch template"),
        ("aws:ebs/volume:Volume", {}, "is not encrypted"),
        ("aws:efs/fileSystem:FileSystem", {"encrypted": False}, "is not encrypted"),
        (COMPONENT, {"name": "c"}, "does not encrypt Kubernetes secrets"),
        (CLUSTER, {}, "does not encrypt Kubernetes secrets"),
        (CLUSTER, {"encryptionConfig": {"resources": [], "provider": {"keyArn": "k"}}}, "does not encrypt Kubernetes secrets"),
    ],
)
def test_unencrypted_resources_are_refused(kind: str, props: dict[str, Any], words: str) -> None:
    assert [words in message for message in judge("encrypted-at-rest", kind, props)] == [True]


def test_a_component_that_shows_no_inputs_is_left_to_its_children() -> None:
    assert judge("encrypted-at-rest", COMPONENT, {}) == []
    assert judge("no-open-endpoint", COMPONENT, {}) == []


@pytest.mark.parametrize("kind", ["aws:cloudwatch/logGroup:LogGroup", "aws:fsx/lustreFileSystem:LustreFileSystem"])
def test_own_keys_are_asked_for_where_the_config_does(kind: str) -> None:
    assert "set kmsKeyId" in judge("encrypted-at-rest", kind, {}, config={"requireOwnKeys": True})[0]
    assert judge("encrypted-at-rest", kind, {"kmsKeyId": UNKNOWN}, config={"requireOwnKeys": True}) == []


def kms(**more: Any) -> dict[str, Any]:
    return {"rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": UNKNOWN, **more}}]}


def test_a_bucket_with_an_own_key_passes_also_when_its_name_is_not_known_yet() -> None:
    bucket = Made(BUCKET, "store", {})

    assert (
        judge_stack("encrypted-buckets", bucket, Made(ENCRYPTION, "e", {"bucket": UNKNOWN, **kms()}, {"bucket": "store"})) == []
    )
    named = Made(BUCKET, "store", {"bucket": "b-1"})
    assert judge_stack("encrypted-buckets", named, Made(ENCRYPTION, "e", {"bucket": "b-1", **kms()})) == []


def test_a_bucket_without_an_own_key_is_refused() -> None:
    bucket, other = Made(BUCKET, "store", {"bucket": "b-1"}), Made(ENCRYPTION, "e", {"bucket": "b-2", **kms()})
    aes = Made(ENCRYPTION, "e", {"bucket": "b-1", **kms(sseAlgorithm="AES256")})

    for settings in ([], [other], [aes]):
        assert "store: is not encrypted with a KMS key" in judge_stack("encrypted-buckets", bucket, *settings)[0]


# Exposure

FLAGS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")


def test_a_bucket_that_blocks_all_public_access_passes() -> None:
    block = dict.fromkeys(FLAGS, True)

    assert judge("no-public-buckets", BLOCK, block) == []
    assert judge("no-public-buckets", BUCKET, {"bucket": "b"}) == []
    assert judge_stack("buckets-block-public-access", Made(BUCKET, "s", {}), Made(BLOCK, "b", block, {"bucket": "s"})) == []


@pytest.mark.parametrize("flag", FLAGS)
def test_each_way_to_make_a_bucket_public_is_refused(flag: str) -> None:
    assert [
        f"set {flag}" in message for message in judge("no-public-buckets", BLOCK, {**dict.fromkeys(FLAGS, True), flag: False})
    ] == [True]


def test_a_bucket_that_is_public_or_could_be_is_refused() -> None:
    assert "public-read" in judge("no-public-buckets", "aws:s3/bucketAcl:BucketAcl", {"acl": "public-read"})[0]
    assert "website" in judge("no-public-buckets", "aws:s3/bucketWebsiteConfiguration:BucketWebsiteConfiguration", {})[0]
    assert "s: nothing keeps it from" in judge_stack("buckets-block-public-access", Made(BUCKET, "s", {}))[0]


@pytest.mark.parametrize(
    ("kind", "props", "refused"),
    [
        (INGRESS, {"cidrIpv4": "10.0.0.0/16"}, 0),
        (INGRESS, {"referencedSecurityGroupId": UNKNOWN}, 0),
        (INGRESS, {"cidrIpv4": "0.0.0.0/0"}, 1),
        (INGRESS, {"cidrIpv4": "128.0.0.0/1"}, 1),
        (INGRESS, {"cidrIpv6": "::/0"}, 1),
        ("aws:ec2/securityGroupRule:SecurityGroupRule", {"type": "ingress", "cidrBlocks": ["10.0.0.0/8", "0.0.0.0/0"]}, 1),
        ("aws:ec2/securityGroupRule:SecurityGroupRule", {"type": "egress", "cidrBlocks": ["0.0.0.0/0"]}, 0),
        (
            "aws:ec2/securityGroup:SecurityGroup",
            {"ingress": [{"cidrBlocks": ["0.0.0.0/0"]}], "egress": [{"cidrBlocks": ["0.0.0.0/0"]}]},
            1,
        ),
        ("aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule", {"cidrIpv4": "0.0.0.0/0"}, 0),
    ],
)
def test_only_ingress_from_everywhere_is_refused(kind: str, props: dict[str, Any], refused: int) -> None:
    assert len(judge("no-open-ingress", kind, props)) == refused


@pytest.mark.parametrize(
    ("props", "words"),
    [
        ({"endpointPrivateAccess": True, "endpointPublicAccess": False}, []),
        ({"endpointPrivateAccess": True, "publicAccessCidrs": ["203.0.113.0/24"]}, []),
        ({"endpointPrivateAccess": True}, ["public endpoint for 0.0.0.0/0"]),
        ({"endpointPrivateAccess": True, "publicAccessCidrs": ["0.0.0.0/0"]}, ["public endpoint for 0.0.0.0/0"]),
        ({"endpointPrivateAccess": True, "publicAccessCidrs": []}, ["public endpoint for 0.0.0.0/0"]),
        ({"endpointPrivateAccess": True, "publicAccessCidrs": UNKNOWN}, ["public endpoint for 0.0.0.0/0"]),
        ({"endpointPublicAccess": False}, ["no private endpoint"]),
    ],
)
def test_the_endpoint_is_private_or_for_named_networks(props: dict[str, Any], words: list[str]) -> None:
    for kind, inputs in ((COMPONENT, props), (CLUSTER, {"vpcConfig": props})):
        said = judge("no-open-endpoint", kind, inputs)
        assert [word in message for word, message in zip(words, said, strict=True)] == [True] * len(words)


IMDS = {"httpTokens": "required", "httpPutResponseHopLimit": 1.0}


def test_a_node_with_imdsv2_and_one_hop_passes() -> None:
    assert judge("private-nodes", TEMPLATE, {"metadataOptions": IMDS, "networkInterfaces": [{"interfaceType": "efa"}]}) == []
    assert judge("private-nodes", "aws:ec2/subnet:Subnet", {"mapPublicIpOnLaunch": False}) == []


@pytest.mark.parametrize(
    ("kind", "props", "words"),
    [
        (TEMPLATE, {"metadataOptions": {**IMDS, "httpTokens": "optional"}}, "IMDSv1"),
        (TEMPLATE, {"metadataOptions": {**IMDS, "httpPutResponseHopLimit": 2}}, "credentials"),
        (TEMPLATE, {"metadataOptions": {"httpTokens": "required"}}, "credentials"),
        (TEMPLATE, {"metadataOptions": IMDS, "networkInterfaces": [{"associatePublicIpAddress": "true"}]}, "public address"),
        ("aws:ec2/subnet:Subnet", {"mapPublicIpOnLaunch": True}, "public addresses"),
    ],
)
def test_a_node_that_is_open_is_refused(kind: str, props: dict[str, Any], words: str) -> None:
    assert [words in message for message in judge("private-nodes", kind, props)] == [True]


def test_a_node_without_metadata_options_is_refused_for_both() -> None:
    assert len(judge("private-nodes", TEMPLATE, {})) == 2
