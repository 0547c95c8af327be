"""Facts about instance types agree with each other, and what they rule out is refused."""

from __future__ import annotations

from typing import Any

import pytest

from infra import instance_types
from infra.eks_settings import GpuNodesSettings, SystemNodesSettings
from infra.instance_types import KNOWN, InstanceType
from infra.settings_models import PodResources, WorkersSettings
from workload.errors import Problem

GPU_TYPES = [one for one in KNOWN.values() if one.gpu]
BLOCK = {"kind": "capacity-block", "reservationId": "cr-0123456789abcdef0"}


def gpu_nodes(**changes: Any) -> GpuNodesSettings:
    typed = {
        "instanceType": "g6.12xlarge", "count": 2, "zone": "us-east-1a", "capacity": {"kind": "on-demand"}, "efa": True,
        "placementGroup": True, "releaseVersion": "1.35.1-20261012", "rootVolumeGib": 200, "rootVolumeIops": 4000,
        "rootVolumeThroughput": 1000, "repair": True, **changes,
    }  # fmt: skip
    return GpuNodesSettings.model_validate(typed)


def workers(**changes: Any) -> WorkersSettings:
    typed = {
        "count": 8, "perPod": 4, "cpusPerWorker": 10, "gpusPerWorker": 1, "cpu": "40", "memory": "150Gi",
        "sharedMemory": "16Gi", **changes,
    }  # fmt: skip
    return WorkersSettings.model_validate(typed)


def system_nodes(instance_type: str = "m7i.xlarge") -> SystemNodesSettings:
    typed = {"instanceType": instance_type, "count": 2, "releaseVersion": "1.35.1-20261012", "rootVolumeGib": 100}
    return SystemNodesSettings.model_validate(typed)


def only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, problems
    return problems[0]


@pytest.mark.parametrize("one", KNOWN.values(), ids=lambda one: one.name)
def test_facts_of_a_type_agree_with_each_other(one: InstanceType) -> None:
    assert 0 < one.allocatable_millicpu < one.vcpus * 1000
    assert 0.8 * one.memory_mib < one.allocatable_mib < one.memory_mib
    assert (one.gpus > 0) == (one.gpu is not None)
    assert one.usd_per_hour
    assert one.efa_interfaces <= max(1, one.network_gbps / 25)


@pytest.mark.parametrize("one", GPU_TYPES, ids=lambda one: one.name)
def test_every_gpu_type_has_local_disks_for_images_and_checkpoints(one: InstanceType) -> None:
    assert one.local_disk_gb >= 250


def test_a_family_costs_more_the_more_it_has() -> None:
    """A digit in the wrong place would break the order, by GPUs and then by CPUs."""
    for family in {one.name.split(".")[0] for one in KNOWN.values()}:
        members = [one for one in KNOWN.values() if one.name.startswith(f"{family}.")]
        prices = [one.usd_per_hour or 0 for one in sorted(members, key=lambda one: (one.gpus, one.vcpus))]
        assert prices == sorted(prices)


def test_the_default_type_is_what_its_source_says() -> None:
    kind = KNOWN["g6.12xlarge"]

    assert kind.gpu
    assert (kind.gpus, kind.gpu.name, kind.gpu.memory_mib, kind.gpu.peak_bf16_tflops) == (4, "NVIDIA L4", 22888, 121)
    assert (kind.efa_interfaces, kind.gpu.gpudirect_rdma, kind.gpu.link) == (1, False, "PCIe")
    assert (kind.vcpus, kind.memory_mib, kind.network_gbps, kind.usd_per_hour) == (48, 196608, 40, 4.6016)


def test_a_good_plan_has_no_problem() -> None:
    assert instance_types.checks(gpu_nodes(), workers()) == []
    assert instance_types.checks(gpu_nodes(), workers(count=2, perPod=1, gpusPerWorker=4)) == []


@pytest.mark.parametrize("one", GPU_TYPES, ids=lambda one: one.name)
def test_every_gpu_type_can_be_used_as_it_is(one: InstanceType) -> None:
    pods = {"count": 2 * one.gpus, "perPod": one.gpus, "cpu": f"{one.vcpus - 2}", "memory": f"{one.memory_mib // 1280}Gi"}

    assert instance_types.checks(gpu_nodes(instanceType=one.name, efa=one.efa_interfaces > 0), workers(**pods)) == []


def test_an_unknown_type_is_refused_with_the_nearest_that_is_known() -> None:
    problem = only(instance_types.checks(gpu_nodes(instanceType="g6.12xlrge"), workers()))

    assert problem.where == "gpuNodes.instanceType"
    assert problem.fix.startswith("did you mean g6.12xlarge?")
    assert "p5.48xlarge" in only(instance_types.checks(gpu_nodes(instanceType="zz9.metal"), workers())).fix


def test_nodes_without_a_gpu_are_refused() -> None:
    assert only(instance_types.checks(gpu_nodes(instanceType="m7i.xlarge"), workers())).reason == "has no GPU"


def test_an_instance_without_efa_is_refused_by_name() -> None:
    one_gpu = workers(count=2, perPod=1, cpu="3", memory="8Gi", sharedMemory="1Gi")
    problem = only(instance_types.checks(gpu_nodes(instanceType="g6.xlarge"), one_gpu))

    assert (problem.where, problem.value, problem.reason) == ("gpuNodes.efa", "true", "g6.xlarge has no EFA interface")
    assert "g6.8xlarge" in problem.fix
    assert "g6.4xlarge" not in problem.fix
    assert instance_types.checks(gpu_nodes(instanceType="g6.xlarge", efa=False), one_gpu) == []


