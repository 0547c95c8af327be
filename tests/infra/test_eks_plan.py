"""The plan of an environment on EKS: what cannot work is refused as a whole, by key, value, reason and fix."""

from __future__ import annotations

from typing import Any

import pytest

from infra import settings
from infra.commands.laptop import apply_changes
from infra.eks_plan import EksPlan, plan
from infra.environment_file import read_environment
from infra.settings import PROJECT
from tests.infra.environments import ROOT
from tests.infra.recordings import LOCK
from workload.errors import Problem, UserError

RESERVATION = "{kind: reservation, reservationId: cr-0123456789abcdef0}"


def planned(*changes: str, environment: str = "dev", without: str = "", project: str = PROJECT) -> EksPlan:
    """The plan of `dev` after changes such as `gpuNodes.count=3`."""
    objects: dict[str, Any] = read_environment(ROOT / "Pulumi.dev.yaml", PROJECT)
    apply_changes(objects, changes)
    if without:
        section, key = without.split(".")
        del objects[section][key]
    return plan(settings.parse(objects, environment), project, LOCK)


def refusals(*changes: str, **more: Any) -> dict[str, Problem]:
    with pytest.raises(UserError) as caught:
        planned(*changes, **more)
    return {problem.where: problem for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("changes", "key", "value", "reason"),
    [
        pytest.param(
            ("gpuNodes.zone=us-east-2c",),
            "gpuNodes.zone",
            "us-east-2c",
            "not among network.zones",
            marks=pytest.mark.case("C002"),
        ),
        (
            ("gpuNodes.instanceType=g6.xlarge", "workers.perPod=1", "workers.count=2"),
            "gpuNodes.efa",
            "true",
            "no EFA interface",
        ),
        pytest.param(
            ("workers.perPod=3", "workers.count=6", "training.schedule.globalBatchSequences=24"),
            "workers.gpusPerWorker",
            "1",
            "leaves 1 of each node idle",
            marks=pytest.mark.case("C026"),
        ),
        pytest.param(
            (f"gpuNodes.capacity={RESERVATION}",),
            "gpuNodes.placementGroup",
            "true",
            "wasn't bought in",
            marks=pytest.mark.case("C005"),
        ),
        pytest.param(
            ("workers.count=1000", "training.schedule.globalBatchSequences=4000"),
            "workers.count",
            "1000",
            "gpuNodes.count is 2",
            marks=pytest.mark.case("C032", "C062"),
        ),
        pytest.param(
            ("workers.memory=180G",), "workers.memory", "180G", "more than the 167653Mi", marks=pytest.mark.case("C032")
        ),
        (
            ("image.reference=public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v9.9.9",),
            "image.reference",
            "",
            "pinned",
        ),
        (("image.reference=public.ecr.aws/deep-learning-containers/ray:train-ml-cuda",), "image.reference", "", "floats"),
        (("rayOperator.version=1.5.1",), "rayOperator.version", "1.5.1", "drops fields of our RayJob"),
        (("image.rayVersion=2.51.0",), "image.rayVersion", "2.51.0", "has Ray 2.58.0"),
        (("network.cidr=10.42.0.1/16",), "network.cidr", "10.42.0.1/16", "bits set beyond /16"),
        (("network.cidr=10.0.0.0/8",), "network.cidr", "10.0.0.0/8", "larger than a VPC may be"),
        (("cluster.serviceCidr=10.42.128.0/20",), "cluster.serviceCidr", "10.42.128.0/20", "overlaps with network.cidr"),
        (("cluster.publicAccessCidrs=[10.0.0.0/8]",), "cluster.publicAccessCidrs[0]", "10.0.0.0/8", "private network"),
        (("aws.isProduction=true", "store.noncurrentDays=0"), "store.noncurrentDays", "0", "gone at once"),
        (("aws.maxHourlyCost=3",), "aws.maxHourlyCost", "3", "this plan costs 9.93 USD/h"),
    ],
)
def test_a_plan_that_cannot_work_is_refused_by_key_value_reason_and_fix(
    changes: tuple[str, ...], key: str, value: str, reason: str
) -> None:
    problem = refusals(*changes)[key]

    assert value in problem.value
    assert reason in problem.reason
    assert problem.fix


@pytest.mark.case("C002")
def test_a_zone_that_nobody_chose_is_refused_and_never_picked() -> None:
    problem = refusals(without="gpuNodes.zone")["gpuNodes.zone"]

    assert "is required" in problem.reason
    assert "network.zones" in problem.fix


@pytest.mark.parametrize("days", [0, 2, 9999])
def test_logs_are_kept_for_a_time_that_cloudwatch_knows(days: int) -> None:
    assert "1, 3, 5, 7, 14" in refusals(f"cluster.logRetentionDays={days}")["cluster.logRetentionDays"].fix


@pytest.mark.case("C065")
def test_a_stack_name_that_makes_a_cluster_name_too_long_is_refused_and_never_cut() -> None:
    longest = "s" * (48 - len(f"{PROJECT}-"))

    assert planned(environment=longest).cluster_name == f"{PROJECT}-{longest}"
    problem = refusals(environment=longest + "s")["stack"]
    assert problem.value == longest + "s"
    assert "longer than 48 characters" in problem.reason


@pytest.mark.case("C065")
def test_every_stack_has_a_cluster_name_of_its_own() -> None:
    stacks = ["dev", "dev2", "1dev", "Dev", "de-v", "d_ev"]

    assert len({planned(environment=stack).cluster_name for stack in stacks}) == len(stacks)


@pytest.mark.case("C029")
def test_a_lustre_client_that_nobody_can_promise_is_said_at_preview() -> None:
    assert any("store.kind = fsx" in note for note in planned("store={kind: fsx}").notes)
    assert not any("Lustre" in note for note in planned().notes)


def test_all_that_is_wrong_with_a_plan_is_said_at_once() -> None:
    found = refusals("gpuNodes.zone=us-east-2c", "aws.maxHourlyCost=3", "rayOperator.version=9.9.9", "store.noncurrentDays=0")

    assert {"gpuNodes.zone", "aws.maxHourlyCost", "rayOperator.version"} <= set(found)


def test_a_private_endpoint_is_said_at_preview_since_an_update_from_elsewhere_ends_half_way() -> None:
    assert any("cluster.publicAccessCidrs is empty" in note for note in planned().notes)
    assert not any("publicAccessCidrs" in note for note in planned("cluster.publicAccessCidrs=[203.0.113.7/32]").notes)
