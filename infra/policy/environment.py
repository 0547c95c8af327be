"""What the pack knows of the environment: two of its settings, as the stack's config says them.

A pack is a program of its own, started by the CLI with the stack's config in its environment. It doesn't share the
program's settings on purpose: a mistake there must not loosen what is judged here.
"""

from __future__ import annotations

import json
from typing import Any

import pulumi


def on_eks() -> bool:
    """Everything but `target.kind: existing` is judged as a cluster of our own."""
    return _section("target").get("kind") != "existing"


def is_production() -> bool:
    return _section("aws").get("isProduction") is True


def _section(name: str) -> dict[str, Any]:
    text = pulumi.runtime.get_config_env().get(f"{pulumi.get_project()}:{name}")
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
