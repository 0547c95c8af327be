"""Checkpoints as the store holds them: listed, vouched for, hashed. Needs no torch, so that a driver can look cheaply."""

from __future__ import annotations

from pathlib import PurePosixPath

from workload import receipts
from workload.receipts import Found, Marker, NotIntactError, StoredFile
from workload.store import Store


def found_checkpoints(store: Store, folder: str) -> list[Found]:
    """All checkpoint folders, newest first, with their files' sizes."""
    found = [
        Found(name, {PurePosixPath(f.path).name: f.size for f in store.files(f"{folder}/{name}")})
        for name in store.folders(folder)
    ]
    return receipts.newest_first(found)


def vouched_files(store: Store, folder: str, found: Found) -> tuple[Marker, list[StoredFile]]:
    """The marker and the files it vouches for. Raises `NotIntactError`. Reads marker and receipts, not the shards."""
    if receipts.MARKER not in found.sizes:
        raise NotIntactError("it was never completed", was_complete=False)
    marker = receipts.read_marker(store.read(f"{folder}/{found.folder}/{receipts.MARKER}"))
    notes = {name: store.read(f"{folder}/{found.folder}/{name}") for name in marker.receipts if name in found.sizes}
    return marker, receipts.expected_files(found, marker, notes)


def check_hashes(store: Store, folder: str, found: Found, files: list[StoredFile]) -> None:
    """Reads `files` whole. Raises `NotIntactError` for the first whose bytes are not what was vouched for."""
    for file in files:
        if store.sha256(f"{folder}/{found.folder}/{file.name}") != file.sha256:
            raise NotIntactError(f"{file.name} is damaged (hash differs)", was_complete=True)
