"""`python -m infra image`: lock, show, history, against a registry on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from infra.__main__ import cli
from infra.commands import image as commands
from infra.image import (
    AWS_REPOSITORY,
    LOCK_FILE,
    read_lock,
    resolve,
)
from tests.infra.fake_registry import AWS_LABELS, FakeRegistry
from workload.errors import UserError

TAG = "train-ml-cuda-v1.1.0"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


@pytest.fixture
def lock_file(tmp_path: Path) -> Path:
    path = tmp_path / "image.lock.json"
    path.write_text(LOCK_FILE.read_text(encoding="utf-8"), encoding="utf-8")
    return path


def test_locking_a_tag_writes_what_the_registry_and_the_release_notes_say(registry: FakeRegistry, lock_file: Path) -> None:
    digest = registry.hold(TAG)

    assert commands.lock(TAG, registry.url, (), lock_file) == 0
    held = read_lock(lock_file).history
    assert [one.digest for one in held] == [digest]
    assert {"ray": "2.58.0", "cuda": "13.0.2", "python": "3.13", "efa": "1.49.0"}.items() <= held[0].versions.items()
    assert held[0].version_sources["ray"] == "the image's labels"
    assert held[0].version_sources["cuda"] == "the image's environment"
    assert held[0].version_sources["efa"].startswith("AWS's changelog")
    assert held[0].minimum_driver == "580.65.06"
    assert held[0].registry == registry.url
    assert resolve(read_lock(lock_file), f"{AWS_REPOSITORY}:{TAG}").reference == f"{AWS_REPOSITORY}@{digest}"
    assert json.loads(lock_file.read_text(encoding="utf-8"))["history"][0]["lockedAt"].endswith("Z")


def test_locking_the_same_image_again_changes_nothing(
    registry: FakeRegistry, lock_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.hold(TAG)
    commands.lock(TAG, registry.url, (), lock_file)
    before = lock_file.read_bytes()

    assert commands.lock(TAG, registry.url, (), lock_file) == 0
    assert lock_file.read_bytes() == before
    assert "is locked already" in capsys.readouterr().out


def test_a_tag_that_moved_is_added_with_a_warning_and_the_old_entry_stays(
    registry: FakeRegistry, lock_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = registry.hold(TAG)
    commands.lock(TAG, registry.url, (), lock_file)
    second = registry.hold(TAG, environment=("CUDA_VERSION=13.0.2", "MOVED=1"))
    commands.lock(TAG, registry.url, (), lock_file)

    assert [one.digest for one in read_lock(lock_file).history] == [first, second]
    assert f"{TAG} was {first}" in capsys.readouterr().err


def test_an_image_that_contradicts_the_release_notes_is_not_locked(registry: FakeRegistry, lock_file: Path) -> None:
    registry.hold(TAG, labels={**AWS_LABELS, "framework_version": "2.56.0"})
    before = lock_file.read_bytes()

    with pytest.raises(UserError, match=r"ray is 2\.56\.0 by the image's labels, and 2\.58\.0 by AWS's changelog"):
        commands.lock(TAG, registry.url, (), lock_file)
    assert lock_file.read_bytes() == before


def test_an_own_image_says_what_is_inside_or_is_told(registry: FakeRegistry, lock_file: Path) -> None:
    registry.hold("v3", environment=("CUDA_VERSION=12.8.1",), labels={"framework_version": "9.9"})
    reference = "registry.example.com/deep-learning-containers/ray:v3"

    with pytest.raises(UserError, match=r"which ray and python is inside.*--inside ray=VERSION"):
        commands.lock(reference, registry.url, (), lock_file)
    commands.lock(reference, registry.url, ("ray=2.58.0", "python=3.13.2"), lock_file)
    held = read_lock(lock_file).history[0]
    assert held.version_sources == {
        "cuda": "the image's environment",
        "python": "given with --inside",
        "ray": "given with --inside",
    }
    assert held.minimum_driver == "525.60.13"


def test_what_is_typed_cannot_contradict_the_image(registry: FakeRegistry, lock_file: Path) -> None:
    registry.hold(TAG)

    with pytest.raises(UserError, match="--inside can only add"):
        commands.lock(TAG, registry.url, ("cuda=12.8.0",), lock_file)
    with pytest.raises(UserError, match="NAME=VERSION"):
        commands.lock(TAG, registry.url, ("cuda",), lock_file)


def test_the_commands_show_what_is_locked(registry: FakeRegistry, lock_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = registry.hold(TAG)
    with pytest.raises(UserError, match="has no entry"):
        commands.show(lock_file)
    commands.history(lock_file)
    commands.lock(TAG, registry.url, (), lock_file)
    capsys.readouterr()

    commands.show(lock_file)
    shown = capsys.readouterr().out
    assert digest in shown
    assert "9.5 GB compressed" in shown
    assert "580.65.06 or newer on the node" in shown
    commands.history(lock_file)
    assert digest in capsys.readouterr().out


def test_the_command_line_refuses_a_floating_tag_without_asking_anyone() -> None:
    result = CliRunner().invoke(cli, ["image", "lock", "train-ml-cuda-v1.1"])

    assert isinstance(result.exception, UserError)
    assert "use a tag with three numbers" in str(result.exception)
