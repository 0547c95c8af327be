"""What a run's driver prints, and what of it is news for somebody who follows. Pure.

The driver says where it stands at least every two seconds (`workload/progress.py`); of that only the newest is passed on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A line of the run itself, behind the time that Kubernetes adds: `2026-12-01T10:00:00.123456789Z 10:00:00 attempt 1 ...`.
_SAID = re.compile(r"^\S+ (?P<text>\d\d:\d\d:\d\d .+)$")
_STANDING = re.compile(r"^\S+ attempt \d+, .*\bstep \d+/\d+| \.\.\. \d+ s$")


@dataclass(frozen=True)
class News:
    """`lines` to pass on, and `last`, the newest line that was seen: by it the next look knows where to go on."""

    lines: tuple[str, ...]
    last: str


def news(log: str, last: str) -> News:
    """Everything the run said after `last`: each event, and of the lines that say where it stands the newest."""
    lines = log.splitlines()
    if not lines:
        return News((), last)
    if last in lines:
        lines = lines[len(lines) - lines[::-1].index(last) :]
    said = [found["text"] for line in lines if (found := _SAID.match(line))]
    older = [index for index, text in enumerate(said) if _STANDING.search(text)][:-1]
    return News(tuple(text for index, text in enumerate(said) if index not in older), lines[-1] if lines else last)
