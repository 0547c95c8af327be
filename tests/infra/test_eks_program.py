"""The real `__main__.py` for `dev`, whole, against a recording engine; the image is locked in a lock of the test's own."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pulumi.runtime import rpc

from infra import image
from infra.eks_plan import plan
from infra.image import ImageLock
from infra.settings import PROJECT, from_file
from tests.infra.crd import findings, ray_job_schema
from tests.infra.eks_component import texts
from tests.infra.environments import ROOT
from tests.infra.fake_engine import Recording, record
from tests.infra.recordings import DIGEST, ENVIRONMENTS, LOCK, PROGRAM, computed, config_of, recorded, run


@pytest.fixture(scope="module")
def dev() -> Recording:
    return recorded("dev")


def types(recording: Recording) -> set[str]:
    return {request.type for request in recording.requests.values()}


def test_every_component_of_the_design_is_there(dev: Recording) -> None:
    components = {kind for kind in types(dev) if kind.startswith("ray-train-eks:")}

    assert components == {
        f"ray-train-eks:index:{name}"
        for name in (
            "Network", "Cluster", "GpuNodes", "DevicePlugins", "RayOperator", "JobSpace", "CheckpointStore", "S3Store",
            "PodAccess", "TrainingJob",
        )
    }  # fmt: skip


@pytest.fixture(scope="module")
def preview() -> Recording:
    recording = run(preview=True)
    assert not recording.error, recording.logs
    return recording


@pytest.mark.case("C161", "C169")
def test_a_preview_shows_the_same_resources_as_an_update(dev: Recording, preview: Recording) -> None:
    assert preview.names() == dev.names()


@pytest.mark.case("C002")
def test_two_runs_ask_for_exactly_the_same(dev: Recording, preview: Recording) -> None:
    """Nothing comes from a clock or from chance: what a preview knows is what the update sends. It doesn't know the uid of
    a RayJob that is not there yet."""
    differing = {urn: list(differences(preview.inputs[urn], dev.inputs[urn])) for urn in dev.inputs}
    found = {urn: said for urn, said in differing.items() if said}

    assert found == {dev.urn("job-gate"): [".uid:  in the preview, uid-1 in the update"]}


def differences(early: Any, late: Any, path: str = "") -> Iterator[str]:
    """Where a preview knew another value than the update sent; what it didn't know, it may leave out."""
    if early == rpc.UNKNOWN:
        return
    if isinstance(early, dict) and isinstance(late, dict):
        yield from (f"{path}.{key}: {item} in the preview alone" for key, item in early.items() if key not in late)
        for key in early.keys() & late.keys():
            yield from differences(early[key], late[key], f"{path}.{key}")
    elif isinstance(early, list) and isinstance(late, list) and len(early) == len(late):
        for number, pair in enumerate(zip(early, late, strict=True)):
            yield from differences(*pair, f"{path}[{number}]")
    elif early != late:
        yield f"{path}: {early} in the preview, {late} in the update"


def test_a_difference_between_preview_and_update_is_found() -> None:
    assert list(differences({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]})) == [".a[1].b: x in the preview, y in the update"]
    assert list(differences({"a": 1}, {})) == [".a: 1 in the preview alone"]
    assert list(differences({"a": rpc.UNKNOWN}, {"a": 1, "b": 2})) == []


def test_no_resource_of_aws_uses_an_ambient_provider(dev: Recording) -> None:
    urn = dev.urn("aws")
    strays = [
        r.name for r in dev.requests.values() if r.type.startswith("aws:") and r.custom and not r.provider.startswith(urn)
    ]

    assert strays == []


@pytest.mark.case("C162")
def test_no_object_in_the_cluster_uses_an_ambient_kubeconfig(dev: Recording) -> None:
    """C162: nothing but the cluster's own generated kubeconfig is read."""
    urn = dev.urn("cluster-provider")
    inside = [r for r in dev.requests.values() if r.type.startswith("kubernetes:")]

    assert len(inside) > 10
    assert [r.name for r in inside if not r.provider.startswith(urn)] == []


