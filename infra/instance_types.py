"""Facts about instance types, and what they rule out. Pure.

Not here: zones that offer a type, which only the account knows (`python -m infra preflight`); reservations and placement
groups, which no fact about a type decides.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from infra.eks_settings import CapacityBlock, GpuNodesSettings, Spot, SystemNodesSettings
from infra.quantities import MEBIBYTE, amount
from infra.settings_models import PodResources, WorkersSettings
from workload.errors import Problem


@dataclass(frozen=True)
class Gpu:
    """One GPU and how those of a node are wired. `gpudirect_rdma` is None where no source says either way."""

    name: str
    memory_mib: int
    peak_bf16_tflops: float  # tensor cores, dense: half of what NVIDIA prints "with sparsity"
    link: str
    gpudirect_rdma: bool | None
    capacity_blocks: bool


@dataclass(frozen=True)
class InstanceType:
    """`allocatable_*`: what Kubernetes leaves for pods, daemons included, as Karpenter estimates it."""

    name: str
    gpu: Gpu | None
    gpus: int
    vcpus: int
    memory_mib: int
    allocatable_millicpu: int
    allocatable_mib: int
    efa_interfaces: int  # as many as network cards
    local_disk_gb: int
    network_gbps: float  # what it always has, not bursts
    usd_per_hour: float | None  # PRICES


PRICES = "on-demand list prices of us-east-1, 2026-01-19"

# Memory: the Karpenter reference below. Peak: NVIDIA's data sheets, https://www.nvidia.com/en-us/data-center/l4/ (242 sparse),
# .../l40s/ (362), .../a100/ (312), .../h100/ (1979 sparse). Link: https://aws.amazon.com/ec2/instance-types/p4/ and .../p5/ for
# NVSwitch; L4 and L40S have no NVLink. GPUDirect RDMA: required on p4d and p5 by the plugin that NCCL uses
# (https://github.com/aws/aws-ofi-nccl/blob/master/src/platform-aws.cpp); none on g6 by AWS's own example
# (https://github.com/aws-samples/sample-aws-deep-learning-containers/tree/main/training/ray-train).
# Capacity Blocks: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html
_L4 = Gpu("NVIDIA L4", 22888, 121, "PCIe", gpudirect_rdma=False, capacity_blocks=False)
_L40S = Gpu("NVIDIA L40S", 45776, 362, "PCIe", gpudirect_rdma=None, capacity_blocks=False)
_A100 = Gpu("NVIDIA A100 40GB", 40960, 312, "NVSwitch", gpudirect_rdma=True, capacity_blocks=True)
_H100 = Gpu("NVIDIA H100 80GB", 81920, 989, "NVSwitch", gpudirect_rdma=True, capacity_blocks=True)

# https://karpenter.sh/docs/reference/instance-types/, which AWS's API fills; EFA sizes agree with
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html#efa-instance-types. USD:
# https://github.com/aws/karpenter-provider-aws/blob/main/pkg/providers/pricing/zz_generated.pricing_aws.go
_TYPES = (
    # GPU, GPUs, vCPUs, MiB, allocatable millicores and MiB, EFA, local GB, Gbps, USD/h
    InstanceType("g6.xlarge", _L4, 1, 4, 16384, 3920, 14162, 0, 250, 2.5, 0.8048),
    InstanceType("g6.2xlarge", _L4, 1, 8, 32768, 7910, 29317, 0, 450, 5, 0.9776),
    InstanceType("g6.4xlarge", _L4, 1, 16, 65536, 15890, 57691, 0, 600, 10, 1.3232),
    InstanceType("g6.8xlarge", _L4, 1, 32, 131072, 31850, 118312, 1, 900, 25, 2.0144),
    InstanceType("g6.12xlarge", _L4, 4, 48, 196608, 47810, 178933, 1, 3760, 40, 4.6016),
    InstanceType("g6.16xlarge", _L4, 1, 64, 262144, 63770, 234021, 1, 1880, 25, 3.3968),
    InstanceType("g6.24xlarge", _L4, 4, 96, 393216, 95690, 355262, 1, 3760, 50, 6.6752),
    InstanceType("g6.48xlarge", _L4, 8, 192, 786432, 191450, 718987, 1, 7520, 100, 13.3504),
    InstanceType("g6e.12xlarge", _L40S, 4, 48, 393216, 47810, 360157, 1, 3800, 100, 10.49264),
    InstanceType("g6e.24xlarge", _L40S, 4, 96, 786432, 95690, 721682, 2, 3800, 200, 15.06559),
    InstanceType("g6e.48xlarge", _L40S, 8, 192, 1572864, 191450, 1449132, 4, 7600, 400, 30.13118),
    InstanceType("p4d.24xlarge", _A100, 8, 96, 1179648, 95690, 1082712, 4, 8000, 400, 21.957642),
    InstanceType("p5.48xlarge", _H100, 8, 192, 2097152, 191450, 1938410, 32, 30400, 3200, 55.04),
    InstanceType("m7i.large", None, 0, 2, 8192, 1930, 6903, 0, 0, 0.781, 0.1008),
    InstanceType("m7i.xlarge", None, 0, 4, 16384, 3920, 14162, 0, 0, 1.562, 0.2016),
    InstanceType("m7i.2xlarge", None, 0, 8, 32768, 7910, 29317, 0, 0, 3.125, 0.4032),
)
KNOWN = {one.name: one for one in _TYPES}

# Left to the daemons of a node (CNI, kube-proxy, device plugins, agents): our own allowance, above what their charts request.
_DAEMONS_MILLICPU, _DAEMONS_MIB = 500, 1024
# The EFA installer may set 5128 huge pages of 2 MiB apart, which no pod gets as memory:
# https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html
_EFA_HUGE_PAGES_MIB = 5128 * 2
# The letter g after the generation: https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
_ARM = re.compile(r"^[a-z]+\d+[a-z]*g[a-z]*\.")


def efa_interfaces(settings: GpuNodesSettings) -> int:
    """How many a node has and a worker's pod asks for; none with EFA off."""
    return KNOWN[settings.instance_type].efa_interfaces if settings.efa else 0


