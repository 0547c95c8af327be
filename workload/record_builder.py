"""Evidence -> record: what the store holds about a run, condensed into one judged document. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

from workload.evidence import AttemptEvidence, Evidence
from workload.lineage import now
from workload.record import Attempt, Host, Record, SeriesPoint, Timing
from workload.statistics import summarise
from workload.verdicts import improvement, judge

# A record stays readable and small; a curve of more points looks the same.
SERIES_POINTS = 2000


def build_record(evidence: Evidence, wall_seconds: float) -> Record:
    """Condenses and judges; `wall_seconds` is the driver's whole time, the one thing that evidence does not hold."""
    config, attempts = evidence.config, evidence.attempts
    evaluations = [summarise(e.step, e.losses, e.sequence_length) for e in evidence.evaluations]
    record = Record(
        schema_version=2,
        run_name=config.training.run_name,
        identity=config.provenance.identity,
        lineage=evidence.lineage,
        created_at=now(),
        config=config,
        versions=attempts[-1].environments[0].versions if attempts and attempts[-1].environments else {},
        hosts=tuple(
            Host(rank=e.rank, attempt=e.attempt, hostname=e.hostname, node_id=e.node_id, pid=e.pid, device=e.device,
                 backend=e.backend)
            for a in attempts for e in a.environments
        ),
        data=evidence.manifest.summary() if evidence.manifest else None,
        attempts=tuple(_attempt(a) for a in attempts),
        evaluation_before=evaluations[0] if evaluations and evaluations[0].step == 0 else None,
        evaluation_after=evaluations[-1] if len(evaluations) > 1 else None,
        improvement=improvement(evidence),
        timing=_timing(attempts, wall_seconds),
        series=_series(attempts),
        claims=judge(evidence),
        content_sha256="",
    )  # fmt: skip
    return record.sealed()


def _attempt(attempt: AttemptEvidence) -> Attempt:
    steps = [m.step for m in attempt.steps]
    outcome: Literal["completed", "interrupted"] = "completed" if attempt.end else "interrupted"
    return Attempt(
        number=attempt.start.number, identity=attempt.start.identity, started_at=attempt.start.started_at,
        ended_at=attempt.end.ended_at if attempt.end else None, outcome=outcome, restored=attempt.start.restored,
        first_step=steps[0] if steps else None, last_step=steps[-1] if steps else None,
        taken_over=attempt.start.taken_over,
    )  # fmt: skip


def _timing(attempts: Sequence[AttemptEvidence], wall_seconds: float) -> Timing:
    # The first step of an attempt pays for warm-up: memory, threads, first collectives.
    steps = [m for a in attempts for m in a.steps[1:]]
    saves = [s for a in attempts for s in a.saves]
    seconds = sorted(m.seconds for m in steps)
    return Timing(
        step_seconds_median=_median(seconds),
        step_seconds_p90=seconds[int(0.9 * (len(seconds) - 1))] if seconds else None,
        tokens_per_second_median=_median([m.tokens / m.seconds for m in steps if m.seconds]),
        save_seconds_median=_median([s.seconds for s in saves]),
        save_blocking_seconds_median=_median([s.blocking_seconds for s in saves]),
        wall_seconds=wall_seconds,
    )


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _series(attempts: Sequence[AttemptEvidence]) -> tuple[SeriesPoint, ...]:
    points = [
        SeriesPoint(
            step=m.step, attempt=m.attempt, loss=m.loss, learning_rate=m.learning_rate, gradient_norm=m.gradient_norm,
            tokens_per_second=m.tokens / m.seconds if m.seconds else 0.0,
        )
        for a in attempts for m in a.steps
    ]  # fmt: skip
    stride = -(-len(points) // SERIES_POINTS) or 1
    return tuple(points[::stride])
