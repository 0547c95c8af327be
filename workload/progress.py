"""The driver's progress lines: one at least every two seconds, whatever the run is doing."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from workload.failures import read_failures
from workload.lineage import AttemptStart, attempt_starts
from workload.metrics import Status, read_status
from workload.store import Store

LINE_SECONDS = 1.5


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


class ProgressLines:
    """Prints where the run stands: the ranks' own status where there is a fresh one, else `phase` and its age."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder
        self._stop = threading.Event()
        self._phase, self._since = "", time.monotonic()
        self._last: Status | None = self._read()
        self._printed = 0.0
        self._attempts = len(attempt_starts(store, folder))
        self._failures = len(read_failures(store, folder))
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def phase(self) -> str:
        return self._phase

    @phase.setter
    def phase(self, text: str) -> None:
        self._phase, self._since = text, time.monotonic()
        self.say(text)

    def say(self, text: str) -> None:
        self._printed = time.monotonic()
        say(text)

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            if time.monotonic() - self._printed < LINE_SECONDS:
                continue
            self._tell_events()
            status = self._read()
            if status and status != self._last:
                self._last, self._since = status, time.monotonic()
                self._phase = f"attempt {status.attempt}, {status.phase}, step {status.step}/{status.steps}"
                self.say(describe(status))
            else:
                self.say(f"{self._phase} ... {time.monotonic() - self._since:.0f} s")

    def _tell_events(self) -> None:
        """Says each attempt's beginning and each failure once, in the order of the files."""
        try:
            starts = attempt_starts(self._store, self._folder)
            notes = read_failures(self._store, self._folder)
        except (OSError, ValueError):  # the store is away for a moment: the next look tells
            return
        for start in starts[self._attempts :]:
            self.say(describe_start(start))
        self._attempts = max(self._attempts, len(starts))
        for note in notes[self._failures :]:
            self.say(f"attempt {note.attempt} ended: {note.reason}")
            self._last, self._since = self._read(), time.monotonic()
            self._phase = f"starting the workers again after attempt {note.attempt}"
        self._failures = max(self._failures, len(notes))

    def _read(self) -> Status | None:
        try:
            return read_status(self._store, self._folder)
        except (OSError, ValueError):  # being replaced, or the store is away for a moment: the next look tells
            return None


def describe_start(start: AttemptStart) -> str:
    restored = start.restored
    if restored is None:
        return f"attempt {start.number} starts from fresh weights"
    text = f"attempt {start.number} goes on from step {restored.step} ({restored.checkpoint}, {restored.tensors} tensors)"
    return text + (f"; passed over {'; '.join(restored.passed_over)}" if restored.passed_over else "")


def describe(status: Status) -> str:
    parts = [f"attempt {status.attempt}", status.phase, f"step {status.step}/{status.steps}"]
    if status.loss is not None:
        parts.append(f"loss {status.loss:.3f}")
    if status.tokens_per_second is not None:
        parts.append(f"{status.tokens_per_second:,.0f} tokens/s")
    return ", ".join(parts) + (f" ({status.note})" if status.note else "")