def notes(settings: GpuNodesSettings) -> list[str]:
    """What is allowed, and should be known."""
    if not isinstance(settings.capacity, Spot):
        return []
    risk = "AWS may take any node back with two minutes' notice, and without one of them the whole run stops"
    return [f"gpuNodes.capacity.kind = spot: {risk} until there is another; it then resumes from its newest checkpoint"]


def checks(settings: GpuNodesSettings, workers: WorkersSettings, *, allow_cpu_run: bool = False) -> list[Problem]:
    """What the type of the GPU nodes rules out. One pod on each node takes all its GPUs; `allow_cpu_run` lets all idle."""
    kind = KNOWN.get(settings.instance_type)
    if kind is None:
        return [_unknown(settings.instance_type)]
    if kind.gpu is None:
        fix = f"use one of {_names(with_gpu=True)}"
        return [Problem("gpuNodes.instanceType", kind.name, "has no GPU", fix)]
    problems = [*_capacity_problems(kind, settings), *_pod_count_problems(settings, workers)]
    if workers.gpus_per_worker or not allow_cpu_run:
        problems += _gpu_problems(kind, workers)
    huge_pages = _EFA_HUGE_PAGES_MIB if efa_interfaces(settings) else 0
    problems += _room_problems("workers", workers.cpu, workers.memory, kind, huge_pages)
    return problems


def system_checks(settings: SystemNodesSettings, head: PodResources) -> list[Problem]:
    """The head's pod must fit on one system node. Of a type that isn't in the table only Arm is refused."""
    key = "cluster.systemNodes.instanceType"
    if _ARM.match(settings.instance_type):
        fix = "use an x86 type such as m7i.xlarge"
        return [Problem(key, settings.instance_type, "is Arm, and node images and the training image are x86", fix)]
    kind = KNOWN.get(settings.instance_type)
    if kind is None:
        return []
    if kind.gpu:
        return [Problem(key, kind.name, "has a GPU, which nothing on system nodes uses", "use a type such as m7i.xlarge")]
    return list(_room_problems("job.head", head.cpu, head.memory, kind, 0))


