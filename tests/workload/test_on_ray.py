"""The workload as a job runs it: real Ray Train, real FSDP2 over gloo, real SIGKILLs, one shared cluster.

Every comparison is to the last bit, against one uninterrupted run of the same settings.
"""

import os
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.workload.runs import run_config, run_training, start_training
from workload import receipts
from workload.checkpoint_folder import found_checkpoints
from workload.evidence import Evidence, collect
from workload.lease import newest_claim
from workload.lineage import current_run
from workload.record import ClaimName, Record, Verdict
from workload.run_config import RunConfig
from workload.store import Store

# Bounds for a machine that others load too; on an idle one with 2 cores a start takes about 12 s.
pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]
STEPS, BATCH = 8, 8


def evidence_of(config: RunConfig) -> Evidence:
    store = Store(config.store)
    place = current_run(store, config.training.run_name)
    assert place is not None
    return collect(store, place, config)


def losses(evidence: Evidence) -> dict[int, str]:
    """The loss of each step as float hex, from the last attempt that ran it."""
    return {m.step: m.loss_hex for attempt in evidence.attempts for m in attempt.steps}


def final_state(evidence: Evidence) -> tuple[int, str]:
    """Position and sums of parameters and moments, on which all ranks agree."""
    ends = {(end.position, end.sums.to_json()) for end in evidence.attempts[-1].rank_ends}
    assert len(ends) == 1
    return ends.pop()


def claims(config: RunConfig) -> dict[ClaimName, tuple[Verdict, str]]:
    record = Record.model_validate_json((Path(config.store.path) / "test/lineage-0001/record.json").read_bytes())
    assert record.content_sha256 == record.computed_hash()
    return {claim.name: (claim.verdict, claim.evidence) for claim in record.claims}


@pytest.fixture(scope="module")
def reference(ray_cluster, tmp_path_factory) -> RunConfig:
    """One uninterrupted run of two workers; keeps all four of its checkpoints."""
    folder = tmp_path_factory.mktemp("reference")
    config = run_config(folder / "store", training__checkpoint={"everySteps": 2, "keep": 4, "resume": "auto"})
    code, output = run_training(config, ray_cluster, folder)
    assert code == 0, output
    return config


def copied(reference: RunConfig, tmp_path: Path, **changes) -> RunConfig:
    """The reference's store, copied, and a run that continues it to step 10."""
    shutil.copytree(reference.store.path, tmp_path / "store")
    settings = {
        "training__schedule": {"steps": 10, "globalBatchSequences": BATCH, "microBatchSequences": 4},
        "training__checkpoint": {"everySteps": 2, "keep": 4, "resume": "auto"},
        "provenance": {"identity": "b" * 64, "image": "none", "codeSha256": "0" * 64},
    }
    return run_config(tmp_path / "store", **(settings | changes))


def checkpoint_folders(config: RunConfig) -> list[Path]:
    """Newest first."""
    folder = "test/lineage-0001/checkpoints"
    return [Path(config.store.path) / folder / f.folder for f in found_checkpoints(Store(config.store), folder)]


def test_an_uninterrupted_run_learns_and_leaves_a_sealed_record_with_nothing_resumed(reference):
    found = claims(reference)

    assert found[ClaimName.LEARNED][0] is Verdict.PROVEN
    assert found[ClaimName.RESUMED] == (Verdict.NOT_TESTED, "nothing was interrupted")
    assert found[ClaimName.DATA_IS_REAL][0] is Verdict.PROVEN
    assert found[ClaimName.TRANSPORT][0] is Verdict.NOT_TESTED
    assert found[ClaimName.EXECUTED] == (Verdict.REFUTED, "rank 0 runs a folder, not the package, not 00000000")
    assert [f.name for f in checkpoint_folders(reference)] == [receipts.folder_name(s, 1) for s in (8, 6, 4, 2)]


def test_every_tensor_is_sharded_over_both_workers(reference):
    for environment in evidence_of(reference).attempts[0].environments:
        sharding = environment.sharding
        assert sharding["shardedTensors"] == sharding["tensors"]
        assert sharding["localParameters"] < 0.6 * sharding["parameters"]


@pytest.mark.case("C069", "C070")
def test_two_sharded_workers_have_the_losses_and_gradient_norms_of_one_process(reference, ray_cluster, tmp_path):
    one = run_config(
        tmp_path / "store",
        workers={"count": 1, "perPod": 1, "cpusPerWorker": 1, "gpusPerWorker": 0},
        training__sharding={"strategy": "none", "precision": "float32", "activationCheckpointing": False},
    )
    code, output = run_training(one, ray_cluster, tmp_path)
    assert code == 0, output

    single, double = evidence_of(one).attempts[0].steps, evidence_of(reference).attempts[0].steps
    assert len(single) == len(double) == STEPS
    for a, b in zip(single, double, strict=True):
        assert a.loss == pytest.approx(b.loss, abs=1e-5)
        assert a.gradient_norm == pytest.approx(b.gradient_norm, rel=1e-4)


