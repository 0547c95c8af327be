"""`python -m workload`: the one entry point, on a laptop and in a pod."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from pydantic import ValidationError

from workload.errors import EXIT_FAILED, EXIT_USER_ERROR, Problem, UserError
from workload.run_config import RunConfig

CONFIG = click.option(
    "--config", "path", required=True, type=click.Path(path_type=Path), help="The run config, as infra renders it."
)


@click.group(help=__doc__)
def cli() -> None:
    pass


@cli.command()
@CONFIG
def train(path: Path) -> None:
    """Run one run to its end. Exits 0 when it completed, 1 when it failed, 2 on bad input."""
    config = read_config(path)
    from workload.train import train as run  # noqa: PLC0415 - torch and ray take seconds to import

    sys.exit(run(config))


@cli.command()
@CONFIG
def verify(path: Path) -> None:
    """Derive each verdict again from the evidence in the store. Exits 1 when one differs from the record's or is refuted."""
    config = read_config(path)
    from workload.commands.records import verify as check  # noqa: PLC0415

    sys.exit(check(config))


@cli.command()
@CONFIG
def export(path: Path) -> None:
    """Print record and report as one JSON document, e.g. to a pod's log, for whoever cannot reach the store."""
    config = read_config(path)
    from workload.commands.records import export as write  # noqa: PLC0415

    sys.exit(write(config))


def read_config(path: Path) -> RunConfig:
    """Raises `UserError` with every problem of the file."""
    try:
        return RunConfig.from_json(path.read_bytes())
    except OSError as error:
        raise UserError(
            Problem(str(path), "", f"cannot be read ({error.strerror})", "name the file that infra rendered")
        ) from error
    except ValidationError as error:
        problems = (
            Problem(".".join(map(str, e["loc"])), str(e["input"])[:80], e["msg"], f"correct it in {path}")
            for e in error.errors()
        )
        raise UserError(*problems) from error


def main() -> None:
    try:
        cli(standalone_mode=True)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(EXIT_USER_ERROR)
    except KeyboardInterrupt:
        sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
