"""The VPC, as the component asks the engine for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.network import Network, flow_log_rights, flow_log_trust
from tests.infra.component import ACCOUNT, build
from tests.infra.fake_engine import Recording
from tests.infra.test_subnets import network, own

SUBNET, TABLE, ROUTE = "aws:ec2/subnet:Subnet", "aws:ec2/routeTable:RouteTable", "aws:ec2/route:Route"
NAT, ADDRESS, ENDPOINT = "aws:ec2/natGateway:NatGateway", "aws:ec2/eip:Eip", "aws:ec2/vpcEndpoint:VpcEndpoint"
ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
FULL = {"interfaceEndpoints": ["ecr.api", "sts"], "flowLogs": True, "nat": "per-zone"}


def made(preview: bool = False, **changes: Any) -> Recording:
    return build(lambda: Network("network", network(**changes)), preview=preview)


def of_type(recording: Recording, kind: str) -> dict[str, dict[str, Any]]:
    return {r.name: recording.inputs[urn] for urn, r in recording.requests.items() if r.type == kind}


@pytest.fixture(scope="module")
def plain() -> Recording:
    return made()


@pytest.fixture(scope="module")
def full() -> Recording:
    return made(**FULL)


def test_the_network_is_exactly_these_resources(plain: Recording) -> None:
    zones = ("us-east-1a", "us-east-1b")
    assert plain.names() - {"pulumi:pulumi:Stack ray-train-eks-test"} == {
        "ray-train-eks:index:Network network",
        "aws:ec2/vpc:Vpc network-vpc",
        "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup network-default-security-group",
        "aws:ec2/internetGateway:InternetGateway network-internet",
        *(f"{SUBNET} network-{kind}-{zone}" for kind in ("public", "private") for zone in zones),
        *(f"{ASSOCIATION} network-{kind}-{zone}-association" for kind in ("public", "private") for zone in zones),
        f"{TABLE} network-public-routes",
        *(f"{TABLE} network-private-{zone}-routes" for zone in zones),
        f"{ROUTE} network-public-internet",
        *(f"{ROUTE} network-private-{zone}-nat" for zone in zones),
        f"{ADDRESS} network-nat-us-east-1a-address",
        f"{NAT} network-nat-us-east-1a",
        f"{ENDPOINT} network-s3",
    }


def test_all_belongs_to_the_component(full: Recording) -> None:
    component = full.urn("network")

    assert {r.parent for urn, r in full.requests.items() if r.custom} == {component}


def test_the_vpc_resolves_names_and_has_the_planned_ranges(plain: Recording) -> None:
    vpc = plain.of("network-vpc")
    ranges = {name: inputs["cidrBlock"] for name, inputs in of_type(plain, SUBNET).items()}

    assert (vpc["cidrBlock"], vpc["enableDnsSupport"], vpc["enableDnsHostnames"]) == ("10.20.0.0/16", True, True)
    assert ranges == {
        "network-public-us-east-1a": "10.20.224.0/22",
        "network-public-us-east-1b": "10.20.228.0/22",
        "network-private-us-east-1a": "10.20.0.0/19",
        "network-private-us-east-1b": "10.20.32.0/19",
    }


def test_subnets_say_which_load_balancers_may_use_them_and_give_no_public_address(plain: Recording) -> None:
    for name, inputs in of_type(plain, SUBNET).items():
        role = "elb" if "-public-" in name else "internal-elb"
        assert inputs["tags"] == {"Name": name, f"kubernetes.io/role/{role}": "1"}
        assert inputs["mapPublicIpOnLaunch"] is False


def test_the_default_security_group_lets_nothing_through(plain: Recording) -> None:
    group = plain.of("network-default-security-group")

    assert (group["vpcId"], group["ingress"], group["egress"]) == ("network-vpc-id", [], [])


def test_private_subnets_reach_the_internet_by_nat_only(plain: Recording) -> None:
    associated = {inputs["subnetId"]: inputs["routeTableId"] for inputs in of_type(plain, ASSOCIATION).values()}
    routes = {inputs["routeTableId"]: inputs for inputs in of_type(plain, ROUTE).values()}

    for zone in ("us-east-1a", "us-east-1b"):
        private = routes[associated[f"network-private-{zone}-id"]]
        assert private["natGatewayId"] == "network-nat-us-east-1a-id"
        assert "gatewayId" not in private
        assert routes[associated[f"network-public-{zone}-id"]]["gatewayId"] == "network-internet-id"


def test_a_nat_gateway_is_in_a_public_subnet_and_made_after_the_way_out(plain: Recording) -> None:
    gateway = plain.of("network-nat-us-east-1a")

    assert gateway["subnetId"] == "network-public-us-east-1a-id"
    assert gateway["allocationId"] == "network-nat-us-east-1a-address-id"
    assert "network-public-internet" in plain.comes_after("network-nat-us-east-1a")
    assert "network-public-internet" in plain.comes_after("network-nat-us-east-1a-address")


def test_a_gateway_per_zone_serves_its_own_zone(full: Recording) -> None:
    assert set(of_type(full, NAT)) == {"network-nat-us-east-1a", "network-nat-us-east-1b"}
    for zone in ("us-east-1a", "us-east-1b"):
        assert full.of(f"network-private-{zone}-nat")["natGatewayId"] == f"network-nat-{zone}-id"


@pytest.mark.case("C016")
def test_c016_a_third_zone_and_gateways_per_zone_only_add_resources(plain: Recording) -> None:
    wider = made(zones=["us-east-1a", "us-east-1b", "us-east-1c"], nat="per-zone")
    changed = {urn for urn in plain.inputs if wider.inputs[urn] != plain.inputs[urn]}

    assert changed == {plain.urn("network-private-us-east-1b-nat"), plain.urn("network-s3")}
    assert wider.of("network-private-us-east-1b-nat")["natGatewayId"] == "network-nat-us-east-1b-id"
    assert wider.of("network-s3")["routeTableIds"][:2] == plain.of("network-s3")["routeTableIds"]


def test_checkpoints_never_pass_the_nat_gateway(full: Recording) -> None:
    endpoint = full.of("network-s3")

    assert (endpoint["vpcEndpointType"], endpoint["serviceName"]) == ("Gateway", "com.amazonaws.us-east-1.s3")
    assert endpoint["routeTableIds"] == ["network-private-us-east-1a-routes-id", "network-private-us-east-1b-routes-id"]


def test_interface_endpoints_are_in_every_zone_and_answer_the_vpc_only(full: Recording) -> None:
    endpoints = {name: inputs for name, inputs in of_type(full, ENDPOINT).items() if name != "network-s3"}

    assert {inputs["serviceName"] for inputs in endpoints.values()} == {
        "com.amazonaws.us-east-1.ecr.api",
        "com.amazonaws.us-east-1.sts",
    }
    for inputs in endpoints.values():
        assert inputs["privateDnsEnabled"] is True
        assert inputs["subnetIds"] == ["network-private-us-east-1a-id", "network-private-us-east-1b-id"]
        assert inputs["securityGroupIds"] == ["network-endpoints-id"]
    rule = full.of("network-endpoints-https")
    assert (rule["cidrIpv4"], rule["ipProtocol"], rule["fromPort"], rule["toPort"]) == ("10.20.0.0/16", "tcp", 443, 443)
    assert not {"ingress", "egress"} & set(full.of("network-endpoints"))


def test_flow_logs_keep_all_traffic_as_long_as_asked(full: Recording) -> None:
    log = full.of("network-flow-logs")

    assert (log["trafficType"], log["vpcId"]) == ("ALL", "network-vpc-id")
    assert log["logDestination"].endswith(":log-group:network-flow-logs-group")
    assert log["iamRoleArn"].endswith(":role/network-flow-logs-role")
    assert full.of("network-flow-logs-group")["retentionInDays"] == 30
    assert full.of("network-flow-logs-rights")["role"] == "network-flow-logs-role"
    assert "network-flow-logs-rights" in full.comes_after("network-flow-logs")


def test_names_are_not_shared_by_two_kinds(full: Recording) -> None:
    names = [request.name for request in full.requests.values()]

    assert sorted(names) == sorted(set(names))


def test_the_role_of_the_flow_logs_writes_to_its_group_and_to_nothing_else() -> None:
    arn = f"arn:aws-us-gov:logs:us-gov-west-1:{ACCOUNT}:log-group:flow"
    writing, finding = json.loads(flow_log_rights(arn))["Statement"]

    assert writing["Resource"] == [arn, f"{arn}:*"]
    assert all(action.startswith("logs:") and "*" not in action for action in writing["Action"])
    assert not [action for action in writing["Action"] if "Delete" in action or "CreateLogGroup" in action]
    assert finding["Action"] == ["logs:DescribeLogGroups"]


def test_the_role_of_the_flow_logs_is_for_flow_logs_of_this_account() -> None:
    (statement,) = json.loads(flow_log_trust(f"arn:aws-us-gov:logs:us-gov-west-1:{ACCOUNT}:log-group:flow"))["Statement"]

    assert statement["Principal"] == {"Service": "vpc-flow-logs.amazonaws.com"}
    assert statement["Condition"]["StringEquals"] == {"aws:SourceAccount": ACCOUNT}
    assert statement["Condition"]["ArnLike"] == {"aws:SourceArn": f"arn:aws-us-gov:ec2:us-gov-west-1:{ACCOUNT}:vpc-flow-log/*"}


def test_what_nodes_wait_for_is_every_way_out_and_in() -> None:
    found: list[Network] = []
    recording = build(lambda: found.append(Network("network", network(**FULL))))
    waited = {(resource._type, resource._name) for resource in found[0].ready}
    ways = (ROUTE, ASSOCIATION, ENDPOINT, "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")

    assert waited == {(r.type, r.name) for r in recording.requests.values() if r.type in ways}


def test_outputs_are_by_zone(plain: Recording) -> None:
    assert plain.outputs[plain.urn("network")] == {
        "vpcId": "network-vpc-id",
        "privateSubnetIds": {zone: f"network-private-{zone}-id" for zone in ("us-east-1a", "us-east-1b")},
        "publicSubnetIds": {zone: f"network-public-{zone}-id" for zone in ("us-east-1a", "us-east-1b")},
    }


def test_a_preview_shows_the_same_resources_as_an_update(full: Recording) -> None:
    assert made(preview=True, **FULL).names() == full.names()


def test_in_an_own_vpc_nothing_is_made() -> None:
    recording = build(lambda: Network("network", own()))

    assert [r.name for r in recording.requests.values() if r.custom] == []
    assert recording.outputs[recording.urn("network")] == {
        "vpcId": "vpc-0123456789abcdef0",
        "privateSubnetIds": {"us-east-1a": "subnet-0000000a", "us-east-1b": "subnet-0000000b"},
        "publicSubnetIds": {},
    }
