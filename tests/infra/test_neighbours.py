"""Two environments never own one name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import neighbours
from infra.environment_file import read_environment, read_environments
from infra.settings import PROJECT
from tests.infra import test_program
from tests.infra.environments import ROOT, local


def environment(folder: Path, name: str, more: dict[str, Any] | None = None, **target: Any) -> None:
    objects = {"target": {"kind": "existing", **target}, **(more or {})}
    content = {"config": {f"{PROJECT}:{key}": value for key, value in objects.items()}}
    (folder / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump(content))


@pytest.mark.parametrize("target", [{"namespace": "mine"}, {"namespace": "mine", "context": None}])
def test_a_namespace_that_another_environment_has_in_the_same_cluster_is_refused(tmp_path: Path, target: Any) -> None:
    environment(tmp_path, "other", **target)
    (problem,) = neighbours.problems(local("target.namespace=mine"), read_environments(tmp_path, PROJECT))

    assert str(problem).startswith("target.namespace = mine: is that of environment other too, in the same cluster")
    assert problem.fix == "give each environment a namespace of its own"


SHARED = {"store": {"kind": "hostPath", "path": "/s"}, "training": {"runName": "one"}}


@pytest.mark.parametrize("path", ["/s", "/s/"])
def test_a_run_that_another_environment_keeps_in_the_same_folder_is_refused(tmp_path: Path, path: str) -> None:
    environment(tmp_path, "other", SHARED, namespace="theirs")
    (problem,) = neighbours.problems(local(f"store.path={path}", "training.runName=one"), read_environments(tmp_path, PROJECT))

    assert str(problem).startswith("training.runName = one: is that of environment other too, in the same folder")
    assert "store.path" in problem.fix


@pytest.mark.parametrize(
    "changes",
    [
        ("store.path=/elsewhere", "training.runName=one"),
        ("store.path=/s", "training.runName=two"),
        ("store={kind: claim, claimName: s}", "training.runName=one"),
    ],
)
def test_another_folder_another_run_and_a_claim_are_not_shared(tmp_path: Path, changes: tuple[str, ...]) -> None:
    environment(tmp_path, "other", SHARED, namespace="theirs")

    assert neighbours.problems(local(*changes), read_environments(tmp_path, PROJECT)) == []


def test_a_namespace_that_nobody_typed_is_the_default_one(tmp_path: Path) -> None:
    environment(tmp_path, "other")

    assert neighbours.problems(local("target.namespace=ray-train"), read_environments(tmp_path, PROJECT))


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("other", {"namespace": "theirs"}),
        ("other", {"namespace": "mine", "context": "elsewhere"}),
        ("other", {"namespace": "mine", "kubeconfig": "/elsewhere"}),
        ("other", {"namespace": "mine", "kind": "eks"}),
        ("local", {"namespace": "mine"}),
    ],
)
def test_another_cluster_another_namespace_and_itself_are_no_neighbours(tmp_path: Path, name: str, target: Any) -> None:
    environment(tmp_path, name, **target)

    assert neighbours.problems(local("target.namespace=mine"), read_environments(tmp_path, PROJECT)) == []


def test_a_file_that_cannot_be_read_is_its_own_environments_problem(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.broken.yaml").write_text("config: [")
    (tmp_path / "Pulumi.salt.yaml").write_text("encryptionsalt: v1:abc\n")
    (tmp_path / "Pulumi.odd.yaml").write_text(f"config:\n  {PROJECT}:target: text\n")
    environment(tmp_path, "odder", {"store": "text", "training": 7}, namespace="theirs")

    assert neighbours.problems(local(), read_environments(tmp_path, PROJECT)) == []


def test_nothing_is_made_in_a_namespace_of_another_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(tmp_path, "other", namespace=local().target.namespace)
    monkeypatch.setattr("infra.existing_site._ENVIRONMENTS", tmp_path)
    monkeypatch.setattr("infra.cluster_access.check_cluster", lambda target, needs_namespace: "the-context")
    recording = test_program.run()

    assert recording.names() <= {"pulumi:pulumi:Stack ray-train-eks-local"}
    assert "is that of environment other too" in recording.error + " ".join(recording.logs)


def test_the_environments_of_this_project_own_different_names() -> None:
    assert neighbours.problems(local(), read_environments(ROOT, PROJECT)) == []
    files = {name: read_environment(ROOT / f"Pulumi.{name}.yaml", PROJECT) for name in ("local", "dev", "prod")}

    assert len({objects["training"]["runName"] for objects in files.values()}) == len(files)
