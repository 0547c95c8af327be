"""Text to training sequences, prepared once, before any worker starts, into two token files and a manifest.

A prepared folder holds tokenizer.json, train.bin, heldout.bin and, written last, manifest.json. Its bytes depend on
settings, seed and content alone, never on the number of workers. `workload.sequences` reads it. Knows nothing of Ray.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from tokenizers import Tokenizer

from workload.errors import Problem, UserError, bad_input
from workload.held_out import Split, split_documents
from workload.run_config import HuggingFaceFolder, PythonDocs, RunConfig, fingerprint
from workload.sequences import (
    MANIFEST,
    TOKENIZER,
    DataDamagedError,
    DecodeProof,
    Manifest,
    Sequences,
    TokenFile,
    TrainOrder,
    decode_matches,
    load_tokenizer,
    read_manifest,
    verify,
)
from workload.text import SourceText, read_source
from workload.tokens import encode, folder_hash, load_or_train, statistics

__all__ = [
    "DataDamagedError",
    "DecodeProof",
    "Manifest",
    "Sequences",
    "TrainOrder",
    "decode_matches",
    "load_tokenizer",
    "prepare",
    "read_manifest",
    "verify",
]

FORMAT = "1"  # raised when the same settings and text would give other bytes
PROGRESS_SECONDS = 2.0

Progress = Callable[[str], None]


def prepare(config: RunConfig, folder: Path, progress: Progress) -> Manifest:
    """Prepares `folder`, or reuses it when it is complete, intact and made of the same settings and text.

    Raises:
        UserError: the text, the tokenizer or the amount of text can't be used; nothing has been created.
    """
    progress("reading the text")
    source = read_source(config.training.data.text)
    identity = _fingerprint(config, source)
    manifest = _reusable(folder, identity, progress)
    if manifest:
        _check_amounts(config, manifest)
        progress(f"data is prepared: {manifest.train.tokens:,} training tokens")
        return manifest
    return _build(config, source, identity, folder, progress)


def _fingerprint(config: RunConfig, source: SourceText) -> str:
    training = config.training
    tokenizer = training.tokenizer
    files = folder_hash(Path(tokenizer.path)) if isinstance(tokenizer, HuggingFaceFolder) else ""
    return fingerprint(FORMAT, str(training.seed), training.data.to_json(), tokenizer.to_json(), files, source.sha256)


def _reusable(folder: Path, identity: str, progress: Progress) -> Manifest | None:
    if not (folder / MANIFEST).is_file():
        return None
    try:
        manifest = verify(folder)
    except DataDamagedError as error:
        progress(f"preparing again: {error}")
        return None
    if manifest.fingerprint != identity:
        progress("preparing again: settings or text have changed")
        return None
    return manifest


def _build(config: RunConfig, source: SourceText, identity: str, folder: Path, progress: Progress) -> Manifest:
    training = config.training
    progress(f"splitting {len(source.documents):,} documents")
    split = split_documents(source.documents, training.data.held_out_fraction, training.seed)
    _check_split(config, source, split)
    progress(f"tokenizer over {sum(map(len, split.train)):,} characters")
    tokenizer, end_of_text = load_or_train(training.tokenizer, split.train)
    saved = tokenizer.to_str(pretty=True).encode()
    vocabulary = max(tokenizer.get_vocab().values()) + 1
    dtype: Literal["<u2", "<u4"] = "<u2" if vocabulary < 1 << 16 else "<u4"
    arrays = {
        name: _tokens(name, documents, tokenizer, end_of_text, progress).astype(dtype)
        for name, documents in (("train.bin", split.train), ("heldout.bin", split.held_out))
    }
    length = training.data.sequence_length
    manifest = Manifest(
        schema_version=1,
        fingerprint=identity,
        source=_source_name(config),
        text_sha256=source.sha256,
        documents=len(source.documents),
        empty_documents=source.empty_documents,
        duplicate_documents=split.duplicate_documents,
        emptied_documents=split.emptied_documents,
        paragraphs_removed=split.paragraphs_removed,
        characters_removed=split.characters_removed,
        overlap=split.overlap,
        tokenizer_sha256=hashlib.sha256(saved).hexdigest(),
        vocabulary=vocabulary,
        end_of_text=end_of_text,
        dtype=dtype,
        sequence_length=length,
        train=_token_file("train.bin", split.train, arrays["train.bin"], length),
        held_out=_token_file("heldout.bin", split.held_out, arrays["heldout.bin"], length),
        statistics=statistics(arrays["train.bin"], split.train, vocabulary),
    )
    _check_amounts(config, manifest)
    _write_folder(folder, {TOKENIZER: saved} | {name: array.tobytes() for name, array in arrays.items()}, manifest)
    progress(f"data is prepared: {manifest.train.tokens:,} training tokens")
    return manifest


def _tokens(name: str, documents: tuple[str, ...], tokenizer: Tokenizer, end_of_text: int, progress: Progress) -> np.ndarray:
    progress(f"tokens of {len(documents):,} documents for {name}")
    arrays, count, said = [], 0, time.monotonic()
    for tokens in encode(tokenizer, end_of_text, documents):
        arrays.append(tokens)
        count += len(tokens)
        if time.monotonic() - said >= PROGRESS_SECONDS:
            progress(f"{name}: {count:,} tokens")
            said = time.monotonic()
    return np.concatenate(arrays)


def _token_file(name: str, documents: tuple[str, ...], tokens: np.ndarray, length: int) -> TokenFile:
    return TokenFile(
        name=name,
        documents=len(documents),
        characters=sum(map(len, documents)),
        tokens=len(tokens),
        sequences=(len(tokens) - 1) // length,
        sha256=hashlib.sha256(tokens.tobytes()).hexdigest(),
    )


def _write_folder(folder: Path, files: dict[str, bytes], manifest: Manifest) -> None:
    """The old manifest goes first and the new one comes last, so that a killed write never looks complete."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    for name, data in (files | {MANIFEST: manifest.to_json(indent=2).encode()}).items():
        partial = folder / f"{name}.partial"
        with partial.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(folder / name)


