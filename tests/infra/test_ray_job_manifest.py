"""The RayJob: a golden file, the operator's own schema, and the rules that only its code has."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from infra import settings
from infra.identity import identify
from infra.job_placement import placement
from infra.ray_job_manifest import JobParts, ray_job
from infra.settings_models import Settings
from infra.versions import KUBERAY_OPERATOR
from tests.infra.crd import findings, ray_job_schema
from tests.infra.environments import ROOT, local, raw
from workload.run_config import RunConfig, StoreConfig, TextFiles

GOLDEN = ROOT / "tests" / "golden" / "rayjob-local.json"


def parts(made: Settings) -> JobParts:
    return JobParts(
        code_config_map="ray-train-code-0",
        run_config_map="run-config-0",
        store_volume={"hostPath": {"path": "/s", "type": "Directory"}},
        placement=placement(made),
    )


# Pointers in the operator's Go types: they keep a value that others would lose.
KEEP_THEIR_ZERO = {"backoffLimit", "automountServiceAccountToken", "allowPrivilegeEscalation"}


def manifest(*changes: str) -> dict[str, Any]:
    made = local(*changes)
    return ray_job(made, identify(made, "c" * 64), parts(made))


def ray_groups(job: dict[str, Any]) -> list[dict[str, Any]]:
    cluster = job["spec"]["rayClusterSpec"]
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def pods(job: dict[str, Any]) -> list[dict[str, Any]]:
    return [group["template"] for group in ray_groups(job)] + [job["spec"]["submitterPodTemplate"]]


def test_the_local_environments_job_is_the_golden_one() -> None:
    """After a change that is meant: python -m tests.infra.test_ray_job_manifest."""
    assert manifest() == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("workers.gpusPerWorker=1", "job.retries=0", "job.keepClusterSeconds=0"),
        ("workers.perPod=2", "image.pullPolicy=Always"),
    ],
)
def test_the_operators_schema_takes_it(changes: tuple[str, ...]) -> None:
    assert findings(manifest(*changes), ray_job_schema()) == []


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda spec: spec.update(entrypont="x"), "entrypont"),
        (lambda spec: spec["rayClusterSpec"].pop("headGroupSpec"), "headGroupSpec"),
        (lambda spec: spec["rayClusterSpec"]["workerGroupSpecs"][0].update(replicas="2"), "is not of type"),
        (lambda spec: spec["submitterPodTemplate"]["spec"].update(restartPolicies="x"), "restartPolicies"),
        (lambda spec: spec.update(managedBy="me"), "managedBy"),
        (
            lambda spec: spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["resources"][
                "limits"
            ].update(memory="3GiB"),
            "3GiB",
        ),
    ],
)
def test_the_check_against_the_schema_finds_mistakes(mistake: Any, said: str) -> None:
    job = copy.deepcopy(manifest())
    mistake(job["spec"])

    assert said in " ".join(findings(job, ray_job_schema()))


def test_the_schema_is_that_of_the_pinned_operator() -> None:
    assert f"/v{KUBERAY_OPERATOR}/" in ray_job_schema()["x-source"]


def test_what_the_operators_code_demands_holds() -> None:
    job = manifest(f"training.runName={'r' * 38}")
    worker = ray_groups(job)[1]

    assert len(job["metadata"]["name"]) <= 47
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", job["metadata"]["name"])
    assert worker["replicas"] == worker["minReplicas"] == worker["maxReplicas"] == 2
    assert job["spec"]["shutdownAfterJobFinishes"] is True  # a TTL needs it
    assert job["spec"]["preRunningDeadlineSeconds"] > 0
    assert all(len(pod["spec"]["containers"]) == 1 for pod in pods(job))


@pytest.mark.parametrize("changes", [(), ("job.retries=0", "job.keepClusterSeconds=0")])
def test_no_field_has_a_value_that_the_operator_drops(changes: tuple[str, ...]) -> None:
    def empty(value: Any, path: str = "") -> Iterator[str]:
        if isinstance(value, dict):
            for key, item in value.items():
                if item in (False, 0, "", [], {}, None) and key not in KEEP_THEIR_ZERO:
                    yield f"{path}.{key}"
                yield from empty(item, f"{path}.{key}")
        elif isinstance(value, list):
            for item in value:
                yield from empty(item, path)

    assert list(empty(manifest(*changes)["spec"])) == []


@pytest.mark.case("C042")
def test_the_submitter_submits_once_and_retries_are_the_jobs() -> None:
    spec = manifest("job.retries=3")["spec"]

    assert spec["submitterConfig"] == {"backoffLimit": 0}
    assert spec["submitterPodTemplate"]["spec"]["restartPolicy"] == "Never"
    assert spec["backoffLimit"] == 3


@pytest.mark.case("C035")
def test_the_wait_before_running_and_the_whole_job_have_a_bound_each() -> None:
    """One bound for both would end long healthy runs."""
    spec = manifest("job.preRunningDeadlineSeconds=77", "job.activeDeadlineSeconds=7777")["spec"]

    assert (spec["preRunningDeadlineSeconds"], spec["activeDeadlineSeconds"]) == (77, 7777)


@pytest.mark.case("C044", "C045")
def test_no_setting_reaches_a_shell() -> None:
    """The operator hands the entry point to one: so settings travel in a file, byte for byte."""
    awkward = "`id` $(id) $HOME \\ \n ' \" \t end"
    objects = raw()
    objects["training"]["data"]["text"] = {"source": "text", "paths": ["/mnt/store/a b.txt"], "documentSeparator": awkward}
    made = settings.parse(objects, "local")
    identity = identify(made, "c" * 64)
    job = ray_job(made, identity, parts(made))
    arrived = RunConfig.from_json(made.run_config(StoreConfig(path="/mnt/store"), identity.provenance).to_json())

    assert job["spec"]["entrypoint"] == "python -m workload train --config /etc/ray-train/run.json"
    assert "$" not in json.dumps(job)
    assert "`" not in json.dumps(job)
    assert arrived.training.data.text == TextFiles(source="text", paths=("/mnt/store/a b.txt",), document_separator=awkward)


@pytest.mark.case("C059")
def test_a_queue_manager_may_take_the_job() -> None:
    """Kueue's demands on a RayJob: https://kueue.sigs.k8s.io/docs/tasks/run/rayjobs/"""
    spec = manifest()["spec"]

    assert spec["shutdownAfterJobFinishes"] is True
    assert not {"clusterSelector", "suspend"} & set(spec)
    assert "enableInTreeAutoscaling" not in spec["rayClusterSpec"]
    assert len(spec["rayClusterSpec"]["workerGroupSpecs"]) <= 7


