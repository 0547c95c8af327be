"""`python -m infra fetch`: exit codes, files, and that the reader is always removed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from infra.commands import fetch
from infra.identity import identify
from infra.job_placement import placement
from infra.ray_job_manifest import JobParts, ray_job
from infra.reader_pod import reader_pod
from tests.infra.environments import local
from tests.infra.fake_cluster import PODS, RAY_JOBS, FakeCluster
from workload.errors import UserError
from workload.record import Claim, ClaimName, Record, Timing, Verdict
from workload.run_config import StoreConfig

SETTINGS = local()
PARTS = JobParts(
    code_config_map="code",
    run_config_map="config",
    store_volume={"hostPath": {"path": "/s"}},
    placement=placement(SETTINGS),
)
IDENTITY = identify(SETTINGS, "c" * 64)
JOB = ray_job(SETTINGS, IDENTITY, PARTS)
DONE = {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}


def record(verdict: Verdict = Verdict.PROVEN) -> Record:
    claim = Claim(name=ClaimName.EXECUTED, verdict=verdict, evidence="60 of 60 steps", sources=())
    empty = dict.fromkeys(Timing.model_fields)
    made = Record.model_construct(
        **{name: None for name in Record.model_fields},  # noqa: C420 - keyword arguments
    ).model_copy(
        update={
            "schema_version": 1, "run_name": "local", "identity": IDENTITY.sha256, "lineage": 1, "created_at": "now",
            "config": SETTINGS.run_config(StoreConfig(path="/mnt/store"), IDENTITY.provenance),
            "versions": {}, "hosts": (), "attempts": (),
            "timing": Timing(**{**empty, "wall_seconds": 1.0}), "series": (), "claims": (claim,), "content_sha256": "",
        }
    )  # fmt: skip
    return Record.model_validate_json(made.to_json()).sealed()


def exported(made: Record) -> str:
    return "a warning\n" + json.dumps({"record.json": made.to_json(), "report.html": "<html>"}) + "\n"


def put_pulumi_on_path(folder: Path, kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that knows the outputs of a stack, whatever it is asked."""
    outputs = {"kubeconfig": kubeconfig, "context": "here", "namespace": "ns", "jobName": "run-1"}
    program = folder / "pulumi"
    folder.mkdir()
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(outputs)}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.fixture
def stack(cluster: FakeCluster, kubeconfig_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stack whose job has ended, and where its record may go."""
    put_pulumi_on_path(tmp_path / "bin", kubeconfig_file, monkeypatch)
    cluster.add(RAY_JOBS, "run-1", spec=JOB["spec"], status=DONE)
    cluster.new_pods = ("Succeeded", exported(record()))
    return tmp_path / "to"


def test_a_good_run_is_written_shown_and_exits_0(stack: Path, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert fetch.run(Path(), "local", stack) == 0
    assert sorted(path.name for path in stack.iterdir()) == ["record.json", "report.html"]
    assert Record.model_validate_json((stack / "record.json").read_text()) == record()
    said = capsys.readouterr().out
    assert "executed" in said
    assert "proven" in said
    assert not [path for path in cluster.objects if path.startswith(PODS)]


def test_a_refuted_claim_exits_1(stack: Path, cluster: FakeCluster) -> None:
    cluster.new_pods = ("Succeeded", exported(record(Verdict.REFUTED)))

    assert fetch.run(Path(), "local", stack) == 1


def test_a_record_that_was_changed_exits_1(stack: Path, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.new_pods = ("Succeeded", exported(record().model_copy(update={"run_name": "other"})))

    assert fetch.run(Path(), "local", stack) == 1
    assert "content hash differs" in capsys.readouterr().err


@pytest.mark.case("C049")
@pytest.mark.parametrize("status", [{}, {"jobStatus": "RUNNING"}, {"jobDeploymentStatus": "Initializing"}])
def test_a_job_that_still_runs_exits_3_and_starts_no_reader(stack: Path, cluster: FakeCluster, status: dict[str, str]) -> None:
    cluster.objects[f"{RAY_JOBS}/run-1"]["status"] = status

    assert fetch.run(Path(), "local", stack) == 3
    assert cluster.deleted == []


@pytest.mark.case("C038")
def test_a_failed_job_says_why_and_exits_1(stack: Path, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    failed = {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed", "reason": "AppFailed", "message": "exit code 2"}
    cluster.objects[f"{RAY_JOBS}/run-1"]["status"] = failed
    cluster.new_pods = ("Failed", "error: training.runName = local: there is no record of this run yet\n")

    assert fetch.run(Path(), "local", stack) == 1
    said = capsys.readouterr().err
    assert "RayJob ns/run-1 is FAILED, AppFailed: exit code 2" in said
    assert "there is no record of this run yet" in said


@pytest.mark.parametrize(
    "pod", [("Failed", ""), ("Pending", ""), ("Succeeded", "no json"), ("Succeeded", '{"record.json": "{}"}')]
)
def test_the_reader_is_removed_however_it_ends(stack: Path, cluster: FakeCluster, pod: tuple[str, str]) -> None:
    cluster.new_pods = pod

    assert fetch.run(Path(), "local", stack) == 1
    assert len(cluster.deleted) == 1
    assert not [path for path in cluster.objects if path.startswith(PODS)]


def test_a_job_that_is_not_there_is_a_users_error(stack: Path, cluster: FakeCluster) -> None:
    cluster.objects.clear()

    with pytest.raises(UserError, match="there is no such RayJob"):
        fetch.run(Path(), "local", stack)


def test_a_stack_without_a_job_is_a_users_error(stack: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "pulumi").write_text("#!/bin/sh\necho '{}'\n")

    with pytest.raises(UserError, match="has no job yet"):
        fetch.run(Path(), "local", stack)


def test_what_pulumi_says_of_an_unknown_stack_is_passed_on(stack: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "pulumi").write_text("#!/bin/sh\necho \"error: no stack named 'x' found\" >&2; exit 1\n")

    with pytest.raises(UserError, match="no stack named 'x' found"):
        fetch.run(Path(), "local", stack)


def test_without_pulumi_the_message_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UserError, match="is not on PATH"):
        fetch.run(Path(), "local", tmp_path)


def test_a_cluster_that_is_gone_is_a_users_error(stack: Path, cluster: FakeCluster) -> None:
    cluster.close()

    with pytest.raises(UserError, match="can't be asked"):
        fetch.run(Path(), "local", stack)


def test_the_reader_sees_what_the_job_saw_and_can_write_nothing() -> None:
    pod: dict[str, Any] = reader_pod(JOB)
    container = pod["spec"]["containers"][0]

    assert container["command"] == ["python", "-m", "workload", "export", "--config", "/etc/ray-train/run.json"]
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {
        "/opt/ray-train/code",
        "/etc/ray-train",
        "/mnt/store",
    }
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert {volume["name"] for volume in pod["spec"]["volumes"]} == {mount["name"] for mount in container["volumeMounts"]}
    assert container["image"] == SETTINGS.image.reference
    assert (pod["spec"]["restartPolicy"], pod["spec"]["activeDeadlineSeconds"]) == ("Never", 600)
    assert pod["spec"]["automountServiceAccountToken"] is False
