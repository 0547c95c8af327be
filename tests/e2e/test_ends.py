"""Jobs that cannot start, and what is left when a job has ended."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.e2e.project import Project, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
NewProject = Callable[..., Project]
SOON = ("job.waitForRunningSeconds=30", "job.preRunningDeadlineSeconds=60", "job.retries=0")


def ray_pods(project: Project) -> list[str]:
    return [pod["metadata"]["name"] for component in ("head", "worker") for pod in project.pods(component)]


@pytest.mark.case("C033", "C036", "C052", "C062")
def test_a_worker_that_fits_on_no_node_is_named_by_up_and_ends_the_job_in_time(new_project: NewProject) -> None:
    project = new_project("workers.cpu=900", *SOON)
    done = project.up(check=False)

    assert done.returncode != 0
    assert "Unschedulable" in done.stdout + done.stderr
    assert "Insufficient cpu" in done.stdout + done.stderr
    assert project.wait_for_end(seconds=180)["jobDeploymentStatus"] == "Failed"
    assert project.fetch().returncode == 1
    wait_until(lambda: not ray_pods(project), 120, "the end of head and workers")
    assert project.job()["status"]["jobDeploymentStatus"] == "Failed"


def image_without_ray(project: Project) -> str:
    """Every node has the image of its sandboxes, which has no shell: nothing is pulled."""
    nodes = json.loads(project.kubectl("get", "nodes", "--output", "json"))["items"]
    names = [name for node in nodes for image in node["status"].get("images", ()) for name in image["names"]]
    found = [name for name in names if "pause" in name and "@" not in name]
    if not found:
        pytest.skip("no node tells of a pause image")
    return found[0]


@pytest.mark.case("C051")
def test_an_image_without_ray_is_named_by_up_and_ends_the_job_after_few_pods(new_project: NewProject) -> None:
    project = new_project(*SOON)
    project.change(f"image.reference={image_without_ray(project)}")
    done = project.up(check=False)
    heads: set[str] = set()

    def ended() -> bool:
        heads.update(pod["metadata"]["name"] for pod in project.pods("head"))
        return project.job().get("status", {}).get("jobDeploymentStatus") == "Failed"

    wait_until(ended, 180, "the job's failure")
    assert done.returncode != 0
    assert "container ray-head: " in done.stdout + done.stderr
    assert 1 <= len(heads) <= 3
