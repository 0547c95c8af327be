"""The AWS account behind the engine: a folder that says what exists and what was done, in order.

`account.json` maps "type id" to what exists; `journal.jsonl` has a line for each create, update, delete and refusal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Account:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def existing(self) -> dict[str, Any]:
        """What exists, by type and id."""
        file = self._folder / "account.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        return [found for found in self.existing().values() if found["type"] == kind]

    def types(self) -> list[str]:
        return sorted(found["type"] for found in self.existing().values())

    def journal(self) -> list[Mapping[str, Any]]:
        file = self._folder / "journal.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def is_associated(self, namespace: str, service_account: str) -> bool:
        """Whether a Pod Identity association names this service account."""
        found = self.of("aws_eks_pod_identity_association")
        return any({namespace, service_account} <= set(each["strings"]) for each in found)
