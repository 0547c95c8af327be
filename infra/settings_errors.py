"""Turns pydantic's findings into problems that a user can act on: key as typed, value, reason, fix. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from workload.errors import Problem

# Which key of a section chooses its variant.
DISCRIMINATORS = ("source", "kind")
HINTS = {
    "training.runName": "lower-case letters, digits and '-', from a letter on, at most 38 characters: it names the job",
    "target.namespace": "lower-case letters, digits and '-', at most 63 characters",
    "image.reference": "REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST",
    "image.rayVersion": "the version of Ray inside the image, such as 2.58.0 (in quotes)",
    "workers.count": "the number of Ray Train workers in all, 1 or more",
    "gpuNodes.zone": "write out one of network.zones: EFA needs all nodes in one zone, and another zone replaces them all",
    "store.path": "an absolute path on the nodes, such as /var/lib/ray-train-eks",
}
_SUFFIX_HINTS = {"cpu": "cores, or thousandths with m: 2 or 600m", "emory": "a size with a suffix: 512Mi, 3Gi or 8G"}
_SUFFIX_HINTS["size"] = _SUFFIX_HINTS["emory"]
_BOUNDS = {"ge": "use {} or more", "gt": "use more than {}", "le": "use {} or less", "lt": "use less than {}"}
_GIVEN = {"str": "text", "int": "a number", "float": "a number", "bool": "true or false", "dict": "an object", "list": "a list"}
_KINDS = {"string": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "tuple": "a list"}


def problems_of(error: ValidationError, model: Any, typed: Any, prefix: str) -> list[Problem]:
    """One problem for each finding; `typed` is what was validated, `prefix` the key under which the user typed it."""
    findings = error.errors(include_url=False)
    # A list with a bad item is also "too short": once is enough.
    inner = {finding["loc"][:-1] for finding in findings}
    return [_problem(one, model, typed, prefix) for one in findings if one["type"] != "too_short" or one["loc"] not in inner]


def underscored(model: Any, typed: Any, prefix: str) -> list[Problem]:
    """Keys such as `learning_rate`: pydantic would take them for the field's name, and a key has one spelling."""
    found: list[Problem] = []

    def walk(here: Any, path: list[str | int]) -> None:
        items = here.items() if isinstance(here, dict) else enumerate(here) if isinstance(here, list) else ()
        for part, value in items:
            if isinstance(part, str) and "_" in part:
                fix = nearest(part, known_keys(model, typed, path))
                found.append(Problem(key_path([prefix, *path, part]), shown(value), "unknown key", fix))
            else:
                walk(value, [*path, part])

    walk(typed, [])
    return found


def key_path(parts: Iterable[str | int]) -> str:
    """`training.faults[0].rank`, as Pulumi's `config set --path` takes it."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def nearest(word: str, known: Iterable[str]) -> str:
    """How to mend an unknown key."""
    names = sorted(known)
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower().replace("_", ""), by_lower, n=1)
    return f"did you mean {by_lower[close[0]]}?" if close else f"remove it; known here: {', '.join(names)}"


def shown(value: object) -> str:
    """A value as one would type it, at most 80 characters."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def _problem(finding: Mapping[str, Any], model: Any, typed: Any, prefix: str) -> Problem:
    path = _without_tags(finding["loc"], typed)
    key = key_path([prefix, *path])
    kind = finding["type"]
    if kind == "extra_forbidden":
        known = known_keys(model, typed, path[:-1])
        return Problem(key, shown(finding["input"]), "unknown key", nearest(str(path[-1]), known))
    if kind == "missing":
        return Problem(key, "", "is required and has no default", _hint(key) or "set it")
    value = "" if isinstance(finding["input"], dict) else shown(finding["input"])
    if kind.endswith("_type"):
        value = json.dumps(finding["input"])  # with its quotes: they are what is wrong
    if kind.startswith("union_tag"):
        return _bad_variant(key, finding)
    return Problem(key, value, _reason(finding), _hint(key) or _fix(finding))


def _bad_variant(key: str, finding: Mapping[str, Any]) -> Problem:
    discriminator = finding["ctx"]["discriminator"].strip("'")
    key = f"{key}.{discriminator}"
    if finding["type"] == "union_tag_not_found":
        return Problem(key, "", "is required: it says which variant this is", "set it")
    return Problem(key, str(finding["ctx"]["tag"]), "is not known here", f"use one of {finding['ctx']['expected_tags']}")


def _reason(finding: Mapping[str, Any]) -> str:
    kind = finding["type"]
    if kind == "value_error":
        return str(finding["ctx"]["error"])
    if kind == "string_pattern_mismatch":
        return f"doesn't have the form {finding['ctx']['pattern']}"
    if kind.removesuffix("_type") in _KINDS:
        given = "nothing" if finding["input"] is None else type(finding["input"]).__name__
        names = {
            "str": "text",
            "int": "a number",
            "float": "a number",
            "bool": "true or false",
            "dict": "an object",
            "list": "a list",
        }
        return f"is {names.get(given, given)}, not {_KINDS[kind.removesuffix('_type')]}"
    if kind in ("model_type", "model_attributes_type"):
        return "is not an object"
    return str(finding["msg"]).replace("Input should", "should", 1).removesuffix(".")


def _fix(finding: Mapping[str, Any]) -> str:
    if "expected" in finding.get("ctx", {}):
        return f"use {finding['ctx']['expected']}"
    for bound, words in _BOUNDS.items():
        if bound in finding.get("ctx", {}):
            return words.format(finding["ctx"][bound])
    if finding["type"] in ("float_type", "int_type", "bool_type"):
        return "write it without quotes; on the command line: pulumi config set --path --type float|int|bool KEY VALUE"
    if finding["type"] in ("model_type", "model_attributes_type"):
        return "write its keys below it, indented"
    return "change one of them" if finding["type"] == "value_error" else "write it in that form"


def _hint(key: str) -> str | None:
    if key in HINTS:
        return HINTS[key]
    return next((hint for suffix, hint in _SUFFIX_HINTS.items() if key.endswith(suffix)), None)


def _without_tags(location: tuple[str | int, ...], typed: Any) -> list[str | int]:
    """pydantic puts the variant's name into a location (`model`, `config`, `hiddenSize`); the user never typed it."""
    path: list[str | int] = []
    here = typed
    for part in location:
        if isinstance(here, dict) and part not in here and any(here.get(name) == part for name in DISCRIMINATORS):
            continue
        path.append(part)
        if isinstance(here, dict):
            here = here.get(part)
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
    return path


def known_keys(model: Any, typed: Any, path: list[str | int]) -> list[str]:
    """The keys that the section at `path` may have."""
    found = _variant(model, typed)
    for part in path:
        typed = typed[part]
        if isinstance(part, str):
            field = next(field for name, field in found.model_fields.items() if (field.alias or name) == part)
            found = _variant(field.annotation, typed)
    return [field.alias or name for name, field in found.model_fields.items()]


def _variant(annotation: Any, typed: Any) -> type[BaseModel]:
    """The model behind an annotation; of a union the member that `typed` names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) is Annotated:
        return _variant(get_args(annotation)[0], typed)
    members = [_variant(member, typed) for member in get_args(annotation) if member not in (type(None), Ellipsis)]
    if get_origin(annotation) in (Union, UnionType) and len(members) > 1 and isinstance(typed, dict):
        for member in members:
            tags = [get_args(member.model_fields[name].annotation) for name in DISCRIMINATORS if name in member.model_fields]
            if any(typed.get(name) in tag for tag in tags for name in DISCRIMINATORS):
                return member
    return members[0]
