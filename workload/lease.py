"""One driver at a time works on a run: the lease it holds, and how others see whether it is held. Reads only.

<run name>/lease/000007.json     the claim of the 7th driver. In a bucket its owner is in the name too: 000007-<owner>.json

The newest claim is the lease, and terms only grow: who finds a claim of a later term than its own has lost the run, and
never gets it back under the same term. A claim's owner alone renews it, by counting `beat` up.

Whether a lease is held is seen by watching it: no clock of another host is read. A driver that was paused or cut off for
longer than `PACE.watch` can lose a run that it still works on. Its next look at the store tells it, and each of its
writes that others could take for theirs is preceded by such a look (`Fence`). Not excluded is a pause that falls between
such a look and the write after it; `docs/architecture.md` says what can come of that.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from pydantic import ValidationError

from workload.record import TakenOver
from workload.run_config import Section
from workload.store import Store

CLAIM = re.compile(r"^(\d{6,})(?:-[0-9a-f]+)?\.json$")


@dataclass(frozen=True)
class Pace:
    """Intervals and bounds, in seconds."""

    renew: float  # between renewals, and between looks of a rank
    watch: float  # without a renewal, after which a lease is stale
    outage: float  # without a store, after which a driver ends: it can neither know whose the run is nor write a record

    @property
    def look(self) -> float:
        """Between looks of a driver that watches."""
        return self.renew / 3


PACE = Pace(renew=3.0, watch=9.0, outage=300.0)


class LeaseLostError(RuntimeError):
    """Another driver has taken over the run, or the store was away for too long to know; who raises it stops writing."""


class Lease(Section):
    """One driver's claim to a run. `attempt`: the first one it makes; None until the run's state was read."""

    schema_version: Literal[1]
    term: int
    owner: str
    identity: str
    host: str
    process: int
    since: str  # for people; never compared
    attempt: int | None
    beat: int
    released: bool
    taken_over: TakenOver | None


@dataclass(frozen=True)
class Claim:
    """A claim's file as it was read. One that cannot be parsed still counts: it moves or it doesn't."""

    path: str
    content: bytes

    @property
    def term(self) -> int:
        return term_of(self.path)

    @property
    def lease(self) -> Lease | None:
        try:
            return Lease.model_validate_json(self.content)
        except ValidationError:
            return None

    @property
    def released(self) -> bool:
        return self.lease is not None and self.lease.released


class Seen(Enum):
    FREE = auto()
    HELD = auto()
    UNKNOWN = auto()


class Watch:
    """Decides from looks at the newest claim. Pure: `at` is the time of a look, in seconds of this process's steady clock."""

    def __init__(self, pace: Pace = PACE) -> None:
        self._pace = pace
        self._first: Claim | None = None
        self._since = self._last = 0.0

    def look(self, claim: Claim | None, at: float) -> Seen:
        """FREE: there is none, it was released, or it didn't move for `pace.watch`. HELD: it moved.

        Looks further apart than `pace.renew` start the time anew: whoever was paused, or found the store away, has not
        watched, and the holder may have found it away as well.
        """
        if claim is None or claim.released:
            return Seen.FREE
        first = self._first
        if first and first.path == claim.path and first.content != claim.content:
            return Seen.HELD
        if first is None or first.path != claim.path or at - self._last > self._pace.renew:
            self._first, self._since = claim, at
        self._last = at
        return Seen.FREE if at - self._since >= self._pace.watch else Seen.UNKNOWN

    @property
    def waited(self) -> float:
        """Seconds between the first look that counts and the last one."""
        return self._last - self._since


def lease_folder(run_name: str) -> str:
    return f"{run_name}/lease"


def claim_path(run_name: str, term: int, owner: str, *, exclusive: bool) -> str:
    """Where the store creates exclusively, two drivers meet at one name; elsewhere each has its own, and both are seen."""
    return f"{lease_folder(run_name)}/{term:06d}{'' if exclusive else f'-{owner}'}.json"


def term_of(path: str) -> int:
    """0 for what is nobody's claim."""
    match = CLAIM.match(path.rpartition("/")[2])
    return int(match[1]) if match else 0


def claims(store: Store, run_name: str) -> list[str]:
    """Paths of all claims, by term."""
    paths = [f.path for f in store.files(lease_folder(run_name))]
    return sorted((p for p in paths if term_of(p)), key=term_of)


def newest_claim(store: Store, run_name: str) -> Claim | None:
    """The claim of the latest term. Of two in one term (a bucket's alone), the one that was renewed more often.

    Raises `OSError` when the store is away.
    """
    paths = claims(store, run_name)
    newest = [p for p in paths if term_of(p) == term_of(paths[-1])]
    found: list[Claim] = []
    for path in newest:
        with suppress(FileNotFoundError):  # withdrawn since it was listed
            found.append(Claim(path, store.read(path)))
    return max(found, key=lambda c: (c.lease.beat if c.lease else -1, c.path), default=None)


class Fence:
    """Whether the lease of `term` still is the run's newest one."""

    def __init__(self, store: Store, run_name: str, term: int, pace: Pace = PACE) -> None:
        self._store, self._run_name, self._term, self._pace = store, run_name, term, pace
        self._looked = time.monotonic()

    def check(self) -> None:
        """Raises `LeaseLostError` when there is a claim of a later term, `OSError` when the store is away."""
        later = [path for path in claims(self._store, self._run_name) if term_of(path) > self._term]
        if later:
            raise LeaseLostError(
                f"{self._taker()}, has taken over this run: its driver here was paused or cut off from the store"
            )

    def glance(self) -> None:
        """`check`, at most every `pace.renew`. A store that is away says nothing: the next look tells."""
        if time.monotonic() - self._looked >= self._pace.renew:
            self._looked = time.monotonic()
            with suppress(OSError):
                self.check()

    def _taker(self) -> str:
        claim = None
        with suppress(OSError):
            claim = newest_claim(self._store, self._run_name)
        return describe(claim.lease if claim else None)


def describe(lease: Lease | None) -> str:
    if lease is None:
        return "a driver whose claim can't be read"
    attempt = f", from attempt {lease.attempt} on" if lease.attempt else ""
    return f"host {lease.host} (process {lease.process}), since {lease.since}{attempt}"
