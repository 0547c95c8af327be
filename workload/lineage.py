"""A run's folder in the store: lineages (what `resume: never` starts anew) and attempts. Only small JSON files.

<run name>/run.json                        the lineages, newest last
<run name>/lease/                          which driver works on the run (workload/lease.py)
<run name>/lineage-0001/config/            run config of each identity that worked here
                        attempts/          NNNN.json when an attempt starts, NNNN-completed.json when it ends well
                        environment/ metrics/ evaluation/ done/ checkpoints/ status.json record.json report.html
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from workload import receipts
from workload.checkpoint_folder import found_checkpoints
from workload.errors import bad_input
from workload.record import Restored, TakenOver
from workload.run_config import Resume, RunConfig, Section, run_folder
from workload.store import Store


class Lineage(Section):
    number: int
    identity: str  # of the run that started it
    started_at: str


class RunFile(Section):
    schema_version: Literal[1]
    lineages: tuple[Lineage, ...]


class AttemptStart(Section):
    number: int
    identity: str
    started_at: str
    restored: Restored | None
    taken_over: TakenOver | None = None  # attempts are older than leases


class AttemptEnd(Section):
    number: int
    ended_at: str
    step: int


@dataclass(frozen=True)
class RunPlace:
    """The current lineage of a run: `folder` is relative to the store's root."""

    folder: str
    lineage: int


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def open_run(store: Store, config: RunConfig) -> RunPlace:
    """The lineage that this run works in, made when there is none, or when `resume: never` meets a changed run.

    Raises `UserError` for `resume: required` without a complete checkpoint: nothing is written then.
    """
    refuse_without_checkpoint(store, config)
    root, resume, identity = str(run_folder(config)), config.training.checkpoint.resume, config.provenance.identity
    lineages = read_lineages(store, root)
    current = lineages[-1] if lineages else None
    if resume is Resume.NEVER and current and identity not in identities(store, _folder(root, current.number)):
        current = None
    if current is None:
        current = Lineage(number=len(lineages) + 1, identity=identity, started_at=now())
        file = RunFile(schema_version=1, lineages=(*lineages, current))
        store.write(f"{root}/run.json", file.to_json(indent=1).encode())
    place = RunPlace(_folder(root, current.number), current.number)
    store.write(f"{place.folder}/config/{identity}.json", config.to_json(indent=1).encode())
    return place


def refuse_without_checkpoint(store: Store, config: RunConfig) -> None:
    """Raises `UserError` for `resume: required` without a complete checkpoint. Writes nothing."""
    if config.training.checkpoint.resume is not Resume.REQUIRED:
        return
    place = current_run(store, config.training.run_name)
    if place is None or not _has_checkpoint(store, place.folder):
        raise bad_input(
            "training.checkpoint.resume", Resume.REQUIRED.value,
            f"{store.root}/{run_folder(config)} holds no complete checkpoint to continue from",
            "use the run name and store of the run to continue, or resume: auto",
        )  # fmt: skip


def current_run(store: Store, run_name: str) -> RunPlace | None:
    lineages = read_lineages(store, run_name)
    return RunPlace(_folder(run_name, lineages[-1].number), lineages[-1].number) if lineages else None


def read_lineages(store: Store, root: str) -> tuple[Lineage, ...]:
    path = f"{root}/run.json"
    return RunFile.model_validate_json(store.read(path)).lineages if store.exists(path) else ()


def identities(store: Store, folder: str) -> set[str]:
    """Identities that have worked in a lineage."""
    return {stored.path.rpartition("/")[2].removesuffix(".json") for stored in store.files(f"{folder}/config")}


def checkpoints_folder(folder: str) -> str:
    return f"{folder}/checkpoints"


def _has_checkpoint(store: Store, folder: str) -> bool:
    return any(receipts.MARKER in found.sizes for found in found_checkpoints(store, checkpoints_folder(folder)))


def _folder(root: str, lineage: int) -> str:
    return f"{root}/lineage-{lineage:04d}"


def next_attempt(store: Store, folder: str) -> int:
    return 1 + max((start.number for start in attempt_starts(store, folder)), default=0)


def attempt_starts(store: Store, folder: str) -> list[AttemptStart]:
    paths = [f.path for f in store.files(f"{folder}/attempts") if not f.path.endswith("-completed.json")]
    return [AttemptStart.model_validate_json(store.read(path)) for path in paths]


def attempt_ends(store: Store, folder: str) -> dict[int, AttemptEnd]:
    paths = [f.path for f in store.files(f"{folder}/attempts") if f.path.endswith("-completed.json")]
    ends = [AttemptEnd.model_validate_json(store.read(path)) for path in paths]
    return {end.number: end for end in ends}


def write_attempt_start(store: Store, folder: str, start: AttemptStart) -> None:
    store.write(f"{folder}/attempts/{start.number:04d}.json", start.to_json(indent=1).encode())


def write_attempt_end(store: Store, folder: str, end: AttemptEnd) -> None:
    store.write(f"{folder}/attempts/{end.number:04d}-completed.json", end.to_json(indent=1).encode())
