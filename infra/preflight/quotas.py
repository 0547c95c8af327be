"""Whether the account's quotas leave room for the environment. Pure.

An environment that stands already isn't counted twice: what carries its tags is its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.answers import NotAsked, has_tags
from infra.eks_settings import EksConfiguration, NetworkSettings, OnDemand, Spot
from infra.instance_types import KNOWN
from infra.preflight.check import Check, Status, result
from workload.errors import Problem


@dataclass(frozen=True)
class Quota:
    """`service` and `code` as Service Quotas names it."""

    service: str
    code: str
    name: str


# vCPUs of running instances, by class of type: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
# and https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-spot-limits.html
_GPU_G = {False: Quota("ec2", "L-DB2E81BA", "Running On-Demand G and VT instances"),
          True: Quota("ec2", "L-3819A6DF", "All G and VT Spot Instance Requests")}  # fmt: skip
_GPU_P = {False: Quota("ec2", "L-417A185B", "Running On-Demand P instances"),
          True: Quota("ec2", "L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests")}  # fmt: skip
# P5 has a Spot quota of its own, and the on-demand one with all other P.
_GPU_P5 = {False: _GPU_P[False], True: Quota("ec2", "L-C4BD4855", "All P5 Spot Instance Requests")}
_STANDARD = {False: Quota("ec2", "L-1216C47A", "Running On-Demand Standard instances"),
             True: Quota("ec2", "L-34B43A08", "All Standard Spot Instance Requests")}  # fmt: skip
_CLASSES = {"g": _GPU_G, "gr": _GPU_G, "vt": _GPU_G, "p": _GPU_P} | dict.fromkeys(
    ("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), _STANDARD
)
ADDRESSES = Quota("ec2", "L-0263D0A3", "EC2-VPC Elastic IPs")
VPCS = Quota("vpc", "L-F678F1CE", "VPCs per Region")


def quota_of(instance_type: str, *, spot: bool) -> Quota | None:
    """The quota that instances of this type count against; None for classes that no environment here uses."""
    family = re.match(r"[a-z]+", instance_type)
    quotas = _GPU_P5 if instance_type.startswith("p5") else _CLASSES.get(family.group() if family else "")
    return quotas[spot] if quotas else None


@dataclass(frozen=True)
class Need:
    """`amount` more under a quota, because of a setting."""

    key: str
    value: int
    amount: int
    quota: Quota


def vcpu_needs(eks: EksConfiguration, said: Iterable[Mapping[str, Any]] = ()) -> list[Need]:
    """vCPUs of both node groups. `said`: ec2 describe-instance-types, for system types without a row in our table.

    Reserved instances are counted when they are reserved (and Capacity Blocks not at all), so they need nothing here:
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html
    """
    vcpus = {one["InstanceType"]: one["VCpuInfo"]["DefaultVCpus"] for one in said}
    vcpus |= {name: known.vcpus for name, known in KNOWN.items()}
    gpu, system = eks.gpu_nodes, eks.cluster.system_nodes
    needs = []
    if isinstance(gpu.capacity, OnDemand | Spot):
        quota = quota_of(gpu.instance_type, spot=isinstance(gpu.capacity, Spot))
        assert quota, "every type with GPUs in our table has a quota"
        needs.append(Need("gpuNodes.count", gpu.count, gpu.count * vcpus[gpu.instance_type], quota))
    quota = quota_of(system.instance_type, spot=False)
    if quota and system.instance_type in vcpus:
        needs.append(Need("cluster.systemNodes.count", system.count, system.count * vcpus[system.instance_type], quota))
    return needs


def network_needs(network: NetworkSettings) -> list[Need]:
    """A VPC, and an address for each NAT gateway."""
    if network.own_vpc:
        return []
    gateways = len(network.zones) if network.nat == "per-zone" else 1
    return [Need("network.nat", gateways, gateways, ADDRESSES), Need("network.cidr", 1, 1, VPCS)]


@dataclass(frozen=True)
class Usage:
    """What counts against a quota now and isn't this environment's."""

    others: int


def vcpu_usage(instances: Iterable[Mapping[str, Any]], quota: Quota, tags: Mapping[str, str]) -> Usage:
    """`instances`: ec2 describe-instances, those that run. Instances in a Capacity Block count against no quota."""
    total = 0
    for one in instances:
        lifecycle = one.get("InstanceLifecycle", "")
        if lifecycle != "capacity-block" and quota_of(one["InstanceType"], spot=lifecycle == "spot") == quota:
            total += 0 if has_tags(one.get("Tags"), tags) else _vcpus(one)
    return Usage(total)


def counted(items: Iterable[Mapping[str, Any]], tags: Mapping[str, str]) -> Usage:
    """Addresses or VPCs, one each."""
    return Usage(sum(not has_tags(one.get("Tags"), tags) for one in items))


def _vcpus(instance: Mapping[str, Any]) -> int:
    """What the type has, not what is switched on of it: quotas count the default."""
    if instance["InstanceType"] in KNOWN:
        return KNOWN[instance["InstanceType"]].vcpus
    options = instance.get("CpuOptions", {})
    return options.get("CoreCount", 1) * options.get("ThreadsPerCore", 1)


def quota_check(needs: Sequence[Need], allowed: float | None, usage: Usage | NotAsked, region: str) -> Check:
    """All `needs` of one quota. `allowed`: its value; None, if AWS doesn't know this quota in the region."""
    quota, needed = needs[0].quota, sum(need.amount for need in needs)
    name = f"quota: {quota.name}"
    if allowed is None:
        return Check(name, Status.NOT_ASKED, f"Service Quotas knows no {quota.code} in {region}")
    used, said = (
        (0, f"; what others use isn't known: {usage}")
        if isinstance(usage, NotAsked)
        else (usage.others, f", {usage.others} used by others")
    )
    if used + needed <= allowed:
        return result(name, f"{needed} needed of {allowed:g}{said}")
    return result(name, "", *_too_small(needs, used + needed, f"{allowed:g} are allowed{said}", region))


def _too_small(needs: Sequence[Need], wanted: int, situation: str, region: str) -> Iterator[Problem]:
    quota = needs[0].quota
    ask = f"aws service-quotas request-service-quota-increase --service-code {quota.service} --quota-code {quota.code}"
    fix = f"use less, or ask for more: {ask} --desired-value {math.ceil(wanted)} --region {region}"
    for need in needs:
        yield Problem(need.key, str(need.value), f"takes {need.amount} of quota {quota.code} ({quota.name}); {situation}", fix)
