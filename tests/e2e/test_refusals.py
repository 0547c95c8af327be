"""What the real command says of bad input, before anything exists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.infra.fake_cluster import FakeCluster, kubeconfig

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
NewProject = Callable[..., Project]


def refusal(project: Project) -> str:
    done = project.up(check=False)
    assert done.returncode != 0
    stack = project.pulumi("stack", "--stack", project.stack, "--show-urns").stdout
    assert "kubernetes:" not in stack
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.case("C032")
def test_bad_settings_are_all_said_at_once(without_cluster: NewProject) -> None:
    said = refusal(without_cluster("workers.memory=4G8", "workers.count=0", "bogus={}", "training.runName=No_Good"))

    for key in ("workers.memory = 4G8", "workers.count = 0", "bogus = {}", "training.runName = No_Good"):
        assert key in said


def test_a_context_that_does_not_exist_is_refused(without_cluster: NewProject, tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    said = refusal(without_cluster(f"target.kubeconfig={file}", "target.context=typo"))

    assert "target.context = typo: is no context of the kubeconfig. Fix: use one of: here, nowhere" in said


@pytest.mark.case("C164", "C165")
def test_a_cluster_that_does_not_answer_is_refused(without_cluster: NewProject, tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")

    assert "target.context = here: doesn't answer" in refusal(without_cluster(f"target.kubeconfig={file}"))


def test_a_cluster_without_ray_jobs_is_refused_with_the_install_command(without_cluster: NewProject, tmp_path: Path) -> None:
    cluster = FakeCluster()
    cluster.served = []
    file = kubeconfig(tmp_path / "kubeconfig", cluster.url)
    said = refusal(without_cluster(f"target.kubeconfig={file}"))
    cluster.close()

    assert "serves no RayJob (ray.io/v1): KubeRay is missing. Fix: helm install kuberay-operator" in said


def test_numbers_typed_on_the_command_line_are_numbers(without_cluster: NewProject, tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    project = without_cluster(f"target.kubeconfig={file}")
    for key, kind, value in (("schedule.steps", "int", "30"), ("optimizer.learningRate", "float", "1e-3")):
        project.pulumi("config", "set", "--stack", project.stack, "--path", "--type", kind, f"training.{key}", value)

    assert "doesn't answer" in refusal(project)  # so the settings were fine
