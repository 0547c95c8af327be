"""Verdicts over forged evidence: each claim proven, refuted and not tested, for the reason that it names."""

import dataclasses

import pytest

from tests.workload.runs import run_config
from workload import verdicts
from workload.data import prepare
from workload.evidence import AttemptEvidence, Evidence
from workload.evidence_files import EvaluationSamples, RankEnd, RankEnvironment
from workload.lineage import AttemptEnd, AttemptStart
from workload.metrics import SaveMetrics, StepMetrics
from workload.receipts import Digest
from workload.record import ClaimName, Restored, Verdict
from workload.record_builder import build_record
from workload.sequences import DecodeProof

PROVEN, REFUTED, NOT_TESTED = Verdict.PROVEN, Verdict.REFUTED, Verdict.NOT_TESTED
IDENTITY, CODE = "a" * 64, "0" * 64


def step(number: int, attempt: int = 1, loss: float | None = None, position: int | None = None) -> StepMetrics:
    value = 6.0 - number / 10 if loss is None else loss
    return StepMetrics(
        attempt=attempt, step=number, position=number * 8 if position is None else position, loss=value, loss_hex=value.hex(),
        learning_rate=0.001, gradient_norm=1.0, tokens=256, seconds=0.5, data_seconds=0.0,
    )  # fmt: skip


def environment(rank: int, attempt: int = 1, **changes) -> RankEnvironment:
    values = {
        "rank": rank, "attempt": attempt, "hostname": "h", "node_id": "n", "pid": 100 + rank, "device": "cpu",
        "backend": "gloo", "threads": 1, "code_sha256": CODE, "versions": {"torch": "2"}, "variables": {},
        "sharding": {"strategy": "full", "tensors": 5, "shardedTensors": 5, "parameters": 10, "localParameters": 5},
    }  # fmt: skip
    return RankEnvironment(**(values | changes))


def rank_end(rank: int, attempt: int = 1, position: int = 64) -> RankEnd:
    sums = Digest(parameters="0x1p0", first_moments="0x1p0", second_moments="0x1p0")
    return RankEnd(rank=rank, attempt=attempt, first_step=1, steps_executed=8, position=position, sums=sums)


def attempt(number: int, steps, *, restored: int | None = None, ended: bool = True) -> AttemptEvidence:
    found = restored and Restored(
        checkpoint=f"step-{restored:08d}-attempt-0001", step=restored, position=restored * 8, tensors=15, bytes=1,
        passed_over=(),
    )  # fmt: skip
    start = AttemptStart(number=number, identity=IDENTITY, started_at="2026-01-01T00:00:00+00:00", restored=found or None)
    return AttemptEvidence(
        start=start,
        end=AttemptEnd(number=number, ended_at="2026-01-01T00:01:00+00:00", step=8) if ended else None,
        steps=tuple(steps),
        saves=(SaveMetrics(attempt=number, step=2, blocking_seconds=0.1, seconds=0.4),),
        environments=tuple(environment(rank, number) for rank in (0, 1)),
        rank_ends=tuple(rank_end(rank, number) for rank in (0, 1)) if ended else (),
    )


def samples(number: int, losses) -> EvaluationSamples:
    return EvaluationSamples(step=number, sequence_length=32, data_sha256="d", losses=tuple(losses))


BEFORE = [6.0 + i / 10 for i in range(16)]
AFTER = [5.0 + i / 10 for i in range(16)]


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Evidence:
    """A run that was killed after step 5 and went on from step 4, with real data behind it."""
    folder = tmp_path_factory.mktemp("evidence")
    config = run_config(folder)
    manifest = prepare(config, folder / "data", lambda _: None)
    interrupted = attempt(1, [step(n) for n in range(1, 6)], ended=False)
    continued = attempt(2, [step(n, attempt=2) for n in range(5, 9)], restored=4)
    return Evidence(
        config=config, lineage=1, attempts=(interrupted, continued), evaluations=(samples(0, BEFORE), samples(8, AFTER)),
        manifest=manifest, decoded=DecodeProof(sequences=(1, 2), characters=100, problem="", sample="text"),
    )  # fmt: skip


def changed(evidence: Evidence, index: int, **changes) -> Evidence:
    attempts = list(evidence.attempts)
    attempts[index] = dataclasses.replace(attempts[index], **changes)
    return dataclasses.replace(evidence, attempts=tuple(attempts))


def verdict(evidence: Evidence, name: ClaimName) -> tuple[Verdict, str]:
    claim = next(c for c in verdicts.judge(evidence) if c.name is name)
    return claim.verdict, claim.evidence


def test_an_interrupted_and_continued_run_proves_all_that_a_cpu_can_show(good):
    found = {c.name: c.verdict for c in verdicts.judge(good)}

    assert found == {
        ClaimName.EXECUTED: PROVEN, ClaimName.LEARNED: PROVEN, ClaimName.RESUMED: PROVEN, ClaimName.DATA_IS_REAL: PROVEN,
        ClaimName.TRANSPORT: NOT_TESTED,
    }  # fmt: skip


