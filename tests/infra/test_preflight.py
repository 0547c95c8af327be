"""`python -m infra preflight`: which questions are asked, exit codes and output. What it decides: test_preflight_checks.py."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.exceptions import EndpointConnectionError
from click.testing import CliRunner

from infra import image
from infra.__main__ import cli
from infra.commands import preflight
from infra.eks_versions import ADDONS
from tests.infra.environments import ROOT
from tests.infra.fake_account import READS, FakeAccount, fake_account, refused
from tests.infra.recordings import LOCK
from tests.infra.test_preflight_checks import REGION, TAGS, reserved
from workload.errors import UserError

TAG_LIST = [{"Key": key, "Value": value} for key, value in TAGS.items()]
QUOTAS = {"L-DB2E81BA": 96.0, "L-1216C47A": 32.0, "L-0263D0A3": 5.0, "L-F678F1CE": 5.0}


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
