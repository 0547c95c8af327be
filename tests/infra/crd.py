"""Checks an object against a custom resource's schema as strictly as can be: unknown keys are refused, CEL rules are run."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import celpy
from celpy import adapter
from jsonschema import Draft202012Validator

FIXTURE = Path(__file__).parent / "fixtures" / "rayjob-crd-v1.json.gz"


def ray_job_schema() -> dict[str, Any]:
    document = json.loads(gzip.decompress(FIXTURE.read_bytes()))
    return {**document["schema"], "x-source": document["x-source"]}


def findings(manifest: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """What the API server would refuse, or silently drop."""
    closed = _closed(schema)
    closed["properties"]["metadata"] = {"type": "object"}  # Kubernetes checks it apart from the schema
    errors = Draft202012Validator(closed).iter_errors(manifest)
    return [f"{error.json_path}: {error.message}" for error in errors] + list(_cel(manifest, schema, "$"))


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    made = dict(schema)
    if made.get("x-kubernetes-int-or-string"):
        made.pop("anyOf", None)
        made["type"] = ["integer", "string"]
    elif made.get("nullable"):
        made["type"] = [made["type"], "null"]
    if "properties" in made:
        made["properties"] = {key: _closed(value) for key, value in made["properties"].items()}
        if not made.get("x-kubernetes-preserve-unknown-fields"):
            made.setdefault("additionalProperties", False)
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _closed(made[key])
    return made


def _cel(value: Any, schema: Any, path: str) -> Iterator[str]:
    """The rules that hold at creation; those about `oldSelf` are about changes."""
    if value is None or not isinstance(schema, dict):
        return
    for rule in schema.get("x-kubernetes-validations", []):
        if "oldSelf" not in rule["rule"]:
            environment = celpy.Environment()
            program = environment.program(environment.compile(rule["rule"]))
            if not program.evaluate({"self": adapter.json_to_cel(value)}):
                yield f"{path}: {rule['message']}"
    if isinstance(value, dict):
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            yield from _cel(item, inner, f"{path}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _cel(item, schema.get("items"), f"{path}[{number}]")
