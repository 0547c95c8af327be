"""`python -m infra laptop`: the same run as in the cluster, from the same package. The training itself is replaced here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from infra.code_package import pack
from infra.commands import laptop
from infra.identity import identify
from tests.infra.environments import LOCAL, ROOT, local
from workload.errors import UserError
from workload.run_config import RunConfig, StoreConfig

PROBE = """
import json, os, sys, pathlib
print(json.dumps({"argv": sys.argv[1:], "path": os.environ["PYTHONPATH"], "cwd": os.listdir(), "file": __file__}))
sys.exit(7)
"""


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workload that says how it was started."""
    folder = tmp_path / "workload"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "__main__.py").write_text(PROBE)
    monkeypatch.setattr(laptop, "WORKLOAD", folder)
    return folder


def test_it_runs_the_entry_point_from_the_package_and_returns_its_exit_code(
    probe: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"

    assert laptop.run(LOCAL, "local", output, (), fresh=False) == 7
    said = json.loads(capfd.readouterr().out)
    assert said["argv"] == ["train", "--config", str(output / "run.json")]
    assert said["path"] == str(output / "workload.zip")
    assert said["file"].startswith(str(output / "workload.zip"))
    assert said["cwd"] == []


def test_the_run_config_is_the_clusters_but_for_the_stores_place(probe: Path, tmp_path: Path) -> None:
    laptop.run(LOCAL, "local", tmp_path / "out", (), fresh=False)
    here = RunConfig.from_json((tmp_path / "out" / "run.json").read_bytes())
    identity = identify(local(), pack(probe).sha256)
    there = local().run_config(StoreConfig(path="/mnt/store"), identity.provenance)

    assert here.store.path == str(tmp_path / "out" / "store")
    assert here.model_copy(update={"store": there.store}) == there


def test_settings_can_be_changed_on_the_command_line(probe: Path, tmp_path: Path) -> None:
    changes = ("training.schedule.steps=20", "training.faults=[]", "training.optimizer.learningRate=1e-3")
    laptop.run(LOCAL, "local", tmp_path / "out", changes, fresh=False)
    training = RunConfig.from_json((tmp_path / "out" / "run.json").read_bytes()).training

    assert (training.schedule.steps, training.faults, training.optimizer.learning_rate) == (20, (), 0.001)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("training.schedule.steps", "KEY=VALUE"),
        ("=3", "KEY=VALUE"),
        ("training.faults[9].rank=0", "can't be set"),
        ("training.seed.x=1", "can't be set"),
        ("training.seed=[1", "can't be set"),
        ("training.schedule.stepz=1", "unknown key"),
    ],
)
def test_a_bad_change_is_refused_and_nothing_is_written(probe: Path, tmp_path: Path, change: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        laptop.run(LOCAL, "local", tmp_path / "out", (change,), fresh=False)
    assert not (tmp_path / "out").exists()


def test_what_an_earlier_run_stored_stays_unless_fresh_is_asked_for(probe: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    laptop.run(LOCAL, "local", output, (), fresh=False)
    kept = output / "store" / "kept"
    kept.write_text("x")

    laptop.run(LOCAL, "local", output, (), fresh=False)
    assert kept.exists()
    laptop.run(LOCAL, "local", output, (), fresh=True)
    assert not kept.exists()


def test_a_folder_with_other_things_is_never_removed(probe: Path, tmp_path: Path) -> None:
    precious = tmp_path / "home"
    precious.mkdir()
    (precious / "thesis.txt").write_text("x")

    with pytest.raises(UserError, match="holds other things"):
        laptop.run(LOCAL, "local", precious, (), fresh=True)
    assert (precious / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["laptop", "--set", "workers.memory=4G8", "--set", "bogus=1"], "2 problems:"),
        (["laptop", "--stack", "nope"], "Pulumi.nope.yaml: can't be read"),
    ],
)
def test_a_users_error_is_one_message_and_exit_code_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "infra", *arguments, *(["--output", str(tmp_path / "out")])],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
