"""The store on AWS: closed, encrypted, kept; rights and ports no wider than needed."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest

from infra.checkpoint_store import CheckpointStore
from infra.eks_settings import EfsStore, FsxStore, S3Store
from infra.mounted_volume import StoreSite
from infra.settings_models import HostPathStore
from infra.store_rules import store_notes, store_port, store_problems
from tests.infra.component import build
from tests.infra.fake_engine import Recording

BUCKET, KEY = "arn:aws:s3:::made-up", "arn:aws:kms:us-east-2:123456789012:key/abc"
OUTPUTS = {
    "store-s3-bucket": {"bucket": "made-up", "arn": BUCKET, "region": "us-east-2"},
    "store-s3-key": {"arn": KEY},
    "store-lustre-file-system": {"dnsName": "fs-1.fsx.us-east-2.amazonaws.com", "mountName": "abcd"},
    "store-lustre-volume": {"metadata": {"name": "lustre-volume"}},
    "store-efs-volume": {"metadata": {"name": "efs-volume"}},
}
S3 = S3Store(kind="s3", noncurrent_days=30, purge_on_destroy=False)
FSX = FsxStore(kind="fsx", noncurrent_days=30, purge_on_destroy=False, deployment="SCRATCH_2", capacity_gib=1200)
EFS = EfsStore(kind="efs", purge_on_destroy=False)


def made(settings: Any, *, preview: bool = False, more: dict[str, str] | None = None) -> tuple[Recording, dict[str, Any]]:
    """The recording, and the store's outputs as they arrived."""
    seen: dict[str, Any] = {}

    def program() -> None:
        nodes = aws.ec2.PlacementGroup("nodes", strategy="cluster")
        site = StoreSite(
            region="us-east-2", cluster_name="dev", vpc_id="vpc-1",
            subnet_ids={"us-east-2a": "subnet-a", "us-east-2b": "subnet-b"},
            gpu_zone="us-east-2a", node_security_group_id="sg-nodes", nodes=[nodes], cluster=nodes,
        )  # fmt: skip
        store = CheckpointStore("store", settings, "ray-train", site=site)
        seen["volume"] = store.volume
        seen["bucket"] = store.bucket
        store.location.apply(lambda location: seen.update(location=location))
        if store.volume:
            pulumi.Output.from_input(store.volume).apply(lambda volume: seen.update(volume=volume))

    return build(program, preview=preview, outputs=OUTPUTS), seen


@pytest.fixture(scope="module")
def s3() -> Recording:
    return made(S3)[0]


def names(recording: Recording) -> set[str]:
    return {request.name for request in recording.requests.values() if request.custom}


def statements(text: str) -> dict[str, dict[str, Any]]:
    return {each["Sid"]: each for each in json.loads(text)["Statement"]}


def test_pods_reach_the_bucket_without_a_volume() -> None:
    _, seen = made(S3)

    assert seen["volume"] is None
    assert seen["location"] == {
        "kind": "s3", "bucket": "made-up", "prefix": "store", "region": "us-east-2", "endpoint": None,
    }  # fmt: skip


def test_an_endpoint_of_ones_own_is_where_pods_ask() -> None:
    own = S3.model_copy(update={"endpoint": "https://bucket.vpce-0123.s3.us-east-2.vpce.amazonaws.com"})

    assert made(own)[1]["location"]["endpoint"] == own.endpoint


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [(None, 443), ("https://s3.example", 443), ("https://s3.example:9000", 9000), ("http://s3.example", 80)],
)
def test_the_port_of_the_endpoint_is_known_to_the_network_policy(endpoint: str | None, port: int) -> None:
    assert store_port(S3.model_copy(update={"endpoint": endpoint})) == port


