"""A run in a cluster, from `pulumi up` to its record, and what changes it and what doesn't."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.project import Project, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
NewProject = Callable[..., Project]
FAULT = "training.faults=[{at: step, step: 15, rank: 1, attempt: 1}]"


def verdicts(record: dict[str, Any]) -> dict[str, str]:
    return {claim["name"]: claim["verdict"] for claim in record["claims"]}


@pytest.mark.case("C022", "C049", "C052", "C060")
def test_a_run_is_killed_resumes_ends_proven_and_is_never_started_twice(new_project: NewProject) -> None:
    project = new_project(FAULT)
    project.up()
    uid = project.job()["metadata"]["uid"]
    assert project.fetch().returncode == 3
    assert project.is_unchanged()
    project.refresh()
    assert project.is_unchanged(), "refresh found a change in a job that runs"

    assert project.wait_for_end()["jobStatus"] == "SUCCEEDED"

    fetched = project.fetch()
    assert fetched.returncode == 0, fetched.stdout + fetched.stderr
    record = project.record()
    assert {name: verdicts(record)[name] for name in ("executed", "learned", "resumed", "data is real")} == {
        "executed": "proven", "learned": "proven", "resumed": "proven", "data is real": "proven",
    }  # fmt: skip
    assert record["identity"] == project.outputs()["identity"]
    assert "<html" in (project.folder / "fetched" / "report.html").read_text()
    assert project.pods("reader") == []

    assert project.is_unchanged()
    project.refresh()
    assert project.is_unchanged(), "refresh found a change in a job that has ended"
    assert project.job()["metadata"]["uid"] == uid

    wait_until(lambda: not [*project.pods("head"), *project.pods("worker")], 120, "the end of head and workers")
    for pod in project.pods("submitter"):
        project.kubectl("delete", "pod", pod["metadata"]["name"])
    time.sleep(10)  # what the operator would need to take it for a failure
    assert project.job()["status"]["jobStatus"] == "SUCCEEDED"
    assert project.fetch().returncode == 0


class Watch:
    """Notes every set of jobs that existed at one time, by name, and of runs whose pods did."""

    def __init__(self, project: Project) -> None:
        self._project, self._stop = project, threading.Event()
        self.seen: list[set[str]] = []
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._stop.is_set():
            jobs = {job["metadata"]["name"] for job in self._project.objects("rayjobs")}
            pods = {
                pod["metadata"]["labels"].get("app.kubernetes.io/instance", "")
                for pod in self._project.objects("pods")
                if pod.get("status", {}).get("phase") in ("Pending", "Running")
            }
            self.seen.append(jobs | pods)
            time.sleep(0.3)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.case("C055", "C057")
@pytest.mark.parametrize("resume", ["auto", "never"])
def test_a_changed_learning_rate_replaces_the_job_once_the_old_one_is_gone(new_project: NewProject, resume: str) -> None:
    project = new_project("training.schedule.steps=100", "training.checkpoint.everySteps=5")
    project.up()
    old = project.job()["metadata"]["name"]
    project.wait_for_step(8)

    project.change("training.optimizer.learningRate=1e-3", f"training.checkpoint.resume={resume}")
    with Watch(project) as watch:
        project.up()
    new = project.job()["metadata"]["name"]

    assert new != old
    assert not any({old, new} <= names for names in watch.seen), watch.seen
    assert project.wait_for_end()["jobStatus"] == "SUCCEEDED"
    assert project.fetch().returncode == 0
    record = project.record()
    if resume == "auto":
        assert record["attempts"][-1]["restored"]["step"] >= 5
        assert verdicts(record)["resumed"] == "proven"
    else:
        assert [attempt["restored"] for attempt in record["attempts"]] == [None]
        assert record["lineage"] == 2


@pytest.mark.case("C038", "C042", "C052")
def test_a_failing_entry_point_is_reported_with_its_reason(new_project: NewProject) -> None:
    text = "{source: text, paths: [/mnt/store/no-such-file.txt], documentSeparator: x}"
    project = new_project(f"training.data.text={text}", "job.retries=0")
    first = project.up(check=False)
    project.wait_for_end()
    fetched = project.fetch()

    assert fetched.returncode == 1
    assert "FAILED" in fetched.stderr
    assert "/mnt/store/no-such-file.txt" in fetched.stderr
    assert len(project.pods("submitter")) == 1  # job.retries is 0, and nobody submits it once more
    wait_until(lambda: not [*project.pods("head"), *project.pods("worker")], 120, "the end of head and workers")

    again = project.up(check=False)
    if first.returncode == 0:
        assert again.returncode == 0  # it ran, so the gate had opened; how it ended is for fetch to say
    else:
        assert "/mnt/store/no-such-file.txt" in first.stdout + first.stderr
        assert again.returncode != 0