@pytest.mark.case("C068", "C107", "C113")
def test_a_worker_killed_at_each_phase_of_a_save_and_between_saves_changes_not_one_bit(reference, ray_cluster, tmp_path):
    faults = [
        {"attempt": 1, "at": "before-shards", "step": 2, "rank": 0},
        {"attempt": 2, "at": "before-receipts", "step": 4, "rank": 1},
        {"attempt": 3, "at": "before-marker", "step": 4, "rank": 0},
        {"attempt": 4, "at": "after-marker", "step": 6, "rank": 0},
        {"attempt": 5, "at": "step", "step": 7, "rank": 1},
    ]
    failures = {"maxRestarts": 6, "collectiveTimeoutSeconds": 30, "workerStartTimeoutSeconds": 60}
    config = run_config(
        tmp_path / "store",
        training__faults=faults,
        training__failures=failures,
        training__checkpoint={"everySteps": 2, "keep": 4, "resume": "auto"},
    )

    code, output = run_training(config, ray_cluster, tmp_path, seconds=560)
    assert code == 0, output

    interrupted = evidence_of(config)
    restored = [a.start.restored and a.start.restored.step for a in interrupted.attempts]
    assert restored == [None, None, 2, 2, 6, 6]
    assert losses(interrupted) == losses(evidence_of(reference))
    assert final_state(interrupted) == final_state(evidence_of(reference))
    assert claims(config)[ClaimName.RESUMED][0] is Verdict.PROVEN
    assert "its process is gone" in output


@pytest.mark.case("C046")
def test_a_killed_driver_is_continued_by_the_next_one_to_the_last_bit(reference, ray_cluster, tmp_path):
    config = run_config(tmp_path / "store", training__checkpoint={"everySteps": 2, "keep": 4, "resume": "auto"})
    first = start_training(config, ray_cluster, tmp_path)
    checkpoints = tmp_path / "store/test/lineage-0001/checkpoints"
    try:
        deadline = time.monotonic() + 120
        while not list(checkpoints.glob(f"*/{receipts.MARKER}")):
            assert time.monotonic() < deadline
            assert first.poll() is None, first.communicate()[0]
            time.sleep(0.02)
    finally:
        os.kill(first.pid, signal.SIGKILL)
    first.communicate()

    code, output = run_training(config, ray_cluster, tmp_path)
    assert code == 0, output

    both = evidence_of(config)
    assert [a.start.restored is not None for a in both.attempts] == [False, True]
    taken_over = both.attempts[1].start.taken_over
    assert taken_over
    assert (taken_over.process, taken_over.attempt) == (first.pid, 1)
    assert losses(both) == losses(evidence_of(reference))
    assert final_state(both) == final_state(evidence_of(reference))


@pytest.mark.case("C040")
def test_a_second_driver_is_refused_while_the_first_trains_and_the_first_completes_alone(reference, ray_cluster, tmp_path):
    config = run_config(tmp_path / "store", training__checkpoint={"everySteps": 2, "keep": 4, "resume": "auto"})
    first = start_training(config, ray_cluster, tmp_path)
    try:
        deadline = time.monotonic() + 120
        while newest_claim(Store(config.store), "test") is None:
            assert time.monotonic() < deadline
            assert first.poll() is None, first.communicate()[0]
            time.sleep(0.02)
        code, output = run_training(config, ray_cluster, tmp_path)
        assert first.poll() is None, "the first one was over before the second was refused: nothing is shown"
        first_output, _ = first.communicate(timeout=300)
    finally:
        first.kill()

    assert code == 2, output
    assert f"another driver works on this run and renews its lease: host {socket.gethostname()} (process {first.pid})" in output
    assert first.returncode == 0, first_output
    alone = evidence_of(config)
    assert [a.start.taken_over for a in alone.attempts] == [None]
    assert losses(alone) == losses(evidence_of(reference))
    assert final_state(alone) == final_state(evidence_of(reference))
    claim = newest_claim(Store(config.store), "test")
    assert claim
    assert claim.released


