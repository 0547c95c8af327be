"""Rules between the sections of a run config. Pure; infra asks them before anything exists."""

from __future__ import annotations

from workload.run_config import Fault, FaultPoint, QwenConfig, TrainingConfig, WorkersConfig

Broken = tuple[str, object, str, str]  # key, value, reason, fix


def cross_check(training: TrainingConfig, workers: WorkersConfig) -> list[Broken]:
    """Rules between sections: (key, value, reason, fix) for each one broken; empty when all hold."""
    schedule, found = training.schedule, []
    per_round = workers.count * schedule.micro_batch_sequences
    if schedule.global_batch_sequences % per_round:
        found.append(
            (
                "training.schedule.globalBatchSequences",
                schedule.global_batch_sequences,
                f"is not a multiple of workers.count x microBatchSequences = {per_round}",
                f"use {-(-schedule.global_batch_sequences // per_round) * per_round}",
            )
        )
    if workers.count % workers.per_pod:
        found.append(
            (
                "workers.count",
                workers.count,
                f"is not a multiple of workers.perPod = {workers.per_pod}",
                f"use {-(-workers.count // workers.per_pod) * workers.per_pod}",
            )
        )
    if training.optimizer.warmup_steps > schedule.steps:
        found.append(
            (
                "training.optimizer.warmupSteps",
                training.optimizer.warmup_steps,
                f"is more than training.schedule.steps = {schedule.steps}",
                "warm up for fewer steps",
            )
        )
    if training.checkpoint.every_steps > schedule.steps:
        found.append(
            (
                "training.checkpoint.everySteps",
                training.checkpoint.every_steps,
                f"is more than training.schedule.steps = {schedule.steps}: nothing could be resumed",
                "save more often",
            )
        )
    model = training.model
    if isinstance(model, QwenConfig) and training.data.sequence_length > model.max_position_embeddings:
        found.append(
            (
                "training.data.sequenceLength",
                training.data.sequence_length,
                f"is more than training.model.maxPositionEmbeddings = {model.max_position_embeddings}",
                "shorten the sequences or raise the model's limit",
            )
        )
    found += [
        item
        for fault_index, fault in enumerate(training.faults)
        for item in _check_fault(fault_index, fault, training, workers)
    ]
    return found


def _check_fault(index: int, fault: Fault, training: TrainingConfig, workers: WorkersConfig) -> list[Broken]:
    key, found = f"training.faults[{index}]", []
    if fault.rank >= workers.count:
        found.append((f"{key}.rank", fault.rank, f"there are {workers.count} workers", f"use 0 to {workers.count - 1}"))
    if fault.step > training.schedule.steps:
        found.append((f"{key}.step", fault.step, f"the run has {training.schedule.steps} steps", "strike earlier"))
    saved = fault.step % training.checkpoint.every_steps == 0 or fault.step == training.schedule.steps
    if fault.at is not FaultPoint.STEP and not saved:
        found.append(
            (
                f"{key}.step",
                fault.step,
                f"no checkpoint is saved there (every {training.checkpoint.every_steps} steps)",
                "name a step that is saved, or use at: step",
            )
        )
    if fault.at in (FaultPoint.BEFORE_MARKER, FaultPoint.AFTER_MARKER) and fault.rank != 0:
        found.append((f"{key}.rank", fault.rank, "rank 0 alone writes the marker", "use rank 0"))
    return found
