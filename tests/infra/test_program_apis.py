"""Every value that reaches AWS, against the models of its APIs: enums, patterns, lengths, ranges, what must be there."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.infra.aws_calls import CALLS, WITHOUT_A_REQUEST
from tests.infra.aws_judge import findings
from tests.infra.recordings import ALL, recorded

ON_AWS = [name for name in ALL if name != "local"]


@pytest.mark.parametrize("name", ON_AWS)
def test_aws_takes_every_value_of_every_resource(name: str) -> None:
    recording = recorded(name)
    found = {
        request.name: findings(request.type, request.name, recording.inputs[urn])
        for urn, request in recording.requests.items()
        if request.type.startswith(("aws:", "eks:")) and request.type not in WITHOUT_A_REQUEST
    }

    assert {each: said for each, said in found.items() if said} == {}
    assert len(found) > 10


def test_the_local_environment_asks_nothing_of_aws() -> None:
    assert [r.type for r in recorded("local").requests.values() if r.type.startswith(("aws:", "eks:"))] == []


def test_every_request_in_the_table_is_one_that_a_program_makes() -> None:
    """The component of the control plane makes access entries, which have no resource of their own here."""
    seen = {request.type for name in ON_AWS for request in recorded(name).requests.values()}
    of_the_component = {kind for kind in CALLS if kind.startswith("aws:eks/access")}

    assert set(CALLS) - of_the_component <= seen
    assert set(WITHOUT_A_REQUEST) <= seen


def test_a_type_without_a_request_is_not_passed_over() -> None:
    with pytest.raises(LookupError, match="add it to CALLS"):
        findings("aws:sqs/queue:Queue", "queue", {})


Mistake = Callable[[dict[str, Any]], Any]
MISTAKES: list[tuple[str, str, Mistake, str]] = [
    ("dev", "gpu-nodes-nodes", lambda i: i.update(amiType="AL2023_X86_64_NVIDIA"), "is no AMITypes"),
    ("dev", "gpu-nodes-nodes", lambda i: i["taints"][0].update(effect="NoSchedule"), "is no TaintEffect"),
    ("dev", "gpu-nodes-nodes", lambda i: i["taints"][0].update(key="k" * 64), "64 characters is not within"),
    ("dev", "gpu-nodes-nodes", lambda i: i["updateConfig"].update(maxUnavailablePercentage=120.0), "120 is not within"),
    ("dev", "gpu-nodes-nodes", lambda i: i.pop("nodeRoleArn"), "nodeRole: missing"),
    ("dev", "gpu-nodes-nodes", lambda i: i.update(spotPrice="1"), "no request takes it"),
    ("dev", "gpu-nodes-template", lambda i: i.update(instanceType="g6.13xlarge"), "is no InstanceType"),
    ("dev", "gpu-nodes-template", lambda i: i["metadataOptions"].update(httpTokens="require"), "is no LaunchTemplateHttp"),
    ("dev", "gpu-nodes-template", lambda i: i["networkInterfaces"][0].update(interfaceType="EFA"), "no type of a network"),
    ("dev", "gpu-nodes-template", lambda i: i["networkInterfaces"][0].update(deviceIndex="one"), "is no integer"),
    ("dev", "gpu-nodes-template", lambda i: i["blockDeviceMappings"][0]["ebs"].update(encrypted="yes"), "is no boolean"),
    ("dev", "gpu-nodes-template", lambda i: i["blockDeviceMappings"][0]["ebs"].update(volumeType="gp4"), "is no VolumeType"),
    ("dev", "gpu-nodes-placement", lambda i: i.update(strategy="clustered"), "is no PlacementStrategy"),
    ("dev", "network-s3", lambda i: i.update(vpcEndpointType="Gatway"), "is no VpcEndpointType"),
    ("dev", "cluster-coredns", lambda i: i.update(resolveConflictsOnUpdate="KEEP"), "is no ResolveConflicts"),
    ("dev", "cluster-coredns", lambda i: i.update(clusterName="-dev"), "does not match"),
    ("dev", "cluster-control-plane", lambda i: i["enabledClusterLogTypes"].append("apis"), "is no LogType"),
    ("dev", "cluster-control-plane", lambda i: i["upgradePolicy"].update(supportType="LONG"), "is no SupportType"),
    ("dev", "cluster-control-plane", lambda i: i["vpcCniOptions"].update(resolveConflictsOnCreate="FORCE"), "is no Resolve"),
    ("prod", "cluster-control-plane", lambda i: admin(i).update(principal="x"), "no request takes it"),
    ("prod", "cluster-control-plane", lambda i: scope(i).update(type="all"), "is no AccessScopeType"),
    ("prod", "network-flow-logs", lambda i: i.update(trafficType="BOTH"), "is no TrafficType"),
    ("prod", "network-flow-logs", lambda i: i.update(logDestinationType="cloudwatch"), "is no LogDestinationType"),
    ("dev", "cluster-logs", lambda i: i.update(retentionInDays=31.0), "is no retention"),
    ("dev", "cluster-logs", lambda i: i.update(name="/aws/eks/ray train"), "does not match"),
    ("dev", "cluster-key", lambda i: i.update(deletionWindowInDays=5.0), "5 days are not within"),
    ("dev", "cluster-node-role", lambda i: i.update(description="nodes \N{EM DASH} all"), "does not match"),
    ("dev", "cluster-node-role", lambda i: i.update(name="r" * 65), "65 characters"),
    ("dev", "store-s3-lifecycle", lambda i: i["rules"][0].update(status="On"), "is no ExpirationStatus"),
    ("dev", "store-s3-encryption", lambda i: by_default(i).update(sseAlgorithm="kms"), "is no ServerSideEncryption"),
    ("dev", "store-s3-versioning", lambda i: i["versioningConfiguration"].update(status="On"), "is no BucketVersioningStatus"),
    ("dev", "store-s3-bucket", lambda i: i.update(bucket="b" * 64), "longer than 63"),
    ("store-fsx", "store-lustre-file-system", lambda i: i.update(deploymentType="PERSISTENT_3"), "is no LustreDeploymentType"),
    ("store-fsx", "store-lustre-file-system", lambda i: i.update(perUnitStorageThroughput=2000.0), "2000 is not within"),
    ("store-fsx", "store-lustre-file-system", lambda i: i.update(subnetIds="subnet-a"), "does not match"),
    ("store-fsx", "store-lustre-link", lambda i: events(i).append("RENAMED"), "is no EventType"),
    ("store-fsx", "store-s3-key-policy", lambda i: i.update(policy="{}" * 70000), "is not within"),
    ("store-efs", "store-efs-access-point", lambda i: i["rootDirectory"]["creationInfo"].update(permissions="rwx"), "match"),
    ("store-efs", "store-efs-file-system", lambda i: i.update(throughputMode="fast"), "is no ThroughputMode"),
]  # fmt: skip


def admin(inputs: dict[str, Any]) -> dict[str, Any]:
    return next(iter(inputs["accessEntries"].values()))


def scope(inputs: dict[str, Any]) -> dict[str, Any]:
    return admin(inputs)["accessPolicies"]["admin"]["accessScope"]


def by_default(inputs: dict[str, Any]) -> dict[str, Any]:
    return inputs["rules"][0]["applyServerSideEncryptionByDefault"]


def events(inputs: dict[str, Any]) -> list[str]:
    return inputs["s3"]["autoExportPolicy"]["events"]


@pytest.mark.parametrize(("environment", "name", "mistake", "said"), MISTAKES, ids=[f"{one[1]}: {one[3]}" for one in MISTAKES])
def test_a_value_that_aws_would_refuse_is_found(environment: str, name: str, mistake: Mistake, said: str) -> None:
    recording = recorded(environment)
    inputs = copy.deepcopy(recording.of(name))
    mistake(inputs)

    found = findings(recording.request(name).type, name, inputs)
    assert found, "nothing was found"
    assert any(said in one for one in found), found
