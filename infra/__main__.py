"""`python -m infra`: a run on this machine, a run in a cluster, the account before and after, and the image that is pinned."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from workload.errors import EXIT_FAILED, EXIT_USER_ERROR, UserError

ROOT = Path(__file__).resolve().parents[1]
STACK = click.option("--stack", "-s", default="local", show_default=True, help="The environment: Pulumi.<stack>.yaml.")


@click.group(help=__doc__)
def cli() -> None:
    pass


@cli.command()
@STACK
@click.option("--config-file", type=click.Path(path_type=Path), help="Settings from this file instead of Pulumi.<stack>.yaml.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("build/laptop"), show_default=True)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change one setting: training.schedule.steps=20.")
@click.option("--fresh", is_flag=True, help="Remove what an earlier run left in the output folder.")
def laptop(stack: str, config_file: Path | None, output: Path, changes: tuple[str, ...], fresh: bool) -> None:
    """Run an environment's training on this machine: the same settings, package and entry point as in the cluster."""
    from infra.commands.laptop import run  # noqa: PLC0415 - each command loads only what it needs

    sys.exit(run(config_file or ROOT / f"Pulumi.{stack}.yaml", stack, output, changes, fresh))


@cli.command()
@STACK
@click.option("--to", "folder", type=click.Path(path_type=Path), default=Path("build/fetched"), show_default=True)
def fetch(stack: str, folder: Path) -> None:
    """Get record and report of an environment's run out of the cluster, and show its claims.

    Exits 0 when the job succeeded and no claim is refuted, 1 when it failed or one is, 2 on bad input, 3 while it runs.
    """
    from infra.commands.fetch import run  # noqa: PLC0415

    sys.exit(run(ROOT, stack, folder))


@cli.command()
@STACK
@click.option("--to", "folder", type=click.Path(path_type=Path), default=Path("build/fetched"), show_default=True)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Stop following after so long.")
def watch(stack: str, folder: Path, timeout: float | None) -> None:
    """Follow an environment's job until it ends, then do what `fetch` does. Ctrl-C leaves the job alone.

    Exits as `fetch` does: 0, 1, 2; 3 when the timeout or Ctrl-C comes first.
    """
    from infra.commands.watch import run  # noqa: PLC0415

    sys.exit(run(ROOT, stack, folder, timeout))


@cli.command()
@STACK
def preflight(stack: str) -> None:
    """Ask AWS, before `pulumi up`, whether the account can carry an environment: types, quotas, versions, names.

    Only reads.

    Exits 0 when no problem was found, 1 when one was, 2 on bad input: settings, credentials.
    """
    from infra.commands.preflight import run  # noqa: PLC0415

    sys.exit(run(ROOT, stack))


@cli.command("teardown-check")
@STACK
@click.option(
    "--to", "folder", type=click.Path(path_type=Path), default=Path("build"), show_default=True, help="For the receipt."
)
def teardown_check(stack: str, folder: Path) -> None:
    """Look for what an environment left in its AWS account, after `pulumi destroy`. Removes nothing.

    Exits 0 when nothing is left over, 1 when something is or when a kind could not be asked, 2 on bad input.
    """
    from infra.commands.teardown_check import run  # noqa: PLC0415

    sys.exit(run(ROOT, stack, folder))


@cli.group()
def image() -> None:
    """The training image, pinned by digest in infra/image.lock.json."""


@image.command("lock")
@click.argument("wanted", metavar="TAG_OR_REFERENCE")
@click.option("--registry", metavar="URL", help="Ask this registry, a mirror, instead of the reference's own.")
@click.option("--inside", multiple=True, metavar="NAME=VERSION", help="What the image itself doesn't say: ray=2.58.0.")
def image_lock(wanted: str, registry: str | None, inside: tuple[str, ...]) -> None:
    """Look an image up and pin its digest. A tag alone is one of AWS's Ray containers."""
    from infra.commands.image import lock  # noqa: PLC0415

    sys.exit(lock(wanted, registry, inside))


@image.command("show")
def image_show() -> None:
    """Print the image that was locked last: digest, size, and the versions inside with their sources."""
    from infra.commands.image import show  # noqa: PLC0415

    sys.exit(show())


@image.command("history")
def image_history() -> None:
    """Print every image that was ever locked, newest first."""
    from infra.commands.image import history  # noqa: PLC0415

    sys.exit(history())


def main() -> None:
    """Says a user's error in one message, without a traceback."""
    try:
        cli(standalone_mode=True)
    except UserError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_USER_ERROR)
    except KeyboardInterrupt:
        sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
