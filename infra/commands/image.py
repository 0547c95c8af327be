"""`python -m infra image`: pin the training image by digest, and say what is pinned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from infra.image import (
    AWS_REPOSITORY,
    LOCK_FILE,
    ImageLock,
    ImageReference,
    LockEntry,
    check_fixed,
    find,
    is_aws_image,
    parse_reference,
    read_lock,
)
from infra.image_registry import RemoteImage, look_up
from infra.image_releases import AWS_RELEASES, CHANGELOG_SOURCE, minimum_driver
from workload.errors import EXIT_COMPLETED, UserError, bad_input

_REQUIRED = ("ray", "python")
# Labels and environment of the image that say what is inside.
_LABELS = {"framework_version": "ray"}
_ENVIRONMENT = {"CUDA_VERSION": "cuda", "PYTHON_VERSION": "python", "RAY_VERSION": "ray", "PYTORCH_VERSION": "torch"}


def lock(wanted: str, registry: str | None, given: tuple[str, ...], path: Path = LOCK_FILE) -> int:
    """Asks the registry, and adds what it holds to the lock file. Raises: UserError."""
    held = read_lock(path)
    image = parse_reference(wanted if "/" in wanted else f"{AWS_REPOSITORY}:{wanted}", "TAG_OR_REFERENCE")
    problems = check_fixed(image, "TAG_OR_REFERENCE")
    if problems:
        raise UserError(*problems)
    entry = entry_of(image, look_up(image, registry), parse_given(given), datetime.now(UTC))
    before = find(held, replace(image, digest=None) if image.tag else image)
    if before is not None and _content(before) == _content(entry):
        click.echo(f"{image} is locked already, since {before.locked_at}: {before.digest}")
        return EXIT_COMPLETED
    if before is not None and before.digest != entry.digest:
        click.echo(f"warning: {entry.tag} was {before.digest} on {before.locked_at}, and is another image now", err=True)
    write_lock(held.with_entry(entry), path)
    _show_entry(entry)
    return EXIT_COMPLETED


def show(path: Path = LOCK_FILE) -> int:
    """Prints the newest entry with all that is known of it."""
    held = read_lock(path)
    if not held.history:
        raise bad_input(path.name, None, "has no entry", "run: python -m infra image lock TAG")
    _show_entry(held.history[-1])
    return EXIT_COMPLETED


def history(path: Path = LOCK_FILE) -> int:
    """Prints every entry, newest first."""
    held = read_lock(path)
    if not held.history:
        click.echo(f"{path.name} has no entry")
        return EXIT_COMPLETED
    table = Table("locked at", "image", "digest", "ray", "cuda", "efa")
    for entry in reversed(held.history):
        versions = [entry.versions.get(name, "") for name in ("ray", "cuda", "efa")]
        table.add_row(entry.locked_at, entry.name, entry.digest, *versions)
    Console(width=200, soft_wrap=True).print(table)
    return EXIT_COMPLETED


def entry_of(image: ImageReference, remote: RemoteImage, given: Mapping[str, str], now: datetime) -> LockEntry:
    """The entry for what a registry holds. Raises: UserError, when sources differ or a version that we need is missing."""
    versions, sources = _versions(image, remote, given)
    missing = [name for name in _REQUIRED if name not in versions]
    if missing:
        reason = f"neither its labels nor its environment say which {' and '.join(missing)} is inside"
        raise bad_input("image", image, reason, f"say it: --inside {missing[0]}=VERSION")
    return LockEntry(
        repository=image.repository,
        tag=image.tag,
        digest=remote.digest,
        locked_at=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        registry=remote.registry,
        compressed_bytes=remote.compressed_bytes,
        versions=dict(sorted(versions.items())),
        version_sources=dict(sorted(sources.items())),
        minimum_driver=minimum_driver(versions.get("cuda")),
    )


def _versions(image: ImageReference, remote: RemoteImage, given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What the image says of itself, then the release notes, then what was typed; two that differ are refused."""
    versions: dict[str, str] = {}
    sources: dict[str, str] = {}
    labels = {_LABELS[key]: value for key, value in remote.labels.items() if key in _LABELS}
    if remote.labels.get("framework") != "ray":
        labels = {}
    notes = AWS_RELEASES.get(image.tag or "", {}) if is_aws_image(image.repository) else {}
    found = [
        ("the image's labels", labels),
        (
            "the image's environment",
            {_ENVIRONMENT[key]: value for key, value in remote.environment.items() if key in _ENVIRONMENT},
        ),
        (CHANGELOG_SOURCE, notes),
        ("given with --inside", given),
    ]
    for source, values in found:
        for name, value in values.items():
            known = versions.setdefault(name, value)
            if not _agree(known, value):
                reason = f"{name} is {known} by {sources[name]}, and {value} by {source}"
                raise bad_input("image", image, reason, "find out which is right; --inside can only add what is missing")
            sources.setdefault(name, source)
    return versions, sources


def _agree(one: str, other: str) -> bool:
    """3.13 and 3.13.12 agree; 13.0 and 13.1.0 don't."""
    parts = list(zip(one.split("."), other.split("."), strict=False))
    return all(left == right for left, right in parts)


def parse_given(given: tuple[str, ...]) -> dict[str, str]:
    """`ray=2.58.0` and the like. Raises: UserError."""
    versions: dict[str, str] = {}
    for text in given:
        name, _, value = text.partition("=")
        if not name or not value[:1].isdigit():
            raise bad_input("--inside", text, "doesn't have the form NAME=VERSION", "write e.g. ray=2.58.0")
        versions[name] = value
    return versions


def write_lock(lock_: ImageLock, path: Path) -> None:
    """All of it or nothing."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(lock_.to_json(indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


def _content(entry: LockEntry) -> object:
    return entry.digest, entry.versions, entry.minimum_driver


def _show_entry(entry: LockEntry) -> None:
    driver = f"{entry.minimum_driver} or newer" if entry.minimum_driver else "not known"
    click.echo(f"{entry.name}\n  digest   {entry.digest} (linux/amd64)")
    click.echo(f"  locked   {entry.locked_at}, from {entry.registry}")
    click.echo(f"  pulls    {entry.compressed_bytes / 1e9:.1f} GB compressed")
    click.echo(f"  driver   {driver} on the node")
    for name, version in entry.versions.items():
        click.echo(f"  {name:<18} {version:<12} {entry.version_sources.get(name, '')}")
