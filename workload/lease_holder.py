"""A driver takes the lease of its run, renews it while it works, and gives it back.

What keeps two drivers apart when both find the lease free: a mounted folder creates a claim's file once (link(2)), and the
second is told. A bucket here cannot write conditionally, so each writes a claim of its own and then lists: at least one of
two sees the other's and withdraws, whatever the order, as long as a list shows all that was written before it (S3: yes).
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from workload.errors import UserError, bad_input
from workload.lease import (
    PACE,
    Claim,
    Fence,
    Lease,
    LeaseLostError,
    Pace,
    Seen,
    Watch,
    claim_path,
    claims,
    describe,
    newest_claim,
    term_of,
)
from workload.lineage import now
from workload.progress import LINE_SECONDS
from workload.record import TakenOver
from workload.run_config import RunConfig
from workload.store import Store


class LeaseHolder:
    """Holds the run's lease inside its block. `on_lost` is called from another thread, once, when somebody took it over."""

    def __init__(
        self, store: Store, config: RunConfig, say: Callable[[str], None], on_lost: Callable[[], None], pace: Pace = PACE
    ) -> None:
        self._store, self._config, self._say, self._on_lost, self._pace = store, config, say, on_lost, pace
        self._run_name = config.training.run_name
        self._lease: Lease | None = None
        self._path = ""
        self._lost: LeaseLostError | None = None
        self._stop = threading.Event()
        self._writing, self._ending = threading.Lock(), threading.Lock()
        self._thread = threading.Thread(target=self._renew_until_stopped, name="lease", daemon=True)

    def __enter__(self) -> Self:
        """Raises `UserError` when another driver works on the run, `OSError` when the store is away."""
        self._take()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Releases. Raises `LeaseLostError` instead of whatever ended the block, when that was the loss's doing."""
        try:
            self._close()
        except SystemExit:  # `on_lost` has reached this thread here instead of inside the block
            if not self._lost:
                raise
        if self._lost:
            raise self._lost from (error if error is not self._lost else None)
        self._release()

    @property
    def lease(self) -> Lease:
        assert self._lease, "the lease is held inside the block only"
        return self._lease

    def begin(self, attempt: int) -> None:
        """Says in the lease which attempt this driver makes first."""
        self._write(attempt=attempt)

    def check(self) -> None:
        """Raises `LeaseLostError` unless the lease is this driver's at this moment, `OSError` when the store is away."""
        if self._lost:
            raise self._lost
        try:
            Fence(self._store, self._run_name, self.lease.term).check()
        except LeaseLostError as error:
            self._lost = error
            raise

    def _take(self) -> None:
        watch, said = Watch(self._pace), 0.0
        while self._lease is None:
            claim = newest_claim(self._store, self._run_name)
            seen = watch.look(claim, time.monotonic())
            if seen is Seen.HELD:
                raise refusal(self._run_name, claim)
            if seen is Seen.FREE:
                self._claim_after(claim)
            elif time.monotonic() - said >= LINE_SECONDS:
                said = time.monotonic()
                self._say(
                    f"this run's lease was not released by {describe(claim and claim.lease)}: "
                    f"watching whether it is renewed, {watch.waited:.0f} of {self._pace.watch:.0f} s"
                )
            if self._lease is None:  # of two that met, each waits for another time
                time.sleep(self._pace.look if seen is Seen.UNKNOWN else random.uniform(0, self._pace.look))  # noqa: S311

    def _claim_after(self, before: Claim | None) -> None:
        """Claims the next term; leaves `_lease` as it is when another driver was there first or came at the same time."""
        term, owner = (before.term if before else 0) + 1, uuid.uuid4().hex
        taken_over = None if before is None or before.released else _taken_over(before)
        lease = Lease(
            schema_version=1, term=term, owner=owner, identity=self._config.provenance.identity, host=socket.gethostname(),
            process=os.getpid(), since=now(), attempt=None, beat=0, released=False, taken_over=taken_over,
        )  # fmt: skip
        path = claim_path(self._run_name, term, owner, exclusive=self._store.creates_exclusively)
        try:
            self._store.create(path, lease.to_json(indent=1).encode())
        except FileExistsError:
            return
        others = [p for p in claims(self._store, self._run_name) if p != path]
        if any(term_of(other) >= term for other in others):
            self._store.delete_file(path)
            return
        self._lease, self._path = lease, path
        if taken_over:
            self._say(f"this run is taken over: its lease wasn't renewed for {self._pace.watch:.0f} s")
        for other in others:
            with suppress(OSError):  # of no use any more, and no harm
                self._store.delete_file(other)

    def _renew_until_stopped(self) -> None:
        renewed = time.monotonic()
        while not self._stop.wait(self._pace.renew):
            try:
                self._renew()
                renewed = time.monotonic()
            except LeaseLostError as error:
                self._lose(error)
            except OSError as error:
                if time.monotonic() - renewed >= self._pace.outage:
                    self._lose(LeaseLostError(f"the run's lease could not be renewed for {self._pace.outage:.0f} s: {error}"))

    def _renew(self) -> None:
        """Writes first, then looks: on NFS it is an own change of a folder that makes a client list it anew."""
        self._write()
        Fence(self._store, self._run_name, self.lease.term).check()

    def _write(self, **changes: int | bool) -> None:
        with self._writing:
            self._lease = self.lease.model_copy(update=changes | {"beat": self.lease.beat + 1})
            # Not flushed: behind a checkpoint's gigabytes a disk can take longer for that than a lease is watched.
            self._store.write(self._path, self._lease.to_json(indent=1).encode(), flush=False)

    def _lose(self, error: LeaseLostError) -> None:
        with self._ending:
            if not self._stop.is_set():
                self._stop.set()
                self._lost = error
                self._on_lost()

    def _close(self) -> None:
        with self._ending:
            self._stop.set()
        self._thread.join(self._pace.watch)  # it may be waiting for a store that doesn't answer

    def _release(self) -> None:
        """The next driver then takes the run at once. Without it, as when the store is away, that one has to watch first."""
        if self._thread.is_alive():
            return
        try:
            self._write(released=True)
        except OSError as error:
            self._say(f"the run's lease was not released ({error}): the next driver watches it first")


def refusal(run_name: str, claim: Claim | None) -> UserError:
    return bad_input(
        "training.runName", run_name,
        f"another driver works on this run and renews its lease: {describe(claim and claim.lease)}",
        "wait until it has ended, end it, or give this run another name",
    )  # fmt: skip


def _taken_over(claim: Claim) -> TakenOver:
    lease = claim.lease
    if lease is None:
        return TakenOver(term=claim.term, attempt=None, identity=None, host=None, process=None, since=None)
    return TakenOver(
        term=claim.term, attempt=lease.attempt, identity=lease.identity, host=lease.host, process=lease.process,
        since=lease.since,
    )  # fmt: skip
