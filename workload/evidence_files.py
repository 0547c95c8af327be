"""The small JSON files in which ranks leave their evidence. Shapes and places only: light to import, no torch."""

from __future__ import annotations

from workload.receipts import Digest
from workload.run_config import Section
from workload.store import Store


class RankEnvironment(Section):
    """One rank's surroundings in one attempt."""

    rank: int
    attempt: int
    hostname: str
    node_id: str
    pid: int
    device: str
    backend: str
    threads: int
    code_sha256: str  # of the zip that this rank runs from; empty when it runs from a folder
    versions: dict[str, str]
    variables: dict[str, str]
    sharding: dict[str, int | str]


class EvaluationSamples(Section):
    """Per-sequence mean losses (nats per token) in the held-out set's order, at one step."""

    step: int
    sequence_length: int
    data_sha256: str
    losses: tuple[float, ...]


class RankEnd(Section):
    """One rank's word at the end of an attempt. All ranks name the same position and sums, or something is wrong."""

    rank: int
    attempt: int
    first_step: int | None
    steps_executed: int
    position: int
    sums: Digest


def environment_path(folder: str, attempt: int, rank: int) -> str:
    return f"{folder}/environment/attempt-{attempt:04d}/rank-{rank:05d}.json"


def rank_end_path(folder: str, attempt: int, rank: int) -> str:
    return f"{folder}/done/attempt-{attempt:04d}/rank-{rank:05d}.json"


def evaluation_path(folder: str, step: int) -> str:
    return f"{folder}/evaluation/step-{step:08d}.json"


def read_evaluations(store: Store, folder: str) -> list[EvaluationSamples]:
    """All evaluations of a lineage, by step."""
    return [EvaluationSamples.model_validate_json(store.read(f.path)) for f in store.files(f"{folder}/evaluation")]


def read_environments(store: Store, folder: str, attempt: int) -> list[RankEnvironment]:
    files = store.files(environment_path(folder, attempt, 0).rpartition("/")[0])
    return [RankEnvironment.model_validate_json(store.read(f.path)) for f in files]


def read_rank_ends(store: Store, folder: str, attempt: int) -> list[RankEnd]:
    files = store.files(rank_end_path(folder, attempt, 0).rpartition("/")[0])
    return [RankEnd.model_validate_json(store.read(f.path)) for f in files]
