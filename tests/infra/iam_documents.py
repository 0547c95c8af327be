"""Finds every IAM document in a recording, and judges each as IAM would read it, and as this project means to write it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.infra.eks_component import texts
from tests.infra.fake_engine import Recording
from tests.infra.iam_actions import (
    ACTIONS,
    CONDITION_KEYS,
    DENIED_FAMILIES,
    KEY_FAMILIES,
    SERVICES,
    TRUST_ACTIONS,
)

IDENTITY, TRUST, BUCKET, KEY = "identity", "trust", "bucket", "key"
# Where documents are, what kind each is, and how many characters it may have without spaces.
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html, and the API of each service
PLACES: Mapping[tuple[str, str], tuple[str, int]] = {
    ("aws:iam/role:Role", "assumeRolePolicy"): (TRUST, 2048),
    ("aws:iam/rolePolicy:RolePolicy", "policy"): (IDENTITY, 10240),
    ("aws:s3/bucketPolicy:BucketPolicy", "policy"): (BUCKET, 20480),
    ("aws:kms/keyPolicy:KeyPolicy", "policy"): (KEY, 32768),
}
_STATEMENT = {"Sid", "Effect", "Principal", "Action", "Resource", "Condition"}
_ROOT = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:root")


@dataclass(frozen=True)
class Document:
    """A document as text, and the resource that holds it."""

    holder: str
    kind: str
    text: str
    longest: int

    @property
    def statements(self) -> list[dict[str, Any]]:
        return json.loads(self.text)["Statement"]


def documents(recording: Recording) -> list[Document]:
    """Raises: LookupError for one in a place that this module doesn't know."""
    found = []
    for urn, request in recording.requests.items():
        for key, value in recording.inputs[urn].items():
            place = PLACES.get((request.type, key))
            if place:
                found.append(Document(request.name, place[0], value, place[1]))
            elif not request.type.startswith("kubernetes:") and any('"Statement"' in text for text in texts(value)):
                raise LookupError(f"{request.name}.{key}: an IAM document in a place that PLACES doesn't have")
    return found


def document(recording: Recording, holder: str) -> Document:
    return next(each for each in documents(recording) if each.holder == holder)


def findings(found: Document) -> list[str]:
    try:
        content = json.loads(found.text, object_pairs_hook=_without_twins)
    except ValueError as error:
        return [f"not JSON: {error}"]
    return list(_whole(content, found))


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError(f"a key twice in {keys}")
    return dict(pairs)


def _whole(content: Any, found: Document) -> Iterator[str]:
    size = len(re.sub(r"\s", "", found.text))
    if size > found.longest:
        yield f"{size} characters, where {found.longest} are allowed"
    if set(content) != {"Version", "Statement"} or content["Version"] != "2012-10-17":
        yield "not a Version 2012-10-17 with a Statement and nothing else"
    sids = [statement.get("Sid") for statement in content["Statement"] if "Sid" in statement]
    yield from (f"Sid {sid} twice" for sid in sorted({sid for sid in sids if sids.count(sid) > 1}))
    for statement in content["Statement"]:
        yield from (f"{statement.get('Sid', '?')}: {said}" for said in _statement(statement, found.kind))


def _statement(statement: dict[str, Any], kind: str) -> Iterator[str]:
    wanted = {"Effect", "Action"} | ({"Resource"} if kind != TRUST else set()) | ({"Principal"} if kind != IDENTITY else set())
    keys = set(statement)
    yield from (f"{key} is missing" for key in sorted(wanted - keys))
    yield from (f"{key} has no place here" for key in sorted(keys - wanted - {"Sid", "Condition"} | (keys - _STATEMENT)))
    if not re.fullmatch(r"[A-Za-z0-9]*", statement.get("Sid", "")):
        yield "a Sid has letters and digits alone"
    if statement.get("Effect") not in ("Allow", "Deny"):
        yield f"Effect {statement.get('Effect')}"
    yield from _actions(statement, kind)
    yield from _principal(statement, kind)
    yield from _condition(statement.get("Condition", {}))


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _actions(statement: dict[str, Any], kind: str) -> Iterator[str]:
    actions, resources = as_list(statement.get("Action", [])), as_list(statement.get("Resource", []))
    if kind == TRUST:
        yield from (f"{action} is no way to take a role" for action in actions if action not in TRUST_ACTIONS)
        return
    named = [action for action in actions if action not in _families(statement, kind)]
    yield from (f"{action} is no action that this project knows" for action in named if action not in ACTIONS)
    if kind == KEY and resources != ["*"]:
        yield "in a key's policy * is the key, and nothing else can be named"
    if kind != KEY and set(named) <= set(ACTIONS):
        yield from _pairs(named, resources)
    if "s3:*" in actions and len({each.endswith("/*") for each in resources}) < 2:
        yield "s3:* is about the bucket and its objects: name both"


def _pairs(actions: list[str], resources: list[str]) -> Iterator[str]:
    """Each action has a resource of its kind, and each resource an action that is about it."""
    for action in actions:
        if not any(ACTIONS[action].fullmatch(resource) for resource in resources):
            yield f"{action} on {', '.join(resources)}, which is not its kind"
    for resource in resources if actions else []:
        if not any(ACTIONS[action].fullmatch(resource) for action in actions):
            yield f"{resource} fits none of {', '.join(actions)}"


def _families(statement: dict[str, Any], kind: str) -> set[str]:
    if kind == KEY:
        return KEY_FAMILIES if "Condition" in statement else {"kms:*"} if _is_root(statement) else set()
    return DENIED_FAMILIES if kind == BUCKET and statement.get("Effect") == "Deny" else set()


def _is_root(statement: dict[str, Any]) -> bool:
    principal = statement.get("Principal")
    return isinstance(principal, dict) and all(_ROOT.fullmatch(str(each)) for each in as_list(principal.get("AWS")))


def _principal(statement: dict[str, Any], kind: str) -> Iterator[str]:
    principal = statement.get("Principal")
    if kind == TRUST:
        parts = principal if isinstance(principal, dict) else {}
        if set(parts) != {"Service"}:
            yield f"{principal} may take the role, which is for a service"
        services = as_list(parts.get("Service", []))
        yield from (f"{service} is no service that takes a role here" for service in services if service not in SERVICES)
    everyone = principal == "*" or (isinstance(principal, dict) and "*" in as_list(principal.get("AWS", [])))
    if everyone and statement.get("Effect") == "Allow" and "Condition" not in statement:
        yield "allows everyone, without a condition"


def _condition(condition: Any) -> Iterator[str]:
    for operator, keys in condition.items():
        for key in keys:
            if key not in CONDITION_KEYS:
                yield f"{key} is no condition key that this project knows"
            elif operator.removesuffix("IfExists") not in CONDITION_KEYS[key]:
                yield f"{operator} does not fit {key}"