@pytest.mark.parametrize("endpoint", ["https://s3.example:99999", "https://s3.example:x", "https://[::1"])
def test_an_endpoint_that_cannot_be_read_is_refused_before_its_port_is_asked(endpoint: str) -> None:
    (problem,) = store_problems(S3.model_copy(update={"endpoint": endpoint}), is_production=False)

    assert str(problem).startswith(f"store.endpoint = {endpoint}: can't be read: ")
    assert store_problems(S3.model_copy(update={"endpoint": "https://s3.example:8443"}), is_production=False) == []


def test_an_endpoint_in_the_clear_is_said_and_another_is_not() -> None:
    (note,) = store_notes(S3.model_copy(update={"endpoint": "http://s3.example"}))

    assert "store.endpoint = http://s3.example: nothing is encrypted on the way" in note
    assert store_notes(S3) == store_notes(EFS) == []


def test_the_location_is_what_the_run_config_takes() -> None:
    from pydantic import TypeAdapter

    from workload.run_config import RunConfig, S3StoreConfig

    adapter = TypeAdapter(RunConfig.model_fields["store"].annotation)
    assert isinstance(adapter.validate_python(made(S3)[1]["location"]), S3StoreConfig)


def test_a_hostpath_is_a_folder_of_the_run_config() -> None:
    recording, seen = made(HostPathStore(kind="hostPath", path="/srv"))

    assert names(recording) == {"nodes"}
    assert seen["location"] == {"path": "/mnt/store"}
    assert seen["bucket"] is None


@pytest.mark.parametrize("settings", [S3, FSX, EFS], ids=["s3", "fsx", "efs"])
def test_a_preview_shows_the_same_resources(settings: Any) -> None:
    assert made(settings, preview=True)[0].names() == made(settings)[0].names()


def test_the_bucket_is_closed(s3: Recording) -> None:
    block = s3.of("store-s3-public-access-block")

    assert block.pop("bucket") == "made-up"
    assert set(block.values()) == {True}
    assert len(block) == 4
    assert s3.of("store-s3-ownership")["rule"] == {"objectOwnership": "BucketOwnerEnforced"}
    assert "store-s3-public-access-block" in s3.comes_after("store-s3-policy")


def test_the_bucket_refuses_plain_http_and_any_other_encryption(s3: Recording) -> None:
    found = statements(s3.of("store-s3-policy")["policy"])

    assert all(each["Effect"] == "Deny" for each in found.values())
    assert found["TlsOnly"]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert found["TlsOnly"]["Resource"] == [BUCKET, f"{BUCKET}/*"]
    header = "s3:x-amz-server-side-encryption"
    assert found["NoOtherEncryption"]["Condition"] == {"StringNotEquals": {header: "aws:kms"}, "Null": {header: "false"}}
    assert found["NoOtherKey"]["Condition"]["StringNotEquals"] == {f"{header}-aws-kms-key-id": KEY}


