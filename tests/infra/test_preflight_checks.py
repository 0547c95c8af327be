"""What `preflight` decides over an account's answers: zones, types, quotas, reservations, versions, names."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from infra.answers import NotAsked
from infra.eks_settings import CapacityBlock, EksConfiguration, Reservation
from infra.preflight import quotas
from infra.preflight.check import Check, Status
from infra.preflight.existing import cluster_check
from infra.preflight.offerings import facts_check, offering_check, zones_check
from infra.preflight.quotas import ADDRESSES, Need, Quota, Usage, quota_check, quota_of
from infra.preflight.reservation import reservation_check
from infra.preflight.versions import addons_check, images_check, kubernetes_check, node_images
from infra.settings import from_file
from tests.infra.environments import ROOT

REGION = "us-east-2"
TAGS = {"project": "ray-train-eks", "environment": "dev"}
GPU_IMAGE = (
    "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.35-v20261012"
)


def dev() -> EksConfiguration:
    found = from_file(ROOT / "Pulumi.dev.yaml").eks
    assert found
    return found


def changed(section: str, **values: Any) -> EksConfiguration:
    eks = dev()
    return eks.model_copy(update={section: getattr(eks, section).model_copy(update=values)})


def only(check: Check) -> str:
    assert check.status is Status.PROBLEM, check
    assert len(check.problems) == 1, check.problems
    return str(check.problems[0])


def test_a_zone_that_the_account_cannot_use_is_refused_with_those_it_can() -> None:
    found = [{"ZoneName": "us-east-2a", "State": "available"}, {"ZoneName": "us-east-2b", "State": "impaired"}]

    assert only(zones_check(found, dev().network)) == (
        "network.zones = us-east-2b: is no zone that this account can use now. Fix: use zones of us-east-2a"
    )


def offered(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"InstanceType": kind, "Location": zone} for kind, zone in pairs]


def test_a_type_that_its_zone_does_not_offer_is_refused_with_the_zones_that_do() -> None:
    system = [("m7i.xlarge", "us-east-2a"), ("m7i.xlarge", "us-east-2b")]
    elsewhere = offered(("g6.12xlarge", "us-east-2c"), ("g6.12xlarge", "us-east-2b"), *system)

    assert only(offering_check(elsewhere, dev())) == (
        "gpuNodes.zone = us-east-2a: AWS doesn't offer g6.12xlarge there. Fix: use us-east-2b or us-east-2c"
    )
    assert "another aws.region, or another gpuNodes.instanceType" in only(offering_check(offered(*system), dev()))
    one_zone = offered(("g6.12xlarge", "us-east-2a"), ("m7i.xlarge", "us-east-2a"))
    assert only(offering_check(one_zone, dev())).startswith("network.zones = us-east-2b: AWS doesn't offer m7i.xlarge")


def said(**gpu: Any) -> list[dict[str, Any]]:
    facts = {
        "InstanceType": "g6.12xlarge", "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {"DefaultVCpus": 48}, "MemoryInfo": {"SizeInMiB": 196608}, "InstanceStorageInfo": {"TotalSizeInGB": 3760},
        "NetworkInfo": {"EfaSupported": True, "EfaInfo": {"MaximumEfaInterfaces": 1}}, "GpuInfo": {"Gpus": [{"Count": 4}]},
    }  # fmt: skip
    system = {
        "InstanceType": "m7i.xlarge", "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {"DefaultVCpus": 4}, "MemoryInfo": {"SizeInMiB": 16384}, "NetworkInfo": {"EfaSupported": False},
    }  # fmt: skip
    return [{**facts, **gpu}, system]


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        ({"GpuInfo": {"Gpus": [{"Count": 2}]}}, "says GPUs 4, AWS says 2"),
        ({"VCpuInfo": {"DefaultVCpus": 64}}, "says vCPUs 48, AWS says 64"),
        ({"MemoryInfo": {"SizeInMiB": 1}}, "says memory in MiB 196608, AWS says 1"),
        ({"NetworkInfo": {"EfaSupported": False}}, "says EFA interfaces 1, AWS says 0"),
        ({"NetworkInfo": {"EfaSupported": True, "EfaInfo": {"MaximumEfaInterfaces": 2}}}, "says EFA interfaces 1, AWS says 2"),
        (
            {"ProcessorInfo": {"SupportedArchitectures": ["arm64"]}},
            "gpuNodes.instanceType = g6.12xlarge: is arm64, and images here",
        ),
    ],
)
def test_a_fact_that_differs_from_our_table_is_a_problem(fact: dict[str, Any], reason: str) -> None:
    assert facts_check(said(), dev()).status is Status.OK
    assert reason in only(facts_check(said(**fact), dev()))


def test_a_type_that_aws_does_not_know_is_a_problem() -> None:
    assert "cluster.systemNodes.instanceType = m7i.xlarge: AWS knows no such type in us-east-2" in only(
        facts_check(said()[:1], dev())
    )


@pytest.mark.parametrize(
    ("kind", "spot", "code"),
    [
        ("g6.12xlarge", False, "L-DB2E81BA"), ("gr6.4xlarge", False, "L-DB2E81BA"), ("vt1.3xlarge", False, "L-DB2E81BA"),
        ("g6e.12xlarge", True, "L-3819A6DF"), ("p5.48xlarge", False, "L-417A185B"), ("p4d.24xlarge", True, "L-7212CCBC"),
        ("p5.48xlarge", True, "L-C4BD4855"), ("p5en.48xlarge", True, "L-C4BD4855"), ("p4d.24xlarge", False, "L-417A185B"),
        ("m7i.xlarge", False, "L-1216C47A"), ("im4gn.large", False, "L-1216C47A"), ("t3.medium", True, "L-34B43A08"),
    ],
)  # fmt: skip
def test_each_type_counts_against_its_own_quota(kind: str, spot: bool, code: str) -> None:
    found = quota_of(kind, spot=spot)

    assert found
    assert found.code == code
    assert quota_of("trn1.32xlarge", spot=spot) is None


def test_spot_instances_and_capacity_blocks_do_not_count_against_on_demand_quotas() -> None:
    quota = quota_of("g6.12xlarge", spot=False)
    assert quota
    running = [
        {"InstanceType": "g6.12xlarge"},
        {"InstanceType": "g6.12xlarge", "InstanceLifecycle": "spot"},
        {"InstanceType": "g6.12xlarge", "InstanceLifecycle": "capacity-block"},
        {"InstanceType": "g4ad.xlarge", "CpuOptions": {"CoreCount": 2, "ThreadsPerCore": 2}},
        {"InstanceType": "m7i.xlarge"},
    ]

    assert quotas.vcpu_usage(running, quota, TAGS) == Usage(48 + 4)


def test_a_quota_whose_use_is_not_known_is_judged_by_its_size_and_says_so() -> None:
    need = [Need("network.nat", 2, 2, ADDRESSES)]
    unknown = NotAsked("needs permission ec2:DescribeAddresses")

    fits = quota_check(need, 2.0, unknown, REGION)
    assert (fits.status, fits.detail) == (
        Status.OK,
        "2 needed of 2; what others use isn't known: needs permission ec2:DescribeAddresses",
    )
    assert "1 are allowed" in only(quota_check(need, 1.0, unknown, REGION))
    assert quota_check(need, None, Usage(0), REGION).status is Status.NOT_ASKED


def test_needs_of_one_quota_are_added() -> None:
    quota = Quota("ec2", "L-1", "one")

    both = quota_check([Need("a", 1, 60, quota), Need("b", 1, 60, quota)], 100.0, Usage(0), REGION)
    assert [problem.where for problem in both.problems] == ["a", "b"]
    assert "--desired-value 120 " in both.problems[0].fix


RESERVATION = Reservation(kind="reservation", reservation_id="cr-0123456789abcdef0")


def reserved(**more: Any) -> dict[str, Any]:
    return {
        "CapacityReservationId": "cr-0123456789abcdef0", "State": "active", "InstanceType": "g6.12xlarge",
        "AvailabilityZone": "us-east-2a", "TotalInstanceCount": 2, "AvailableInstanceCount": 2,
        "InstancePlatform": "Linux/UNIX", "Tenancy": "default", **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (
            {"State": "scheduled", "StartDate": datetime(2027, 1, 2, 11, 30, tzinfo=UTC)},
            "is scheduled, not active; it starts 2027-01-02",
        ),
        ({"InstanceType": "g6.24xlarge"}, "gpuNodes.instanceType = g6.12xlarge: the reservation is for g6.24xlarge"),
        ({"AvailabilityZone": "us-east-2c"}, "gpuNodes.zone = us-east-2a: the reservation is for us-east-2c"),
        ({"AvailableInstanceCount": 1}, "has 1 instances free of 2"),
        ({"InstancePlatform": "Windows"}, "its InstancePlatform is Windows"),
        ({"Tenancy": "dedicated"}, "its Tenancy is dedicated"),
        ({"ReservationType": "capacity-block"}, "set it to capacity-block"),
        (
            {"PlacementGroupArn": "arn:aws:ec2:us-east-2:1:placement-group/mine"},
            "gpuNodes.capacity.placementGroup: the reservation was bought in placement group mine. Fix: set it to mine",
        ),
    ],
)
def test_a_reservation_must_be_one_for_exactly_these_nodes(more: dict[str, Any], reason: str) -> None:
    nodes = changed("gpu_nodes", capacity=RESERVATION, placement_group=False).gpu_nodes

    assert reservation_check(reserved(), nodes, RESERVATION).status is Status.OK
    assert reason in only(reservation_check(reserved(**more), nodes, RESERVATION))


def test_a_reservation_that_our_own_nodes_fill_is_large_enough() -> None:
    nodes = changed("gpu_nodes", capacity=RESERVATION, placement_group=False).gpu_nodes

    assert reservation_check(reserved(AvailableInstanceCount=0), nodes, RESERVATION, used_by_us=2).status is Status.OK


def test_the_group_of_a_reservation_and_of_the_settings_must_be_the_same() -> None:
    named = RESERVATION.model_copy(update={"placement_group": "mine"})
    block = CapacityBlock(kind="capacity-block", reservation_id="cr-0123456789abcdef0")
    nodes, group = dev().gpu_nodes, {"PlacementGroupArn": "arn:aws:ec2:us-east-2:1:placement-group/mine"}

    assert reservation_check(reserved(**group), nodes, named).status is Status.OK
    assert "= mine: the reservation is in no group. Fix: remove it" in only(reservation_check(reserved(), nodes, named))
    assert reservation_check(reserved(ReservationType="capacity-block"), nodes, block).status is Status.OK


@pytest.mark.parametrize(
    ("status", "reason"), [("EXTENDED_SUPPORT", "is in extended support"), ("UNSUPPORTED", "is in unsupported")]
)
def test_a_kubernetes_version_without_standard_support_is_refused(status: str, reason: str) -> None:
    found = [{"clusterVersion": "1.35", "versionStatus": status}]

    assert reason in only(kubernetes_check(found, "1.35", date(2026, 12, 1)))
    assert "EKS offers no such version" in only(kubernetes_check([], "1.35", date(2026, 12, 1)))


def test_what_is_left_of_standard_support_is_said() -> None:
    end = datetime(2027, 3, 27, tzinfo=UTC)
    found = [{"clusterVersion": "1.35", "status": "standard-support", "endOfStandardSupportDate": end}]

    assert kubernetes_check(found, "1.35", date(2026, 12, 1)).detail == (
        "offered; 116 days of standard support left, until 2027-03-27"
    )


def test_an_add_on_that_is_no_longer_offered_is_refused_with_the_newest() -> None:
    offered_now = {"coredns": ["v2", "v1"], "vpc-cni": []}

    assert addons_check(offered_now, {"coredns": "v1"}, "1.35").status is Status.OK
    assert "pin one that is, such as v2" in only(addons_check(offered_now, {"coredns": "v0"}, "1.35"))
    assert "use another Kubernetes version" in only(addons_check(offered_now, {"vpc-cni": "v1"}, "1.35"))


def test_node_images_are_looked_up_under_the_names_that_aws_publishes() -> None:
    gpu, system = node_images(dev())
    found = {gpu.id_parameter: "ami-1", system.id_parameter: "ami-2"}

    assert gpu.id_parameter == f"{GPU_IMAGE}/image_id"
    assert system.id_parameter == f"{GPU_IMAGE.replace('nvidia', 'standard')}/image_id"
    assert images_check(found, (gpu, system)).status is Status.OK
    missing = only(images_check({gpu.id_parameter: "ami-1"}, (gpu, system)))
    assert missing.startswith("cluster.systemNodes.releaseVersion = 1.35.8-20261012: AWS publishes no such image here")
    other = only(images_check({**found, gpu.release_parameter: "1.35.9-20261012"}, (gpu, system)))
    assert "the release of that day is 1.35.9-20261012" in other


def test_a_cluster_is_this_environments_only_with_all_its_tags() -> None:
    assert cluster_check({"status": "ACTIVE", "tags": TAGS}, "c", TAGS).status is Status.OK
    assert cluster_check({"status": "ACTIVE", "tags": {"project": "ray-train-eks"}}, "c", TAGS).status is Status.PROBLEM
