"""Which subnets the VPC has, and what is wrong with a network's settings. Pure.

The VPC is cut in eight. A zone's private subnet is the eighth that its letter names (us-east-1a the first), and the last
eighth is cut in eight again for the public ones. So no subnet depends on which other zones there are: a zone that comes or
goes never moves another's subnets, and with them nodes, file systems and the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network

from infra.eks_settings import NetworkSettings
from workload.errors import Problem

_SLOT_BITS = 3  # eight slots: zones a to g, and the public one
_ZONE_LETTERS = "abcdefg"
# AWS allows a VPC of /16 at most, and subnets of /28 at least, the size of a public one in a /22:
# https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html and .../subnet-sizing.html
_LARGEST, _SMALLEST = 16, 22
_PRIVATE_RANGES = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
# What EKS takes for services: https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html
_SERVICE_LARGEST, _SERVICE_SMALLEST = 12, 24
# AWS keeps the first four and the last address of every subnet:
# https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
_RESERVED_ADDRESSES = 5
# Pods have addresses of the VPC, and the CNI keeps a second interface's worth ready on every node; types with the most have
# 50 to an interface: https://github.com/aws/amazon-vpc-cni-k8s/blob/master/docs/eni-and-ip-target.md
_ADDRESSES_PER_NODE = 100


@dataclass(frozen=True)
class SubnetPlan:
    """Address ranges by zone, in the order of the zones."""

    public: Mapping[str, str]
    private: Mapping[str, str]


def plan(cidr: str, zones: tuple[str, ...]) -> SubnetPlan:
    """The subnets of a VPC whose settings have no `problems`."""
    slots = list(IPv4Network(cidr).subnets(_SLOT_BITS))
    public = list(slots[-1].subnets(_SLOT_BITS))
    index = {zone: _ZONE_LETTERS.index(zone[-1]) for zone in zones}
    return SubnetPlan(
        public={zone: str(public[at]) for zone, at in index.items()},
        private={zone: str(slots[at]) for zone, at in index.items()},
    )


def problems(network: NetworkSettings, *, service_cidr: str, gpu_zone: str, region: str, gpu_count: int = 0) -> list[Problem]:
    """Everything that AWS would refuse, or that could not hold `gpu_count` nodes in one zone."""
    service, found = _service_range(service_cidr)
    if network.own_vpc:
        return [*found, *_own_vpc_problems(network, gpu_zone, region)]
    vpc = _parse(network.cidr)
    if isinstance(vpc, IPv4Network):
        found += _vpc_problems(vpc, gpu_count)
        if service and vpc.overlaps(service):
            reason = f"overlaps with network.cidr = {vpc}: Services and nodes would share addresses"
            found.append(Problem("cluster.serviceCidr", service_cidr, reason, f"use {_apart_from(vpc)}"))
    else:
        found.append(Problem("network.cidr", network.cidr, *vpc))
    found += _zone_problems(network.zones, region)
    if gpu_zone not in network.zones:
        fix = f"use {' or '.join(network.zones)}, or add it to network.zones"
        found.append(Problem("gpuNodes.zone", gpu_zone, "is not among network.zones", fix))
    return found


def _parse(cidr: str) -> IPv4Network | tuple[str, str]:
    """The range, or reason and fix."""
    try:
        network = IPv4Network(cidr, strict=False)
    except ValueError:
        return "is not a range of addresses", "write it like 10.20.0.0/16"
    if str(network) != cidr:
        return f"has bits set beyond /{network.prefixlen}: it names an address in a range, not the range", f"use {network}"
    return network


def _service_range(cidr: str) -> tuple[IPv4Network | None, list[Problem]]:
    service = _parse(cidr)
    if not isinstance(service, IPv4Network):
        return None, [Problem("cluster.serviceCidr", cidr, *service)]
    if not any(service.subnet_of(private) for private in _PRIVATE_RANGES):
        fix = "use a range in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"
        return service, [Problem("cluster.serviceCidr", cidr, "is not a private range (RFC 1918)", fix)]
    if not _SERVICE_LARGEST <= service.prefixlen <= _SERVICE_SMALLEST:
        fix = f"use /{_SERVICE_LARGEST} to /{_SERVICE_SMALLEST}"
        return service, [Problem("cluster.serviceCidr", cidr, "has a size that EKS doesn't take", fix)]
    return service, []


def _vpc_problems(vpc: IPv4Network, gpu_count: int) -> Iterator[Problem]:
    key, value = "network.cidr", str(vpc)
    if not any(vpc.subnet_of(private) for private in _PRIVATE_RANGES):
        yield Problem(key, value, "is not a private range (RFC 1918)", "use one in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16")
    if vpc.prefixlen < _LARGEST:
        yield Problem(key, value, "is larger than a VPC may be", f"use /{_LARGEST} to /{_SMALLEST}")
    elif vpc.prefixlen > _SMALLEST:
        reason = "is too small: with room for seven zones its public subnets would be less than AWS's least, /28"
        yield Problem(key, value, reason, f"use /{_SMALLEST} or larger; /{_LARGEST} leaves most room for pods")
    else:
        yield from _room_problems(vpc, gpu_count)


def _room_problems(vpc: IPv4Network, gpu_count: int) -> Iterator[Problem]:
    room, needed = _room(vpc.prefixlen), gpu_count * _ADDRESSES_PER_NODE
    if room >= needed:
        return
    reason = (
        f"leaves {room} addresses in a zone's private subnet, and {gpu_count} GPU nodes may take {needed} there "
        f"({_ADDRESSES_PER_NODE} each, for its pods)"
    )
    fitting = [prefix for prefix in range(_SMALLEST, _LARGEST - 1, -1) if _room(prefix) >= needed]
    fix = f"use /{fitting[0]} or larger" if fitting else "lower gpuNodes.count, or bring a VPC (network.ownVpc)"
    yield Problem("network.cidr", str(vpc), reason, fix)


def _room(vpc_prefix: int) -> int:
    """Addresses for use in one private subnet."""
    return 2 ** (32 - vpc_prefix - _SLOT_BITS) - _RESERVED_ADDRESSES


def _apart_from(vpc: IPv4Network) -> str:
    candidates = (IPv4Network("172.20.0.0/16"), IPv4Network("10.100.0.0/16"))
    return str(next(candidate for candidate in candidates if not candidate.overlaps(vpc)))


def _zone_problems(zones: tuple[str, ...], region: str) -> Iterator[Problem]:
    for index, zone in enumerate(zones):
        key = f"network.zones[{index}]"
        if zone in zones[:index]:
            yield Problem(key, zone, "is there already", "name another zone: EKS wants two different ones")
        elif zone[:-1] != region:
            yield Problem(key, zone, f"is not in aws.region = {region}", f"use a zone such as {region}{zone[-1]}")
        elif zone[-1] not in _ZONE_LETTERS:
            yield Problem(key, zone, "has no subnet planned for it", f"use one from {region}a to {region}{_ZONE_LETTERS[-1]}")


def _own_vpc_problems(network: NetworkSettings, gpu_zone: str, region: str) -> Iterator[Problem]:
    assert network.own_vpc
    subnets, key = network.own_vpc.private_subnets, "network.ownVpc.privateSubnets"
    zones = [subnet.zone for subnet in subnets]
    for index, subnet in enumerate(subnets):
        if subnet.zone[:-1] != region:
            reason, fix = f"is not in aws.region = {region}", "name a subnet of that region"
            yield Problem(f"{key}[{index}].zone", subnet.zone, reason, fix)
        if subnet.id in [other.id for other in subnets[:index]]:
            yield Problem(f"{key}[{index}].id", subnet.id, "is there already", "name each subnet once")
        elif subnet.zone in zones[:index]:
            yield Problem(f"{key}[{index}].zone", subnet.zone, "has a subnet already", "give one subnet for each zone")
    if len(set(zones)) == 1:
        yield Problem(key, zones[0], "is a single zone, and EKS wants two", "add a private subnet of another zone")
    if gpu_zone not in zones:
        fix = f"use {' or '.join(dict.fromkeys(zones))}, or add a private subnet of {gpu_zone} to {key}"
        yield Problem("gpuNodes.zone", gpu_zone, f"has no subnet in {key}", fix)
    reason = "asks for something in a VPC that isn't made here (network.ownVpc), where nothing is added"
    if network.interface_endpoints:
        value = ", ".join(network.interface_endpoints)
        yield Problem("network.interfaceEndpoints", value, reason, "set it to [], and let the VPC's owner add them")
    if network.flow_logs:
        yield Problem("network.flowLogs", "true", reason, "set it to false, and let the VPC's owner keep them")
