"""What one rank does: set up, restore, evaluate, train, save, evaluate, leave its word. Knows nothing of Ray."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist

from workload import environment, lineage, model, optimizer, sharding
from workload.checkpoint import Place, Saver, State, digest
from workload.errors import bad_input
from workload.evaluation import evaluate
from workload.evidence_files import RankEnd, environment_path, evaluation_path, rank_end_path
from workload.faults import Faults
from workload.lease import Fence, Lease, LeaseLostError
from workload.metrics import Journal, StepMetrics
from workload.record import Restored
from workload.resume import restore
from workload.run_config import FaultPoint, RunConfig, S3StoreConfig, fingerprint
from workload.sequences import Manifest, Sequences, TrainOrder
from workload.store import Store


@dataclass(frozen=True)
class Rank:
    """One rank's fixed surroundings."""

    config: RunConfig
    store: Store
    folder: str  # the lineage's, relative to the store
    data_folder: str
    rank: int
    world_size: int
    device: torch.device
    node_id: str
    lease: Lease  # of the driver that started this rank

    @property
    def fence(self) -> Fence:
        return Fence(self.store, self.config.training.run_name, self.lease.term)


@dataclass
class Progress:
    """The only things that change while training, beside model and optimizer."""

    step: int
    position: int  # sequences consumed since the run's start


def run_rank(rank: Rank) -> None:
    """One attempt of a run, on one rank. Raises `UserError` on every rank when the run may not go on as configured.

    Raises `LeaseLostError` on rank 0 when another driver has taken over the run meanwhile.
    """
    training = rank.config.training
    check_shared(rank)
    attempt = _claim_attempt(rank)
    steps = training.schedule.steps
    guard = rank.fence.glance
    with Journal(rank.store, rank.folder, attempt, steps, active=rank.rank == 0, guard=guard) as journal:
        journal.status("starting", 0)
        data = rank.store.fetched(rank.data_folder)
        train_set, held_out = Sequences(data, "train"), Sequences(data, "heldout")
        sharded, adam, state = _build(rank, train_set.manifest)
        place = _place(rank, attempt, train_set.manifest)
        journal.status("restoring", 0)
        restored = restore(place, state, training.checkpoint.resume)
        if restored and restored.step > steps:
            raise bad_input(
                "training.schedule.steps", steps, f"the run is at step {restored.step} already ({restored.checkpoint})",
                f"use {restored.step} or more, another training.runName, or training.checkpoint.resume: never",
            )  # fmt: skip
        _begin_attempt(rank, attempt, restored, sharded)
        progress = Progress(restored.step if restored else 0, restored.position if restored else 0)
        loop = Loop(rank, attempt, journal, sharded, adam, state, train_set, progress)
        if progress.step == 0:
            loop.evaluate(held_out)
        loop.train(place)
        loop.evaluate(held_out)
        loop.finish(first_step=restored.step + 1 if restored else 1)
        journal.status("finished", progress.step)


def check_shared(rank: Rank) -> None:
    """Every rank must see what the driver wrote: a node-local path would fail only at the first save, oddly."""
    if rank.store.files(f"{rank.folder}/config"):
        return
    in_bucket = isinstance(rank.config.store, S3StoreConfig)
    key, fix = (
        ("store", "use a service that answers every pod alike, and lists a new object at once")
        if in_bucket
        else ("store.path", "mount one shared file system at this path on head and workers")
    )
    reason = f"rank {rank.rank} does not see what the driver wrote there"
    raise FileNotFoundError(f"{key} = {rank.store.root}: {reason}. Fix: {fix}")


def _claim_attempt(rank: Rank) -> int:
    """The number that no attempt had before. Raises `UserError` on every rank when the lease is lost."""
    box: list[int | str] = [_next_attempt(rank) if rank.rank == 0 else 0]
    dist.broadcast_object_list(box, src=0)
    if isinstance(box[0], str):
        raise bad_input("training.runName", rank.config.training.run_name, box[0], "leave the run to the other driver")
    return box[0]


