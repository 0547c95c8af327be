"""Whether zones and instance types are what the settings and `infra/instance_types.py` take them for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from infra.cluster_rules import SYSTEM_ZONES
from infra.eks_settings import EksConfiguration, NetworkSettings
from infra.instance_types import KNOWN, InstanceType
from infra.preflight.check import Check, result
from workload.errors import Problem

_GPU_TYPE, _SYSTEM_TYPE = "gpuNodes.instanceType", "cluster.systemNodes.instanceType"


def zones_of(network: NetworkSettings) -> tuple[str, ...]:
    """Where the environment has private subnets."""
    return tuple(subnet.zone for subnet in network.own_vpc.private_subnets) if network.own_vpc else network.zones


def zones_check(found: Iterable[Mapping[str, Any]], network: NetworkSettings) -> Check:
    """`found`: ec2 describe-availability-zones."""
    usable = sorted(zone["ZoneName"] for zone in found if zone.get("State") == "available")
    missing = [zone for zone in zones_of(network) if zone not in usable]
    fix = f"use zones of {', '.join(usable)}" if usable else "use another aws.region"
    key = "network.ownVpc.privateSubnets" if network.own_vpc else "network.zones"
    problems = (Problem(key, zone, "is no zone that this account can use now", fix) for zone in missing)
    return result("zones", ", ".join(zones_of(network)), *problems)


def offering_check(found: Iterable[Mapping[str, Any]], eks: EksConfiguration) -> Check:
    """`found`: ec2 describe-instance-type-offerings of both types, by availability zone."""
    offered: dict[str, set[str]] = {}
    for one in found:
        offered.setdefault(one["InstanceType"], set()).add(one["Location"])
    gpu, system = eks.gpu_nodes.instance_type, eks.cluster.system_nodes.instance_type
    system_zones = zones_of(eks.network)[:SYSTEM_ZONES]
    problems = [
        *_not_offered("gpuNodes.zone", gpu, (eks.gpu_nodes.zone,), offered, _GPU_TYPE),
        *_not_offered("network.zones", system, system_zones, offered, _SYSTEM_TYPE),
    ]
    detail = f"{gpu} in {eks.gpu_nodes.zone}; {system} in {', '.join(system_zones)}"
    return result("instance types offered", detail, *problems)


def _not_offered(
    key: str, name: str, zones: Sequence[str], offered: Mapping[str, set[str]], type_key: str
) -> Iterator[Problem]:
    there = sorted(offered.get(name, ()))
    for zone in zones:
        if zone not in there:
            fix = f"use {' or '.join(there)}" if there else f"no zone here offers it: another aws.region, or another {type_key}"
            yield Problem(key, zone, f"AWS doesn't offer {name} there", fix)


def facts_check(found: Iterable[Mapping[str, Any]], eks: EksConfiguration) -> Check:
    """`found`: ec2 describe-instance-types of both types. A fact that differs breaks what is computed from it."""
    said = {one["InstanceType"]: one for one in found}
    names = {_GPU_TYPE: eks.gpu_nodes.instance_type, _SYSTEM_TYPE: eks.cluster.system_nodes.instance_type}
    problems: list[Problem] = []
    for key, name in names.items():
        if name not in said:
            problems.append(Problem(key, name, f"AWS knows no such type in {eks.aws.region}", "use another type"))
        else:
            problems += _differences(key, name, said[name])
    gpu = KNOWN[eks.gpu_nodes.instance_type]
    detail = f"{gpu.name}: {gpu.gpus} GPUs, {gpu.vcpus} vCPUs, {gpu.efa_interfaces} EFA, as in infra/instance_types.py"
    return result("facts about the types", detail, *problems)


def _differences(key: str, name: str, said: Mapping[str, Any]) -> Iterator[Problem]:
    architectures = said.get("ProcessorInfo", {}).get("SupportedArchitectures", ["x86_64"])
    if "x86_64" not in architectures:
        yield Problem(key, name, f"is {', '.join(architectures)}, and images here are x86_64", "use an x86_64 type")
    known = KNOWN.get(name)
    if known is None:  # only a system type: nothing is computed from it
        return
    for fact, (ours, theirs) in _facts(known, said).items():
        if ours != theirs:
            reason = f"the table of this project says {fact} {ours}, AWS says {theirs}"
            yield Problem("infra/instance_types.py", name, reason, "correct the table, and check the sizes of workers")


def _facts(known: InstanceType, said: Mapping[str, Any]) -> dict[str, tuple[int | bool, int | bool]]:
    network = said.get("NetworkInfo", {})
    efa = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0) if network.get("EfaSupported") else 0
    return {
        "GPUs": (known.gpus, sum(gpu["Count"] for gpu in said.get("GpuInfo", {}).get("Gpus", ()))),
        "vCPUs": (known.vcpus, said["VCpuInfo"]["DefaultVCpus"]),
        "memory in MiB": (known.memory_mib, said["MemoryInfo"]["SizeInMiB"]),
        "EFA interfaces": (known.efa_interfaces, efa),
        "local disks": (bool(known.local_disk_gb), "InstanceStorageInfo" in said),
    }
