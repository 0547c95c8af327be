"""What makes a checkpoint complete: receipts, marker, and the judgement over both. Pure: no I/O, no torch.

A checkpoint's folder holds the files of torch.distributed.checkpoint, one receipt for each rank (names, sizes and hashes
of what that rank wrote), and a marker that rank 0 writes last, when all receipts are there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from workload.run_config import Section

MARKER = "COMPLETE.json"
FOLDER_PATTERN = re.compile(r"^step-(\d{8})-attempt-(\d{4})$")


class StoredFile(Section):
    name: str
    size: int
    sha256: str


class Receipt(Section):
    """One rank's word for what it wrote into the checkpoint's folder, after reading it back."""

    schema_version: Literal[1]
    rank: int
    step: int
    attempt: int
    files: tuple[StoredFile, ...]


class Digest(Section):
    """Sums over the whole state as float hex: equal sums after a restore say that nothing was zeroed or misplaced."""

    parameters: str
    first_moments: str
    second_moments: str


class Marker(Section):
    """Written last. `compatibility` names what must not change under a run: see `incompatibilities`."""

    schema_version: Literal[1]
    step: int
    attempt: int
    position: int  # sequences consumed since the run's start
    layout: str  # how the state was spread, e.g. "full over 2 workers": sums are equal to the last bit in the same one only
    tensors: int
    digest: Digest
    compatibility: dict[str, str]
    receipts: dict[str, str]  # receipt's file name -> SHA-256 of its bytes
    identity: str

    def seal(self) -> bytes:
        """The marker's bytes: its JSON and a hash of it, so that a damaged marker is seen as damaged."""
        body = self.to_json()
        return json.dumps({"marker": body, "sha256": hashlib.sha256(body.encode()).hexdigest()}).encode()


@dataclass(frozen=True)
class Found:
    """A checkpoint's folder as the store has it: name and file sizes."""

    folder: str
    sizes: Mapping[str, int]

    @property
    def step_and_attempt(self) -> tuple[int, int] | None:
        match = FOLDER_PATTERN.match(self.folder)
        return (int(match[1]), int(match[2])) if match else None


class NotIntactError(Exception):
    """Why a checkpoint cannot be used, in one line. `was_complete`: it had a marker, so something damaged it."""

    def __init__(self, reason: str, was_complete: bool) -> None:  # by position: unpickling does so
        super().__init__(reason, was_complete)
        self.reason = reason
        self.was_complete = was_complete

    def __str__(self) -> str:
        return self.reason


def folder_name(step: int, attempt: int) -> str:
    """Unique for each attempt: a redone step never writes into what an earlier attempt left half done."""
    return f"step-{step:08d}-attempt-{attempt:04d}"


def receipt_name(rank: int) -> str:
    return f"receipt-{rank:05d}.json"


def newest_first(found: Iterable[Found]) -> list[Found]:
    """Checkpoint folders by step, then attempt, newest first; folders with other names are nobody's checkpoint."""
    named = [(f.step_and_attempt, f) for f in found]
    return [f for key, f in sorted(((k, f) for k, f in named if k), key=lambda pair: pair[0], reverse=True)]


def read_marker(data: bytes) -> Marker:
    """Raises `NotIntactError` for a marker that is not what was sealed."""
    try:
        outer = json.loads(data)
        body = outer["marker"]
        if hashlib.sha256(body.encode()).hexdigest() != outer["sha256"]:
            raise NotIntactError("its marker is damaged (hash differs)", was_complete=True)
        return Marker.model_validate_json(body)
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise NotIntactError("its marker is damaged (not readable)", was_complete=True) from error


def expected_files(found: Found, marker: Marker, receipts: Mapping[str, bytes]) -> list[StoredFile]:
    """All files that the marker's receipts vouch for, their sizes checked against the store.

    Raises `NotIntactError` naming the first contradiction. Hashes of the files are for the caller, who can read them.
    """
    files: list[StoredFile] = []
    for name, sha256 in sorted(marker.receipts.items()):
        if name not in receipts:
            raise NotIntactError(f"{name} is missing", was_complete=True)
        if hashlib.sha256(receipts[name]).hexdigest() != sha256:
            raise NotIntactError(f"{name} is damaged (hash differs)", was_complete=True)
        files += Receipt.model_validate_json(receipts[name]).files
    for file in files:
        size = found.sizes.get(file.name)
        if size is None:
            raise NotIntactError(f"{file.name} is missing", was_complete=True)
        if size != file.size:
            raise NotIntactError(f"{file.name} has {size} bytes, not {file.size}", was_complete=True)
    if ".metadata" not in {file.name for file in files}:
        raise NotIntactError("no receipt names .metadata", was_complete=True)
    return files


def incompatibilities(then: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(settings key, value then, value now) of all that changed and must not: old weights would not mean the same."""
    return [(key, then.get(key, "(absent)"), value) for key, value in sorted(now.items()) if then.get(key) != value]


def to_prune(folders: Iterable[Found], complete: Iterable[str], keep: int, newest: str) -> list[str]:
    """What may go once `newest` has been verified: complete ones beyond the `keep` newest, and older leftovers.

    Nothing newer than or equal to `newest` is touched, so a save in progress is safe.
    """
    order = [f.folder for f in newest_first(folders)]
    older = order[order.index(newest) + 1 :] if newest in order else []
    kept = [folder for folder in order if folder in set(complete)][:keep]
    return [folder for folder in older if folder not in kept]
