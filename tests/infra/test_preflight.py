"""`python -m infra preflight`: what each check decides, which questions are asked, exit codes and output."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.exceptions import EndpointConnectionError
from click.testing import CliRunner

from infra import image
from infra.__main__ import cli
from infra.answers import NotAsked
from infra.commands import preflight
from infra.eks_settings import CapacityBlock, EksConfiguration, Reservation
from infra.eks_versions import ADDONS
from infra.preflight import quotas
from infra.preflight.check import Check, Status
from infra.preflight.existing import cluster_check
from infra.preflight.offerings import facts_check, offering_check, zones_check
from infra.preflight.quotas import ADDRESSES, Need, Quota, Usage, quota_check, quota_of
from infra.preflight.reservation import reservation_check
from infra.preflight.versions import addons_check, images_check, kubernetes_check, node_images
from infra.settings import from_file
from tests.infra.fake_account import READS, FakeAccount, fake_account, refused
from tests.infra.recordings import LOCK
from workload.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
REGION = "us-east-2"
TAGS = {"project": "ray-train-eks", "environment": "dev"}
TAG_LIST = [{"Key": key, "Value": value} for key, value in TAGS.items()]
QUOTAS = {"L-DB2E81BA": 96.0, "L-1216C47A": 32.0, "L-0263D0A3": 5.0, "L-F678F1CE": 5.0}
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


def addons(parameters: dict[str, Any]) -> dict[str, Any]:
    version = ADDONS[parameters["kubernetesVersion"]][parameters["addonName"]]
    return {"addons": [{"addonName": parameters["addonName"], "addonVersions": [{"addonVersion": version}]}]}


def published(parameters: dict[str, Any]) -> dict[str, Any]:
    values = {"image_id": "ami-0123456789abcdef0", "release_version": "1.35.8-20261012"}
    return {"Parameters": [{"Name": name, "Value": values[name.rpartition("/")[2]]} for name in parameters["Names"]]}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAccount]:
    """An account that can carry `dev`, and a locked image. What moto answers itself isn't in `answers`."""
    monkeypatch.setattr(image, "read_lock", lambda: LOCK)
    with fake_account() as made:
        made.answers = {
            "GetServiceQuota": lambda asked: {"Quota": {"Value": QUOTAS[asked["QuotaCode"]]}},
            "DescribeClusterVersions": {
                "clusterVersions": [
                    {
                        "clusterVersion": "1.35",
                        "versionStatus": "STANDARD_SUPPORT",
                        "endOfStandardSupportDate": datetime(2027, 3, 27, tzinfo=UTC),
                    }
                ]
            },
            "DescribeAddonVersions": addons,
            "GetParameters": published,
        }
        yield made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project folder whose environments a test may change."""
    for path in ROOT.glob("Pulumi*.yaml"):
        shutil.copy(path, tmp_path)
    return tmp_path


def change(project: Path, stack: str, section: str, **values: Any) -> None:
    path = project / f"Pulumi.{stack}.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    document["config"][f"ray-train-eks:{section}"].update(values)
    path.write_text(yaml.safe_dump(document), encoding="utf-8")


def test_an_account_that_can_carry_the_environment_exits_0_and_says_what_was_found(
    account: FakeAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    assert preflight.run(ROOT, "dev") == 0
    said = capsys.readouterr().out
    assert "123456789012 in us-east-2, as arn:aws:sts::123456789012:user/moto" in said
    assert "g6.12xlarge: 4 GPUs, 48 vCPUs, 1 EFA" in said
    assert "96 needed of 96, 0 used by others" in said
    assert "ray-train-eks-dev is free" in said
    assert "nvidia 1.35.8-20261012 (ami-0123456789abcdef0)" in said
    assert said.endswith("no problems in 13 checks\n")


def test_only_reading_calls_are_made(account: FakeAccount) -> None:
    preflight.run(ROOT, "dev")

    assert len(account.calls) > 15
    assert [call for call in account.calls if not call.startswith(READS)] == []


def test_every_call_that_is_denied_is_a_permission_that_is_named_and_no_crash(
    account: FakeAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    preflight.run(ROOT, "dev")
    account.deny(*(set(account.calls) - {"GetCallerIdentity"}))
    capsys.readouterr()

    assert preflight.run(ROOT, "dev") == 0
    said = capsys.readouterr().out
    assert said.count("could not be asked") == 12
    for permission in (
        "ec2:DescribeAvailabilityZones", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes",
        "servicequotas:GetServiceQuota", "eks:DescribeClusterVersions", "eks:DescribeAddonVersions", "ssm:GetParameters",
        "eks:DescribeCluster",
    ):  # fmt: skip
        assert f"needs permission {permission}" in said
    assert "11 could not be asked, and may still be in the way" in said


def test_a_quota_whose_need_is_not_known_is_a_question_left_open(
    account: FakeAccount, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a system type outside of our table only AWS knows the vCPUs."""
    nodes = {"instanceType": "m7i.4xlarge", "count": 2, "releaseVersion": "1.35.8-20261012"}
    change(project, "dev", "cluster", systemNodes=nodes)
    account.deny("DescribeInstanceTypes")

    assert preflight.run(project, "dev") == 0
    said = capsys.readouterr().out
    assert "quota for m7i.4xlarge" in said
    assert "how many vCPUs it has isn't known: needs permission ec2:DescribeInstanceTypes" in said


