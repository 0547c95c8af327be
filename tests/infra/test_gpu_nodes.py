"""GpuNodes: template, security group and node group, for each kind of capacity and with EFA on and off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pulumi_aws as aws
import pytest

from infra.eks_versions import AMI_RELEASE
from infra.gpu_nodes import GpuNodes, GpuNodesArgs
from infra.node_labels import GPU_TAINTS
from tests.infra.eks_component import KUBERNETES, TAGS, attempt, gpu_settings, record_component, urns_of
from tests.infra.fake_engine import Recording

RESERVATION = "cr-0123456789abcdef0"
BLOCK = {"kind": "capacity-block", "reservationId": RESERVATION}
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"


def program(
    efa_interfaces: int = 1, local_disks: int = 4, tags: Mapping[str, str] = TAGS, **changes: Any
) -> Callable[[], GpuNodes]:
    settings = gpu_settings(**changes)

    def make() -> GpuNodes:
        route = aws.ec2.Route("route", route_table_id="rtb-1", destination_cidr_block="0.0.0.0/0")
        policy = aws.iam.RolePolicyAttachment("policy", role="nodes", policy_arn="arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
        return GpuNodes("gpu", GpuNodesArgs(
            settings=settings, kubernetes_version=KUBERNETES, efa_interfaces=efa_interfaces, local_disks=local_disks,
            cluster_name="ray-train-dev", cluster_security_group_id="sg-cluster", vpc_id="vpc-1", subnet_id="subnet-b",
            node_role_arn="arn:aws:iam::123456789012:role/nodes", ready=[route, policy], instance_tags=tags,
        ))  # fmt: skip

    return make


@pytest.fixture(scope="module")
def made() -> Recording:
    return record_component(program())


def test_the_gpu_nodes_are_exactly_these_resources(made: Recording) -> None:
    assert {request.name for request in made.requests.values() if request.name.startswith("gpu")} == {
        "gpu", "gpu-efa", "gpu-efa-ingress", "gpu-efa-egress", "gpu-placement", "gpu-template", "gpu-nodes",
    }  # fmt: skip
    assert {request.parent.rsplit("::", 1)[-1] for request in made.requests.values() if request.name.startswith("gpu-")} == {
        "gpu"
    }
    assert record_component(program(), preview=True).names() == made.names()


@pytest.mark.case("C001")
def test_efa_traffic_may_go_in_and_out_within_the_group_and_nowhere_else(made: Recording) -> None:
    """C001: a rule to 0.0.0.0/0 doesn't count, so there is none."""
    for kind in (INGRESS, EGRESS):
        (name,) = urns_of(made, kind)
        rule = made.of(name)
        assert rule["securityGroupId"] == rule["referencedSecurityGroupId"] == "gpu-efa-id"
        assert rule["ipProtocol"] == "-1"
        assert not {"cidrIpv4", "cidrIpv6", "fromPort", "toPort"} & set(rule)
    group = made.of("gpu-efa")
    assert not {"ingress", "egress"} & set(group)
    assert not any(key.startswith("kubernetes.io/") for key in group["tags"])


@pytest.mark.case("C001", "C009")
def test_without_efa_there_is_no_group_no_rule_no_interface_and_no_label() -> None:
    """C001, C009: EKS then attaches the cluster's group by itself."""
    off = record_component(program(efa=False))

    assert not {"gpu-efa", "gpu-efa-ingress", "gpu-efa-egress"} & {request.name for request in off.requests.values()}
    assert not {"networkInterfaces", "vpcSecurityGroupIds"} & set(off.of("gpu-template"))
    assert off.of("gpu-nodes")["labels"] == {"ray-train-eks/gpu": "true"}


def test_interfaces_carry_the_clusters_group_beside_our_own(made: Recording) -> None:
    assert made.of("gpu-template")["networkInterfaces"] == [{
        "networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "efa", "deleteOnTermination": "true",
        "securityGroups": ["sg-cluster", "gpu-efa-id"],
    }]  # fmt: skip


