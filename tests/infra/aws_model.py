"""Requests against the models of AWS's APIs as botocore ships them: members, what must be there, enums, patterns, ranges.

botocore's own validator looks at neither enums, patterns nor maxima. `aws_calls.py` says which resource makes which request.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from botocore.loaders import Loader
from botocore.model import ServiceModel

_LOADER = Loader()
_NUMBERS = ("integer", "long", "double", "float")


@functools.cache
def shape_of(service: str, operation: str) -> Any:
    """What the operation takes."""
    return _service(service).operation_model(operation).input_shape


@functools.cache
def _service(service: str) -> ServiceModel:
    return ServiceModel(_LOADER.load_service_model(service, "service-2"), service)


def findings(request: dict[str, Any], service: str, operation: str, names: dict[str, str]) -> list[str]:
    """What the API would refuse. `names`: keys of the provider that have another name in the API, at any depth."""
    return list(_judge(request, shape_of(service, operation), operation, names))


def member(shape: Any, key: str, names: dict[str, str]) -> str | None:
    """The API's own name of a provider's key, which differs in case at most, or as `names` says."""
    wanted = names.get(key, key).lower()
    return next((each for each in shape.members if each.lower() == wanted), None)


def _judge(value: Any, shape: Any, path: str, names: dict[str, str]) -> Iterator[str]:
    kind = shape.type_name
    if kind == "structure":
        yield from _structure(value, shape, path, names)
    elif kind == "list":
        yield from _list(value, shape, path, names)
    elif kind == "map":
        yield from _map(value, shape, path, names)
    elif kind == "string":
        yield from _string(value, shape, path)
    elif kind == "boolean":
        if value not in (True, False, "true", "false"):  # the provider has texts where it must know unset from false
            yield f"{path}: {value!r} is no boolean"
    elif kind in _NUMBERS:
        yield from _number(value, shape, path)
    else:
        raise NotImplementedError(f"{path}: a value of kind {kind}")


def _structure(value: Any, shape: Any, path: str, names: dict[str, str]) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} where {shape.name} belongs"
        return
    given = {key: member(shape, key, names) for key in value}
    for key, name in given.items():
        if name is None:
            yield f"{path}.{key}: not a member of {shape.name}"
        else:
            yield from _judge(value[key], shape.members[name], f"{path}.{name}", names)
    yield from (f"{path}.{name}: missing" for name in shape.required_members if name not in given.values())


def _list(value: Any, shape: Any, path: str, names: dict[str, str]) -> Iterator[str]:
    items = _pairs(value, shape.member) if isinstance(value, dict) else value
    if not isinstance(items, list):
        yield f"{path}: {value!r} where a list belongs"
        return
    yield from _range(len(items), shape, path, "items")
    for number, item in enumerate(items):
        yield from _judge(item, shape.member, f"{path}[{number}]", names)


def _pairs(value: dict[str, Any], shape: Any) -> list[dict[str, Any]] | None:
    """Tags: a map in the provider, a list of keys and values in most APIs."""
    members = list(shape.members) if shape.type_name == "structure" else []
    if sorted(name.removeprefix("Tag") for name in members) != ["Key", "Value"]:
        return None
    key, content = sorted(members)
    return [{key: each, content: item} for each, item in value.items()]


def _map(value: Any, shape: Any, path: str, names: dict[str, str]) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} where a map belongs"
        return
    yield from _range(len(value), shape, path, "items")
    for key, item in value.items():
        yield from _judge(key, shape.key, f"{path}.{key} (key)", names)
        yield from _judge(item, shape.value, f"{path}.{key}", names)


def _string(value: Any, shape: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path}: {value!r} where a text belongs"
        return
    choices, pattern = getattr(shape, "enum", None), shape.metadata.get("pattern")
    if choices and value not in choices:
        yield f"{path}: {value!r} is no {shape.name}"
    if pattern and not _matches(pattern, value):
        yield f"{path}: {value!r} does not match {pattern}"
    yield from _range(len(value), shape, path, "characters")


def _matches(pattern: str, value: str) -> bool:
    """A pattern without anchors means all of the text. Python has no words for Unicode's letters, numbers and spaces."""
    known = re.sub(r"\\p\{[LN]\}", r"\\w", pattern).replace(r"\p{Z}", r"\s")
    is_anchored = known.startswith("^") or known.endswith("$")
    return bool(re.search(known, value) if is_anchored else re.fullmatch(known, value))


def _number(value: Any, shape: Any, path: str) -> Iterator[str]:
    is_whole = isinstance(value, int | float) and float(value).is_integer()
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or (shape.type_name in ("integer", "long") and not is_whole)
    ):
        yield f"{path}: {value!r} is no {shape.type_name}"
        return
    yield from _range(value, shape, path, "")


def _range(size: float, shape: Any, path: str, unit: str) -> Iterator[str]:
    lowest, highest = shape.metadata.get("min", size), shape.metadata.get("max", size)
    if not lowest <= size <= highest:
        yield f"{path}: {size:g} {unit} is not within {lowest:g} and {highest:g}".replace("  ", " ")
