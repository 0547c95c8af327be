"""`python -m workload`: errors in one message with exit code 2, records verified and exported."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workload.runs import ROOT, run_config
from tests.workload.test_lease import Driver
from tests.workload.test_verdicts import AFTER, BEFORE, samples
from workload.commands.records import export, verify
from workload.errors import UserError
from workload.evidence import collect
from workload.evidence_files import evaluation_path
from workload.lease import PACE
from workload.lineage import open_run
from workload.record import Attempt, Record, TakenOver
from workload.record_builder import build_record
from workload.report import render
from workload.store import Store


def run(*arguments, cwd=ROOT):
    done = subprocess.run([sys.executable, "-m", "workload", *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def recorded(tmp_path):
    """A run with a record, made of evaluations alone."""
    config = run_config(tmp_path / "store")
    store = Store(config.store)
    place = open_run(store, config)
    for each in (samples(0, BEFORE), samples(8, AFTER)):
        store.write(evaluation_path(place.folder, each.step), each.to_json().encode())
    record = build_record(collect(store, place, config), wall_seconds=1.0)
    store.write(f"{place.folder}/record.json", record.to_json().encode())
    store.write(f"{place.folder}/report.html", b"<html>")
    return config, store, place, record


def test_all_problems_of_a_run_config_are_said_at_once_without_a_traceback(tmp_path):
    path = tmp_path / "run.json"
    text = (
        run_config(tmp_path / "store").to_json().replace('"seed":1', '"seed":"one"').replace('"everySteps":2', '"everySteps":0')
    )
    path.write_text(text)

    code, _, errors = run("train", "--config", str(path))

    assert code == 2
    assert "2 problems" in errors
    assert "training.seed = one" in errors
    assert "training.checkpoint.everySteps = 0" in errors
    assert "Traceback" not in errors


def test_a_file_that_is_not_there_is_said_with_its_path(tmp_path):
    code, _, errors = run("train", "--config", str(tmp_path / "none.json"))

    assert (code, "none.json: cannot be read" in errors) == (2, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "empty"), (b"ab\x00cd" * 100, "NUL"), (b"good\nbad \xff line\n", "UTF-8"), (b"short.\n\nvery.\n\n", "too short")],
    ids=["empty", "binary", "not UTF-8", "too short"],
)
def test_bad_text_ends_a_run_before_ray_starts_with_exit_code_2(tmp_path, content, said):
    text = tmp_path / "book.txt"
    text.write_bytes(content)
    source = {"source": "text", "paths": [str(text)], "documentSeparator": "\n\n"}
    path = tmp_path / "run.json"
    path.write_text(run_config(tmp_path / "store", training__data__text=source).to_json())

    code, output, errors = run("train", "--config", str(path))

    assert code == 2, output + errors
    assert "book.txt" in errors
    assert said.lower() in errors.lower()
    assert "Fix:" in errors
    assert "Traceback" not in errors
    assert "starting Ray" not in output


def test_a_model_folder_that_is_not_there_is_refused_before_anything_is_written(tmp_path):
    model = {"source": "huggingface", "path": "/no/such/model"}
    path = tmp_path / "run.json"
    path.write_text(run_config(tmp_path / "store", training__model=model).to_json())

    code, _, errors = run("train", "--config", str(path))

    assert code == 2
    assert "training.model.path = /no/such/model: holds no config.json" in errors
    assert list((tmp_path / "store").iterdir()) == []


def files_of(store: Path) -> dict[str, bytes]:
    return {str(f.relative_to(store)): f.read_bytes() for f in store.rglob("*") if f.is_file() and "/lease/" not in str(f)}


@pytest.mark.case("C040")
@pytest.mark.parametrize("resume", ["auto", "never"])
def test_a_driver_of_a_run_that_one_works_on_is_refused_with_exit_code_2_and_changes_nothing(recorded, tmp_path, resume):
    config, store, *_ = recorded
    changed = run_config(
        tmp_path / "store",
        training__checkpoint={"everySteps": 2, "keep": 3, "resume": resume},
        provenance={"identity": "b" * 64, "image": "none", "codeSha256": "0" * 64},
    )
    path = tmp_path / "run.json"
    path.write_text(changed.to_json())
    before = files_of(tmp_path / "store")

    with Driver(config, PACE) as first:
        code, output, errors = run("train", "--config", str(path))
        first.check()

    assert code == 2, output + errors
    assert "training.runName = test: another driver works on this run and renews its lease: host " in errors
    assert f"(process {os.getpid()}), since {first.lease.since}" in errors
    assert "Fix: wait until it has ended" in errors
    assert "Traceback" not in errors
    assert files_of(tmp_path / "store") == before
    assert len(store.files("test/lease")) == 1


def test_a_run_that_cannot_be_continued_as_required_is_refused_before_anything_is_written(tmp_path):
    config = run_config(tmp_path / "store", training__checkpoint={"everySteps": 2, "keep": 3, "resume": "required"})
    path = tmp_path / "run.json"
    path.write_text(config.to_json())

    code, _, errors = run("train", "--config", str(path))

    assert code == 2
    assert "holds no complete checkpoint to continue from" in errors
    assert list((tmp_path / "store").iterdir()) == []


def test_records_are_verified_and_exported_while_a_driver_works_without_touching_its_lease(recorded, capsys):
    config, store, *_ = recorded
    with Driver(config) as driver:
        assert verify(config) == 0
        assert export(config) == 0
        driver.check()
        assert len(store.files("test/lease")) == 1


def test_a_record_from_before_leases_keeps_its_hash_and_a_later_one_says_from_whom_a_run_was_taken(recorded):
    *_, record = recorded
    attempt = Attempt(
        number=1, identity="a", started_at="then", ended_at=None, outcome="interrupted", restored=None, first_step=None,
        last_step=None,
    )  # fmt: skip
    old = json.loads(record.model_copy(update={"schema_version": 1, "attempts": (attempt,), "content_sha256": ""}).to_json())
    del old["attempts"][0]["takenOver"]
    old["contentSha256"] = hashlib.sha256(json.dumps(old, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
    read = Record.model_validate_json(json.dumps(old))
    assert read.computed_hash() == read.content_sha256

    taken_over = TakenOver(term=1, attempt=1, identity="a", host="gone", process=7, since="then")
    by_lease = attempt.model_copy(update={"taken_over": taken_over})
    changed = record.model_copy(update={"attempts": (by_lease,)})
    assert record.schema_version == 2
    assert changed.computed_hash() != record.model_copy(update={"attempts": (attempt,)}).computed_hash()
    assert "taken over from host gone (process 7)" in render(changed)


def test_a_record_is_verified_against_its_evidence(recorded, capsys):
    config, *_ = recorded

    assert verify(config) == 0
    assert "held-out perplexity" in capsys.readouterr().out


def test_a_verdict_that_the_evidence_does_not_give_is_named(recorded, capsys):
    config, store, place, _ = recorded
    worse = samples(8, [value + 2 for value in BEFORE])
    store.write(evaluation_path(place.folder, 8), worse.to_json().encode())

    assert verify(config) == 1
    assert "learned: the record says proven, the evidence says refuted" in capsys.readouterr().err


def test_a_record_that_was_edited_is_not_trusted(recorded, capsys):
    config, store, place, record = recorded
    store.write(f"{place.folder}/record.json", record.model_copy(update={"lineage": 7}).to_json().encode())

    assert verify(config) == 1
    assert "its content hash differs" in capsys.readouterr().err


def test_an_export_is_one_line_of_json_with_both_files(recorded, capsys):
    config, *_, record = recorded

    assert export(config) == 0
    (line,) = capsys.readouterr().out.splitlines()
    files = json.loads(line)
    assert Record.model_validate_json(files["record.json"]) == record
    assert files["report.html"] == "<html>"


def test_another_runs_record_is_not_exported_as_this_ones(recorded):
    config, *_ = recorded
    other = config.provenance.model_copy(update={"identity": "b" * 64})

    with pytest.raises(UserError, match=r"the record there is of run aaaaaaaa, this one \(bbbbbbbb\) has left none"):
        export(config.model_copy(update={"provenance": other}))


def test_no_record_yet_is_a_users_error_and_not_a_traceback(tmp_path):
    with pytest.raises(UserError, match="holds no record of this run yet"):
        verify(run_config(tmp_path / "store"))
