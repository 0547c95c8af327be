"""One check of an account, and how its answer becomes a result. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from infra.answers import NotAsked
from workload.errors import Problem


class Status(StrEnum):
    OK = "ok"
    PROBLEM = "problem"
    NOT_ASKED = "could not be asked"


@dataclass(frozen=True)
class Check:
    """A line for the user. Of a problem `detail` is a summary, and `problems` say value, reason and fix."""

    name: str
    status: Status
    detail: str
    problems: tuple[Problem, ...] = ()


def result(name: str, detail: str, *problems: Problem) -> Check:
    """Well, with `detail`, unless something is wrong."""
    if not problems:
        return Check(name, Status.OK, detail)
    first = f"{problems[0].where} = {problems[0].value}" if problems[0].value else problems[0].where
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    return Check(name, Status.PROBLEM, f"{first}{more}", problems)


def decide(name: str, answer: Any, judge: Callable[[Any], Check]) -> Check:
    """What `judge` makes of an answer; without one nothing is judged."""
    return Check(name, Status.NOT_ASKED, answer.reason) if isinstance(answer, NotAsked) else judge(answer)