def test_a_service_that_does_not_answer_is_a_question_left_open(
    account: FakeAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    account.answers["GetParameters"] = EndpointConnectionError(endpoint_url="https://ssm.us-east-2.amazonaws.com/")

    assert preflight.run(ROOT, "dev") == 0
    assert "no answer: Could not connect to the endpoint URL" in capsys.readouterr().out


def test_a_problem_exits_1_with_key_value_reason_and_fix(account: FakeAccount, capsys: pytest.CaptureFixture[str]) -> None:
    account.answers["GetServiceQuota"] = lambda asked: {
        "Quota": {"Value": 64.0 if asked["QuotaCode"] == "L-DB2E81BA" else 32.0}
    }

    assert preflight.run(ROOT, "dev") == 1
    said = capsys.readouterr().out
    assert (
        "  - gpuNodes.count = 2: takes 96 of quota L-DB2E81BA (Running On-Demand G and VT instances); 64 are allowed, 0 used by"
        " others. Fix: use less, or ask for more: aws service-quotas request-service-quota-increase --service-code ec2"
        " --quota-code L-DB2E81BA --desired-value 96 --region us-east-2" in said
    )
    assert said.endswith("1 problem in 13 checks\n")


def test_what_runs_already_counts_unless_it_is_the_environments_own(
    account: FakeAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    ec2 = boto3.client("ec2", REGION)
    ours = [{"ResourceType": "instance", "Tags": TAG_LIST}]
    ami = ec2.describe_images()["Images"][0]["ImageId"]
    ec2.run_instances(ImageId=ami, InstanceType="g6.12xlarge", MinCount=2, MaxCount=2, TagSpecifications=ours)

    assert preflight.run(ROOT, "dev") == 0
    ec2.run_instances(ImageId=ami, InstanceType="g6.xlarge", MinCount=1, MaxCount=1)
    capsys.readouterr()
    assert preflight.run(ROOT, "dev") == 1
    assert "96 are allowed, 4 used by others" in capsys.readouterr().out


def test_addresses_and_vpcs_in_use_count_too(account: FakeAccount, capsys: pytest.CaptureFixture[str]) -> None:
    ec2 = boto3.client("ec2", REGION)
    for _ in range(5):
        ec2.allocate_address(Domain="vpc")
        ec2.create_vpc(CidrBlock="10.0.0.0/16")

    assert preflight.run(ROOT, "dev") == 1
    said = capsys.readouterr().out
    assert "network.nat = 1: takes 1 of quota L-0263D0A3 (EC2-VPC Elastic IPs); 5 are allowed, 5 used by others" in said
    assert "network.cidr = 1: takes 1 of quota L-F678F1CE" in said  # 5 and the default VPC


def test_a_quota_without_a_value_of_its_own_has_awss_default(account: FakeAccount) -> None:
    account.answers["GetServiceQuota"] = refused("NoSuchResourceException", "GetServiceQuota")
    account.answers["GetAWSDefaultServiceQuota"] = {"Quota": {"Value": 0.0}}

    assert preflight.run(ROOT, "dev") == 1
    assert "GetAWSDefaultServiceQuota" in account.calls


def test_a_cluster_of_that_name_is_told_apart_by_its_tags(account: FakeAccount, capsys: pytest.CaptureFixture[str]) -> None:
    eks = boto3.client("eks", REGION)
    network: Any = {"subnetIds": []}
    role = "arn:aws:iam::123456789012:role/r"
    eks.create_cluster(name="ray-train-eks-dev", roleArn=role, resourcesVpcConfig=network, tags={**TAGS, "owner": "platform"})
    assert preflight.run(ROOT, "dev") == 0
    assert "ray-train-eks-dev stands already (ACTIVE), with this environment's tags" in capsys.readouterr().out

    eks.delete_cluster(name="ray-train-eks-dev")
    eks.create_cluster(name="ray-train-eks-dev", roleArn=role, resourcesVpcConfig=network, tags={"project": "else"})
    assert preflight.run(ROOT, "dev") == 1
    assert "a cluster ray-train-eks-dev exists, and its tags are not" in capsys.readouterr().out


def test_an_image_that_is_not_pinned_yet_is_a_problem_among_the_others(
    account: FakeAccount, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(image, "read_lock", lambda: LOCK.model_copy(update={"history": ()}))

    assert preflight.run(ROOT, "dev") == 1
    assert (
        "python -m infra image lock public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1.0" in capsys.readouterr().out
    )


def test_settings_that_a_preview_would_refuse_are_bad_input_and_nobody_is_asked(account: FakeAccount, project: Path) -> None:
    change(project, "dev", "gpuNodes", instanceType="g6.4xlarge")

    with pytest.raises(UserError, match=r"g6\.4xlarge has no EFA interface"):
        preflight.run(project, "dev")
    assert account.calls == []


@pytest.mark.parametrize(("stack", "reason"), [("local", "has nothing in an AWS account"), ("nowhere", "can't be read")])
def test_an_environment_that_is_not_on_aws_is_bad_input(account: FakeAccount, stack: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        preflight.run(ROOT, stack)


def test_credentials_that_are_missing_or_expired_are_bad_input(account: FakeAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    account.answers["DescribeCluster"] = refused("ExpiredTokenException", "DescribeCluster", "has expired")
    with pytest.raises(UserError, match=r"AWS credentials: are refused.*has expired.*Fix: log in again"):
        preflight.run(ROOT, "dev")
    account.answers["GetCallerIdentity"] = refused("InvalidClientTokenId", "GetCallerIdentity")
    with pytest.raises(UserError, match=r"AWS credentials: .*Fix: log in again.*or the region isn't enabled for the account"):
        preflight.run(ROOT, "dev")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(UserError, match=r"AWS credentials: .*profile.*nobody"):
        preflight.run(ROOT, "dev")
    monkeypatch.delenv("AWS_PROFILE")
    account.answers["GetCallerIdentity"] = EndpointConnectionError(endpoint_url="https://sts")
    with pytest.raises(UserError, match=r"aws.region = us-east-2: AWS doesn't answer"):
        preflight.run(ROOT, "dev")


def test_the_command_line_leads_there(account: FakeAccount) -> None:
    done = CliRunner().invoke(cli, ["preflight", "-s", "dev"])

    assert (done.exit_code, "no problems in 13 checks" in done.output) == (0, True)


def test_a_reservation_is_asked_for_and_judged(account: FakeAccount, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capacity = {"kind": "reservation", "reservationId": "cr-0123456789abcdef0"}
    change(project, "dev", "gpuNodes", capacity=capacity, placementGroup=False)
    account.answers["DescribeCapacityReservations"] = {"CapacityReservations": [reserved(AvailableInstanceCount=1)]}

    assert preflight.run(project, "dev") == 1
    said = capsys.readouterr().out
    assert "gpuNodes.count = 2: the reservation has 1 instances free of 2" in said
    assert "L-DB2E81BA" not in said  # what is reserved is in the quota already

    ours = {"InstanceType": "g6.12xlarge", "CapacityReservationId": "cr-0123456789abcdef0", "Tags": TAG_LIST}
    account.answers["DescribeInstances"] = {"Reservations": [{"Instances": [ours, {**ours, "Tags": []}]}]}
    assert preflight.run(project, "dev") == 0  # one free, and one that runs in it already for this environment
    for nothing in (refused("InvalidCapacityReservationId.NotFound", "x"), {"CapacityReservations": []}):
        account.answers["DescribeCapacityReservations"] = nothing
        assert preflight.run(project, "dev") == 1
        assert "there is no such reservation" in capsys.readouterr().out


def test_subnets_of_an_own_vpc_must_be_there_in_their_zones(
    account: FakeAccount, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ec2 = boto3.client("ec2", REGION)
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    made = ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.0.0/20", AvailabilityZone="us-east-2c")["Subnet"]["SubnetId"]
    subnets = [{"id": made, "zone": "us-east-2a"}, {"id": "subnet-0123456789abcdef0", "zone": "us-east-2b"}]
    change(project, "dev", "network", ownVpc={"vpcId": vpc, "privateSubnets": subnets})

    assert preflight.run(project, "dev") == 1
    said = capsys.readouterr().out
    assert f"network.ownVpc.privateSubnets[0].zone = us-east-2a: {made} is in us-east-2c. Fix: set it to us-east-2c" in said
    assert "network.ownVpc.privateSubnets[1].id = subnet-0123456789abcdef0: there is no such subnet" in said
    assert "Elastic IPs" not in said


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