def test_objects_are_encrypted_with_a_key_of_their_own_that_is_rotated(s3: Recording) -> None:
    rule = s3.of("store-s3-encryption")["rules"][0]

    assert rule["applyServerSideEncryptionByDefault"] == {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": KEY}
    assert rule["bucketKeyEnabled"] is True
    assert s3.of("store-s3-key")["enableKeyRotation"] is True


def test_replaced_objects_are_kept_as_long_as_set_and_unfinished_uploads_a_week(s3: Recording) -> None:
    rules = {rule["id"]: rule for rule in s3.of("store-s3-lifecycle")["rules"]}

    assert s3.of("store-s3-versioning")["versioningConfiguration"] == {"status": "Enabled"}
    assert rules["replaced-and-deleted"]["noncurrentVersionExpiration"] == {"noncurrentDays": 30}
    assert "days" not in rules["replaced-and-deleted"]["expiration"]  # what is current never expires
    assert rules["unfinished-uploads"]["abortIncompleteMultipartUpload"] == {"daysAfterInitiation": 7}


def test_without_retention_nothing_is_versioned() -> None:
    recording, _ = made(S3.model_copy(update={"noncurrent_days": 0}))

    assert recording.of("store-s3-versioning")["versioningConfiguration"] == {"status": "Suspended"}
    assert [rule["id"] for rule in recording.of("store-s3-lifecycle")["rules"]] == ["unfinished-uploads"]


@pytest.mark.parametrize("settings", [S3, FSX], ids=["s3", "fsx"])
def test_bucket_key_and_all_that_protects_them_outlive_the_stack(settings: Any) -> None:
    recording, _ = made(settings)
    own = [request for request in recording.requests.values() if request.custom and request.name.startswith("store-s3-")]

    assert len(own) >= 8
    assert all(request.retainOnDelete for request in own)
    assert recording.of("store-s3-bucket").get("forceDestroy", False) is False


def test_a_store_to_purge_goes_with_the_stack_objects_and_all() -> None:
    recording, _ = made(S3.model_copy(update={"purge_on_destroy": True}))

    assert not any(request.retainOnDelete for request in recording.requests.values())
    assert recording.of("store-s3-bucket")["forceDestroy"] is True


def test_lustre_lies_over_the_prefix_of_the_bucket_both_ways() -> None:
    recording, seen = made(FSX)
    file_system, link = recording.of("store-lustre-file-system"), recording.of("store-lustre-link")

    assert file_system["fileSystemTypeVersion"] == "2.15"
    assert file_system["subnetIds"] == "subnet-a"
    assert "perUnitStorageThroughput" not in file_system
    assert link["dataRepositoryPath"] == "s3://made-up/store"
    assert link["s3"]["autoExportPolicy"]["events"] == link["s3"]["autoImportPolicy"]["events"] == ["NEW", "CHANGED", "DELETED"]
    assert seen["location"] == {"path": "/mnt/store"}
    assert seen["volume"] == {"persistentVolumeClaim": {"claimName": "ray-train-store"}}


def test_lustre_may_use_the_key_through_s3_alone() -> None:
    recording, _ = made(FSX)
    found = statements(recording.of("store-s3-key-policy")["policy"])

    assert set(found) == {"Account", "Lustre"}
    condition = found["Lustre"]["Condition"]
    assert condition["StringEquals"]["kms:ViaService"] == "s3.us-east-2.amazonaws.com"
    assert condition["StringEquals"]["kms:EncryptionContext:aws:s3:arn"] == BUCKET
    assert "/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/" in condition["ArnLike"]["aws:PrincipalArn"]


def rules(recording: Recording) -> set[tuple[str, str, str, int, int]]:
    """(way, of group, with group, from port, to port)."""
    return {
        (request.type.rsplit("Group", 1)[1], each["securityGroupId"], each["referencedSecurityGroupId"],
         int(each["fromPort"]), int(each["toPort"]))
        for urn, request in recording.requests.items()
        if request.type.startswith("aws:vpc/securityGroup") and (each := recording.inputs[urn])
    }  # fmt: skip


@pytest.mark.case("C027")
def test_c027_lustre_ports_are_open_both_ways_between_nodes_and_file_system_only() -> None:
    recording, _ = made(FSX)
    own = "store-lustre-security-group-id"
    pairs = {(own, "sg-nodes"), ("sg-nodes", own), (own, own)}

    assert rules(recording) == {
        (way, *pair, *ports) for way in ("IngressRule", "EgressRule") for pair in pairs for ports in ((988, 988), (1018, 1023))
    }
    assert not {key for key in recording.of("store-lustre-security-group") if key in ("ingress", "egress")}


def test_efs_is_encrypted_reached_in_every_zone_and_outlives_the_stack() -> None:
    recording, seen = made(EFS)

    assert recording.of("store-efs-file-system")["encrypted"] is True
    assert {recording.of(f"store-efs-mount-target-us-east-2{zone}")["subnetId"] for zone in "ab"} == {"subnet-a", "subnet-b"}
    kept = {request.name for request in recording.requests.values() if request.retainOnDelete}
    assert kept == {"store-efs-file-system", "store-efs-access-point", "store-efs-backups"}
    assert {ports for *_, ports, _ in rules(recording)} == {2049}
    handle = recording.of("store-efs-volume")["spec"]["csi"]["volumeHandle"]
    assert handle == "store-efs-file-system-id::store-efs-access-point-id"
    assert seen["bucket"] is None


@pytest.mark.parametrize(("settings", "part"), [(FSX, "lustre"), (EFS, "efs")], ids=["fsx", "efs"])
def test_volume_and_claim_are_forgotten_with_the_cluster(settings: Any, part: str) -> None:
    """A claim that pods still use never goes, and a dead API server never answers: either would stop a destroy."""
    recording, _ = made(settings)

    for name in (f"store-{part}-volume", f"store-{part}-claim"):
        assert recording.request(name).deletedWith == recording.urn("nodes")


@pytest.mark.case("C030")
@pytest.mark.parametrize(("settings", "part"), [(FSX, "lustre"), (EFS, "efs")], ids=["fsx", "efs"])
def test_c030_volumes_are_static_and_their_driver_outlives_them(settings: Any, part: str) -> None:
    recording, _ = made(settings)
    volume, claim = recording.of(f"store-{part}-volume")["spec"], recording.of(f"store-{part}-claim")["spec"]

    assert volume["storageClassName"] == claim["storageClassName"] == ""
    assert volume["persistentVolumeReclaimPolicy"] == "Retain"
    assert claim["volumeName"] == f"{part}-volume"
    assert {f"store-{part}-driver", f"store-{part}-volume", "nodes"} <= recording.comes_after(f"store-{part}-claim")


@pytest.mark.case("C008")
@pytest.mark.parametrize(("settings", "part"), [(FSX, "lustre"), (EFS, "efs")], ids=["fsx", "efs"])
def test_c008_the_driver_runs_on_tainted_nodes_too(settings: Any, part: str) -> None:
    node = json.loads(made(settings)[0].of(f"store-{part}-driver")["configurationValues"])["node"]

    assert node in ({"tolerateAllTaints": True}, {"tolerations": [{"operator": "Exists"}]})


@pytest.mark.parametrize(("settings", "part"), [(S3, "s3"), (FSX, "lustre"), (EFS, "efs")], ids=["s3", "fsx", "efs"])
def test_every_child_belongs_to_its_part_and_every_part_to_the_store(settings: Any, part: str) -> None:
    recording, _ = made(settings)
    parents = {request.name: request.parent.rsplit("::", 1)[-1] for request in recording.requests.values()}

    assert parents[f"store-{part}"] == "store"
    children = [name for name in parents if name.startswith(f"store-{part}-")]
    assert children
    assert {parents[name] for name in children} == {f"store-{part}"}


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (FSX.model_copy(update={"capacity_gib": 1300}), "store.capacityGib = 1300: Lustre comes in .* use 1200 or 2400"),
        (FSX.model_copy(update={"throughput_per_tib": 125}), "store.throughputPerTib = 125: a SCRATCH_2"),
        (FSX.model_copy(update={"deployment": "PERSISTENT_2"}), "store.throughputPerTib.*: a PERSISTENT_2"),
    ],
)
def test_a_file_system_that_fsx_does_not_sell_is_refused(settings: FsxStore, key: str) -> None:
    problems = store_problems(settings, is_production=False)

    assert len(problems) == 1
    from workload.errors import UserError

    with pytest.raises(UserError, match=key):
        raise UserError(*problems)


def test_production_keeps_what_was_replaced_and_never_purges() -> None:
    careless = S3.model_copy(update={"noncurrent_days": 0, "purge_on_destroy": True})

    assert [problem.where for problem in store_problems(careless, is_production=True)] == [
        "store.purgeOnDestroy", "store.noncurrentDays",
    ]  # fmt: skip
    assert store_problems(careless, is_production=False) == store_problems(S3, is_production=True) == []
