"""`python -m infra teardown-check`: what is found, the receipt, exit codes. What is made of it: test_teardown.py."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner

from infra.__main__ import cli
from infra.commands import teardown_check
from infra.sweep import storage
from infra.sweep.everything import BY_TAG
from infra.teardown.found import Found
from infra.teardown.remedies import remedy
from tests.infra.environments import ROOT
from tests.infra.fake_account import READS, FakeAccount, fake_account, refused
from tests.infra.recordings import recorded, run
from workload.errors import UserError

REGION, NAME = "us-east-2", "ray-train-eks-dev"
TAGS = {"project": "ray-train-eks", "environment": "dev"}
TAG_LIST: Any = [{"Key": key, "Value": value} for key, value in TAGS.items()]
OTHERS: Any = [{"Key": "project", "Value": "ray-train-eks"}, {"Key": "environment", "Value": "prod"}]


@pytest.fixture
def account() -> Iterator[FakeAccount]:
    """An account in which nothing of the environment is left; placement groups aren't moto's."""
    with fake_account() as made:
        made.answers["DescribePlacementGroups"] = {"PlacementGroups": []}
        yield made


def client(service: str) -> Any:
    return boto3.client(service, REGION)


def tagged(kind: str, tags: Any = TAG_LIST) -> Any:
    return [{"ResourceType": kind, "Tags": tags}]


def add_bucket(tags: Any = TAG_LIST, name: str = "store-s3-bucket-0a1b2c3") -> tuple[str, str]:
    """A bucket with two versions of an object, and its key, as the stack makes them."""
    key = client("kms").create_key(Tags=[{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in tags])["KeyMetadata"]
    s3 = client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": tags})
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key["Arn"]}
    s3.put_bucket_encryption(
        Bucket=name, ServerSideEncryptionConfiguration={"Rules": [{"ApplyServerSideEncryptionByDefault": default}]}
    )
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for body in (b"one", b"two"):
        s3.put_object(Bucket=name, Key="store/x", Body=body)
    return name, key["KeyId"]


def check(folder: Path) -> tuple[int, dict[str, Any]]:
    code = teardown_check.run(ROOT, "dev", folder)
    return code, json.loads((folder / "teardown-dev.json").read_text(encoding="utf-8"))


def names(found: list[dict[str, Any]]) -> set[str]:
    return {f"{one['kind']} {one['name']}" for one in found}


def test_an_account_without_a_trace_is_proven_clean_and_exits_0(
    account: FakeAccount, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, receipt = check(tmp_path)

    assert code == 0
    assert "nothing left over, of 26 kinds that were asked" in capsys.readouterr().out
    assert receipt["clean"] is True
    assert {"account": "123456789012", "region": REGION, "environment": "dev", "clusterName": NAME, "tags": TAGS}.items() <= (
        receipt.items()
    )
    assert receipt["checkedAt"].endswith("Z")
    assert len(receipt["asked"]) == 26
    assert {"eks:cluster", "ec2:volume", "ec2:network-interface", "kms:key", "iam:role", "logs:log-group", BY_TAG} <= set(
        receipt["asked"]
    )


def test_only_reading_calls_are_made(account: FakeAccount, tmp_path: Path) -> None:
    add_bucket()
    account.calls.clear()
    check(tmp_path)

    assert len(account.calls) > 25
    assert [call for call in account.calls if not call.startswith(READS)] == []


def test_bucket_and_key_are_kept_on_purpose_with_their_price_and_are_no_fault(
    account: FakeAccount, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket, key = add_bucket()

    code, receipt = check(tmp_path)
    said = capsys.readouterr().out
    assert code == 0
    assert names(receipt["kept"]) == {f"s3:bucket {bucket}", f"kms:key {key}"}
    assert f"  s3:bucket {bucket}: 0.023 USD per GB and month" in said
    assert f"  kms:key {key}, Enabled: 1 USD a month" in said
    assert said.index("bucket.delete()") < said.index("schedule-key-deletion")  # in the order in which they can be run
    assert "nothing left over" in said


def test_the_command_that_is_shown_for_the_bucket_removes_it_with_all_versions(account: FakeAccount) -> None:
    bucket, _ = add_bucket()
    command = remedy(Found(kind="s3:bucket", name=bucket), REGION)

    exec(command.removeprefix('python -c "').removesuffix('"'), {})  # noqa: S102 - what the user would run
    assert client("s3").list_buckets()["Buckets"] == []


def test_what_other_environments_have_is_not_looked_at(account: FakeAccount, tmp_path: Path) -> None:
    add_bucket(OTHERS)
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc", OTHERS))["Vpc"]["VpcId"]
    shared = [*OTHERS, {"Key": f"kubernetes.io/cluster/{NAME}", "Value": "shared"}]
    ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/20", TagSpecifications=tagged("subnet", shared))
    client("iam").create_role(RoleName="cluster-node-role-1234567", AssumeRolePolicyDocument="{}", Tags=OTHERS)
    client("logs").create_log_group(logGroupName="/aws/eks/ray-train-eks-dev2/cluster")

    code, receipt = check(tmp_path)
    assert code == 0
    assert receipt["kept"] == receipt["leftOver"] == receipt["scheduled"] == []


def test_everything_that_a_destroy_may_leave_is_found_and_exits_1(
    account: FakeAccount, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc"))["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/20", TagSpecifications=tagged("subnet"))["Subnet"]["SubnetId"]
    address = ec2.allocate_address(Domain="vpc", TagSpecifications=tagged("elastic-ip"))["AllocationId"]
    owned = tagged("volume", [{"Key": f"kubernetes.io/cluster/{NAME}", "Value": "owned"}])
    volume = ec2.create_volume(AvailabilityZone="us-east-2a", Size=1, TagSpecifications=owned)["VolumeId"]
    by_cni = tagged("network-interface", [{"Key": "cluster.k8s.amazonaws.com/name", "Value": NAME}])
    of_pods = ec2.create_network_interface(SubnetId=subnet, TagSpecifications=by_cni)["NetworkInterface"]
    of_eks = ec2.create_network_interface(SubnetId=subnet, Description=f"Amazon EKS {NAME}")["NetworkInterface"]
    client("iam").create_role(RoleName="pod-access-role-1234567", AssumeRolePolicyDocument="{}", Tags=TAG_LIST)
    client("logs").create_log_group(logGroupName=f"/aws/eks/{NAME}/cluster")
    client("logs").create_log_group(logGroupName="network-flow-logs-group-1234567", tags=TAGS)
    balancer = client("elbv2").create_load_balancer(
        Name="k8s-ns-svc", Subnets=[subnet], Type="network", Tags=[{"Key": "elbv2.k8s.aws/cluster", "Value": NAME}]
    )["LoadBalancers"][0]["LoadBalancerArn"]
    client("elb").create_load_balancer(
        LoadBalancerName="a1b2", AvailabilityZones=["us-east-2a"], Tags=owned[0]["Tags"],
        Listeners=[{"Protocol": "tcp", "LoadBalancerPort": 80, "InstancePort": 80}],
    )  # fmt: skip
    lustre = client("fsx").create_file_system(FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=[subnet], Tags=TAG_LIST)
    efs = client("efs").create_file_system(Tags=TAG_LIST)["FileSystemId"]
    client("eks").create_cluster(
        name=NAME, roleArn="arn:aws:iam::123456789012:role/r", resourcesVpcConfig={"subnetIds": [subnet]}
    )

    code, receipt = check(tmp_path)
    said = capsys.readouterr().out
    assert code == 1
    wanted = {
        f"ec2:vpc {vpc}", f"ec2:subnet {subnet}", f"ec2:elastic-ip {address}", f"ec2:volume {volume}",
        f"ec2:network-interface {of_pods['NetworkInterfaceId']}", f"ec2:network-interface {of_eks['NetworkInterfaceId']}",
        "iam:role pod-access-role-1234567", f"logs:log-group /aws/eks/{NAME}/cluster",
        "logs:log-group network-flow-logs-group-1234567", "elasticloadbalancing:loadbalancer a1b2",
        f"elasticloadbalancing:loadbalancer {balancer.split(':loadbalancer/')[1]}", f"eks:cluster {NAME}",
        f"fsx:file-system {lustre['FileSystem']['FileSystemId']}", f"elasticfilesystem:file-system {efs}",
    }  # fmt: skip
    assert wanted <= names(receipt["leftOver"])
    assert receipt["clean"] is False
    assert f"  ec2:volume {volume}, available\n    aws ec2 delete-volume --volume-id {volume} --region us-east-2\n" in said
    assert "aws elb delete-load-balancer --load-balancer-name a1b2" in said
    assert f"aws elbv2 delete-load-balancer --load-balancer-arn {balancer}" in said
    assert "the cluster still stands: was it destroyed?" in said


def test_a_key_that_waits_for_its_end_is_no_fault(
    account: FakeAccount, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, key = add_bucket()
    client("s3").delete_bucket_tagging(Bucket="store-s3-bucket-0a1b2c3")
    client("kms").schedule_key_deletion(KeyId=key, PendingWindowInDays=30)

    code, receipt = check(tmp_path)
    assert code == 0
    assert names(receipt["scheduled"]) == {f"kms:key {key}"}
    ends = receipt["scheduled"][0]["ends"]
    assert ends[:2] == "20"
    assert f"going by themselves:\n  kms:key {key}, PendingDeletion until {ends}\n" in capsys.readouterr().out


def test_a_key_whose_bucket_is_gone_is_left_over(account: FakeAccount, tmp_path: Path) -> None:
    _, key = add_bucket()
    client("s3").delete_bucket_tagging(Bucket="store-s3-bucket-0a1b2c3")  # as good as gone: it isn't this environment's

    code, receipt = check(tmp_path)
    assert code == 1
    assert names(receipt["leftOver"]) == {f"kms:key {key}"}


def test_a_key_is_never_called_left_over_when_its_bucket_cannot_be_asked(account: FakeAccount, tmp_path: Path) -> None:
    bucket, key = add_bucket()
    account.deny("GetBucketEncryption")

    code, receipt = check(tmp_path)
    assert code == 0
    assert names(receipt["kept"]) == {f"s3:bucket {bucket}", f"kms:key {key}"}


def test_a_bucket_with_our_tags_and_another_name_is_found_by_its_tags(account: FakeAccount, tmp_path: Path) -> None:
    add_bucket(name="mine-by-hand")

    assert "s3:bucket mine-by-hand" in names(check(tmp_path)[1]["kept"])


def test_what_the_tagging_api_still_lists_and_its_service_no_longer_has_is_gone(account: FakeAccount, tmp_path: Path) -> None:
    vpc, group_ = f"arn:aws:ec2:{REGION}:123456789012:vpc/vpc-1", f"arn:aws:eks:{REGION}:123456789012:nodegroup/{NAME}/gpu/u-1"
    account.answers["GetResources"] = {"ResourceTagMappingList": [{"ResourceARN": vpc}, {"ResourceARN": group_}]}

    code, receipt = check(tmp_path)
    assert code == 0
    assert receipt["listedButGone"] == [vpc, group_]


def test_what_only_the_tagging_api_knows_is_left_over_and_said_to_be_unconfirmed(
    account: FakeAccount, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arn = f"arn:aws:sqs:{REGION}:123456789012:queue-1"
    account.answers["GetResources"] = {"ResourceTagMappingList": [{"ResourceARN": arn}]}

    assert check(tmp_path)[0] == 1
    said = capsys.readouterr().out
    assert "could not be confirmed" in said
    assert f"get-resources --resource-arn-list {arn} --region us-east-2" in said


def test_a_kind_that_cannot_be_asked_is_named_and_nothing_is_proven(
    account: FakeAccount, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    account.deny("ListRoles", "DescribeVolumes")

    code, receipt = check(tmp_path)
    said = capsys.readouterr().out
    assert code == 1
    assert "could not be asked: iam:role: needs permission iam:ListRoles" in said
    assert "could not be asked: ec2:volume: needs permission ec2:DescribeVolumes" in said
    assert "not proven clean: 2 kinds could not be asked" in said
    assert receipt["notAsked"]["iam:role"] == "needs permission iam:ListRoles"
    assert "iam:role" not in receipt["asked"]
    assert receipt["clean"] is False


def test_no_denied_call_is_a_crash(account: FakeAccount, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_bucket()
    client("iam").create_role(RoleName="cluster-node-role-1234567", AssumeRolePolicyDocument="{}", Tags=TAG_LIST)
    client("logs").create_log_group(logGroupName="network-flow-logs-group-1", tags=TAGS)
    account.calls.clear()
    check(tmp_path)
    account.deny("DescribeTags", *(set(account.calls) - {"GetCallerIdentity"}))

    code, receipt = check(tmp_path)
    assert code == 1
    assert receipt["asked"] == []
    assert all(why.startswith("needs permission ") for why in receipt["notAsked"].values())
    for inner in ("ListRoleTags", "GetBucketTagging", "ListTagsForResource", "ListResourceTags", "DescribeKey"):
        account.answers = {"DescribePlacementGroups": {"PlacementGroups": []}}
        account.deny(inner)
        code, receipt = check(tmp_path)
        assert (code, len(receipt["notAsked"])) == (1, 1), inner


def test_a_key_whose_own_policy_shuts_us_out_is_none_of_ours(account: FakeAccount, tmp_path: Path) -> None:
    other = client("kms").create_key()["KeyMetadata"]["KeyId"]
    bucket, key = add_bucket()

    def tags(asked: dict[str, Any]) -> Any:
        if asked["KeyId"] == other:
            raise refused("AccessDeniedException", "ListResourceTags")

    account.answers["ListResourceTags"] = tags

    code, receipt = check(tmp_path)
    assert (code, names(receipt["kept"])) == (0, {f"s3:bucket {bucket}", f"kms:key {key}"})


def test_a_key_about_which_nobody_answers_is_not_taken_for_anothers(account: FakeAccount, tmp_path: Path) -> None:
    """Throttled, after all tries: it may be ours, so nothing is proven."""
    client("kms").create_key()
    _, key = add_bucket()

    def tags(asked: dict[str, Any]) -> Any:
        if asked["KeyId"] == key:
            raise refused("ThrottlingException", "ListResourceTags", "Rate exceeded")

    account.answers["ListResourceTags"] = tags

    code, receipt = check(tmp_path)
    assert code == 1
    assert receipt["notAsked"]["kms:key"].startswith("ThrottlingException")
    assert receipt["clean"] is False


def test_bad_input_exits_2_without_a_receipt(account: FakeAccount, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has nothing in an AWS account"):
        teardown_check.run(ROOT, "local", tmp_path)
    account.answers["GetCallerIdentity"] = refused("InvalidClientTokenId", "GetCallerIdentity")
    with pytest.raises(UserError, match="AWS credentials"):
        teardown_check.run(ROOT, "dev", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_leads_there(account: FakeAccount, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["teardown-check", "-s", "dev", "--to", str(tmp_path)])

    assert (done.exit_code, "nothing left over" in done.output) == (0, True)
    assert (tmp_path / "teardown-dev.json").is_file()


def test_the_names_that_are_looked_for_are_those_that_the_program_gives() -> None:
    """The group of the control plane's logs has the cluster's name, and needs no prefix."""
    made = [recorded("dev"), recorded("prod"), run("dev", network__flowLogs=True)]
    requests = {request.name: request.type for recording in made for request in recording.requests.values()}
    named: dict[str, set[str]] = {}
    for name, kind in requests.items():
        named.setdefault(kind, set()).add(f"{name}-")
    roles = named["aws:iam/role:Role"] | named["eks:index:Cluster"]  # it makes its role under its own name

    assert all(any(name.startswith(one) for name in roles) for one in storage.ROLE_NAMES), "one that nothing has"
    assert [name for name in roles if not name.startswith(storage.ROLE_NAMES)] == []
    assert named["aws:s3/bucket:Bucket"] == set(storage.BUCKET_NAMES)
    assert named["aws:cloudwatch/logGroup:LogGroup"] - {"cluster-logs-"} == set(storage.LOG_GROUP_NAMES)


def test_neither_a_preview_nor_the_other_commands_load_boto3() -> None:
    code = "import sys, infra.settings, infra.eks_site, infra.__main__, infra.commands.watch; sys.exit('boto3' in sys.modules)"

    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)
