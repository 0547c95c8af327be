"""Declared faults: a rank ends itself with SIGKILL at a named point, so that a resume is proven and not assumed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

from workload.run_config import Fault, FaultPoint


class Faults:
    """The faults of one rank in one attempt."""

    def __init__(self, faults: Iterable[Fault], rank: int, attempt: int) -> None:
        self._points = {(f.at, f.step) for f in faults if f.rank == rank and f.attempt == attempt}

    def strike(self, at: FaultPoint, step: int) -> None:
        """Does not return when a fault is declared for this point. SIGKILL: no handler runs, nothing is flushed."""
        if (at, step) in self._points:
            os.kill(os.getpid(), signal.SIGKILL)