def test_a_type_with_many_cards_gets_an_interface_on_each() -> None:
    interfaces = record_component(program(efa_interfaces=32, instanceType="p5.48xlarge")).of("gpu-template")[
        "networkInterfaces"
    ]

    assert [item["networkCardIndex"] for item in interfaces] == list(range(32))
    assert [item["interfaceType"] for item in interfaces] == ["efa", *["efa-only"] * 31]
    assert all(item["securityGroups"] == ["sg-cluster", "gpu-efa-id"] for item in interfaces)


def test_nodes_have_imdsv2_and_one_hop(made: Recording) -> None:
    options = made.of("gpu-template")["metadataOptions"]

    assert options == {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}


def test_the_root_volume_is_encrypted_and_as_fast_as_asked(made: Recording) -> None:
    (disk,) = made.of("gpu-template")["blockDeviceMappings"]

    assert disk["ebs"] == {
        "volumeSize": 200, "volumeType": "gp3", "iops": 6000, "throughput": 600, "encrypted": "true",
        "deleteOnTermination": "true",
    }  # fmt: skip


def test_local_disks_are_used_where_there_are_any(made: Recording) -> None:
    assert made.of("gpu-template")["userData"]
    assert "userData" not in record_component(program(local_disks=0)).of("gpu-template")


