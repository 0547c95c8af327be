"""`python -m infra teardown-check`: what an environment left in its account after `pulumi destroy`. Removes nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from infra.account_site import AccountSite, account_site
from infra.aws_account import Account, Identity
from infra.cost import KEPT
from infra.sweep.everything import Swept, sweep
from infra.sweep.search import Search
from infra.teardown.found import Found, Groups, confirm, group
from infra.teardown.remedies import remedy
from workload.errors import EXIT_COMPLETED, EXIT_FAILED

_SCHEMA_VERSION = 1


def run(project: Path, stack: str, folder: Path) -> int:
    """Sweeps, prints, leaves a receipt in `folder`, and returns 0 only if nothing is left over and all could be asked.

    Raises: UserError for settings and credentials.
    """
    site = account_site(project, stack)
    account = Account(site.eks.aws.region)
    who = account.identity()
    swept = sweep(Search(account, site))
    found, gone = confirm(swept.listed, swept.seen, swept.asked)
    groups = group(found, site.settings.store)
    receipt = folder / f"teardown-{stack}.json"
    folder.mkdir(parents=True, exist_ok=True)
    receipt.write_text(json.dumps(_receipt(site, who, swept, groups, gone), indent=2) + "\n", encoding="utf-8")
    _show(site, who, swept, groups)
    click.echo(f"receipt {receipt}")
    return EXIT_COMPLETED if _is_clean(swept, groups) else EXIT_FAILED


def _is_clean(swept: Swept, groups: Groups) -> bool:
    return not groups.left_over and not swept.not_asked


def _receipt(site: AccountSite, who: Identity, swept: Swept, groups: Groups, gone: Sequence[str]) -> dict[str, Any]:
    return {
        "schemaVersion": _SCHEMA_VERSION,
        "checkedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "account": who.account,
        "askedAs": who.arn,
        "region": site.eks.aws.region,
        "environment": site.settings.environment,
        "clusterName": site.cluster_name,
        "tags": site.tags,
        "clean": _is_clean(swept, groups),
        "asked": swept.asked,
        "notAsked": {kind: str(why) for kind, why in swept.not_asked.items()},
        "kept": [asdict(one) for one in groups.kept],
        "scheduled": [asdict(one) for one in groups.scheduled],
        "leftOver": [asdict(one) for one in groups.left_over],
        "listedButGone": list(gone),
    }


def _show(site: AccountSite, who: Identity, swept: Swept, groups: Groups) -> None:
    region = site.eks.aws.region
    click.echo(f"{site.cluster_name}: account {who.account}, {region}, as {who.arn}")
    if groups.kept:
        click.echo("\nkept on purpose (store.purgeOnDestroy is false); to lose them for good:")
        for one in groups.kept:
            click.echo(f"  {_named(one)}: {KEPT[one.kind]}\n    {remedy(one, region)}")
    if groups.scheduled:
        click.echo("\ngoing by themselves:")
        for one in groups.scheduled:
            click.echo(f"  {_named(one)}")
    if groups.left_over:
        click.echo("\nLEFT OVER:")
        for one in groups.left_over:
            click.echo(f"  {_named(one)}\n    {remedy(one, region)}")
    for kind, why in swept.not_asked.items():
        click.echo(f"\ncould not be asked: {kind}: {why}")
    click.echo(f"\n{_verdict(swept, groups)}")


def _named(one: Found) -> str:
    state = (f", {one.state}" if one.state else "") + (f" until {one.ends}" if one.ends else "")
    doubt = "" if one.confirmed else " (listed by tag; whether it's still there could not be confirmed)"
    return f"{one.kind} {one.name}{state}{doubt}"


def _verdict(swept: Swept, groups: Groups) -> str:
    open_ends = f"{len(swept.not_asked)} kinds could not be asked"
    if groups.left_over:
        cluster = any(one.kind == "eks:cluster" for one in groups.left_over)
        hint = "; the cluster still stands: was it destroyed?" if cluster else ""
        return f"{len(groups.left_over)} left over{hint}" + (f"; {open_ends}" if swept.not_asked else "")
    if swept.not_asked:
        return f"not proven clean: {open_ends}"
    return f"nothing left over, of {len(swept.asked)} kinds that were asked"
