"""`python -m infra laptop`: an environment's training on this machine.

Settings, run config, package and entry point are those of the cluster; only the engine and the cluster are missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from infra import settings as environment_settings
from infra.code_package import pack
from infra.environment_file import parse_value
from infra.identity import identify
from infra.ray_job_manifest import CODE_FILE, CONFIG_FILE
from workload.errors import bad_input
from workload.run_config import StoreConfig

WORKLOAD = Path(__file__).resolve().parents[2] / "workload"
_INTERRUPT_SECONDS = 20  # what the training has to end after Ctrl-C


def run(config_file: Path, stack: str, output: Path, changes: tuple[str, ...], fresh: bool) -> int:
    """Prepares `output` and runs the training from the package in it. Returns the training's exit code."""
    output = output.resolve()
    settings = environment_settings.from_file(config_file, stack, lambda raw: apply_changes(raw, changes))
    code = pack(WORKLOAD)
    identity = identify(settings, code.sha256)
    store, work = output / "store", output / "work"
    _prepare(output, fresh)
    for folder in (store, work):
        folder.mkdir(parents=True, exist_ok=True)
    (output / CODE_FILE).write_bytes(code.content)
    (output / CONFIG_FILE).write_text(
        settings.run_config(StoreConfig(path=str(store)), identity.provenance).to_json(indent=2), encoding="utf-8"
    )
    return _train(output, work)


def apply_changes(raw: dict[str, Any], changes: tuple[str, ...]) -> None:
    """Sets each `training.schedule.steps=20` in what was read. Raises: UserError."""
    for change in changes:
        key, separator, text = change.partition("=")
        parts = [part for part in key.replace("[", ".").replace("]", "").split(".") if part]
        if not separator or not parts:
            raise bad_input("--set", change, "doesn't have the form KEY=VALUE", "write e.g. training.schedule.steps=20")
        try:
            _place(raw, parts, parse_value(text))
        except (yaml.YAMLError, ValueError, IndexError, TypeError) as error:
            reason = "can't be set: the key leads through something that isn't an object or list, or the value isn't YAML"
            raise bad_input("--set", change, reason, "check the key against the environment's file") from error


def _place(here: Any, parts: list[str], value: Any) -> None:
    for part in parts[:-1]:
        here = here[int(part)] if isinstance(here, list) else here.setdefault(part, {})
    here[int(parts[-1]) if isinstance(here, list) else parts[-1]] = value


def _prepare(output: Path, fresh: bool) -> None:
    """Removes what an earlier run left, and nothing that isn't such a run's."""
    if output.exists() and not output.is_dir():
        raise bad_input("--output", output, "is not a folder", "name a folder")
    if not output.exists() or not any(output.iterdir()):
        return
    if not (output / CONFIG_FILE).is_file():
        raise bad_input("--output", output, "holds other things than a run's", "name a folder that is empty or doesn't exist")
    if fresh:
        shutil.rmtree(output)


def _train(output: Path, work: Path) -> int:
    """In a folder of its own, and with the package alone in the path: the checkout can't be imported by accident."""
    environment = {**os.environ, "PYTHONPATH": str(output / CODE_FILE), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "workload", "train", "--config", str(output / CONFIG_FILE)]
    with subprocess.Popen(command, cwd=work, env=environment) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # The terminal has sent the training the same signal.
            try:
                return process.wait(_INTERRUPT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
