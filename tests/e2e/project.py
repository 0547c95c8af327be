"""A copy of the project with a stack, a namespace and a store of its own, and the commands that a user has."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from infra.commands.laptop import apply_changes
from infra.environment_file import read_environment
from infra.settings import PROJECT

ROOT = Path(__file__).resolve().parents[2]
_SHOWN = 6000  # characters of a failed command's output
# A run that takes a minute: enough steps to interrupt, small enough for two shared cores.
SMALL = (
    "training.schedule.steps=24", "training.checkpoint.everySteps=6", "training.evaluation.sequences=16",
    "training.evaluation.bootstrapResamples=200", "training.faults=[]", "training.model.numLayers=2",
    "training.data.sequenceLength=64", "job.keepClusterSeconds=5",
)  # fmt: skip


class Project:
    """One environment, in a copy of the project. Commands run in the copy; every one has a bound."""

    def __init__(self, folder: Path, stack: str, namespace: str, *changes: str) -> None:
        self.folder, self.stack, self.namespace = folder, stack, namespace
        self._copy()
        self.environment = {
            **os.environ, "PULUMI_BACKEND_URL": f"file://{folder / 'state'}", "PULUMI_CONFIG_PASSPHRASE": "e2e",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }  # fmt: skip
        (folder / "state").mkdir()
        self._objects = read_environment(ROOT / f"Pulumi.{stack}.yaml", PROJECT)
        self.change(f"target.namespace={namespace}", *changes)
        self.pulumi("stack", "init", stack)

    def _copy(self) -> None:
        self.folder.mkdir()
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            source, target = ROOT / name, self.folder / name
            if source.is_file() and not name.startswith("tests/"):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes())
        (self.folder / ".venv").symlink_to(ROOT / ".venv")

    def change(self, *changes: str) -> None:
        """Changes settings as a user edits the environment's file."""
        apply_changes(self._objects, changes)
        content = {"config": {f"{PROJECT}:{key}": value for key, value in self._objects.items()}}
        (self.folder / f"Pulumi.{self.stack}.yaml").write_text(yaml.safe_dump(content))

    def pulumi(
        self, *arguments: str, seconds: int = 900, check: bool = True, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = self._run(["pulumi", *arguments, "--non-interactive", "--color", "never"], seconds, more)
        if check and done.returncode:
            said = f"{done.stdout[-_SHOWN:]}\n{done.stderr[-_SHOWN:]}"
            raise AssertionError(f"pulumi {' '.join(arguments)} exits {done.returncode}:\n{said}")
        return done

    def up(
        self, *arguments: str, check: bool = True, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`more`: environment variables of this update alone."""
        return self.pulumi("up", "--yes", "--skip-preview", "--stack", self.stack, *arguments, check=check, more=more)

    def refresh(self) -> None:
        self.pulumi("refresh", "--yes", "--skip-preview", "--stack", self.stack)

    def is_unchanged(self) -> bool:
        """Whether an update has nothing to do."""
        return self.up("--expect-no-changes", check=False).returncode == 0

    def destroy(self, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.pulumi("destroy", "--yes", "--skip-preview", "--stack", self.stack, check=check)

    def fetch(self) -> subprocess.CompletedProcess[str]:
        return self.infra("fetch")

    def infra(self, command: str) -> subprocess.CompletedProcess[str]:
        """`fetch`, or `watch`, which fetches when the job has ended."""
        to = str(self.folder / "fetched")
        return self._run([sys.executable, "-m", "infra", command, "-s", self.stack, "--to", to], 600)

    def record(self) -> dict[str, Any]:
        return json.loads((self.folder / "fetched" / "record.json").read_text())

    def outputs(self) -> dict[str, Any]:
        return json.loads(self.pulumi("stack", "output", "--json", "--stack", self.stack).stdout)

    def kubectl(self, *arguments: str, check: bool = True) -> str:
        done = self._run(["kubectl", "--request-timeout=20s", "--namespace", self.namespace, *arguments], 120)
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def objects(self, kinds: str) -> list[dict[str, Any]]:
        return json.loads(self.kubectl("get", kinds, "--output", "json"))["items"]

    def job(self) -> dict[str, Any]:
        (found,) = self.objects("rayjobs")
        return found

    def pods(self, component: str) -> list[dict[str, Any]]:
        found = self.objects("pods")
        return [pod for pod in found if pod["metadata"]["labels"].get("app.kubernetes.io/component") == component]

    def wait_for_end(self, seconds: int = 600) -> dict[str, Any]:
        """The job's status once it has ended, one way or the other."""
        ended = ("Complete", "Failed", "ValidationFailed")
        wait_until(lambda: self.job().get("status", {}).get("jobDeploymentStatus") in ended, seconds, "the job's end")
        return self.job()["status"]

    def wait_for_step(self, step: int, seconds: int = 400) -> None:
        """Until the driver's log says that a step at or after `step` was trained."""
        wait_until(lambda: self.last_step() >= step, seconds, f"step {step}")

    def last_step(self) -> int:
        log = "".join(
            self.kubectl("logs", pod["metadata"]["name"], "--tail", "50", check=False) for pod in self.pods("submitter")
        )
        steps = re.findall(r"training, step (\d+)/", log)
        return int(steps[-1]) if steps else 0

    def namespace_is_gone(self) -> bool:
        return self._run(["kubectl", "get", "namespace", self.namespace], 60).returncode != 0

    def _run(self, command: list[str], seconds: int, more: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **(more or {})}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} didn't come within {seconds} s")
        time.sleep(1)