def test_everything_has_the_environments_tags(dev: Recording) -> None:
    tags = dev.of("aws")["defaultTags"]
    tags = json.loads(tags) if isinstance(tags, str) else tags

    assert tags["tags"] == {"project": "ray-train-eks", "environment": "dev", "owner": "platform", "run": "dev"}


def test_the_stores_path_is_where_the_run_keeps_what_it_leaves(dev: Recording) -> None:
    assert dev.exports["storePath"] == f"s3://{dev.exports['bucket']}/store/dev"


@pytest.mark.case("C155", "C161")
def test_the_job_goes_before_everything_that_it_needs(dev: Recording) -> None:
    """Decision 14: the reverse of this is the order of a destroy."""
    before = dev.comes_after("job-gate")

    assert {
        "job-ray-job", "ray-operator-release", "device-plugins-nvidia", "device-plugins-efa", "gpu-nodes-nodes",
        "cluster-system-nodes", "pod-access-association", "job-space-egress", "job-space-ingress", "cluster-control-plane",
    } <= before  # fmt: skip
    assert any(name.startswith("network-") for name in before)


@pytest.mark.case("C153")
@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_what_is_in_the_cluster_is_forgotten_when_the_cluster_goes(environment: str) -> None:
    """C153: with a dead API server a destroy must end all the same."""
    recording = recorded(environment)
    control_plane = recording.urn("cluster-control-plane")
    inside = [r for r in recording.requests.values() if r.type.startswith("kubernetes:") and not r.retainOnDelete]
    without = {r.name for r in inside if r.deletedWith != control_plane}

    assert without == set()


def test_the_image_is_named_by_its_digest_in_every_pod(dev: Recording) -> None:
    images = {text for text in texts(dev.of("job-ray-job")) if "deep-learning-containers" in text}

    assert images == {f"public.ecr.aws/deep-learning-containers/ray@{DIGEST}"}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_job_is_one_that_the_operator_takes(environment: str) -> None:
    """By its own schema, as strictly as can be, and by the rules that are written in CEL."""
    job = recorded(environment).of("job-ray-job")

    assert set(job) == {"apiVersion", "kind", "metadata", "spec"}
    assert findings(job, ray_job_schema()) == []


@pytest.mark.case("C026", "C141", "C171")
def test_workers_get_their_gpus_and_one_efa_device_and_fail_rather_than_fall_back(dev: Recording) -> None:
    spec = dev.of("job-ray-job")["spec"]["rayClusterSpec"]
    (worker,) = spec["workerGroupSpecs"]
    container = worker["template"]["spec"]["containers"][0]
    environment = {one["name"]: one.get("value") for one in container["env"]}

    assert (worker["replicas"], worker["rayStartParams"]["num-gpus"]) == (2, "4")
    assert container["resources"]["limits"]["nvidia.com/gpu"] == container["resources"]["requests"]["nvidia.com/gpu"] == "4"
    assert container["resources"]["limits"]["vpc.amazonaws.com/efa"] == "1"
    assert (environment["NCCL_NET"], environment["NCCL_NET_PLUGIN"]) == ("Libfabric", "ofi")
    assert not {"FI_EFA_USE_DEVICE_RDMA", "NCCL_PROTO", "OFI_NCCL_PROTOCOL"} & set(environment)
    assert worker["template"]["spec"]["nodeSelector"] == {"ray-train-eks/gpu": "true", "ray-train-eks/efa": "true"}
    assert worker["template"]["spec"]["tolerations"]
    assert spec["authOptions"] == {"mode": "token"}


