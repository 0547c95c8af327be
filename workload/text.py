"""The text source: reads its documents, and refuses bad files by line. A text is held in memory whole."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

from workload.errors import Problem, UserError, bad_input
from workload.run_config import PythonDocs, TextFiles

BLANK_LINE = re.compile(r"\n\s*\n")
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class SourceText:
    """Documents in source order, without empty ones; `sha256` is over their content and borders."""

    documents: tuple[str, ...]
    empty_documents: int
    sha256: str


def read_source(text: PythonDocs | TextFiles) -> SourceText:
    """All documents of the source.

    Raises:
        UserError: one problem for each file that can't be used.
    """
    if isinstance(text, PythonDocs):
        found = [topics[name] for name in sorted(topics)]
    else:
        found = [part for content in _read_files(text.paths) for part in content.split(text.document_separator)]
    documents = tuple(document for document in found if document.strip())
    return SourceText(documents, len(found) - len(documents), content_hash(documents))


def content_hash(documents: Iterable[str]) -> str:
    """SHA-256 over length-prefixed documents, so that moving a border changes it."""
    digest = hashlib.sha256()
    for document in documents:
        data = document.encode()
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def normalised(text: str) -> str:
    """One space between words: what makes two paragraphs the same however they are wrapped."""
    return " ".join(text.split())


def paragraphs(document: str) -> list[str]:
    return [part for part in BLANK_LINE.split(document) if part.strip()]


def _read_files(paths: Iterable[str]) -> list[str]:
    contents: list[str] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            contents.append(_read_file(Path(path)))
        except UserError as error:
            problems += error.problems
    if problems:
        raise UserError(*problems)
    return contents


def _read_file(path: Path) -> str:
    """The file's text with `\\n` line ends and without a byte order mark."""
    data = _read_bytes(path)
    if data.startswith(UTF16_MARKS):
        raise bad_input(f"{path}:1", data[:2].hex(), "the file is UTF-16, not UTF-8", f"iconv -f UTF-16 -t UTF-8 {path}")
    if (at := data.find(b"\0")) >= 0:
        raise _bad_byte(path, data, at, "a NUL byte: the file is binary, not text", "name a text file")
    try:
        text = data.removeprefix(UTF8_MARK).decode("utf-8")
    except UnicodeDecodeError as error:
        at = error.start + (len(UTF8_MARK) if data.startswith(UTF8_MARK) else 0)
        raise _bad_byte(path, data, at, f"not UTF-8 ({error.reason})", f"iconv -f LATIN1 -t UTF-8 {path}") from None
    if not text.strip():
        raise bad_input(str(path), f"{len(data)} bytes", "the file is empty", "name a file with text, or leave it out")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise bad_input(str(path), None, "is a folder, not a file", "name the text files in it")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise bad_input(str(path), None, "the file does not exist", "correct training.data.text.paths") from None
    except OSError as error:
        raise bad_input(str(path), None, f"can't be read: {error.strerror}", "make it readable for this user") from None


def _bad_byte(path: Path, data: bytes, at: int, reason: str, fix: str) -> UserError:
    line = data.count(b"\n", 0, at) + 1
    return UserError(Problem(f"{path}:{line}", f"byte 0x{data[at]:02x} at offset {at}", reason, fix))
