"""Settings for tests: the real `Pulumi.local.yaml`, changed where a test says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infra import settings
from infra.commands.laptop import apply_changes
from infra.environment_file import read_environment
from infra.settings_models import Settings

ROOT = Path(__file__).resolve().parents[2]
LOCAL = ROOT / "Pulumi.local.yaml"


def raw(*changes: str) -> dict[str, Any]:
    """The config objects of `local`, after changes such as `training.schedule.steps=20`."""
    objects = read_environment(LOCAL, settings.PROJECT)
    apply_changes(objects, changes)
    return objects


def local(*changes: str) -> Settings:
    return settings.parse(raw(*changes), "local")