def test_the_template_holds_nothing_that_eks_refuses(made: Recording) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"""
    template = made.of("gpu-template")

    assert not {"imageId", "iamInstanceProfile", "keyName", "instanceInitiatedShutdownBehavior"} & set(template)
    assert not any({"subnetId", "associatePublicIpAddress"} & set(item) for item in template["networkInterfaces"])
    assert not {"diskSize", "remoteAccess", "instanceTypes"} & set(made.of("gpu-nodes"))


@pytest.mark.case("C013")
def test_the_image_is_pinned(made: Recording) -> None:
    """C013: a new one comes with a new release in the settings and not otherwise."""
    nodes = made.of("gpu-nodes")

    assert (nodes["amiType"], nodes["releaseVersion"], nodes["version"]) == ("AL2023_x86_64_NVIDIA", AMI_RELEASE, KUBERNETES)
    assert record_component(program()).inputs == made.inputs


def test_the_template_has_a_version_by_number(made: Recording) -> None:
    """`$Latest` would hide a change from a preview."""
    assert made.of("gpu-nodes")["launchTemplate"] == {"id": "gpu-template-id", "version": "1"}


@pytest.mark.case("C014")
def test_only_what_never_changes_is_tagged_through_the_template(made: Recording) -> None:
    """C014: any edit of the template rolls all nodes; run and owner are tags elsewhere."""
    assert [item["tags"] for item in made.of("gpu-template")["tagSpecifications"]] == [TAGS, TAGS]
    assert "tags" not in made.of("gpu-template")
    assert "tags" not in made.of("gpu-nodes")
    assert {"run", "owner", "identity"}.isdisjoint(TAGS)


def test_the_group_is_in_one_subnet_and_fixed_in_size(made: Recording) -> None:
    nodes = made.of("gpu-nodes")

    assert nodes["subnetIds"] == ["subnet-b"]
    assert nodes["scalingConfig"] == {"desiredSize": 2, "minSize": 2, "maxSize": 2}


def test_the_nodes_are_tainted_and_labelled(made: Recording) -> None:
    nodes = made.of("gpu-nodes")

    assert nodes["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]
    assert len(nodes["taints"]) == len(GPU_TAINTS)
    assert nodes["labels"] == {"ray-train-eks/gpu": "true", "ray-train-eks/efa": "true"}


def test_an_update_needs_no_spare_capacity(made: Recording) -> None:
    assert made.of("gpu-nodes")["updateConfig"] == {"maxUnavailablePercentage": 100, "updateStrategy": "MINIMAL"}
    assert made.request("gpu-nodes").deleteBeforeReplace


@pytest.mark.parametrize("on", [True, False])
def test_repair_is_the_settings_decision(on: bool) -> None:
    assert record_component(program(repair=on)).of("gpu-nodes")["nodeRepairConfig"] == {"enabled": on}


@pytest.mark.case("C004")
def test_the_group_has_a_bound_of_its_own_on_waiting(made: Recording) -> None:
    """C004: a zone without capacity fails this group, after this time."""
    assert made.request("gpu-nodes").customTimeouts.create == "30m"


@pytest.mark.case("C152")
def test_routes_role_policies_and_efa_rules_outlive_the_nodes(made: Recording) -> None:
    """C152"""
    assert {"route", "policy", "gpu-efa-ingress", "gpu-efa-egress", "gpu-placement"} <= made.comes_after("gpu-nodes")


def test_on_demand_needs_nothing_in_the_template(made: Recording) -> None:
    assert made.of("gpu-nodes")["capacityType"] == "ON_DEMAND"
    assert not {"instanceMarketOptions", "capacityReservationSpecification"} & set(made.of("gpu-template"))
    assert made.of("gpu-template")["placement"] == {"groupName": "gpu-placement"}
    assert made.of("gpu-placement")["strategy"] == "cluster"


def test_spot_is_said_in_the_group_and_not_in_the_template() -> None:
    recording = record_component(program(capacity={"kind": "spot"}))

    assert recording.of("gpu-nodes")["capacityType"] == "SPOT"
    assert "instanceMarketOptions" not in recording.of("gpu-template")


@pytest.mark.case("C005")
@pytest.mark.parametrize(("more", "placement"), [({}, None), ({"placementGroup": "bought-in"}, {"groupName": "bought-in"})])
def test_a_reservation_is_targeted_in_its_own_placement_group_or_none(more: dict[str, str], placement: Any) -> None:
    """C005: EFA and placement group are separate switches."""
    capacity = {"kind": "reservation", "reservationId": RESERVATION, **more}
    recording = record_component(program(capacity=capacity, placementGroup=False, efa=True))
    template = recording.of("gpu-template")

    target = {"capacityReservationId": RESERVATION}
    assert template["capacityReservationSpecification"] == {"capacityReservationTarget": target}
    assert template.get("placement") == placement
    assert "gpu-placement" not in {request.name for request in recording.requests.values()}
    assert template["networkInterfaces"]
    assert recording.of("gpu-nodes")["capacityType"] == "ON_DEMAND"


def test_a_capacity_block_is_bought_time_on_its_own_market() -> None:
    recording = record_component(program(capacity=BLOCK, placementGroup=False))
    template = recording.of("gpu-template")

    assert recording.of("gpu-nodes")["capacityType"] == "CAPACITY_BLOCK"
    assert template["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert template["capacityReservationSpecification"] == {"capacityReservationTarget": {"capacityReservationId": RESERVATION}}
    assert template["instanceType"] == "g6.12xlarge"


@pytest.mark.case("C005")
def test_nothing_is_made_of_settings_that_contradict_each_other() -> None:
    """C005"""
    recording = attempt(program(capacity=BLOCK, placementGroup=True))

    assert "gpuNodes.placementGroup" in recording.error + " ".join(recording.logs)
    assert not [request.name for request in recording.requests.values() if request.name.startswith("gpu")]


@pytest.mark.case("C014")
@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({"count": 3}, {"gpu-nodes"}),
        ({"repair": False}, {"gpu-nodes"}),
        ({"releaseVersion": "1.35.9-20261101"}, {"gpu-nodes"}),
        ({"rootVolumeGib": 300}, {"gpu-template"}),
        ({"tags": {**TAGS, "project": "other"}}, {"gpu-template"}),
    ],
)
def test_a_change_reaches_only_what_it_is_about(made: Recording, changes: dict[str, Any], changed: set[str]) -> None:
    """C014: what makes a new version of the template is on this list as such."""
    after = record_component(program(**changes))

    assert {made.requests[urn].name for urn in made.inputs if made.inputs[urn] != after.inputs[urn]} == changed
