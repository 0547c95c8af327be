"""`python -m infra fetch`: record and report of a run, out of the cluster, and what they say."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import click
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from rich.console import Console
from rich.table import Table
from urllib3.exceptions import HTTPError

from infra.cluster_access import short
from infra.job_status import Failed, Started, Waiting, judge
from infra.live_job import LiveJob
from infra.store_reader import export
from workload.errors import EXIT_COMPLETED, EXIT_FAILED, UserError, bad_input
from workload.record import Record, Verdict

EXIT_NOT_FINISHED = 3
CLUSTER_ERRORS = (HTTPError, OSError, ConfigException, ApiException)  # what asking a cluster may end in
_PULUMI_SECONDS = 60
_COLORS = {Verdict.PROVEN: "green", Verdict.REFUTED: "red", Verdict.NOT_TESTED: "yellow"}


@dataclass(frozen=True)
class JobAddress:
    """Where a stack's job is, by the stack's outputs."""

    kubeconfig: str
    context: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def open(self) -> LiveJob:
        return LiveJob(self.kubeconfig, self.context, self.namespace, self.name)

    def unreachable(self, error: BaseException) -> UserError:
        """One of `CLUSTER_ERRORS`, as the user's to look at."""
        context = f"--context {self.context} " if self.context else ""
        fix = f"check it with: kubectl {context}-n {self.namespace} get rayjobs"
        return bad_input("context", self.context, f"can't be asked: {short(error)}", fix)

    def missing(self) -> UserError:
        return bad_input("jobName", self, "there is no such RayJob", "run pulumi up")


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


def job_address(project: Path, stack: str) -> JobAddress:
    """Raises: UserError, without pulumi, stack or job."""
    outputs = _stack_outputs(project, stack)
    return JobAddress(outputs["kubeconfig"], outputs["context"], outputs["namespace"], outputs["jobName"])


def _stack_outputs(project: Path, stack: str) -> dict[str, str]:
    program = shutil.which("pulumi")
    if program is None:
        raise bad_input("pulumi", None, "is not on PATH", "install it: https://www.pulumi.com/docs/iac/download-install/")
    command = [program, "stack", "output", "--json", "--stack", stack, "--non-interactive", "--cwd", str(project)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PULUMI_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        reason = f"pulumi stack output doesn't answer within {_PULUMI_SECONDS} s"
        raise bad_input("--stack", stack, reason, "check pulumi's backend: pulumi whoami -v") from error
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no message"]
        raise bad_input("--stack", stack, said[-1].removeprefix("error: "), "name a stack of pulumi stack ls")
    outputs: dict[str, str] = json.loads(done.stdout)
    if "jobName" not in outputs:
        raise bad_input("--stack", stack, "has no job yet", f"run pulumi up -s {stack}")
    return outputs


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
