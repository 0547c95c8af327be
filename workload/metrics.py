"""Evidence while running: rank 0's metrics and status, written behind the steps, so that a killed run leaves them too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self

from workload.lease import LeaseLostError
from workload.lineage import now
from workload.run_config import Section
from workload.store import Store

FLUSH_SECONDS = 0.5
PART_LINES = 1000  # a part is written again as it grows, which an object store forces; parts bound how much


class StepMetrics(Section):
    """One optimizer step, as executed. Losses also as float hex: redone steps are compared to the last bit."""

    attempt: int
    step: int
    position: int  # sequences consumed after this step
    loss: float  # mean per token over the global batch, nats
    loss_hex: str
    learning_rate: float
    gradient_norm: float
    tokens: int
    seconds: float
    data_seconds: float


class SaveMetrics(Section):
    """One checkpoint as rank 0 saw it: how long training stood still for it, and how long until it was complete."""

    attempt: int
    step: int
    blocking_seconds: float
    seconds: float


class Status(Section):
    """Where a run stands; the driver's progress lines read it."""

    attempt: int
    phase: Literal["starting", "restoring", "evaluating", "training", "saving", "finished"]
    step: int
    steps: int
    loss: float | None
    tokens_per_second: float | None
    note: str
    at: str


class Journal:
    """Collects step metrics and status and writes them to the store from a thread of its own. Use as a context.

    On every rank but 0 it does nothing. An exception that leaves the context is flushed before it goes on. `guard` is
    called before each write; once it has raised, the status, which attempts share, is written no more.
    """

    def __init__(
        self, store: Store, folder: str, attempt: int, steps: int, *, active: bool, guard: Callable[[], None] | None = None
    ) -> None:
        self._guard = guard or (lambda: None)
        self._store, self._folder, self._attempt, self._steps, self._active = store, folder, attempt, steps, active
        self._lock, self._writing, self._stop = threading.Lock(), threading.Lock(), threading.Event()
        self._lines: list[str] = []
        self._saves: list[str] = []
        self._part = 0
        self._dirty_metrics = self._dirty_saves = self._dirty_status = False
        self._status: Status | None = None
        self._failure: OSError | LeaseLostError | None = None
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    def __enter__(self) -> Self:
        if self._active:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._active:
            self._stop.set()
            self._thread.join()
            self.flush()

    def status(
        self,
        phase: Literal["starting", "restoring", "evaluating", "training", "saving", "finished"],
        step: int,
        note: str = "",
        metrics: StepMetrics | None = None,
    ) -> None:
        rate = metrics.tokens / metrics.seconds if metrics and metrics.seconds else None
        status = Status(
            attempt=self._attempt, phase=phase, step=step, steps=self._steps,
            loss=metrics.loss if metrics else None, tokens_per_second=rate, note=note, at=now(),
        )  # fmt: skip
        with self._lock:
            self._status, self._dirty_status = status, True

    def step(self, metrics: StepMetrics) -> None:
        """Raises `OSError` when the store has refused the evidence: a run must not go on unseen.

        Raises `LeaseLostError` when another driver has taken over the run.
        """
        if self._failure:
            raise self._failure
        with self._lock:
            self._lines.append(metrics.to_json())
            self._dirty_metrics = True

    def saves(self, finished: list[SaveMetrics]) -> None:
        with self._lock:
            self._saves += [save.to_json() for save in finished]
            self._dirty_saves = self._dirty_saves or bool(finished)

    def _run(self) -> None:
        while not self._stop.wait(FLUSH_SECONDS):
            try:
                self._guard()
                self.flush()
            except (OSError, LeaseLostError) as error:
                self._failure = error

    def flush(self) -> None:
        """Writes what is new, now. Raises `OSError` when the store refuses."""
        if not self._active:
            return
        with self._writing:
            with self._lock:
                lines, saves, status, part = list(self._lines), list(self._saves), self._status, self._part
                dirty = self._dirty_metrics, self._dirty_saves, self._dirty_status
                self._dirty_metrics = self._dirty_saves = self._dirty_status = False
                if len(lines) >= PART_LINES:
                    self._part, self._lines = part + 1, []
            folder = metrics_folder(self._folder, self._attempt)
            if dirty[0]:
                self._store.write(f"{folder}/part-{part:05d}.jsonl", ("\n".join(lines) + "\n").encode())
            if dirty[1]:
                self._store.write(f"{folder}/saves.jsonl", ("\n".join(saves) + "\n").encode())
            if dirty[2] and status and not isinstance(self._failure, LeaseLostError):
                self._store.write(f"{self._folder}/status.json", status.to_json().encode())


def metrics_folder(folder: str, attempt: int) -> str:
    return f"{folder}/metrics/attempt-{attempt:04d}"


def read_metrics(store: Store, folder: str, attempt: int) -> list[StepMetrics]:
    """All steps of an attempt that reached the store, in order."""
    paths = [f.path for f in store.files(metrics_folder(folder, attempt)) if "/part-" in f.path]
    return [StepMetrics.model_validate_json(line) for path in paths for line in store.read(path).splitlines()]


def read_saves(store: Store, folder: str, attempt: int) -> list[SaveMetrics]:
    path = f"{metrics_folder(folder, attempt)}/saves.jsonl"
    lines = store.read(path).splitlines() if store.exists(path) else []
    return [SaveMetrics.model_validate_json(line) for line in lines]


def read_status(store: Store, folder: str) -> Status | None:
    path = f"{folder}/status.json"
    return Status.model_validate_json(store.read(path)) if store.exists(path) else None
