"""A prepared folder, read: its manifest, its sequences by number, the order in which training visits them.

Sequence i is tokens [i*L, i*L + L] of its file: L inputs, and L labels that are the inputs shifted by one.
Knows nothing of Ray, and nothing of how the folder came about.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import ValidationError
from tokenizers import Tokenizer

from workload.held_out import Overlap
from workload.record import DataSummary
from workload.run_config import RunConfig, Section
from workload.text import normalised, paragraphs, read_source
from workload.tokens import TokenStatistics

MANIFEST, TOKENIZER = "manifest.json", "tokenizer.json"

SplitName = Literal["train", "heldout"]


class DataDamagedError(RuntimeError):
    """A prepared folder is incomplete or does not hold what its manifest says. Preparing again mends it."""


class TokenFile(Section):
    """One side of the split as a file of little-endian tokens; the rest after the last whole sequence is not used."""

    name: str
    documents: int
    characters: int
    tokens: int
    sequences: int
    sha256: str


class Manifest(Section):
    """What a prepared folder holds and how it came about. The folder is complete exactly when this file is there."""

    schema_version: Literal[1]
    fingerprint: str
    source: str
    text_sha256: str
    documents: int
    empty_documents: int
    duplicate_documents: int
    emptied_documents: int
    paragraphs_removed: int
    characters_removed: int
    overlap: Overlap
    tokenizer_sha256: str
    vocabulary: int
    end_of_text: int
    dtype: Literal["<u2", "<u4"]
    sequence_length: int
    train: TokenFile
    held_out: TokenFile
    statistics: TokenStatistics

    def file(self, split: SplitName) -> TokenFile:
        return self.train if split == "train" else self.held_out

    def summary(self) -> DataSummary:
        return DataSummary(
            source=self.source,
            documents=self.documents,
            held_out_documents=self.held_out.documents,
            train_tokens=self.train.tokens,
            held_out_tokens=self.held_out.tokens,
            duplicates_removed=self.duplicate_documents + self.paragraphs_removed,
            sha256=self.text_sha256,
            vocabulary=self.vocabulary,
        )


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a prepared folder, after a cheap look at the files' sizes.

    Raises:
        DataDamagedError: the folder is incomplete, or its files do not have the sizes that were written.
    """
    try:
        manifest = Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise DataDamagedError(f"{folder} is not prepared: it has no {MANIFEST}") from None
    except ValidationError as error:
        raise DataDamagedError(f"{folder / MANIFEST} is damaged: {error.errors()[0]['msg']}") from None
    for file in (manifest.train, manifest.held_out):
        expected = file.tokens * np.dtype(manifest.dtype).itemsize
        path = folder / file.name
        actual = path.stat().st_size if path.is_file() else None
        if actual != expected:
            raise DataDamagedError(f"{path} has {'no' if actual is None else actual} bytes, {MANIFEST} says {expected}")
    return manifest


def verify(folder: Path) -> Manifest:
    """Reads every byte again and compares the hashes with the manifest.

    Raises:
        DataDamagedError: naming the first file that differs.
    """
    manifest = read_manifest(folder)
    expected = {file.name: file.sha256 for file in (manifest.train, manifest.held_out)} | {TOKENIZER: manifest.tokenizer_sha256}
    for name, sha256 in expected.items():
        path = folder / name
        if not path.is_file():
            raise DataDamagedError(f"{path} is missing")
        with path.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != sha256:
                raise DataDamagedError(f"{path} does not have the hash in {MANIFEST}")
    return manifest


def load_tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.from_str((folder / TOKENIZER).read_text(encoding="utf-8"))


class Sequences:
    """The sequences of one side of a prepared folder, read from disk when asked for."""

    def __init__(self, folder: Path, split: SplitName) -> None:
        self.manifest = read_manifest(folder)
        self._length = self.manifest.sequence_length
        self._count = self.manifest.file(split).sequences
        self._tokens = np.memmap(folder / self.manifest.file(split).name, dtype=self.manifest.dtype, mode="r")

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and labels, int64, both of the manifest's sequence length."""
        if not 0 <= index < self._count:
            raise IndexError(f"sequence {index} of {self._count}")
        start = index * self._length
        window = np.array(self._tokens[start : start + self._length + 1], dtype=np.int64)
        return window[:-1], window[1:]


class TrainOrder:
    """Which sequence is trained on at which position: each one once per epoch, each epoch in its own order.

    A position counts sequences since the run's start, over all workers: one integer says where a run stands, whatever
    the number of workers before and after a restart.
    """

    def __init__(self, num_sequences: int, seed: int) -> None:
        if num_sequences < 1:
            raise ValueError(f"num_sequences is {num_sequences}; there is nothing to order")
        self._num_sequences, self._seed = num_sequences, seed
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def sequence_at(self, position: int) -> int:
        epoch, index = divmod(position, self._num_sequences)
        if epoch < 0:
            raise IndexError(f"position {position} is before the run's start")
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._permutation(epoch)
        return int(self._order[index])

    def _permutation(self, epoch: int) -> np.ndarray:
        # Sorted raw draws: numpy keeps a bit generator's stream for ever, Generator.permutation's only within a version.
        draws = np.random.PCG64(np.random.SeedSequence(self._seed, spawn_key=(epoch,))).random_raw(self._num_sequences)
        return np.argsort(draws, kind="stable")


class DecodeProof(Section):
    """Training sequences turned back into text and looked up in the source. `problem` is empty when all were found."""

    sequences: tuple[int, ...]
    characters: int
    problem: str
    sample: str


def decode_matches(folder: Path, config: RunConfig, indices: Iterable[int]) -> DecodeProof:
    """Decodes training sequences; every paragraph in them must be found in the source text, word by word."""
    train, tokenizer = Sequences(folder, "train"), load_tokenizer(folder)
    haystack = normalised("\n\n".join(read_source(config.training.data.text).documents))
    chosen, characters, problem, sample = tuple(indices), 0, "", ""
    for index in chosen:
        inputs, _ = train[index]
        found = _decoded_parts(tokenizer, inputs, train.manifest.end_of_text)
        characters += sum(map(len, found))
        sample = sample or max(found, key=len, default="")[:200]
        missing = next((part for part in found if part not in haystack), None)
        if missing is not None and not problem:
            problem = f"sequence {index}: not in the source: {missing[:80]!r}"
    return DecodeProof(sequences=chosen, characters=characters, problem=problem, sample=sample)


def _decoded_parts(tokenizer: Tokenizer, tokens: np.ndarray, end_of_text: int) -> list[str]:
    """The paragraphs of a sequence, one space between words; half characters at its ends are left out."""
    borders = np.flatnonzero(tokens == end_of_text)
    texts = [tokenizer.decode(part[part != end_of_text].tolist()) for part in np.split(tokens, borders)]
    parts = [normalised(part) for text in texts for part in paragraphs(text.strip("\ufffd"))]
    return [part for part in parts if part]
