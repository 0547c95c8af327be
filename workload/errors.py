"""Errors that a user can act on: each carries key or file and line, value, reason and fix.

They cross process boundaries (worker -> Ray -> driver), so they pickle with all their fields.
"""

from __future__ import annotations

from dataclasses import dataclass

EXIT_COMPLETED = 0
EXIT_FAILED = 1
EXIT_USER_ERROR = 2


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: `where` is a settings key or FILE:LINE, as the user would look it up."""

    where: str
    value: str
    reason: str
    fix: str

    def __str__(self) -> str:
        shown = f" = {self.value}" if self.value else ""
        return f"{self.where}{shown}: {self.reason}. Fix: {self.fix}"


class UserError(ValueError):
    """Bad input. Exit code 2, nothing created, no traceback shown."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return str(self.problems[0])
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        return f"{len(self.problems)} problems:\n{lines}"


def bad_input(where: str, value: object, reason: str, fix: str) -> UserError:
    """A `UserError` with one problem; `value` is shown as the user would type it, shortened to 80 characters."""
    text = "" if value is None else str(value)
    return UserError(Problem(where, text if len(text) <= 80 else text[:77] + "...", reason, fix))
