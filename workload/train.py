"""`python -m workload train`: checks, prepares the data, has Ray Train run the ranks, then writes record and report."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

from workload import lineage
from workload.data import prepare
from workload.errors import EXIT_COMPLETED, EXIT_FAILED, bad_input
from workload.evidence import collect
from workload.lease import LeaseLostError
from workload.lease_holder import LeaseHolder
from workload.progress import ProgressLines, say
from workload.record import Record
from workload.record_builder import build_record
from workload.report import claims_table, render
from workload.run_config import HuggingFaceFolder, RunConfig, fingerprint
from workload.sequences import MANIFEST, TrainOrder, decode_matches
from workload.store import Store

# Training sequences that are turned back into text and looked up in the source.
PROOF_SEQUENCES = 16


def train(config: RunConfig) -> int:
    """Runs one run to its end; returns the exit code. Raises `UserError` before anything was started.

    A second driver of a run that one works on is refused so. One whose run was taken over ends with `EXIT_FAILED`.
    """
    started = time.monotonic()
    store = Store(config.store)
    store.check_writable()
    _check_model_folder(config)
    lineage.refuse_without_checkpoint(store, config)
    _unwind_on_signals()
    try:
        with LeaseHolder(store, config, say, on_lost=_end_main_thread) as holder:
            return _run(store, config, holder, started)
    except LeaseLostError as error:
        say(f"FAILED: {error}")
        return EXIT_FAILED


def _run(store: Store, config: RunConfig, holder: LeaseHolder, started: float) -> int:
    """All that is done under the lease."""
    place = lineage.open_run(store, config)
    holder.begin(lineage.next_attempt(store, place.folder))
    with ProgressLines(store, place.folder) as lines:
        lines.phase = "preparing data"
        data_folder = _prepare_data(store, place, config, lines)
        lines.phase = "starting Ray"
        from workload.ray_run import run_ranks  # noqa: PLC0415 - importing ray and torch takes seconds: after the checks

        outcome = run_ranks(config, place, data_folder, holder.lease, lines)
    holder.check()
    if outcome.refused:
        raise outcome.refused
    record = _write_record(store, place, config, time.monotonic() - started)
    print(f"\n{claims_table(record)}\n", flush=True)
    say(f"record: {store.root}/{place.folder}/record.json")
    say(f"report: {store.root}/{place.folder}/report.html")
    if outcome.failure:
        say(f"FAILED: {outcome.failure}")
        return EXIT_FAILED
    return EXIT_COMPLETED


def _unwind_on_signals() -> None:
    """SIGTERM ends as an exception does, so that the lease is released. From `ray.init` on, Ray has it so as well.

    SIGUSR1 does the same for `_end_main_thread`: after a SIGTERM, Ray's own handler aborts whatever takes over 3 s to end.
    """
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda received, _: sys.exit(128 + received))


def _end_main_thread() -> None:
    """Reaches the main thread wherever it waits, in Ray too."""
    main = threading.main_thread().ident
    assert main
    signal.pthread_kill(main, signal.SIGUSR1)


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
    with store.work_folder(folder, last=MANIFEST) as work:
        manifest = prepare(config, work, lines.say)
        order = TrainOrder(manifest.train.sequences, training.seed)
        first = [order.sequence_at(i) for i in range(min(PROOF_SEQUENCES, manifest.train.sequences))]
        proof = decode_matches(work, config, first)
    store.write(f"{place.folder}/data/manifest.json", manifest.to_json(indent=1).encode())
    store.write(f"{place.folder}/data/decoded.json", proof.to_json(indent=1).encode())
    return folder


def _write_record(store: Store, place: lineage.RunPlace, config: RunConfig, seconds: float) -> Record:
    record = build_record(collect(store, place, config), wall_seconds=seconds)
    store.write(f"{place.folder}/record.json", record.to_json(indent=1).encode())
    store.write(f"{place.folder}/report.html", render(record).encode())
    return record