@pytest.mark.case("C024")
def test_the_head_is_kept_off_the_gpu_nodes(dev: Recording) -> None:
    """C024: AWS's image dies on a node without a GPU unless NVIDIA's hook is told that there is none."""
    head = dev.of("job-ray-job")["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    environment = {one["name"]: one.get("value") for one in head["containers"][0]["env"]}

    assert environment["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert head["nodeSelector"] == {"ray-train-eks/system": "true"}
    assert "nvidia.com/gpu" not in json.dumps(head["containers"][0]["resources"])
    assert head["serviceAccountName"] == "ray-train"
    assert head["automountServiceAccountToken"] is False


def test_the_run_config_names_the_bucket_and_holds_no_credential(dev: Recording) -> None:
    config = json.loads(dev.of("job-run-config")["data"]["run.json"])

    assert config["store"] == {
        "kind": "s3", "bucket": "the-bucket", "prefix": "store", "region": "us-east-2", "endpoint": None,
    }  # fmt: skip


def test_without_efa_the_workers_are_the_declared_tcp_arm(dev: Recording) -> None:
    recording = run(gpuNodes__efa=False, gpuNodes__placementGroup=False)
    assert not recording.error, recording.logs
    worker = recording.of("job-ray-job")["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]
    environment = {one["name"]: one.get("value") for one in worker["containers"][0]["env"]}

    assert "vpc.amazonaws.com/efa" not in worker["containers"][0]["resources"]["limits"]
    assert (environment["NCCL_NET"], environment["FI_PROVIDER"]) == ("Socket", "tcp")
    assert "device-plugins-efa" not in {r.name for r in recording.requests.values()}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpuNodes__instanceType": "g6.xlarge"}, "gpuNodes.efa = true"),
        ({"gpuNodes__zone": "us-east-2c"}, "gpuNodes.zone = us-east-2c"),
        ({"workers__gpusPerWorker": 0}, "workers.gpusPerWorker = 0"),
        ({"workers__count": 6, "workers__perPod": 3}, "3"),
        ({"network__cidr": "10.42.0.0/25"}, "network.cidr = 10.42.0.0/25"),
        ({"aws__maxHourlyCost": 3.0}, "aws.maxHourlyCost = 3"),
        ({"aws__isProduction": True}, "cluster.deletionProtection = false"),
        ({"store": {"kind": "fsx", "capacityGib": 1300}}, "store.capacityGib = 1300"),
        ({"gpuNodes__releaseVersion": "1.35.7-20261003"}, "panics"),
        ({"image__rayVersion": "2.57.0"}, "image.rayVersion"),
        ({"cluster__publicAccessCidrs": ["0.0.0.0/0"]}, "cluster.publicAccessCidrs"),
        ({"rayOperator__version": "9.9.9"}, "rayOperator.version = 9.9.9"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_exists(changes: dict[str, Any], said: str) -> None:
    recording = run(**changes)

    assert recording.error
    assert said in recording.error + " ".join(recording.logs)
    assert recording.names() <= {"pulumi:pulumi:Stack ray-train-eks-dev"}


@pytest.mark.parametrize(("environment", "dollars"), [("dev", 9.93), ("prod", 10.06)])
def test_the_environments_on_aws_break_no_rule_and_cost_what_their_files_say(environment: str, dollars: float) -> None:
    made = plan(from_file(ROOT / f"Pulumi.{environment}.yaml"), PROJECT, LOCK)

    assert made.cost.total == pytest.approx(dollars, abs=0.01)
    assert made.settings.image.reference.endswith(DIGEST)


def test_an_image_that_is_not_locked_is_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = ImageLock(schema_version=1, history=())
    monkeypatch.setattr(image, "read_lock", lambda: empty)
    recording = record(PROGRAM, config_of("dev"), "dev", computed=computed)

    assert "run: python -m infra image lock" in recording.error + " ".join(recording.logs)


@pytest.mark.case("C029")
def test_every_node_has_a_lustre_client_where_the_store_is_lustre_and_none_elsewhere(dev: Recording) -> None:
    lustre = run(store={"kind": "fsx"})
    assert not lustre.error, lustre.logs

    def with_client(recording: Recording) -> set[str]:
        kind = "aws:ec2/launchTemplate:LaunchTemplate"
        data = {r.name: recording.of(r.name).get("userData", "") for r in recording.requests.values() if r.type == kind}
        return {name for name, encoded in data.items() if b"lustre-client" in base64.b64decode(encoded)}

    assert with_client(lustre) == {"cluster-system-template", "gpu-nodes-template"}
    assert with_client(dev) == set()
