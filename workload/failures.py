"""Why attempts ended, noted by Ray Train's controller as it happens, so that progress lines and records can say it."""

from __future__ import annotations

from collections.abc import Mapping

from workload.lineage import attempt_starts, now
from workload.run_config import Section
from workload.store import Store

# What a rank says when ANOTHER rank is gone; the rank that says something else is the cause.
ECHOES = ("connection reset", "connection closed", "broken pipe", "timed out waiting", "connectfull", "gloo")
GONE = {"RayActorError", "ActorDiedError", "WorkerHealthCheckFailedError"}
REASON_CHARACTERS = 300


class FailureNote(Section):
    """One failure of the workers: which ranks said what. `attempt` is 0 when none had begun."""

    attempt: int
    at: str
    reason: str
    ranks: dict[str, str]


def explain(errors: Mapping[int, BaseException]) -> str:
    """The one line that names the cause among all ranks' errors."""
    lines = {rank: describe(error) for rank, error in sorted(errors.items())}
    if not lines:
        return "unknown"
    causes = {r: line for r, line in lines.items() if not any(echo in line.lower() for echo in ECHOES)}
    rank, line = next(iter((causes or lines).items()))
    return f"rank {rank}: {line}"


def describe(error: BaseException) -> str:
    """An exception in one line: a lost process in our words, else type and text of the innermost cause."""
    cause = error
    while (
        (inner := getattr(cause, "cause", None) or cause.__cause__) and isinstance(inner, BaseException) and inner is not cause
    ):
        cause = inner
    text = " ".join(str(cause).split())
    if "error raised in its creation task" in text:  # it never was: Ray wraps the reason in a page of its own frames
        return str(cause).strip().splitlines()[-1].strip()[:REASON_CHARACTERS]
    if (
        type(error).__name__ in {"RayActorError", "ActorDiedError", "WorkerHealthCheckFailedError"}
        or "actor died" in text.lower()
    ):
        return "its process is gone (killed, out of memory, or its node was lost)"
    return f"{type(cause).__name__}: {text}"[:REASON_CHARACTERS]


def note_failure(store: Store, folder: str, errors: Mapping[int, BaseException]) -> None:
    starts = attempt_starts(store, folder)
    note = FailureNote(
        attempt=starts[-1].number if starts else 0, at=now(), reason=explain(errors),
        ranks={str(rank): describe(error) for rank, error in errors.items()},
    )  # fmt: skip
    store.write(f"{folder}/failures/{len(store.files(f'{folder}/failures')) + 1:04d}.json", note.to_json(indent=1).encode())


def read_failures(store: Store, folder: str) -> list[FailureNote]:
    return [FailureNote.model_validate_json(store.read(f.path)) for f in store.files(f"{folder}/failures")]
