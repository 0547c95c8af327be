"""Where the VPC's subnets are, and which networks are refused before anything exists."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import combinations, permutations
from typing import Any

import pytest

from infra import subnets
from infra.eks_settings import NetworkSettings
from workload.errors import Problem

ZONES = ("us-east-1a", "us-east-1b")
SEVEN = tuple(f"us-east-1{letter}" for letter in "abcdefg")


def network(**changes: Any) -> NetworkSettings:
    typed = {
        "cidr": "10.20.0.0/16", "zones": list(ZONES), "nat": "one", "interfaceEndpoints": [], "flowLogs": False,
        "flowLogRetentionDays": 30, **changes,
    }  # fmt: skip
    return NetworkSettings.model_validate(typed, strict=False)


def own(*pairs: tuple[str, str], **changes: Any) -> NetworkSettings:
    pairs = pairs or (("subnet-0000000a", "us-east-1a"), ("subnet-0000000b", "us-east-1b"))
    private = [{"id": identifier, "zone": zone} for identifier, zone in pairs]
    return network(ownVpc={"vpcId": "vpc-0123456789abcdef0", "privateSubnets": private}, **changes)


def problems(of: NetworkSettings | None = None, **changes: Any) -> list[Problem]:
    given = {"service_cidr": "172.20.0.0/16", "gpu_zone": "us-east-1a", "region": "us-east-1", **changes}
    return subnets.problems(of or network(), **given)


def only(found: list[Problem]) -> Problem:
    assert len(found) == 1, found
    return found[0]


def ranges(plan: subnets.SubnetPlan) -> list[IPv4Network]:
    return [IPv4Network(cidr) for cidr in (*plan.public.values(), *plan.private.values())]


def test_the_plan_of_the_default_network_is_this() -> None:
    assert subnets.plan("10.20.0.0/16", ZONES) == subnets.SubnetPlan(
        public={"us-east-1a": "10.20.224.0/22", "us-east-1b": "10.20.228.0/22"},
        private={"us-east-1a": "10.20.0.0/19", "us-east-1b": "10.20.32.0/19"},
    )


@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "172.16.0.0/20", "192.168.4.0/22"])
def test_subnets_are_inside_the_vpc_apart_from_each_other_and_of_a_size_that_aws_takes(cidr: str) -> None:
    found = ranges(subnets.plan(cidr, SEVEN))

    assert all(subnet.subnet_of(IPv4Network(cidr)) for subnet in found)
    assert not any(one.overlaps(other) for one, other in combinations(found, 2))
    assert all(16 <= subnet.prefixlen <= 28 for subnet in found)


def test_private_subnets_are_eight_times_the_public_ones() -> None:
    plan = subnets.plan("10.20.0.0/16", ZONES)

    for zone in ZONES:
        assert IPv4Network(plan.private[zone]).num_addresses == 8 * IPv4Network(plan.public[zone]).num_addresses


@pytest.mark.case("C016")
def test_a_zone_that_comes_or_goes_moves_no_other_zones_subnets() -> None:
    whole = subnets.plan("10.20.0.0/16", SEVEN)
    for zones in [*permutations(SEVEN[:4], 2), *permutations(SEVEN[:4], 3), SEVEN[2:], (SEVEN[6], SEVEN[0])]:
        part = subnets.plan("10.20.0.0/16", zones)
        assert part.private == {zone: whole.private[zone] for zone in zones}
        assert part.public == {zone: whole.public[zone] for zone in zones}
        assert list(part.private) == list(zones)


def test_a_good_network_has_no_problem() -> None:
    assert problems(gpu_count=2) == []
    assert problems(network(zones=["us-east-1a", "us-east-1b", "us-east-1c"]), gpu_zone="us-east-1c") == []
    assert problems(own()) == []


def test_host_bits_are_refused_with_the_range_that_was_meant() -> None:
    problem = only(problems(network(cidr="10.20.5.0/16")))

    assert (problem.where, problem.value, problem.fix) == ("network.cidr", "10.20.5.0/16", "use 10.20.0.0/16")


@pytest.mark.parametrize("cidr", ["10.300.0.0/16", "10.20.0.0/40"])
def test_what_is_no_range_is_refused(cidr: str) -> None:
    assert only(problems(network(cidr=cidr))).reason == "is not a range of addresses"
    assert only(problems(service_cidr=cidr)).where == "cluster.serviceCidr"


@pytest.mark.parametrize(
    ("cidr", "word"), [("10.0.0.0/15", "larger"), ("10.20.0.0/23", "too small"), ("10.20.0.0/28", "too small")]
)
def test_a_size_out_of_bounds_is_refused_with_the_bounds(cidr: str, word: str) -> None:
    problem = only(problems(network(cidr=cidr)))

    assert word in problem.reason
    assert "/22" in problem.fix
    assert "/16" in problem.fix


@pytest.mark.parametrize("cidr", ["8.8.0.0/16", "172.32.0.0/16", "100.64.0.0/16", "192.169.0.0/16"])
def test_public_addresses_are_refused(cidr: str) -> None:
    assert "RFC 1918" in only(problems(network(cidr=cidr))).reason
    assert only(problems(service_cidr=cidr)).where == "cluster.serviceCidr"


@pytest.mark.parametrize(("vpc", "service"), [("10.20.0.0/16", "10.20.128.0/20"), ("172.20.16.0/20", "172.20.0.0/16")])
def test_services_that_share_addresses_with_the_vpc_are_refused_with_a_range_that_does_not(vpc: str, service: str) -> None:
    problem = only(problems(network(cidr=vpc), service_cidr=service))

    assert (problem.where, problem.value) == ("cluster.serviceCidr", service)
    assert vpc in problem.reason
    assert problems(network(cidr=vpc), service_cidr=problem.fix.removeprefix("use ")) == []


@pytest.mark.parametrize("service", ["10.96.0.0/11", "172.20.0.0/25"])
def test_a_service_range_of_a_size_that_eks_does_not_take_is_refused(service: str) -> None:
    problem = only(problems(service_cidr=service))

    assert (problem.where, problem.fix) == ("cluster.serviceCidr", "use /12 to /24")


def test_more_gpu_nodes_than_a_subnet_has_addresses_for_are_refused_with_the_size_that_has() -> None:
    problem = only(problems(network(cidr="10.20.0.0/22"), gpu_count=2))

    assert "123 addresses" in problem.reason
    assert "200" in problem.reason
    assert problem.fix == "use /21 or larger"
    assert problems(network(cidr="10.20.0.0/21"), gpu_count=2) == []
    assert "gpuNodes.count" in only(problems(gpu_count=1000)).fix


def test_a_zone_twice_is_refused() -> None:
    assert only(problems(network(zones=["us-east-1a", "us-east-1a"]))).where == "network.zones[1]"


def test_a_zone_of_another_region_is_refused_with_one_of_this() -> None:
    problem = only(problems(network(zones=["us-east-1a", "us-west-2b"])))

    assert (problem.where, problem.value) == ("network.zones[1]", "us-west-2b")
    assert "us-east-1b" in problem.fix
    assert len(problems(region="eu-west-1")) == 2


def test_a_zone_beyond_those_that_have_a_slot_is_refused() -> None:
    assert only(problems(network(zones=["us-east-1a", "us-east-1h"]))).where == "network.zones[1]"


@pytest.mark.case("C002")
def test_c002_gpu_nodes_in_a_zone_without_subnets_are_refused_with_the_zones_that_have() -> None:
    problem = only(problems(gpu_zone="us-east-1c"))

    assert (problem.where, problem.value) == ("gpuNodes.zone", "us-east-1c")
    assert "us-east-1a or us-east-1b" in problem.fix
    assert only(problems(own(), gpu_zone="us-east-1c")).where == "gpuNodes.zone"


def test_all_that_is_wrong_is_said_at_once() -> None:
    found = problems(network(cidr="8.8.0.0/15", zones=["us-west-2a", "us-west-2a"]), service_cidr="8.9.0.0/16")

    assert [problem.where for problem in found] == [
        "cluster.serviceCidr", "network.cidr", "network.cidr", "cluster.serviceCidr", "network.zones[0]", "network.zones[1]",
        "gpuNodes.zone",
    ]  # fmt: skip


def test_an_own_vpc_needs_two_zones() -> None:
    found = problems(own(("subnet-0000000a", "us-east-1a"), ("subnet-0000000b", "us-east-1a")))

    assert [problem.where for problem in found] == ["network.ownVpc.privateSubnets[1].zone", "network.ownVpc.privateSubnets"]


def test_an_own_subnet_twice_or_of_another_region_is_refused() -> None:
    found = problems(own(("subnet-0000000a", "us-east-1a"), ("subnet-0000000a", "us-west-2b")))

    assert [problem.where for problem in found] == [
        "network.ownVpc.privateSubnets[1].zone",
        "network.ownVpc.privateSubnets[1].id",
    ]


def test_nothing_is_added_to_an_own_vpc_also_not_on_request() -> None:
    found = problems(own(interfaceEndpoints=["sts"], flowLogs=True))

    assert [problem.where for problem in found] == ["network.interfaceEndpoints", "network.flowLogs"]
