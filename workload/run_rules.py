"""Rules between the sections of a run config. Pure; infra asks them before anything exists."""

from __future__ import annotations

from workload.run_config import Fault, FaultPoint, QwenConfig, TrainingConfig, WorkersConfig

Broken = tuple[str, object, str, str]  # key, value, reason, fix


def cross_check(training: TrainingConfig, workers: WorkersConfig) -> list[Broken]:
    """(key, value, reason, fix) for each rule broken; empty when all hold."""
    found = [*_check_batches(training, workers), *_check_steps(training)]
    model = training.model
    if isinstance(model, QwenConfig) and training.data.sequence_length > model.max_position_embeddings:
        reason = f"is more than training.model.maxPositionEmbeddings = {model.max_position_embeddings}"
        fix = "shorten the sequences or raise the model's limit"
        found.append(("training.data.sequenceLength", training.data.sequence_length, reason, fix))
    for index, fault in enumerate(training.faults):
        found += _check_fault(f"training.faults[{index}]", fault, training, workers)
    return found


def _check_batches(training: TrainingConfig, workers: WorkersConfig) -> list[Broken]:
    schedule, found = training.schedule, list[Broken]()
    per_round = workers.count * schedule.micro_batch_sequences
    if schedule.global_batch_sequences % per_round:
        reason = f"is not a multiple of workers.count x microBatchSequences = {per_round}"
        fix = f"use {_next_multiple(schedule.global_batch_sequences, per_round)}"
        found.append(("training.schedule.globalBatchSequences", schedule.global_batch_sequences, reason, fix))
    if workers.count % workers.per_pod:
        reason = f"is not a multiple of workers.perPod = {workers.per_pod}"
        found.append(("workers.count", workers.count, reason, f"use {_next_multiple(workers.count, workers.per_pod)}"))
    return found


def _next_multiple(value: int, of: int) -> int:
    return -(-value // of) * of


def _check_steps(training: TrainingConfig) -> list[Broken]:
    steps, found = training.schedule.steps, list[Broken]()
    beyond = f"is more than training.schedule.steps = {steps}"
    if training.optimizer.warmup_steps > steps:
        warmup = training.optimizer.warmup_steps
        found.append(("training.optimizer.warmupSteps", warmup, beyond, "warm up for fewer steps"))
    if training.checkpoint.every_steps > steps:
        every = training.checkpoint.every_steps
        found.append(("training.checkpoint.everySteps", every, f"{beyond}: nothing could be resumed", "save more often"))
    return found


def _check_fault(key: str, fault: Fault, training: TrainingConfig, workers: WorkersConfig) -> list[Broken]:
    steps, every, found = training.schedule.steps, training.checkpoint.every_steps, list[Broken]()
    if fault.rank >= workers.count:
        found.append((f"{key}.rank", fault.rank, f"there are {workers.count} workers", f"use 0 to {workers.count - 1}"))
    if fault.step > steps:
        found.append((f"{key}.step", fault.step, f"the run has {steps} steps", "strike earlier"))
    saved = fault.step % every == 0 or fault.step == steps
    if fault.at is not FaultPoint.STEP and not saved:
        reason = f"no checkpoint is saved there (every {every} steps)"
        found.append((f"{key}.step", fault.step, reason, "name a step that is saved, or use at: step"))
    if fault.at in (FaultPoint.BEFORE_MARKER, FaultPoint.AFTER_MARKER) and fault.rank != 0:
        found.append((f"{key}.rank", fault.rank, "rank 0 alone writes the marker", "use rank 0"))
    return found
