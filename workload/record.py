"""The record of a run: one JSON, versioned, with a content hash and without secrets. Only its shape lives here."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Literal

from workload.run_config import RunConfig, Section


class Verdict(StrEnum):
    PROVEN = "proven"
    REFUTED = "refuted"
    NOT_TESTED = "not tested"


class ClaimName(StrEnum):
    EXECUTED = "executed"
    LEARNED = "learned"
    RESUMED = "resumed"
    DATA_IS_REAL = "data is real"
    TRANSPORT = "transport"


class Claim(Section):
    """A claim, its verdict, one line of evidence and the files (relative to the run's folder) that it was read from."""

    name: ClaimName
    verdict: Verdict
    evidence: str
    sources: tuple[str, ...]


class Restored(Section):
    """What an attempt continued from; its parameter and optimizer sums were equal to those noted at the save."""

    checkpoint: str
    step: int
    position: int  # sequences consumed since the run's start
    tensors: int
    bytes: int
    passed_over: tuple[str, ...]  # newer checkpoints that were incomplete or damaged, each with the reason


class TakenOver(Section):
    """Whose lease a driver took over: one that had not released it and no longer renewed it. None: it said nothing of that."""

    term: int
    attempt: int | None  # the first that the other driver made
    identity: str | None
    host: str | None
    process: int | None
    since: str | None


class Attempt(Section):
    """One try of a run. `lastStep` is the last step whose metrics reached the store.

    `takenOver` is set on the first attempt of a driver that took over another's lease (since schema version 2).
    """

    number: int
    identity: str
    started_at: str
    ended_at: str | None
    outcome: Literal["completed", "interrupted"]
    restored: Restored | None
    first_step: int | None
    last_step: int | None
    taken_over: TakenOver | None = None


class EvaluationSummary(Section):
    step: int
    loss: float  # mean cross-entropy per token, nats
    perplexity: float
    sequences: int
    tokens: int


class Improvement(Section):
    """Held-out loss before minus after, per token in nats: positive is better. [low, high] is the bootstrap interval."""

    difference: float
    low: float
    high: float
    confidence: float
    resamples: int


class SeriesPoint(Section):
    """One optimizer step as it was executed; a redone step appears once for each attempt."""

    step: int
    attempt: int
    loss: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float


class DataSummary(Section):
    """What was read, from the data's manifest."""

    source: str
    documents: int
    held_out_documents: int
    train_tokens: int
    held_out_tokens: int
    duplicates_removed: int
    sha256: str
    vocabulary: int


class Timing(Section):
    """Seconds over the executed steps and saves; medians, since single values on shared machines mislead."""

    step_seconds_median: float | None
    step_seconds_p90: float | None
    tokens_per_second_median: float | None
    save_seconds_median: float | None
    save_blocking_seconds_median: float | None
    wall_seconds: float


class Host(Section):
    """One rank's surroundings."""

    rank: int
    attempt: int
    hostname: str
    node_id: str
    pid: int
    device: str
    backend: str


class Record(Section):
    """One run, judged. `contentSha256` is over the JSON without that field, as the schema of its version has it."""

    schema_version: Literal[1, 2]
    run_name: str
    identity: str
    lineage: int
    created_at: str
    config: RunConfig
    versions: dict[str, str]
    hosts: tuple[Host, ...]
    data: DataSummary | None
    attempts: tuple[Attempt, ...]
    evaluation_before: EvaluationSummary | None
    evaluation_after: EvaluationSummary | None
    improvement: Improvement | None
    timing: Timing
    series: tuple[SeriesPoint, ...]
    claims: tuple[Claim, ...]
    content_sha256: str

    def computed_hash(self) -> str:
        """The hash that `contentSha256` must equal."""
        unsealed = self.model_copy(update={"content_sha256": ""})
        later = {"attempts": {"__all__": {"taken_over"}}} if self.schema_version == 1 else None
        body = unsealed.model_dump_json(by_alias=True, exclude=later)
        return hashlib.sha256(body.encode()).hexdigest()

    def sealed(self) -> Record:
        return self.model_copy(update={"content_sha256": self.computed_hash()})

    @property
    def refuted(self) -> tuple[Claim, ...]:
        return tuple(claim for claim in self.claims if claim.verdict is Verdict.REFUTED)
