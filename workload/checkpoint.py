"""Sharded save and restore. Every rank writes, copies and vouches for its part; rank 0 marks the whole complete, last.

All of a save but the copy to host memory runs behind the next steps, in one thread with its own process group: on the
default group it would meet the training's collectives in another order on another rank, and hang.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.staging import BlockingAsyncStager
from torch.distributed.tensor import DTensor

from workload import receipts
from workload.checkpoint_folder import found_checkpoints, vouched_files
from workload.faults import Faults
from workload.lease import Fence
from workload.metrics import SaveMetrics
from workload.receipts import Digest, Marker, NotIntactError, Receipt, StoredFile
from workload.run_config import FaultPoint
from workload.store import Store

State = dict[str, dict[str, Any]]


class SaveFailedError(RuntimeError):
    """A checkpoint could not be completed; the older ones are untouched."""


@dataclass(frozen=True)
class Place:
    """Where a run's checkpoints lie and who writes them."""

    store: Store
    folder: str
    rank: int
    world_size: int
    attempt: int
    identity: str
    layout: str
    compatibility: Mapping[str, str]
    fence: Fence


def count_tensors(state: State) -> int:
    return sum(isinstance(leaf, Tensor) for leaf in _leaves(state))


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for child in value.values() for leaf in _leaves(child)]
    return [value]


def _local_sum(tensor: Tensor) -> Tensor:
    """This rank's part of the sum over |values|: its shard, or, of what every rank holds whole, rank 0's copy alone."""
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    total = local.detach().double().abs().sum()
    return total if isinstance(tensor, DTensor) or dist.get_rank() == 0 else torch.zeros_like(total)


def digest(state: State) -> Digest:
    """Sums over all workers in float64. A collective: every rank calls it at the same point."""
    model, optimizer = state["model"], state["optimizer"]
    groups = (model.values(), [s["exp_avg"] for s in optimizer.values()], [s["exp_avg_sq"] for s in optimizer.values()])
    local = []
    for tensors in groups:
        parts = [_local_sum(t) for t in tensors]
        local.append(torch.stack(parts).sum())
    sums = torch.stack(local)
    dist.all_reduce(sums)
    return Digest(
        **{
            name: value.hex()
            for name, value in zip(("parameters", "first_moments", "second_moments"), sums.tolist(), strict=True)
        }
    )


def load(state: State, path: Path) -> None:
    """Loads into the live tensors of `state`, in place. Raises `NotIntactError` also where torch raises a BaseException."""
    try:
        dcp.load(state, checkpoint_id=path)
    except CheckpointException as error:  # a BaseException: `except Exception` never sees it
        raise NotIntactError(f"torch could not load it ({_cause(error)})", was_complete=True) from error


def _cause(error: CheckpointException) -> str:
    first = next(iter(error.failures.values()), None)
    return str(first[0] if isinstance(first, tuple) else first).splitlines()[0][:200]


