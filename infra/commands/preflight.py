"""`python -m infra preflight`: can the account carry the environment? Asked before anything is made, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from infra import eks_plan, image
from infra.account_site import AccountSite, account_site
from infra.aws_account import Account
from infra.preflight.check import Check, Status, result
from infra.preflight.existing import image_check
from infra.preflight_questions import Questions
from infra.settings import PROJECT
from workload.errors import EXIT_COMPLETED, EXIT_FAILED, Problem, UserError

_COLORS = {Status.OK: "green", Status.PROBLEM: "red", Status.NOT_ASKED: "yellow"}


def run(project: Path, stack: str) -> int:
    """Asks, prints, and returns the exit code: 1 if there is a problem. Raises: UserError for settings and credentials."""
    site = account_site(project, stack)
    image_problems = _plan_problems(site)
    account = Account(site.eks.aws.region)
    who = account.identity()
    checks = [
        result("account", f"{who.account} in {account.region}, as {who.arn}"),
        image_check(image_problems, site.settings.image.reference),
        *Questions(account, site).checks(),
    ]
    return _show(site, checks)


def _plan_problems(site: AccountSite) -> list[Problem]:
    """What a preview would refuse. Raises: UserError, unless it's only that the image must be locked yet."""
    try:
        eks_plan.plan(site.settings, PROJECT, image.read_lock())
    except UserError as error:
        others = [problem for problem in error.problems if problem.where != "image.reference"]
        if others:
            raise UserError(*others) from error
        return list(error.problems)
    return []


def _show(site: AccountSite, checks: list[Check]) -> int:
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    table = Table("check", "result", "detail", title=f"{site.cluster_name} in {site.eks.aws.region}", title_justify="left")
    for check in checks:
        table.add_row(check.name, f"[{_COLORS[check.status]}]{check.status}[/]", escape(check.detail))
    console.print(table)
    problems = [problem for check in checks for problem in check.problems]
    for problem in problems:
        click.echo(f"  - {problem}")
    not_asked = sum(check.status is Status.NOT_ASKED for check in checks)
    open_ends = f"; {not_asked} could not be asked, and may still be in the way" if not_asked else ""
    click.echo(f"{len(problems) or 'no'} problem{'' if len(problems) == 1 else 's'} in {len(checks)} checks{open_ends}")
    return EXIT_FAILED if problems else EXIT_COMPLETED
