"""Ray Train runs the ranks and restarts them; it is never asked where a run stands.

Its own checkpoint registry is not used: that one refuses a run's name for ever once its snapshot is damaged, and never
falls back to an older checkpoint.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
import torch
import torch.distributed as dist
from ray.exceptions import RayError
from ray.train import FailureConfig, ScalingConfig, TrainingFailedError, UserCallback, WorkerGroupError
from ray.train import RunConfig as RayRunConfig
from ray.train.torch import TorchConfig, TorchTrainer, get_device

from workload.errors import UserError, bad_input
from workload.failures import describe, explain, note_failure
from workload.lease import Fence, Lease, LeaseLostError
from workload.lineage import RunPlace
from workload.progress import ProgressLines
from workload.run_config import RunConfig, WorkersConfig
from workload.store import Store

# The controller looks at its workers this often; a killed worker is noticed within it (Ray's default: 2 s).
HEALTH_CHECK_SECONDS = 0.5


@dataclass(frozen=True)
class Outcome:
    """How the ranks ended. `failure` is one line; `refused` is a user's mistake that only the ranks could see."""

    failure: str | None = None
    refused: UserError | None = None


class NoteFailures(UserCallback):
    """Runs in Ray Train's controller, which alone sees why a worker ended."""

    def __init__(self, config: RunConfig, folder: str, term: int) -> None:
        self._config, self._folder, self._term = config, folder, term

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        del run_context
        store = Store(self._config.store)
        with suppress(LeaseLostError):  # the attempts there are another driver's by then
            Fence(store, self._config.training.run_name, self._term).check()
            note_failure(store, self._folder, worker_exceptions)


def run_ranks(config: RunConfig, place: RunPlace, data_folder: str, lease: Lease, lines: ProgressLines) -> Outcome:
    """Starts Ray, or joins the cluster that RAY_ADDRESS names, and runs the ranks, their restarts included.

    Raises `UserError` when the cluster is too small.
    """
    os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", str(HEALTH_CHECK_SECONDS))
    start_timeout = config.training.failures.worker_start_timeout_seconds
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", str(start_timeout))
    ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        check_capacity(config.workers, ray.cluster_resources())
        lines.phase = f"starting {config.workers.count} workers"
        return _fit(_trainer(config, place, data_folder, lease))
    finally:
        ray.shutdown()


def _trainer(config: RunConfig, place: RunPlace, data_folder: str, lease: Lease) -> TorchTrainer:
    workers, failures = config.workers, config.training.failures
    on_gpu = workers.gpus_per_worker > 0
    resources = {"CPU": workers.cpus_per_worker} | ({"GPU": workers.gpus_per_worker} if on_gpu else {})
    return TorchTrainer(
        _rank_main,
        train_loop_config={
            "config": config.to_json(),
            "folder": place.folder,
            "data": data_folder,
            "lease": lease.to_json(),
        },
        scaling_config=ScalingConfig(num_workers=workers.count, use_gpu=on_gpu, resources_per_worker=resources),
        torch_config=TorchConfig(
            backend="cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout_s=failures.collective_timeout_seconds
        ),
        run_config=RayRunConfig(
            # Ray keeps nothing that a resume needs, so its own folder is new each time and local to the driver's node.
            name=f"{config.training.run_name}-{time.time_ns()}",
            storage_path=f"{tempfile.gettempdir()}/ray-train",
            failure_config=FailureConfig(max_failures=failures.max_restarts, controller_failure_limit=failures.max_restarts),
            callbacks=[NoteFailures(config, place.folder, lease.term)],
        ),
    )


def _fit(trainer: TorchTrainer) -> Outcome:
    try:
        refused = trainer.fit().return_value
    except WorkerGroupError as error:
        return Outcome(failure=explain(error.worker_failures))
    except (TrainingFailedError, RayError) as error:
        return Outcome(failure=describe(error))
    return Outcome(refused=refused)


def check_capacity(workers: WorkersConfig, there: Mapping[str, float]) -> None:
    """Raises `UserError` for what Ray would wait for, for ever."""
    for kind, each in (("CPU", workers.cpus_per_worker), ("GPU", workers.gpus_per_worker)):
        wanted, found = workers.count * each, int(there.get(kind, 0))
        if wanted > found:
            raise bad_input(
                "workers.count", workers.count,
                f"{workers.count} workers x {each} {kind} need {wanted}, the Ray cluster has {found}",
                f"use fewer workers, a smaller workers.{kind.lower()}sPerWorker, or more nodes",
            )  # fmt: skip


def _rank_main(arguments: dict[str, str]) -> UserError | None:
    """Runs on every rank, in a process of Ray's. A refusal is returned, not raised: restarting would not help."""
    from workload.worker_loop import Rank, run_rank  # noqa: PLC0415 - transformers: only ranks need it

    config = RunConfig.from_json(arguments["config"])
    rank = Rank(
        config=config, store=Store(config.store), folder=arguments["folder"], data_folder=arguments["data"],
        rank=dist.get_rank(), world_size=dist.get_world_size(),
        device=get_device() if config.workers.gpus_per_worker else torch.device("cpu"),
        node_id=ray.get_runtime_context().get_node_id(),
        lease=Lease.model_validate_json(arguments["lease"]),
    )  # fmt: skip
    try:
        run_rank(rank)
    except UserError as refusal:
        return refusal
    return None
