"""The tokenizer (trained here or read from a folder), documents to tokens, and numbers that tell text from noise."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from workload.errors import UserError, bad_input
from workload.run_config import HuggingFaceFolder, Section, TrainedTokenizer

END_OF_TEXT = "<|endoftext|>"
TOKENIZER_FILES = ("tokenizer*", "vocab*", "merges*", "special_tokens_map.json", "added_tokens.json", "*.model")
PIECE_CHARACTERS = 1 << 20  # a longer document is encoded in pieces: an encoding takes some 100 bytes for each token
BATCH_CHARACTERS = 4 << 20
STATISTICS_TOKENS = 1 << 21
STATISTICS_CHARACTERS = 1 << 23

Tokens = np.ndarray[tuple[int], np.dtype[np.uint32]]


class TokenStatistics(Section):
    """Bits per token over the first `tokens` training tokens, and how well the training text compresses.

    Noise has a unigram entropy near `maximumBits` and the same bigram entropy shuffled or not; English text compresses
    to about a third, and its bigram entropy is far below that of its own tokens shuffled.
    """

    tokens: int
    maximum_bits: float
    unigram_bits: float
    bigram_bits: float
    bigram_bits_shuffled: float
    compressed_share: float


def load_or_train(config: TrainedTokenizer | HuggingFaceFolder, documents: Sequence[str]) -> tuple[Tokenizer, int]:
    """The tokenizer and the id of its end-of-text token; training sees `documents` only.

    Raises:
        UserError: the folder holds no tokenizer that loads, or none with an end of text.
    """
    if isinstance(config, HuggingFaceFolder):
        return _load(Path(config.path))
    tokenizer = Tokenizer(BPE(byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=config.vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_pieces(documents), trainer)
    return tokenizer, tokenizer.token_to_id(END_OF_TEXT)


def folder_hash(folder: Path) -> str:
    """SHA-256 over the names and bytes of a tokenizer's files; weights beside them don't count."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in TOKENIZER_FILES for path in folder.glob(pattern) if path.is_file()}):
        data = path.read_bytes()
        digest.update(f"{path.name}:{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def encode(tokenizer: Tokenizer, end_of_text: int, documents: Iterable[str]) -> Iterator[Tokens]:
    """Each document's tokens, then end of text, in order and in arrays of about a million tokens.

    A special token that is spelled out in a document is text like any other, never an instruction to the model.
    """
    tokenizer.encode_special_tokens = True
    for batch in _batches(documents):
        found = tokenizer.encode_batch_fast([piece for piece, _ in batch], add_special_tokens=False)
        for encoding, (_, is_last) in zip(found, batch, strict=True):
            yield np.array(encoding.ids + [end_of_text] * is_last, dtype=np.uint32)


def statistics(tokens: Tokens, documents: Iterable[str], vocabulary: int) -> TokenStatistics:
    sample = np.asarray(tokens[:STATISTICS_TOKENS], dtype=np.int64)
    shuffled = np.random.Generator(np.random.PCG64(0)).permutation(sample)
    text = "\n\n".join(documents)[:STATISTICS_CHARACTERS].encode()
    return TokenStatistics(
        tokens=len(sample),
        maximum_bits=float(np.log2(vocabulary)),
        unigram_bits=_entropy_bits(sample),
        bigram_bits=_bigram_bits(sample, vocabulary),
        bigram_bits_shuffled=_bigram_bits(shuffled, vocabulary),
        compressed_share=len(zlib.compress(text, 6)) / max(1, len(text)),
    )


def _entropy_bits(values: np.ndarray) -> float:
    _, counts = np.unique(values, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def _bigram_bits(tokens: np.ndarray, vocabulary: int) -> float:
    """Entropy of a token given the one before it."""
    return _entropy_bits(tokens[:-1] * vocabulary + tokens[1:]) - _entropy_bits(tokens[:-1])


def _load(folder: Path) -> tuple[Tokenizer, int]:
    # transformers takes seconds to import; a run that trains its own tokenizer never waits for it.
    from transformers import AutoTokenizer  # noqa: PLC0415

    fix = "name a folder that `save_pretrained` wrote: tokenizer.json, tokenizer_config.json"
    if not folder.is_dir():
        raise _refused(folder, "the folder does not exist", fix)
    try:
        loaded = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # the library raises a plain Exception for a damaged file
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise _refused(folder, f"the tokenizer does not load: {reason}", fix) from error
    if not loaded.is_fast:
        raise _refused(folder, "the tokenizer has no tokenizer.json", fix)
    tokenizer: Tokenizer = loaded.backend_tokenizer
    end_of_text = tokenizer.token_to_id(END_OF_TEXT)
    if end_of_text is None:
        end_of_text = loaded.eos_token_id
    if end_of_text is None:
        raise _refused(folder, "the tokenizer has no end-of-text token", "set eos_token in tokenizer_config.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, int(end_of_text)


def _refused(folder: Path, reason: str, fix: str) -> UserError:
    return bad_input(str(folder), None, reason, fix)


def _pieces(documents: Iterable[str]) -> Iterator[str]:
    return (piece for document in documents for piece, _ in _cut(document))


def _cut(document: str) -> Iterator[tuple[str, bool]]:
    """Pieces of at most `PIECE_CHARACTERS`, cut before a line end where there is one; True on the last."""
    start = 0
    while len(document) - start > PIECE_CHARACTERS:
        end = start + PIECE_CHARACTERS
        cut = document.rfind("\n", start + 1, end)
        end = cut if cut > start else end
        yield document[start:end], False
        start = end
    yield document[start:], True


def _batches(documents: Iterable[str]) -> Iterator[list[tuple[str, bool]]]:
    batch: list[tuple[str, bool]] = []
    size = 0
    for document in documents:
        for piece in _cut(document):
            batch.append(piece)
            size += len(piece[0])
            if size >= BATCH_CHARACTERS:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch
