"""`python -m workload train`: checks, prepares the data, has Ray Train run the ranks, then writes record and report.

Ray starts the ranks and restarts them; it is never asked where a run stands. Its own checkpoint registry is not used:
that one refuses a run's name for ever once its snapshot is damaged, and never falls back to an older checkpoint.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workload import lineage
from workload.data import prepare
from workload.errors import EXIT_COMPLETED, EXIT_FAILED, UserError, bad_input
from workload.evidence import collect
from workload.progress import ProgressLines, say
from workload.record import Record
from workload.record_builder import build_record
from workload.report import claims_table, render
from workload.run_config import HuggingFaceFolder, RunConfig, fingerprint
from workload.sequences import TrainOrder, decode_matches
from workload.store import Store

# The controller looks at its workers this often; a killed worker is noticed within it.
HEALTH_CHECK_SECONDS = "1"
# Training sequences that are turned back into text and looked up in the source.
PROOF_SEQUENCES = 16


@dataclass(frozen=True)
class Outcome:
    """How the ranks ended. `failure` is one line; `refused` is a user's mistake that only the ranks could see."""

    failure: str | None = None
    refused: UserError | None = None


def train(config: RunConfig) -> int:
    """Runs one run to its end; returns the exit code. Raises `UserError` before anything was started."""
    started = time.monotonic()
    store = Store(config.store)
    store.check_writable()
    _check_model_folder(config)
    place = lineage.open_run(store, config)
    with ProgressLines(store, place.folder) as lines:
        lines.phase = "preparing data"
        data_folder = _prepare_data(store, place, config, lines)
        lines.phase = "starting Ray"
        outcome = _run_ranks(config, place, data_folder, lines)
    if outcome.refused:
        raise outcome.refused
    record = _write_record(store, place, config, time.monotonic() - started)
    print(f"\n{claims_table(record)}\n", flush=True)
    say(f"record: {store.local_path(place.folder)}/record.json")
    say(f"report: {store.local_path(place.folder)}/report.html")
    if outcome.failure:
        say(f"FAILED: {outcome.failure}")
        return EXIT_FAILED
    return EXIT_COMPLETED


def _check_model_folder(config: RunConfig) -> None:
    """Refuses a model folder that is not there before any process is started for it."""
    model = config.training.model
    if isinstance(model, HuggingFaceFolder) and not (Path(model.path) / "config.json").is_file():
        raise bad_input(
            "training.model.path", model.path, "holds no config.json",
            "name a folder that `save_pretrained` wrote, mounted on head and workers",
        )  # fmt: skip


def _prepare_data(store: Store, place: lineage.RunPlace, config: RunConfig, lines: ProgressLines) -> str:
    """Prepares the data once for each seed, text and tokenizer; leaves manifest and proof in the run's evidence."""
    training = config.training
    key = fingerprint(str(training.seed), training.data.to_json(), training.tokenizer.to_json())
    folder = f"data/{key[:16]}"
    manifest = prepare(config, store.local_path(folder), lines.say)
    order = TrainOrder(manifest.train.sequences, training.seed)
    first = [order.sequence_at(i) for i in range(min(PROOF_SEQUENCES, manifest.train.sequences))]
    proof = decode_matches(store.local_path(folder), config, first)
    store.write(f"{place.folder}/data/manifest.json", manifest.to_json(indent=1).encode())
    store.write(f"{place.folder}/data/decoded.json", proof.to_json(indent=1).encode())
    return folder


def _write_record(store: Store, place: lineage.RunPlace, config: RunConfig, seconds: float) -> Record:
    record = build_record(collect(store, place, config), wall_seconds=seconds)
    store.write(f"{place.folder}/record.json", record.to_json(indent=1).encode())
    store.write(f"{place.folder}/report.html", render(record).encode())
    return record


def _run_ranks(config: RunConfig, place: lineage.RunPlace, data_folder: str, lines: ProgressLines) -> Outcome:
    """Starts Ray (or joins the cluster that RAY_ADDRESS names) and runs the ranks; their restarts included."""
    failures = config.training.failures
    os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", HEALTH_CHECK_SECONDS)
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", str(failures.worker_start_timeout_seconds))
    os.environ.setdefault("RAY_TRAIN_ENABLE_PRINT_PATCH", "0")
    import ray  # noqa: PLC0415 - its import reads the variables above
    from ray.train import FailureConfig, ScalingConfig  # noqa: PLC0415
    from ray.train import RunConfig as RayRunConfig  # noqa: PLC0415
    from ray.train.torch import TorchConfig, TorchTrainer  # noqa: PLC0415

    workers = config.workers
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        _check_capacity(config, ray.cluster_resources())
        lines.phase = f"starting {workers.count} workers"
        on_gpu = workers.gpus_per_worker > 0
        resources = {"CPU": workers.cpus_per_worker} | ({"GPU": workers.gpus_per_worker} if on_gpu else {})
        trainer = TorchTrainer(
            _rank_main,
            train_loop_config={"config": config.to_json(), "folder": place.folder, "data": data_folder},
            scaling_config=ScalingConfig(num_workers=workers.count, use_gpu=on_gpu, resources_per_worker=resources),
            torch_config=TorchConfig(
                backend="cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout_s=failures.collective_timeout_seconds
            ),
            run_config=RayRunConfig(
                name=f"{config.training.run_name}-{os.getpid()}-{time.time_ns()}",
                storage_path=tempfile.gettempdir() + "/ray-train",
                failure_config=FailureConfig(
                    max_failures=failures.max_restarts, controller_failure_limit=failures.max_restarts
                ),
            ),
        )
        return _fit(trainer)
    finally:
        ray.shutdown()


def _fit(trainer: Any) -> Outcome:
    from ray.train import TrainingFailedError  # noqa: PLC0415

    try:
        refused = trainer.fit().return_value
    except TrainingFailedError as error:
        return Outcome(failure=_cause(error))
    return Outcome(refused=refused)


def _cause(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _check_capacity(config: RunConfig, there: dict[str, float]) -> None:
    """Ray would wait for ever for what the cluster does not have."""
    workers = config.workers
    for kind, each, key in (
        ("CPU", workers.cpus_per_worker, "cpusPerWorker"),
        ("GPU", workers.gpus_per_worker, "gpusPerWorker"),
    ):
        wanted, found = workers.count * each, int(there.get(kind, 0))
        if wanted > found:
            raise bad_input(
                "workers.count", workers.count,
                f"{workers.count} workers x {each} {kind} need {wanted}, the Ray cluster has {found}",
                f"use fewer workers, a smaller workers.{key}, or more nodes",
            )  # fmt: skip


def _rank_main(arguments: dict[str, str]) -> UserError | None:
    """Runs on every rank, in a process of Ray's. A refusal is returned, not raised: restarting would not help."""
    import ray  # noqa: PLC0415
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415
    from ray.train.torch import get_device  # noqa: PLC0415

    from workload.worker_loop import Rank, run_rank  # noqa: PLC0415

    config = RunConfig.from_json(arguments["config"])
    device = get_device() if config.workers.gpus_per_worker else torch.device("cpu")
    rank = Rank(
        config=config, store=Store(config.store), folder=arguments["folder"], data_folder=arguments["data"],
        rank=dist.get_rank(), world_size=dist.get_world_size(), device=device,
        node_id=ray.get_runtime_context().get_node_id(),
    )  # fmt: skip
    try:
        run_rank(rank)
    except UserError as refusal:
        return refusal
    return None