class Saver:
    """Saves one checkpoint at a time behind the training. `wait` before the run ends."""

    def __init__(self, place: Place, faults: Faults, keep: int, timeout_seconds: int) -> None:
        self._place, self._faults, self._keep, self._timeout = place, faults, keep, timeout_seconds
        group = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout_seconds))
        assert isinstance(group, dist.ProcessGroup), "every rank is a member of the checkpoint group"
        self._group = group
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[float] | None = None
        self._saving = (0, 0.0)  # step, seconds that training stood still for it
        self._finished: list[SaveMetrics] = []

    def save(self, state: State, step: int, position: int) -> None:
        """Copies the state and starts writing it.

        Raises `SaveFailedError` when the save before this one failed.
        """
        start = time.monotonic()
        self.wait()
        sums = digest(state)
        staged = BlockingAsyncStager().stage(state)
        marker = Marker(
            schema_version=1, step=step, attempt=self._place.attempt, position=position,
            layout=self._place.layout, tensors=count_tensors(state), digest=sums,
            compatibility=dict(self._place.compatibility), receipts={}, identity=self._place.identity,
        )  # fmt: skip
        self._pending = self._thread.submit(self._write, staged, marker)
        self._saving = (step, time.monotonic() - start)

    def finished(self) -> list[SaveMetrics]:
        """The saves that were completed since the last call."""
        done, self._finished = self._finished, []
        return done

    def wait(self) -> None:
        """Returns when nothing is being saved. Raises `SaveFailedError` with the cause."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        try:
            seconds = pending.result()
        except (Exception, CheckpointException) as error:
            raise SaveFailedError(f"checkpoint not completed, older ones are untouched: {error}") from error
        step, blocking = self._saving
        save = SaveMetrics(attempt=self._place.attempt, step=step, blocking_seconds=blocking, seconds=seconds)
        self._finished.append(save)

    def _write(self, staged: State, marker: Marker) -> float:
        start, step, folder = time.monotonic(), marker.step, receipts.folder_name(marker.step, marker.attempt)
        self._faults.strike(FaultPoint.BEFORE_SHARDS, step)
        scratch = Path(tempfile.mkdtemp(prefix="checkpoint-"))
        try:
            dcp.save(staged, checkpoint_id=scratch, process_group=self._group)
            files = self._copy(scratch, f"{self._place.folder}/{folder}")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self._faults.strike(FaultPoint.BEFORE_RECEIPTS, step)
        receipt = Receipt(schema_version=1, rank=self._place.rank, step=step, attempt=marker.attempt, files=tuple(files))
        self._place.store.write(
            f"{self._place.folder}/{folder}/{receipts.receipt_name(self._place.rank)}", receipt.to_json().encode()
        )
        if self._place.rank == 0:
            self._complete(folder, marker)
        return time.monotonic() - start

    def _copy(self, scratch: Path, target: str) -> list[StoredFile]:
        return [
            StoredFile(name=p.name, size=p.stat().st_size, sha256=self._place.store.upload(p, f"{target}/{p.name}"))
            for p in sorted(scratch.iterdir())
        ]

    def _complete(self, folder: str, marker: Marker) -> None:
        """Rank 0: waits for all receipts, writes the marker, verifies the whole, then prunes.

        Raises `LeaseLostError` when another driver has taken over the run: the checkpoint then stays without a marker.
        """
        place, path = self._place, f"{self._place.folder}/{folder}"
        names = [receipts.receipt_name(rank) for rank in range(place.world_size)]
        _poll(lambda: all(place.store.exists(f"{path}/{name}") for name in names), self._timeout, f"receipts in {path}")
        hashes = {name: place.store.sha256(f"{path}/{name}") for name in names}
        self._faults.strike(FaultPoint.BEFORE_MARKER, marker.step)
        place.fence.check()
        place.store.write(f"{path}/{receipts.MARKER}", marker.model_copy(update={"receipts": hashes}).seal())
        self._faults.strike(FaultPoint.AFTER_MARKER, marker.step)
        self._prune(folder)

    def _prune(self, newest: str) -> None:
        """Older checkpoints go only after `newest` was found intact; one that cannot be deleted does not end the run."""
        place = self._place
        found = found_checkpoints(place.store, place.folder)
        this = next(f for f in found if f.folder == newest)
        vouched_files(place.store, place.folder, this)
        complete = [f.folder for f in found if receipts.MARKER in f.sizes]
        for folder in receipts.to_prune(found, complete, self._keep, newest):
            place.fence.check()  # what is older and incomplete here may be another driver's save in progress
            try:
                if folder in complete:  # the marker first: half a deletion must not look like damage
                    place.store.delete_file(f"{place.folder}/{folder}/{receipts.MARKER}")
                place.store.delete_folder(f"{place.folder}/{folder}")
            except OSError as error:
                print(f"warning: {folder} could not be deleted ({error}); tried again after the next checkpoint", flush=True)


def _poll(done: Callable[[], bool], timeout_seconds: float, what: str) -> None:
    end = time.monotonic() + timeout_seconds
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not all there after {timeout_seconds} s")
        time.sleep(0.05)