@pytest.mark.case("C009")
@pytest.mark.parametrize(
    ("name", "efa", "count"),
    [("g6.12xlarge", True, 1), ("g6.12xlarge", False, 0), ("p5.48xlarge", True, 32), ("g6e.48xlarge", True, 4)],
)
def test_c009_with_efa_off_nothing_asks_for_an_interface(name: str, efa: bool, count: int) -> None:
    assert instance_types.efa_interfaces(gpu_nodes(instanceType=name, efa=efa)) == count


@pytest.mark.case("C026")
@pytest.mark.parametrize(("per_pod", "per_worker"), [(1, 3), (3, 1)])
def test_three_gpus_on_a_node_of_four_are_refused(per_pod: int, per_worker: int) -> None:
    problem = only(instance_types.checks(gpu_nodes(), workers(count=2 * per_pod, perPod=per_pod, gpusPerWorker=per_worker)))

    assert (problem.where, problem.value) == ("workers.gpusPerWorker", str(per_worker))
    assert "leaves 1 of each node idle" in problem.reason
    assert "must be 4" in problem.fix


def test_more_gpus_than_a_node_has_are_refused() -> None:
    problem = only(instance_types.checks(gpu_nodes(), workers(gpusPerWorker=2)))

    assert "asks for 8 of the 4 GPUs" in problem.reason
    assert "doesn't have" in problem.reason


def test_gpus_idle_only_where_that_is_meant() -> None:
    cpu_run = workers(gpusPerWorker=0)

    assert "leaves 4 of each node idle" in only(instance_types.checks(gpu_nodes(), cpu_run)).reason
    assert instance_types.checks(gpu_nodes(), cpu_run, allow_cpu_run=True) == []
    assert only(instance_types.checks(gpu_nodes(), workers(gpusPerWorker=2), allow_cpu_run=True))


@pytest.mark.case("C062")
def test_pods_and_nodes_must_be_as_many() -> None:
    problem = only(instance_types.checks(gpu_nodes(count=3), workers()))

    assert (problem.where, problem.value) == ("workers.count", "8")
    assert problem.fix == "set it to 12, or gpuNodes.count to 2"


@pytest.mark.case("C032")
def test_memory_that_no_node_can_give_is_refused_with_what_it_can() -> None:
    problem = only(instance_types.checks(gpu_nodes(), workers(memory="192Gi")))

    assert (problem.where, problem.value, problem.fix) == ("workers.memory", "192Gi", "use 163Gi or less")
    assert instance_types.checks(gpu_nodes(), workers(memory="163Gi")) == []


def test_without_efa_its_huge_pages_are_memory_again() -> None:
    assert only(instance_types.checks(gpu_nodes(), workers(memory="170Gi"))).where == "workers.memory"
    assert instance_types.checks(gpu_nodes(efa=False), workers(memory="170Gi")) == []


@pytest.mark.case("C063")
def test_cpus_that_no_node_can_give_are_refused_with_what_it_can() -> None:
    problem = only(instance_types.checks(gpu_nodes(), workers(cpu="48")))

    assert (problem.where, problem.value, problem.fix) == ("workers.cpu", "48", "use 47 or less")


def test_capacity_blocks_are_refused_for_types_that_have_none() -> None:
    eight = workers(count=16, perPod=8)

    assert only(instance_types.checks(gpu_nodes(capacity=BLOCK), workers())).where == "gpuNodes.capacity.kind"
    assert instance_types.checks(gpu_nodes(instanceType="p5.48xlarge", capacity=BLOCK), eight) == []


def test_all_that_is_wrong_is_said_at_once() -> None:
    wrong = workers(count=9, perPod=3, cpu="64", memory="1000Gi")
    found = instance_types.checks(gpu_nodes(instanceType="g6.4xlarge", capacity=BLOCK), wrong)

    assert [problem.where for problem in found] == [
        "gpuNodes.efa", "gpuNodes.capacity.kind", "workers.count", "workers.gpusPerWorker", "workers.cpu", "workers.memory",
    ]  # fmt: skip


def test_spot_is_allowed_and_its_risk_said() -> None:
    (note,) = instance_types.notes(gpu_nodes(capacity={"kind": "spot"}))

    assert "two minutes' notice" in note
    assert instance_types.notes(gpu_nodes()) == []


def test_a_head_that_fits_on_no_system_node_is_refused() -> None:
    """4 cores, as AWS's example asks, are more than an instance of 4 vCPUs has left."""
    problem = only(instance_types.system_checks(system_nodes(), PodResources(cpu="4", memory="8Gi")))

    assert (problem.where, problem.fix) == ("job.head.cpu", "use 3 or less")
    assert instance_types.system_checks(system_nodes(), PodResources(cpu="2", memory="8Gi")) == []
    assert only(instance_types.system_checks(system_nodes(), PodResources(cpu="2", memory="16Gi"))).where == "job.head.memory"


@pytest.mark.parametrize("name", ["m7g.large", "c6gn.xlarge", "t4g.medium", "im4gn.large"])
def test_arm_system_nodes_are_refused(name: str) -> None:
    assert "Arm" in only(instance_types.system_checks(system_nodes(name), PodResources(cpu="1", memory="1Gi"))).reason


@pytest.mark.parametrize("name", ["m6i.large", "m7i-flex.large", "c7a.xlarge", "t3.large", "r7iz.large"])
def test_other_x86_system_nodes_are_taken_on_trust(name: str) -> None:
    assert instance_types.system_checks(system_nodes(name), PodResources(cpu="64", memory="1Gi")) == []


def test_gpu_types_as_system_nodes_are_refused() -> None:
    assert "GPU" in only(instance_types.system_checks(system_nodes("g6.xlarge"), PodResources(cpu="1", memory="1Gi"))).reason