def _names(*, with_gpu: bool = False, with_efa: bool = False) -> str:
    return ", ".join(one.name for one in _TYPES if (one.gpu or not with_gpu) and (one.efa_interfaces or not with_efa))


def _unknown(name: str) -> Problem:
    close = difflib.get_close_matches(name, [one.name for one in _TYPES if one.gpu], n=1, cutoff=0.5)
    meant = f"did you mean {close[0]}? " if close else ""
    fix = f"{meant}Known with GPUs: {_names(with_gpu=True)}; another goes into infra/instance_types.py, with its source"
    return Problem("gpuNodes.instanceType", name, "is not in the table of instance types", fix)


def _capacity_problems(kind: InstanceType, settings: GpuNodesSettings) -> Iterator[Problem]:
    if settings.efa and not kind.efa_interfaces:
        fix = f"set it to false, or set gpuNodes.instanceType to one of {_names(with_gpu=True, with_efa=True)}"
        yield Problem("gpuNodes.efa", "true", f"{kind.name} has no EFA interface", fix)
    if isinstance(settings.capacity, CapacityBlock) and kind.gpu and not kind.gpu.capacity_blocks:
        reason = f"AWS sells no Capacity Blocks of {kind.name}"
        yield Problem("gpuNodes.capacity.kind", "capacity-block", reason, "use on-demand or reservation")


def _pod_count_problems(settings: GpuNodesSettings, workers: WorkersSettings) -> Iterator[Problem]:
    if workers.count % workers.per_pod:
        return  # refused already, by its own rule
    pods = workers.count // workers.per_pod
    if pods == settings.count:
        return
    reason = (
        f"makes {pods} pods of workers.perPod = {workers.per_pod}, one for each node, and gpuNodes.count is {settings.count}"
    )
    fix = f"set it to {settings.count * workers.per_pod}, or gpuNodes.count to {pods}"
    yield Problem("workers.count", str(workers.count), reason, fix)


def _gpu_problems(kind: InstanceType, workers: WorkersSettings) -> Iterator[Problem]:
    asked = workers.per_pod * workers.gpus_per_worker
    if asked == kind.gpus:
        return
    wanted = f"perPod x gpusPerWorker must be {kind.gpus}, such as perPod: {kind.gpus} and gpusPerWorker: 1"
    times = f"x workers.perPod = {workers.per_pod} asks for {asked} of the {kind.gpus} GPUs of a {kind.name}"
    left = "which it doesn't have" if asked > kind.gpus else f"and leaves {kind.gpus - asked} of each node idle"
    yield Problem("workers.gpusPerWorker", str(workers.gpus_per_worker), f"{times}, {left}", wanted)


def _room_problems(section: str, cpu: str, memory: str, kind: InstanceType, taken_mib: int) -> Iterator[Problem]:
    millicpu = kind.allocatable_millicpu - _DAEMONS_MILLICPU
    if amount(cpu) * 1000 > millicpu:
        reason = f"is more than the {millicpu}m that a {kind.name} leaves for one pod beside its daemons"
        yield Problem(f"{section}.cpu", cpu, reason, f"use {millicpu // 1000 or f'{millicpu}m'} or less")
    mib = kind.allocatable_mib - _DAEMONS_MIB - taken_mib
    if amount(memory) > Decimal(mib) * MEBIBYTE:
        pages = " and the huge pages of EFA" if taken_mib else ""
        reason = f"is more than the {mib}Mi that a {kind.name} leaves for one pod beside its daemons{pages}"
        yield Problem(f"{section}.memory", memory, reason, f"use {math.floor(mib / 1024)}Gi or less")
