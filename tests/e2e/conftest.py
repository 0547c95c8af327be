"""These tests need the pulumi and kubectl commands, and a cluster with KubeRay that the current kubeconfig reaches."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.project import SMALL, Project

STACK = "local"


@pytest.fixture(scope="session")
def _tools() -> None:
    for program in ("pulumi", "kubectl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not on PATH")


@pytest.fixture(scope="session")
def _a_cluster(_tools: None) -> None:
    command = ["kubectl", "--request-timeout=10s", "get", "crd", "rayjobs.ray.io"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no cluster with KubeRay: " + " ".join(command) + " fails (set KUBECONFIG)")


@pytest.fixture
def without_cluster(_tools: None, tmp_path: Path) -> Callable[..., Project]:
    """For what is refused before a cluster is touched."""
    return lambda *changes: Project(tmp_path / "project", STACK, "e2e-none", *SMALL, *changes)


@pytest.fixture
def new_project(_a_cluster: None, tmp_path: Path) -> Iterator[Callable[..., Project]]:
    """Makes a project with a namespace of its own, which is destroyed when the test ends."""
    made: list[Project] = []

    def make(*changes: str) -> Project:
        namespace = f"e2e-{secrets.token_hex(4)}"
        store = f"store.path=/var/lib/ray-train-eks-e2e/{namespace}"
        made.append(Project(tmp_path / f"project-{len(made)}", STACK, namespace, store, *SMALL, *changes))
        return made[-1]

    yield make
    for project in made:
        project.pulumi("cancel", "--yes", "--stack", STACK, check=False)  # a test that was stopped leaves its lock
        project.destroy()
        project.pulumi("stack", "rm", "--yes", "--preserve-config", STACK)
        assert project.namespace_is_gone()