def _source_name(config: RunConfig) -> str:
    text = config.training.data.text
    return text.source if isinstance(text, PythonDocs) else ", ".join(text.paths)


def _check_split(config: RunConfig, source: SourceText, split: Split) -> None:
    where, fraction = _source_name(config), config.training.data.held_out_fraction
    if not split.held_out:
        raise bad_input(
            where,
            f"{len(source.documents)} document",
            "there are too few documents to hold one out",
            "give more documents, or a documentSeparator that occurs in the text",
        )
    if not split.train:
        raise bad_input(
            where,
            f"heldOutFraction {fraction}",
            "nothing is left to train on once the held-out text is taken away",
            "hold out less, or give more documents",
        )


def _check_amounts(config: RunConfig, manifest: Manifest) -> None:
    """Enough for one evaluation batch and for one global batch; both are said at once."""
    length, batch = manifest.sequence_length, config.training.schedule.global_batch_sequences
    evaluation = max(2, config.workers.count)
    fix = "give more text, or shorten training.data.sequenceLength"
    needs = (
        ("held-out", manifest.held_out, evaluation, "one evaluation batch", f"{fix}, or raise training.data.heldOutFraction"),
        ("training", manifest.train, batch, "one global batch", f"{fix}, or lower globalBatchSequences"),
    )
    problems = [
        Problem(
            manifest.source,
            f"{file.tokens:,} {side} tokens",
            f"too short for {purpose}: {needed} sequences of {length} tokens need {needed * length + 1:,} tokens",
            remedy,
        )
        for side, file, needed, purpose, remedy in needs
        if file.sequences < needed
    ]
    if problems:
        raise UserError(*problems)
