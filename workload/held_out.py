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
FILTER_BITS = 24
FILTER_SHIFT = np.uint64(64 - FILTER_BITS)
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


class _Numbers(dict[str, int]):
    """Words to numbers, in the order in which they are met."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self) + 1
        return number


class _HeldOut:
    """What the held-out documents hold: runs of words, and whole paragraphs that are too short for a run."""

    def __init__(self, documents: Iterable[str]) -> None:
        self._numbers = _Numbers()
        found = [self._runs(document) for document in documents]
        self.runs = np.unique(np.concatenate([*found, np.empty(0, dtype=np.uint64)]))
        self._maybe = np.zeros(1 << FILTER_BITS, dtype=bool)  # most runs are ruled out by one look
        self._maybe[self.runs >> FILTER_SHIFT] = True
        self._short = {_key(part) for document in documents for part in paragraphs(document) if len(part.split()) < RUN_WORDS}

    def shared_runs(self, text: str) -> np.ndarray:
        """The hashes of the text's runs that are held out."""
        hashes = self._runs(text)
        hashes = hashes[self._maybe[hashes >> FILTER_SHIFT]]
        if not len(hashes):
            return hashes
        at = np.minimum(np.searchsorted(self.runs, hashes), len(self.runs) - 1)
        return hashes[self.runs[at] == hashes]

    def cleaned(self, parts: Sequence[str], *, has_shared_runs: bool) -> list[str]:
        """The paragraphs of a document that the held-out ones do not hold; without shared runs, only short ones can go."""

        def holds(part: str) -> bool:
            if len(part.split()) < RUN_WORDS:
                return _key(part) in self._short
            return has_shared_runs and len(self.shared_runs(part)) > 0

        return [part for part in parts if not holds(part)]

    def _runs(self, text: str) -> np.ndarray:
        """A hash of each run of `RUN_WORDS` words: of 1, 2, 4 and 8 words, then 8 + 4 + 1."""
        words = text.split()
        count = len(words) - RUN_WORDS + 1
        if count < 1:
            return np.empty(0, dtype=np.uint64)
        one = np.fromiter(map(self._numbers.__getitem__, words), dtype=np.uint64, count=len(words)) * MULTIPLIER
        one ^= one >> np.uint64(29)
        two = one[:-1] * MULTIPLIER + one[1:]
        four = two[:-2] * MULTIPLIER + two[2:]
        eight = four[:-4] * MULTIPLIER + four[4:]
        hashes = (eight[:count] * MULTIPLIER + four[8 : 8 + count]) * MULTIPLIER + one[12 : 12 + count]
        return hashes ^ (hashes >> np.uint64(31))


def split_documents(documents: Sequence[str], fraction: float, seed: int) -> Split:
    """Holds out whole documents, about `fraction` of the characters, deterministic in seed and content.

    From the training documents goes every paragraph that a held-out one has too, however it is wrapped, and every
    paragraph that shares `RUN_WORDS` words in a row with one. Documents that are the same are kept once.
    """
    unique = _without_duplicates(documents)
    chosen = _choose(unique, fraction, seed)
    held_out = [document for index, document in enumerate(unique) if index in chosen]
    candidates = [document for index, document in enumerate(unique) if index not in chosen]
    guard = _HeldOut(held_out)
    train, paragraphs_removed, characters_removed = [], 0, 0
    shared_before: set[int] = set()
    shared_after: set[int] = set()
    for document in candidates:
        shared = guard.shared_runs(document).tolist()
        shared_before.update(shared)
        parts = paragraphs(document)
        kept = guard.cleaned(parts, has_shared_runs=bool(shared))
        if len(kept) < len(parts):
            document = "\n\n".join(kept)  # noqa: PLW2901 - from here on it is the cleaned one
            shared = guard.shared_runs(document).tolist()
        shared_after.update(shared)
        paragraphs_removed += len(parts) - len(kept)
        characters_removed += sum(map(len, parts)) - sum(map(len, kept))
        train += [document] if kept else []
    total = len(guard.runs)
    return Split(
        train=tuple(train),
        held_out=tuple(held_out),
        duplicate_documents=len(documents) - len(unique),
        paragraphs_removed=paragraphs_removed,
        characters_removed=characters_removed,
        emptied_documents=len(candidates) - len(train),
        overlap=Overlap(
            run_words=RUN_WORDS,
            held_out_runs=total,
            found_in_training=len(shared_after),
            share=len(shared_after) / max(1, total),
            share_before_cleaning=len(shared_before) / max(1, total),
        ),
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
