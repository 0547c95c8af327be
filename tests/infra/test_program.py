"""The real `__main__.py`, against a recording engine; only the look at the cluster is answered here."""

from __future__ import annotations

from typing import Any

import pytest

from infra.settings import PROJECT
from tests.infra.fake_engine import Recording, record
from tests.infra.recordings import PROGRAM, RAY_JOB, config_of, recorded
from workload.errors import bad_input


@pytest.fixture(autouse=True)
def _a_cluster_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_ERROR_OUTPUT_STRING", "true")
    monkeypatch.setattr("infra.cluster_access.check_cluster", lambda target, needs_namespace: target.context or "the-context")


def provider(kind: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
    if kind == RAY_JOB:
        return {"metadata": {"uid": "uid-1"}}
    return {"failure": ""} if kind.startswith("pulumi-python") else {}


def run(config: dict[str, str] | None = None, *, preview: bool = False, **more: Any) -> Recording:
    return record(PROGRAM, config or config_of(), "local", preview=preview, **{"computed": provider, **more})


@pytest.fixture
def local() -> Recording:
    """Which resources these are, and under which component: tests/golden/resources-local.txt."""
    return recorded("local")


def test_the_recorder_sees_an_empty_program() -> None:
    assert record(lambda: None, {}, "local").names() == {"pulumi:pulumi:Stack ray-train-eks-local"}


@pytest.mark.case("C161")
def test_a_preview_shows_the_same_resources_as_an_update(local: Recording) -> None:
    assert run(preview=True).names() == local.names()


def test_two_runs_ask_for_exactly_the_same(local: Recording) -> None:
    assert run().inputs == local.inputs


@pytest.mark.parametrize("name", ["cluster-namespace", "job-code", "job-run-config", "job-ray-job"])
def test_everything_in_the_cluster_uses_the_provider_of_the_checked_context(local: Recording, name: str) -> None:
    assert local.request(name).provider.startswith(local.urn("cluster-provider"))
    assert local.of("cluster-provider") == {"context": "the-context"}


@pytest.mark.case("C155")
def test_the_gate_is_last_and_so_is_first_to_go(local: Recording) -> None:
    before = local.comes_after("job-gate")

    assert {"job-ray-job", "job-run-config", "job-code", "cluster-namespace", "cluster-provider"} <= before


@pytest.mark.case("C055", "C057")
def test_the_job_is_replaced_never_changed_and_never_beside_the_old_one(local: Recording) -> None:
    request = local.request("job-ray-job")

    assert list(request.replaceOnChanges) == ["spec"]
    assert request.deleteBeforeReplace


def test_the_gate_follows_the_uid_of_the_job(local: Recording) -> None:
    assert local.of("job-gate")["uid"] == "uid-1"
    assert list(local.request("job-gate").propertyDependencies["uid"].urns) == [local.urn("job-ray-job")]


def test_the_run_config_in_the_cluster_is_what_the_workload_reads(local: Recording) -> None:
    from workload.run_config import RunConfig

    text = local.of("job-run-config")["data"]["run.json"]
    config = RunConfig.from_json(text)

    assert config.to_json(indent=2) == text
    assert config.store.path == "/mnt/store"
    assert config.provenance.identity == local.exports["identity"]


@pytest.mark.case("C173")
def test_nothing_secret_and_no_kubeconfig_reaches_the_engine(local: Recording) -> None:
    for request in local.requests.values():
        assert "1b47061264138c4ac30d75fd1eb44270" not in str(request.object)  # a secret's wrapper
        assert "certificate" not in str(request.object).lower()


def test_exports_name_what_a_user_needs_next(local: Recording) -> None:
    assert set(local.exports) == {
        "environment", "runName", "identity", "kubeconfig", "context", "namespace", "jobName", "storePath", "fetchCommand",
    }  # fmt: skip
    assert local.exports["fetchCommand"] == "python -m infra fetch -s local"
    assert local.exports["jobName"] == f"local-{local.exports['identity'][:8]}"
    assert local.exports["storePath"] == "/mnt/store/local"


def test_a_new_claim_is_made_from_the_settings() -> None:
    store = {"kind": "claim", "storageClass": "fast", "size": "20Gi", "accessModes": ["ReadWriteMany"]}
    recording = run(config_of(store=store))

    assert not recording.error
    assert recording.of("store-claim")["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "20Gi"}},
    }
    volumes = recording.of("job-ray-job")["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["volumes"]
    assert {"name": "store", "persistentVolumeClaim": {"claimName": "ray-train-store"}} in volumes
    assert "store-claim" in recording.comes_after("job-ray-job")


def test_with_an_existing_claim_the_namespace_is_not_ours() -> None:
    recording = run(config_of(store={"kind": "claim", "claimName": "shared"}))

    assert not recording.error
    assert not {"cluster-namespace", "store-claim"} & {r.name for r in recording.requests.values()}


def test_a_job_that_failed_ends_the_update_with_its_reason() -> None:
    def failing(kind: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        return {"failure": "RayJob is FAILED: because"} if kind.startswith("pulumi-python") else provider(kind, name, inputs)

    recording = run(computed=failing)

    assert "RayJob is FAILED: because" in recording.error + " ".join(recording.logs)


@pytest.mark.parametrize("preview", [True, False])
def test_bad_settings_create_nothing_and_are_all_named(preview: bool) -> None:
    config = config_of(workers__memory="4G8", bogus=1, target__context=7)
    recording = run(config, preview=preview)
    said = recording.error + " ".join(recording.logs)

    assert recording.names() <= {"pulumi:pulumi:Stack ray-train-eks-local"}
    assert "workers.memory = 4G8" in said
    assert "bogus = 1: unknown key" in said
    assert "target.context = 7" in said
    assert "Traceback" not in said


def test_a_cluster_without_ray_jobs_creates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(target: Any, needs_namespace: bool) -> str:
        raise bad_input("target.context", "c", "serves no RayJob", "helm install")

    monkeypatch.setattr("infra.cluster_access.check_cluster", refuse)
    recording = run()

    assert recording.names() <= {"pulumi:pulumi:Stack ray-train-eks-local"}
    assert "serves no RayJob" in recording.error + " ".join(recording.logs)


@pytest.mark.case("C173")
def test_secret_settings_are_refused() -> None:
    recording = run(config_of(), secret_keys=(f"{PROJECT}:training",))

    assert "training = [secret]: settings hold no secrets" in recording.error + " ".join(recording.logs)
