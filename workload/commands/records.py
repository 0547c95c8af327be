"""Records read back: verified against the evidence, or exported."""

from __future__ import annotations

import json
import sys

from workload.errors import EXIT_COMPLETED, EXIT_FAILED, bad_input
from workload.evidence import collect
from workload.lineage import RunPlace, current_run
from workload.record import Record
from workload.report import claims_table
from workload.run_config import RunConfig
from workload.store import Store
from workload.verdicts import judge

EXPORTED = ("record.json", "report.html")


def verify(config: RunConfig) -> int:
    store, place = _open(config)
    record = Record.model_validate_json(store.read(f"{place.folder}/record.json"))
    print(claims_table(record))
    if record.content_sha256 != record.computed_hash():
        print("the record was changed after it was written: its content hash differs", file=sys.stderr)
        return EXIT_FAILED
    differing = [
        f"{then.name}: the record says {then.verdict}, the evidence says {now.verdict} ({now.evidence})"
        for then, now in zip(record.claims, judge(collect(store, place, record.config)), strict=True)
        if then != now
    ]
    for line in differing:
        print(line, file=sys.stderr)
    return EXIT_FAILED if differing or record.refuted else EXIT_COMPLETED


def export(config: RunConfig) -> int:
    store, place = _open(config)
    record = Record.model_validate_json(store.read(f"{place.folder}/record.json"))
    if record.identity != config.provenance.identity:
        raise bad_input(
            "training.runName", config.training.run_name,
            f"the record there is of run {record.identity[:8]}, this one ({config.provenance.identity[:8]}) has left none",
            "look at the job's log for why it ended early",
        )  # fmt: skip
    print(json.dumps({name: store.read(f"{place.folder}/{name}").decode() for name in EXPORTED}))
    return EXIT_COMPLETED


def _open(config: RunConfig) -> tuple[Store, RunPlace]:
    store = Store(config.store)
    place = current_run(store, config.training.run_name)
    if place is None or not store.exists(f"{place.folder}/record.json"):
        raise bad_input(
            "training.runName", config.training.run_name, f"{store.root} holds no record of this run yet",
            "wait until the run has ended, or name the store that it wrote to",
        )  # fmt: skip
    return store, place
