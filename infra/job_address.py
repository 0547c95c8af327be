"""Where a stack's job is: what its outputs say, and what is said when it can't be reached there."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from infra.cluster_access import short
from infra.live_job import LiveJob
from workload.errors import UserError, bad_input

CLUSTER_ERRORS = (HTTPError, OSError, ConfigException, ApiException)  # what asking a cluster may end in
_PULUMI_SECONDS = 60


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