def test_each_claim_is_one_line(good):
    assert all("\n" not in c.evidence for c in verdicts.judge(good))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"end": None}, "stopped at step 8 of 8"),
        ({"steps": (step(5, 2), step(6, 2), step(8, 2))}, "the evidence holds 7 of 8 steps"),
        ({"rank_ends": (rank_end(0),)}, "1 of 2 ranks ended well"),
        ({"rank_ends": (rank_end(0), rank_end(1, position=56))}, "the workers disagree on the final state"),
        ({"environments": (environment(0), environment(0))}, "1 processes for 2 workers"),
        ({"environments": (environment(0), environment(1, code_sha256="f" * 64))}, "rank 1 runs ffffffff, not 00000000"),
        ({"environments": (environment(0), environment(1, code_sha256=""))}, "rank 1 runs a folder, not the package"),
        (
            {
                "environments": (
                    environment(0),
                    environment(1, sharding={"strategy": "full", "tensors": 5, "shardedTensors": 0}),
                )
            },
            "not every tensor is sharded",
        ),
    ],
)
def test_execution_is_refuted_by_each_gap_in_its_evidence(good, change, reason):
    found, line = verdict(changed(good, 1, **change), ClaimName.EXECUTED)

    assert found is REFUTED
    assert reason in line


def test_nothing_is_claimed_of_a_run_that_never_began(good):
    empty = Evidence(good.config, 1, (), (), None, None)

    assert {c.verdict for c in verdicts.judge(empty)} == {NOT_TESTED}


def test_a_loss_that_did_not_fall_beyond_chance_is_refuted(good):
    noise = [value + (0.5 if i % 2 else -0.5) for i, value in enumerate(BEFORE)]
    found, line = verdict(dataclasses.replace(good, evaluations=(samples(0, BEFORE), samples(8, noise))), ClaimName.LEARNED)

    assert found is REFUTED
    assert "loss down by -0.000" in line or "loss down by 0.000" in line


@pytest.mark.parametrize(
    "evaluations",
    [
        (samples(0, BEFORE),),
        (samples(4, BEFORE), samples(8, AFTER)),
        (samples(0, BEFORE), samples(8, AFTER[:-1])),
        (samples(0, BEFORE), EvaluationSamples(step=8, sequence_length=32, data_sha256="other", losses=tuple(AFTER))),
    ],
    ids=["no after", "no before", "other sequences", "other data"],
)
def test_learning_is_not_tested_without_the_same_text_before_and_after(good, evaluations):
    assert verdict(dataclasses.replace(good, evaluations=evaluations), ClaimName.LEARNED)[0] is NOT_TESTED


def test_a_run_that_was_not_interrupted_did_not_prove_that_it_can_resume(good):
    whole = dataclasses.replace(good, attempts=(attempt(1, [step(n) for n in range(1, 9)]),))

    assert verdict(whole, ClaimName.RESUMED) == (NOT_TESTED, "nothing was interrupted")


def test_a_restart_before_the_first_checkpoint_is_no_resume(good):
    again = dataclasses.replace(
        good, attempts=(attempt(1, [step(1)], ended=False), attempt(2, [step(n, 2) for n in range(1, 9)]))
    )

    assert verdict(again, ClaimName.RESUMED) == (NOT_TESTED, "interrupted before the first checkpoint was complete")


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([step(5, 2, loss=5.4)], "step 5 redone with loss 0x1.599999999999ap+2, not 0x1.6000000000000p+2"),
        ([step(1, 2)], "step 1 at sequence 8, expected 5 at 40"),
        ([step(5, 2, position=8)], "step 5 at sequence 8, expected 5 at 40"),
    ],
    ids=["other loss", "from the start", "data replayed"],
)
def test_a_resume_that_went_on_elsewhere_is_refuted(good, steps, reason):
    assert verdict(changed(good, 1, steps=tuple(steps)), ClaimName.RESUMED) == (REFUTED, f"attempt 2: {reason}")


def test_the_last_bit_of_a_redone_loss_matters_on_a_cpu_and_not_on_a_gpu(good):
    import math

    off = step(5, 2, loss=math.nextafter(step(5).loss, 7.0))
    almost = changed(good, 1, steps=(off, *[step(n, 2) for n in (6, 7, 8)]))
    workers = good.config.workers.model_copy(update={"gpus_per_worker": 1})

    assert verdict(almost, ClaimName.RESUMED)[0] is REFUTED
    on_gpu = dataclasses.replace(almost, config=good.config.model_copy(update={"workers": workers}))
    assert verdict(on_gpu, ClaimName.RESUMED)[0] is PROVEN


def test_random_tokens_are_refuted_as_data(good):
    noise = good.manifest.statistics.model_copy(update={"bigram_bits": 8.9, "bigram_bits_shuffled": 9.0})
    manifest = good.manifest.model_copy(update={"statistics": noise})

    found, line = verdict(dataclasses.replace(good, manifest=manifest), ClaimName.DATA_IS_REAL)

    assert found is REFUTED
    assert "bigram entropy is 99% of that of shuffled tokens" in line


def test_tokens_that_are_not_in_the_source_are_refuted_as_data(good):
    decoded = good.decoded.model_copy(update={"problem": "sequence 3: not in the source: 'x'"})

    found = verdict(dataclasses.replace(good, decoded=decoded), ClaimName.DATA_IS_REAL)

    assert found == (REFUTED, "sequence 3: not in the source: 'x'")


def test_the_record_condenses_the_evidence_and_any_change_breaks_its_seal(good):
    record = build_record(good, wall_seconds=12.5)

    assert record.content_sha256 == record.computed_hash()
    assert record.model_copy(update={"lineage": 2}).computed_hash() != record.content_sha256
    assert [(a.number, a.outcome, a.first_step, a.last_step) for a in record.attempts] == [
        (1, "interrupted", 1, 5), (2, "completed", 5, 8),
    ]  # fmt: skip
    assert [(p.step, p.attempt) for p in record.series] == [(n, 1) for n in range(1, 6)] + [(n, 2) for n in range(5, 9)]
    assert record.timing.step_seconds_median == 0.5
    assert record.timing.tokens_per_second_median == 512
    assert record.improvement is not None
    assert record.improvement.difference == pytest.approx(1.0)
