"""What a run has left in the store, read back whole. The verdicts look at nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from workload import lineage
from workload.evidence_files import (
    EvaluationSamples,
    RankEnd,
    RankEnvironment,
    read_environments,
    read_evaluations,
    read_rank_ends,
)
from workload.lineage import AttemptEnd, AttemptStart
from workload.metrics import SaveMetrics, StepMetrics, read_metrics, read_saves
from workload.run_config import RunConfig
from workload.sequences import DecodeProof, Manifest
from workload.store import Store


@dataclass(frozen=True)
class AttemptEvidence:
    """One try: how it began, every step that reached the store, how it ended."""

    start: AttemptStart
    end: AttemptEnd | None
    steps: tuple[StepMetrics, ...]
    saves: tuple[SaveMetrics, ...]
    environments: tuple[RankEnvironment, ...]
    rank_ends: tuple[RankEnd, ...]


@dataclass(frozen=True)
class Evidence:
    """One lineage of a run, for the run config that is judged."""

    config: RunConfig
    lineage: int
    attempts: tuple[AttemptEvidence, ...]
    evaluations: tuple[EvaluationSamples, ...]
    manifest: Manifest | None
    decoded: DecodeProof | None


def collect(store: Store, place: lineage.RunPlace, config: RunConfig) -> Evidence:
    folder = place.folder
    ends = lineage.attempt_ends(store, folder)
    manifest, decoded = f"{folder}/data/manifest.json", f"{folder}/data/decoded.json"
    return Evidence(
        config=config,
        lineage=place.lineage,
        attempts=tuple(
            AttemptEvidence(
                start=start,
                end=ends.get(start.number),
                steps=tuple(read_metrics(store, folder, start.number)),
                saves=tuple(read_saves(store, folder, start.number)),
                environments=tuple(read_environments(store, folder, start.number)),
                rank_ends=tuple(read_rank_ends(store, folder, start.number)),
            )
            for start in lineage.attempt_starts(store, folder)
        ),
        evaluations=tuple(read_evaluations(store, folder)),
        manifest=Manifest.model_validate_json(store.read(manifest)) if store.exists(manifest) else None,
        decoded=DecodeProof.model_validate_json(store.read(decoded)) if store.exists(decoded) else None,
    )