@pytest.mark.case("C060")
def test_the_operators_own_shell_starts_ray_in_every_pod() -> None:
    """It is no login shell since KubeRay 1.4 and so keeps the image's PATH, where `ray` may be in a virtual environment."""
    assert tuple(int(part) for part in KUBERAY_OPERATOR.split(".")[:2]) >= (1, 4)
    for pod in pods(manifest()):
        (container,) = pod["spec"]["containers"]
        assert not {"command", "args"} & set(container)
        assert "PATH" not in {variable["name"] for variable in container.get("env", ())}


@pytest.mark.case("C026", "C063")
def test_nothing_trains_on_the_head_and_a_workers_size_is_said_once() -> None:
    head, worker = ray_groups(manifest("workers.perPod=2", "workers.cpusPerWorker=3", "workers.gpusPerWorker=1"))

    assert (head["rayStartParams"]["num-cpus"], head["rayStartParams"]["num-gpus"]) == ("0", "0")
    assert (worker["rayStartParams"]["num-cpus"], worker["rayStartParams"]["num-gpus"]) == ("6", "2")
    assert worker["replicas"] == 1
    resources = worker["template"]["spec"]["containers"][0]["resources"]
    assert resources["requests"]["nvidia.com/gpu"] == resources["limits"]["nvidia.com/gpu"] == "2"


def test_head_and_workers_see_the_same_code_run_config_and_store() -> None:
    for group in ray_groups(manifest()):
        spec = group["template"]["spec"]
        container = spec["containers"][0]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}

        assert mounts == {
            "code": "/opt/ray-train/code", "run-config": "/etc/ray-train", "store": "/mnt/store", "shared-memory": "/dev/shm",
        }  # fmt: skip
        assert set(mounts) == {volume["name"] for volume in spec["volumes"]}
        assert {"name": "PYTHONPATH", "value": "/opt/ray-train/code/workload.zip"} in container["env"]


@pytest.mark.case("C149")
def test_the_object_store_fits_into_shared_memory_which_fits_into_memory() -> None:
    worker = ray_groups(manifest("workers.sharedMemory=1Gi"))[1]
    volumes = {volume["name"]: volume for volume in worker["template"]["spec"]["volumes"]}

    assert worker["rayStartParams"]["object-store-memory"] == str(2**29)
    assert volumes["shared-memory"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}


@pytest.mark.case("C175")
def test_every_pod_is_hardened_bounded_and_labelled() -> None:
    job = manifest()
    for pod in pods(job):
        spec, container = pod["spec"], pod["spec"]["containers"][0]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"]
        assert container["image"] == local().image.reference
        labels = pod["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == job["metadata"]["name"]
        assert labels["ray-train-eks/run-name"] == "local"
        assert all(len(value) <= 63 for value in labels.values())


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(manifest(), indent=2) + "\n")
