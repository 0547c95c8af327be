"""Pods that die, and a destroy at any time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.project import Project

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
NewProject = Callable[..., Project]
LONG = ("training.schedule.steps=90", "training.checkpoint.everySteps=5")


@pytest.mark.case("C046", "C048")
@pytest.mark.parametrize("component", ["worker", "head"])
def test_a_pod_that_is_killed_in_mid_run_ends_the_run_proven_or_the_job_failed(new_project: NewProject, component: str) -> None:
    project = new_project(*LONG, "job.activeDeadlineSeconds=900")
    project.up()
    project.wait_for_step(8)
    pod = project.pods(component)[0]["metadata"]["name"]
    project.kubectl("delete", "pod", pod, "--grace-period=0", "--force")

    status = project.wait_for_end(seconds=1000)
    fetched = project.fetch()
    if status.get("jobStatus") == "SUCCEEDED":
        assert fetched.returncode == 0, fetched.stdout + fetched.stderr
        assert "resumed" in fetched.stdout
        assert any(attempt["restored"] for attempt in project.record()["attempts"])
    else:
        assert fetched.returncode == 1
        assert "FAILED" in fetched.stderr or "Failed" in fetched.stderr


@pytest.fixture
def stop_operator() -> Iterator[Callable[[], None]]:
    """Stops the operator when called; starts it when the test ends."""
    stop, start = (os.environ.get(f"RAYTRAIN_E2E_{what}") for what in ("STOP", "START"))
    if not stop or not start:
        pytest.skip("RAYTRAIN_E2E_STOP and RAYTRAIN_E2E_START don't say how to stop and start a part of the cluster")
    yield lambda: subprocess.run(["sh", "-c", f"{stop} operator"], check=True, timeout=60) and None
    subprocess.run(["sh", "-c", f"{start} operator"], check=True, timeout=60)


@pytest.mark.case("C155", "C158")
def test_destroy_leaves_nothing_while_the_job_runs(new_project: NewProject) -> None:
    project = new_project(*LONG)
    project.up()
    project.destroy()

    assert project.namespace_is_gone()


@pytest.mark.case("C155")
def test_destroy_leaves_nothing_while_the_operator_is_not_running(
    new_project: NewProject, stop_operator: Callable[[], None]
) -> None:
    project = new_project(*LONG)
    project.up()
    stop_operator()
    project.destroy()

    assert project.namespace_is_gone()
