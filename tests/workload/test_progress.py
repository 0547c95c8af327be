"""Progress lines: one at least every two seconds, and each event once."""

import itertools
import re
import time

import pytest

from tests.workload.runs import run_config
from workload.failures import note_failure
from workload.lease import LeaseLostError
from workload.lineage import AttemptStart, now, write_attempt_start
from workload.metrics import Journal, StepMetrics, read_metrics, read_status
from workload.progress import ProgressLines
from workload.record import Restored
from workload.store import Store


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(run_config(tmp_path / "store").store)


def metrics(step: int) -> StepMetrics:
    return StepMetrics(
        attempt=1, step=step, position=step * 8, loss=5.0, loss_hex=(5.0).hex(), learning_rate=0.1, gradient_norm=1.0,
        tokens=100, seconds=0.5, data_seconds=0.0,
    )  # fmt: skip


def test_a_line_comes_at_least_every_two_seconds_while_nothing_happens(store, monkeypatch):
    times = []
    monkeypatch.setattr("workload.progress.say", lambda text: times.append((time.monotonic(), text)))
    with ProgressLines(store, "run") as lines:
        lines.phase = "starting 2 workers"
        time.sleep(4.5)

    gaps = [b[0] - a[0] for a, b in itertools.pairwise(times)]
    assert len(times) >= 3
    assert max(gaps) < 2.5
    assert re.fullmatch(r"starting 2 workers \.\.\. \d+ s", times[1][1])


def test_attempts_and_failures_are_told_once_and_old_ones_not_at_all(store, capsys):
    def start(number, restored=None):
        write_attempt_start(store, "run", AttemptStart(number=number, identity="a", started_at=now(), restored=restored))

    start(1)
    note_failure(store, "run", {0: ValueError("old news")})
    with ProgressLines(store, "run"):
        note_failure(store, "run", {1: ValueError("out of memory")})
        restored = Restored(
            checkpoint="step-00000004-attempt-0001", step=4, position=32, tensors=15, bytes=1,
            passed_over=("step-00000006-attempt-0001: its marker is damaged",),
        )  # fmt: skip
        start(2, restored)
        time.sleep(1.0)
    said = capsys.readouterr().out

    assert "old news" not in said
    assert "attempt 1 starts" not in said
    assert said.count("attempt 1 ended: rank 1: ValueError: out of memory") == 1
    assert said.count("attempt 2 goes on from step 4 (step-00000004-attempt-0001, 15 tensors)") == 1
    assert "passed over step-00000006-attempt-0001: its marker is damaged" in said


def test_what_was_journalled_is_in_the_store_when_an_exception_leaves_it(store):
    with pytest.raises(RuntimeError, match="connection reset"), Journal(store, "run", 1, 8, active=True) as journal:
        journal.step(metrics(1))
        journal.status("training", 1, metrics=metrics(1))
        raise RuntimeError("connection reset")

    assert [m.step for m in read_metrics(store, "run", 1)] == [1]
    status = read_status(store, "run")
    assert status is not None
    assert (status.phase, status.step, status.tokens_per_second) == ("training", 1, 200.0)


def test_long_runs_go_on_in_a_new_part_and_nothing_is_lost(store, monkeypatch):
    monkeypatch.setattr("workload.metrics.PART_LINES", 3)
    with Journal(store, "run", 1, 8, active=True) as journal:
        for step in range(1, 9):
            journal.step(metrics(step))
            journal.flush()

    assert [m.step for m in read_metrics(store, "run", 1)] == list(range(1, 9))
    assert len(store.files("run/metrics/attempt-0001")) == 3


def test_a_store_that_refuses_evidence_ends_the_run(store, monkeypatch):
    with pytest.raises(OSError, match="disk is full"), Journal(store, "run", 1, 8, active=True) as journal:
        monkeypatch.setattr(Store, "write", lambda *_: (_ for _ in ()).throw(OSError("disk is full")))
        journal.step(metrics(1))
        time.sleep(1.2)
        journal.step(metrics(2))


def test_after_a_loss_of_the_lease_the_next_step_ends_the_attempt_and_the_shared_status_is_left_to_the_other_driver(store):
    lost: list[LeaseLostError] = []

    def guard() -> None:
        if lost:
            raise lost[0]

    with pytest.raises(LeaseLostError, match="taken over"), Journal(store, "run", 1, 8, active=True, guard=guard) as journal:
        journal.step(metrics(1))
        journal.status("training", 1)
        journal.flush()
        lost.append(LeaseLostError("taken over"))
        time.sleep(1.2)
        journal.status("training", 2)
        journal.step(metrics(2))

    status = read_status(store, "run")
    assert status
    assert status.step == 1
    assert [m.step for m in read_metrics(store, "run", 1)] == [1]


def test_other_ranks_write_nothing(store):
    with Journal(store, "run", 1, 8, active=False) as journal:
        journal.step(metrics(1))
        journal.flush()

    assert store.files("run/metrics/attempt-0001") == []