@pytest.mark.case("C130", "C138")
def test_damaged_checkpoints_are_passed_over_and_named_and_the_newest_intact_one_is_used(reference, ray_cluster, tmp_path):
    config = copied(reference, tmp_path)
    newest, second, third, fourth = checkpoint_folders(config)
    (newest / receipts.MARKER).write_bytes((newest / receipts.MARKER).read_bytes()[:-20])
    (second / receipts.receipt_name(1)).unlink()
    shard = third / "__1_0.distcp"
    size = shard.stat().st_size
    shard.write_bytes(shard.read_bytes()[:-1000])

    code, output = run_training(config, ray_cluster, tmp_path)
    assert code == 0, output

    continued = evidence_of(config)
    restored = continued.attempts[-1].start.restored
    assert restored is not None
    assert restored.checkpoint == fourth.name
    assert [note.partition(": ")[2] for note in restored.passed_over] == [
        "its marker is damaged (not readable)",
        "receipt-00001.json is missing",
        f"__1_0.distcp has {size - 1000} bytes, not {size}",
    ]
    assert "its marker is damaged" in output
    again = {m.step: m.loss_hex for m in continued.attempts[-1].steps}
    expected = losses(evidence_of(reference))
    # The schedule is longer now, so only the first step after the resume has the same weights and the same loss.
    assert again[3] == expected[3]
    assert sorted(again) == list(range(3, 11))


def test_a_flipped_byte_is_found_by_its_hash_and_nothing_left_is_refused_rather_than_started_over(
    reference, ray_cluster, tmp_path
):
    config = copied(reference, tmp_path)
    for folder in checkpoint_folders(config):
        shard = folder / "__0_0.distcp"
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 1
        shard.write_bytes(data)

    code, output = run_training(config, ray_cluster, tmp_path)

    assert code == 2, output
    assert "training.checkpoint.resume = auto: no intact checkpoint is left" in output
    assert "__0_0.distcp is damaged (hash differs)" in output
    assert "Traceback" not in output
    assert len(evidence_of(config).attempts) == 1


@pytest.mark.case("C110")
@pytest.mark.parametrize(("workers", "strategy"), [(1, "full"), (2, "none")])
def test_a_run_continues_with_another_number_of_workers_or_another_strategy(
    reference, ray_cluster, tmp_path, workers, strategy
):
    config = copied(
        reference,
        tmp_path,
        workers={"count": workers, "perPod": 1, "cpusPerWorker": 1, "gpusPerWorker": 0},
        training__sharding={"strategy": strategy, "precision": "float32", "activationCheckpointing": True},
    )
    for newer in checkpoint_folders(config)[:2]:
        shutil.rmtree(newer)

    code, output = run_training(config, ray_cluster, tmp_path)
    assert code == 0, output

    resumed, expected = evidence_of(config).attempts[-1], evidence_of(reference).attempts[0]
    assert resumed.start.restored is not None
    assert resumed.start.restored.step == 4
    assert resumed.steps[0].position == expected.steps[4].position
    assert resumed.steps[0].loss == pytest.approx(expected.steps[4].loss, abs=1e-5)


@pytest.mark.case("C119")
def test_another_seed_under_the_same_name_is_refused_by_key_before_the_weights_are_mixed(reference, ray_cluster, tmp_path):
    config = copied(reference, tmp_path, training__seed=2)

    code, output = run_training(config, ray_cluster, tmp_path)

    assert code == 2, output
    assert "training.seed = 2: differs from what" in output


def test_a_schedule_shorter_than_the_run_already_is_is_refused(reference, ray_cluster, tmp_path):
    shorter = {"steps": 6, "globalBatchSequences": BATCH, "microBatchSequences": 4}
    config = copied(reference, tmp_path, training__schedule=shorter)

    code, output = run_training(config, ray_cluster, tmp_path)

    assert code == 2, output
    assert "training.schedule.steps = 6: the run is at step 8 already" in output


@pytest.mark.case("C119")
def test_a_finished_run_started_again_trains_nothing_and_keeps_its_verdicts(reference, ray_cluster, tmp_path):
    shutil.copytree(reference.store.path, tmp_path / "store")
    config = run_config(tmp_path / "store", training__checkpoint={"everySteps": 2, "keep": 4, "resume": "auto"})

    code, output = run_training(config, ray_cluster, tmp_path)
    assert code == 0, output

    again = evidence_of(config)
    assert [len(a.steps) for a in again.attempts] == [STEPS, 0]
    assert claims(config)[ClaimName.LEARNED][0] is Verdict.PROVEN


@pytest.mark.case("C062")
def test_more_workers_than_the_cluster_has_are_refused_with_both_numbers(ray_cluster, tmp_path):
    config = run_config(
        tmp_path / "store",
        workers={"count": 8, "perPod": 1, "cpusPerWorker": 1, "gpusPerWorker": 0},
        training__schedule={"steps": 8, "globalBatchSequences": 8, "microBatchSequences": 1},
    )

    code, output = run_training(config, ray_cluster, tmp_path)

    assert code == 2, output
    assert "workers.count = 8: 8 workers x 1 CPU need 8, the Ray cluster has 4" in output