def _next_attempt(rank: Rank) -> int | str:
    try:
        rank.fence.check()
    except LeaseLostError as error:
        return str(error)
    return lineage.next_attempt(rank.store, rank.folder)


def _build(rank: Rank, manifest: Manifest) -> tuple[sharding.Sharded, torch.optim.AdamW, State]:
    """Model with weights, optimizer, and the live state that checkpoints hold."""
    training = rank.config.training
    built = model.build_on_meta(training.model, manifest.vocabulary, training.sharding.activation_checkpointing)
    spread = sharding.shard(built, training.sharding, rank.device, rank.world_size)
    full = model.weights(training.model, manifest.vocabulary, training.seed) if rank.rank == 0 else {}
    sharding.materialise(spread, full, rank.device)
    sharded = sharding.wrap(spread, training.sharding, rank.device)
    adam = optimizer.build(sharded.inner, training.optimizer)
    state: State = {
        "model": dict(sharded.inner.named_parameters()),
        "optimizer": optimizer.state_by_name(sharded.inner, adam),
    }
    return sharded, adam, state


def _place(rank: Rank, attempt: int, manifest: Manifest) -> Place:
    training = rank.config.training
    return Place(
        store=rank.store, folder=lineage.checkpoints_folder(rank.folder), rank=rank.rank, world_size=rank.world_size,
        attempt=attempt, identity=rank.config.provenance.identity,
        layout=f"{training.sharding.strategy} over {rank.world_size} workers",
        compatibility={
            "training.model": training.model.to_json(),
            "training.data": manifest.fingerprint,
            "training.seed": str(training.seed),
        },
        fence=rank.fence,
    )  # fmt: skip


def _begin_attempt(rank: Rank, attempt: int, restored: Restored | None, sharded: sharding.Sharded) -> None:
    """Writes that the attempt began and from where, and this rank's surroundings."""
    store, folder = rank.store, rank.folder
    described = environment.describe(
        rank.rank, attempt, rank.node_id, rank.device, str(dist.get_backend()), dict(sharded.evidence)
    )
    store.write(environment_path(folder, attempt, rank.rank), described.to_json(indent=1).encode())
    if rank.rank == 0:
        start = lineage.AttemptStart(
            number=attempt, identity=rank.config.provenance.identity, started_at=lineage.now(), restored=restored,
            taken_over=rank.lease.taken_over if attempt == rank.lease.attempt else None,
        )  # fmt: skip
        rank.fence.check()
        lineage.write_attempt_start(store, folder, start)


