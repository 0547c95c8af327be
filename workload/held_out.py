"""The held-out split: whole documents, and a training side that is cleaned of what they hold.

Documents contain each other (the Python documentation's topic on compound statements holds those on `if` and `while`),
so a split by document alone leaks. Every step is linear in the text's size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from workload.run_config import Section
from workload.text import normalised, paragraphs

RUN_WORDS = 13  # the length at which GPT-3's authors called an overlap contamination (arXiv 2005.14165, appendix C)
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Overlap(Section):
    """Runs of `runWords` words in held-out documents, and how many of them the training documents hold after cleaning.

    Measured over whole documents, so that a run across two paragraphs counts too.
    """

    run_words: int
    held_out_runs: int
    found_in_training: int
    share: float
    share_before_cleaning: float


@dataclass(frozen=True)
class Split:
    """Both sides in source order, and what was taken away so that no held-out text is trained on."""

    train: tuple[str, ...]
    held_out: tuple[str, ...]
    duplicate_documents: int
    paragraphs_removed: int
    characters_removed: int
    emptied_documents: int
    overlap: Overlap


class _WordRuns:
    """Hashes of all runs of `RUN_WORDS` words in a text."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def of(self, text: str) -> np.ndarray:
        words = text.split()
        count = len(words) - RUN_WORDS + 1
        if count < 1:
            return np.empty(0, dtype=np.uint64)
        ids = self._ids
        values = np.fromiter((ids.setdefault(word, len(ids) + 1) for word in words), dtype=np.uint64, count=len(words))
        values *= MULTIPLIER
        values ^= values >> np.uint64(29)
        hashes = np.zeros(count, dtype=np.uint64)
        for start in range(RUN_WORDS):
            hashes = hashes * MULTIPLIER + values[start : start + count]
        return hashes


def split_documents(documents: Sequence[str], fraction: float, seed: int) -> Split:
    """Holds out whole documents, about `fraction` of the characters, deterministic in seed and content.

    From the training documents goes every paragraph that a held-out one has too, however it is wrapped, and every
    paragraph that shares `RUN_WORDS` words in a row with one. Documents that are the same are kept once.
    """
    unique = _without_duplicates(documents)
    chosen = _choose(unique, fraction, seed)
    held_out = [document for index, document in enumerate(unique) if index in chosen]
    candidates = [document for index, document in enumerate(unique) if index not in chosen]
    runs = _WordRuns()
    held_out_runs = np.unique(np.concatenate([runs.of(document) for document in held_out] or [np.empty(0, np.uint64)]))
    held_out_keys = {_key(part) for document in held_out for part in paragraphs(document)}

    train, paragraphs_removed, characters_removed = [], 0, 0
    for document in candidates:
        parts = paragraphs(document)
        kept = [part for part in parts if _key(part) not in held_out_keys and not _shares(runs.of(part), held_out_runs)]
        paragraphs_removed += len(parts) - len(kept)
        characters_removed += sum(map(len, parts)) - sum(map(len, kept))
        if kept:
            train.append(document if len(kept) == len(parts) else "\n\n".join(kept))
    return Split(
        train=tuple(train),
        held_out=tuple(held_out),
        duplicate_documents=len(documents) - len(unique),
        paragraphs_removed=paragraphs_removed,
        characters_removed=characters_removed,
        emptied_documents=len(candidates) - len(train),
        overlap=_overlap(runs, held_out_runs, candidates, train),
    )


def _key(text: str) -> bytes:
    return hashlib.blake2b(normalised(text).encode(), digest_size=16).digest()


def _without_duplicates(documents: Iterable[str]) -> list[str]:
    first: dict[bytes, str] = {}
    for document in documents:
        first.setdefault(_key(document), document)
    return list(first.values())


def _choose(documents: Sequence[str], fraction: float, seed: int) -> set[int]:
    """Indices in the order of a seeded hash of each content, as long as they fit; the shortest one when none fits.

    One that would overshoot the share is passed over, so that a long document does not take the place of many.
    """
    target = fraction * sum(map(len, documents))
    ranks = [hashlib.blake2b(_key(document), key=str(seed).encode()[:64]).digest() for document in documents]
    chosen: set[int] = set()
    taken = 0
    for index in sorted(range(len(documents)), key=ranks.__getitem__):
        if taken + len(documents[index]) <= target:
            chosen.add(index)
            taken += len(documents[index])
    if not chosen and len(documents) > 1:
        chosen.add(min(range(len(documents)), key=lambda index: (len(documents[index]), ranks[index])))
    return chosen


def _found(hashes: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Which of `hashes` are in `among`, which is sorted."""
    if not len(among):
        return np.zeros(len(hashes), dtype=bool)
    return among[np.minimum(np.searchsorted(among, hashes), len(among) - 1)] == hashes


def _shares(hashes: np.ndarray, among: np.ndarray) -> bool:
    return len(hashes) > 0 and bool(_found(hashes, among).any())


def _overlap(runs: _WordRuns, held_out_runs: np.ndarray, before: Iterable[str], after: Iterable[str]) -> Overlap:
    counts = [len({value for document in side for value in _hits(runs, document, held_out_runs)}) for side in (before, after)]
    total = len(held_out_runs)
    return Overlap(
        run_words=RUN_WORDS,
        held_out_runs=total,
        found_in_training=counts[1],
        share=counts[1] / max(1, total),
        share_before_cleaning=counts[0] / max(1, total),
    )


def _hits(runs: _WordRuns, document: str, held_out_runs: np.ndarray) -> list[int]:
    hashes = runs.of(document)
    return hashes[_found(hashes, held_out_runs)].tolist()
