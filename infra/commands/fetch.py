"""`python -m infra fetch`: record and report of a run, out of the cluster, and what they say."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from infra.job_address import CLUSTER_ERRORS, JobAddress, job_address
from infra.job_status import Failed, Started, Waiting, judge
from infra.live_job import LiveJob
from infra.store_reader import export
from workload.errors import EXIT_COMPLETED, EXIT_FAILED, UserError, bad_input
from workload.record import Record, Verdict

EXIT_NOT_FINISHED = 3
_COLORS = {Verdict.PROVEN: "green", Verdict.REFUTED: "red", Verdict.NOT_TESTED: "yellow"}


def run(project: Path, stack: str, folder: Path) -> int:
    """Looks at the stack's job, writes what it left below `folder`, and returns the exit code."""
    return fetch(job_address(project, stack), folder)


def fetch(address: JobAddress, folder: Path) -> int:
    """As `run`, for a job whose address is known."""
    try:
        with address.open() as job:
            return _fetch(job, address, folder)
    except CLUSTER_ERRORS as error:
        raise address.unreachable(error) from error


def _fetch(job: LiveJob, address: JobAddress, folder: Path) -> int:
    found = job.read()
    if found is None:
        raise address.missing()
    verdict = judge(found.get("status") or {})
    if isinstance(verdict, Waiting) or (isinstance(verdict, Started) and not verdict.ended):
        detail = verdict.detail if isinstance(verdict, Waiting) else "it is running"
        click.echo(f"RayJob {address} is not finished yet: {detail}")
        return EXIT_NOT_FINISHED
    if isinstance(verdict, Failed):
        click.echo(f"RayJob {address} is {verdict.reason}", err=True)
    try:
        record = _write(export(job.api, found), folder)
    except UserError as error:
        click.echo(f"no record: {error}", err=True)
        return EXIT_FAILED
    return _show(record, folder, failed=isinstance(verdict, Failed))


def _write(exported: str, folder: Path) -> Record:
    """The record, once both files are below `folder`."""
    try:
        files: dict[str, str] = json.loads(exported)
        record = Record.model_validate_json(files["record.json"])
    except (ValueError, KeyError) as error:
        reason = f"isn't a record that this version reads: {' '.join(str(error).split())[:200]}"
        raise bad_input("record.json", None, reason, "fetch it with the version of the code that ran") from error
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / Path(name).name).write_text(text, encoding="utf-8")
    return record


def _show(record: Record, folder: Path, *, failed: bool) -> int:
    if record.content_sha256 != record.computed_hash():
        click.echo(f"{folder / 'record.json'}: its content hash differs: it was changed after the run wrote it", err=True)
        return EXIT_FAILED
    table = Table("claim", "verdict", "evidence", title=f"run {record.run_name}, {record.identity[:8]}", title_justify="left")
    for claim in record.claims:
        table.add_row(claim.name, f"[{_COLORS[claim.verdict]}]{claim.verdict}[/]", claim.evidence)
    Console().print(table)
    click.echo(f"record {folder / 'record.json'}\nreport {folder / 'report.html'}")
    return EXIT_FAILED if failed or record.refuted else EXIT_COMPLETED