class Loop:
    """The steps of one attempt."""

    def __init__(
        self,
        rank: Rank,
        attempt: int,
        journal: Journal,
        sharded: sharding.Sharded,
        adam: torch.optim.AdamW,
        state: State,
        train_set: Sequences,
        progress: Progress,
    ) -> None:
        self._rank, self._attempt, self._journal = rank, attempt, journal
        self._sharded, self._adam, self._state, self._train_set = sharded, adam, state, train_set
        self._progress = progress
        self._training = rank.config.training
        self._order = TrainOrder(len(train_set), self._training.seed)
        self._faults = Faults(self._training.faults, rank.rank, attempt)

    def evaluate(self, held_out: Sequences) -> None:
        """Evaluates once for each step: a run that was finished before is not evaluated again."""
        path = evaluation_path(self._rank.folder, self._progress.step)
        exists = [self._rank.store.exists(path) if self._rank.rank == 0 else False]
        dist.broadcast_object_list(exists, src=0)
        if exists[0]:
            return
        self._journal.status("evaluating", self._progress.step)
        samples = evaluate(
            self._sharded, held_out, self._training.evaluation.sequences,
            self._training.schedule.micro_batch_sequences, self._rank.device, self._progress.step,
        )  # fmt: skip
        if self._rank.rank == 0:
            self._rank.fence.check()
            self._rank.store.write(path, samples.to_json().encode())

    def train(self, place: Place) -> None:
        """Runs the remaining steps; saves every so many and after the last one."""
        training, progress = self._training, self._progress
        steps = training.schedule.steps
        timeout = training.failures.collective_timeout_seconds
        saver = Saver(place, self._faults, training.checkpoint.keep, timeout)
        while progress.step < steps:
            metrics = self._step()
            self._journal.step(metrics)
            self._journal.status("training", progress.step, metrics=metrics)
            if progress.step % training.checkpoint.every_steps == 0 or progress.step == steps:
                self._journal.flush()  # a complete checkpoint's steps are always in the evidence
                saver.save(self._state, progress.step, progress.position)
            self._faults.strike(FaultPoint.STEP, progress.step)
            self._journal.saves(saver.finished())
        self._journal.status("saving", progress.step)
        saver.wait()
        self._journal.saves(saver.finished())

    def _step(self) -> StepMetrics:
        training, progress, world = self._training, self._progress, self._rank.world_size
        start, step = time.monotonic(), progress.step + 1
        # Randomness is a function of (seed, step, rank): nothing to save, the same after any restart.
        torch.manual_seed(int(fingerprint(str(training.seed), str(step), str(self._rank.rank))[:15], 16))
        batches = self._batches()
        data_seconds = time.monotonic() - start
        tokens = training.schedule.global_batch_sequences * training.data.sequence_length
        total = torch.zeros((), dtype=torch.float64, device=self._rank.device)
        for inputs, labels in batches:
            with self._sharded.autocast:
                losses = self._sharded.call(inputs, labels)
            # Workers' gradients are averaged, so each counts its tokens against the whole step's, times the workers.
            (losses.sum() * (world / tokens)).backward()
            total += losses.detach().double().sum()
        dist.all_reduce(total)
        loss = total.item() / tokens
        if not math.isfinite(loss):
            raise FloatingPointError(f"the loss of step {step} is {loss}; the last checkpoint is from before it")
        rate = optimizer.learning_rate(training.optimizer, step, training.schedule.steps)
        norm = optimizer.step(self._sharded.inner, self._adam, rate, training.optimizer.gradient_clip_norm)
        progress.step, progress.position = step, progress.position + training.schedule.global_batch_sequences
        return StepMetrics(
            attempt=self._attempt, step=step, position=progress.position, loss=loss, loss_hex=loss.hex(),
            learning_rate=rate, gradient_norm=norm, tokens=tokens, seconds=time.monotonic() - start,
            data_seconds=data_seconds,
        )  # fmt: skip

    def _batches(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """This rank's micro-batches of the next step, each (inputs, labels) [micro batch, sequence length]."""
        schedule = self._training.schedule
        per_rank = schedule.global_batch_sequences // self._rank.world_size
        first = self._progress.position + self._rank.rank * per_rank
        pairs = [self._train_set[self._order.sequence_at(p)] for p in range(first, first + per_rank)]
        micro = schedule.micro_batch_sequences
        return [
            (self._stack([p[0] for p in pairs[i : i + micro]]), self._stack([p[1] for p in pairs[i : i + micro]]))
            for i in range(0, per_rank, micro)
        ]

    def _stack(self, rows: list[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.stack(rows)).to(self._rank.device)

    def finish(self, first_step: int) -> None:
        """Leaves this rank's word, then rank 0's that the attempt is complete, once all words are there."""
        model.assert_tied(self._sharded.inner, "training")
        store, folder, progress = self._rank.store, self._rank.folder, self._progress
        executed = progress.step - first_step + 1
        end = RankEnd(
            rank=self._rank.rank, attempt=self._attempt, first_step=first_step if executed else None,
            steps_executed=executed, position=progress.position, sums=digest(self._state),
        )  # fmt: skip
        store.write(rank_end_path(folder, self._attempt, self._rank.rank), end.to_json().encode())
        dist.barrier()
        if self._rank.rank == 0:
            done = lineage.AttemptEnd(number=self._attempt, ended_at=lineage.now(), step=progress.step)
            self._rank.fence.check()
            lineage.write_attempt_end(store, folder, done)
