"""Reads `Pulumi.<environment>.yaml` as the Pulumi CLI does, where no CLI is: on the laptop. Pure but for reading the files."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from workload.errors import UserError, bad_input


class _PulumiLoader(yaml.SafeLoader):
    """YAML with the CLI's idea of numbers and truth: `1e-3` is a number, `yes` and `12:30` are text, keys come once."""


_PulumiLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", r"^(true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("tag:yaml.org,2002:int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("tag:yaml.org,2002:float", r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ("tag:yaml.org,2002:null", r"^(~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:merge", r"^<<$", "<"),
):
    _PulumiLoader.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))


def _construct_mapping(loader: _PulumiLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        if key.value in seen:
            raise yaml.constructor.ConstructorError(None, None, f"the key {key.value!r} is there twice", key.start_mark)
        seen.add(str(key.value))
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


def _construct_float(_: _PulumiLoader, node: yaml.ScalarNode) -> float:
    return float(node.value)


_PulumiLoader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)
_PulumiLoader.add_constructor("tag:yaml.org,2002:float", _construct_float)


def parse_value(text: str) -> Any:
    """One value as it would be typed in the file. Raises: yaml.YAMLError."""
    return yaml.load(text, Loader=_PulumiLoader)  # noqa: S506 - a SafeLoader underneath


def read_environment(path: Path, project: str) -> dict[str, Any]:
    """The config objects of `project` in the file, without their prefix. Raises: UserError with file and line."""
    try:
        document = parse_value(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise bad_input(str(path), None, f"can't be read: {error.strerror}", "name an environment that has a file") from error
    except UnicodeDecodeError as error:
        raise bad_input(str(path), None, "is not UTF-8", "save it as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise bad_input(f"{path}{line}", None, f"is not YAML: {error.problem}", "mend the line") from error
    config = document.get("config") if isinstance(document, dict) else None
    if not isinstance(config, dict):
        raise bad_input(f"{path}: config", None, "is missing or not an object", f"add config: with the {project}:... objects")
    prefix = f"{project}:"
    return {str(key).removeprefix(prefix): value for key, value in config.items() if str(key).startswith(prefix)}


def read_environments(folder: Path, project: str) -> dict[str, dict[str, Any]]:
    """The objects of every environment in `folder`, by name. A file that can't be read is its own environment's problem."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("Pulumi.*.yaml")):
        with suppress(UserError):
            found[path.stem.removeprefix("Pulumi.")] = read_environment(path, project)
    return found
