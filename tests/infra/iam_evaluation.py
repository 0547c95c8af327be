"""Answers what a request may, from documents alone: a refusal wins, and nothing is allowed that no document allows.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html within one account, for the
operators that the documents of this project use; another one is an error, never a silent no.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.infra.iam_documents import as_list

ALLOWED, DENIED, NOT_ALLOWED = "allowed", "denied", "not allowed"


@dataclass(frozen=True)
class Request:
    """`principal`: a role's ARN or a service's name. `context`: condition keys that the request has."""

    action: str
    resource: str
    principal: str
    context: Mapping[str, str] = field(default_factory=dict)


def decide(request: Request, identity: Sequence[str] = (), resource: Sequence[str] = ()) -> str:
    """`identity`: documents of the principal. `resource`: those of what is asked for."""
    of_principal = [statement for text in identity for statement in json.loads(text)["Statement"] if _fits(statement, request)]
    of_resource = [statement for text in resource for statement in json.loads(text)["Statement"] if _fits(statement, request)]
    if any(statement["Effect"] == "Deny" for statement in of_principal + of_resource):
        return DENIED
    directly = any(not _delegates(statement) for statement in of_resource)
    # A key's policy is asked first: only if it says so do policies of the account count.
    # https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
    counts = not request.action.startswith("kms:") or any(_delegates(statement) for statement in of_resource)
    return ALLOWED if directly or (of_principal and counts) else NOT_ALLOWED


def _delegates(statement: dict[str, Any]) -> bool:
    """A statement for the account gives nothing to anybody by itself: it lets the account's own policies give it."""
    principal = statement.get("Principal")
    return isinstance(principal, dict) and all(str(each).endswith(":root") for each in as_list(principal.get("AWS", "")))


def _fits(statement: dict[str, Any], request: Request) -> bool:
    return (
        _is_for(statement.get("Principal", "*"), request.principal)
        and any(_like(request.action.lower(), each.lower()) for each in as_list(statement["Action"]))
        and any(_like(request.resource, each) for each in as_list(statement.get("Resource", "*")))
        and all(
            _holds(operator, request.context.get(key), [str(each) for each in as_list(values)])
            for operator, keys in statement.get("Condition", {}).items()
            for key, values in keys.items()
        )
    )


def _is_for(principal: Any, who: str) -> bool:
    names = [principal] if principal == "*" else [name for each in principal.values() for name in as_list(each)]
    account = re.match(r"(arn:[^:]+:iam::\d{12}):", who)
    return any(name in ("*", who, f"{account[1]}:root" if account else "") for name in names)


def _like(value: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(value, pattern.replace("[", "[[]"))


_OPERATORS: Mapping[str, Callable[[str, list[str]], bool]] = {
    "StringEquals": lambda value, wanted: value in wanted,
    "StringNotEquals": lambda value, wanted: value not in wanted,
    "StringLike": lambda value, wanted: any(_like(value, each) for each in wanted),
    "ArnLike": lambda value, wanted: any(_like(value, each) for each in wanted),
    "Bool": lambda value, wanted: value in wanted,
}


def _holds(operator: str, value: str | None, wanted: list[str]) -> bool:
    if operator == "Null":
        return (value is None) == (wanted == ["true"])
    compare = _OPERATORS[operator.removesuffix("IfExists")]
    if value is None:  # a negated operator holds where there is nothing to compare, as one with IfExists does
        return operator.endswith("IfExists") or "Not" in operator
    return compare(value, wanted)
