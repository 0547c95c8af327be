"""The store: where checkpoints, evidence and records live. One class hides the kind of storage from the rest.

Every write is whole or absent: written beside its place, flushed to disk, then moved there. Paths are relative to the
store's root, with "/" between parts, whatever the kind.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from workload.errors import bad_input
from workload.run_config import StoreConfig

BLOCK_BYTES = 8 * 2**20
RETRIES = 3
RETRY_SECONDS = 0.5


@dataclass(frozen=True)
class Stored:
    """One file as the store has it."""

    path: str
    size: int


class Store:
    """Files under one root on a file system that all workers and the driver share.

    Raises `OSError` when an operation still fails after `RETRIES` tries: one flaky answer of a network disk must not end
    a run that has cost hours.
    """

    def __init__(self, config: StoreConfig) -> None:
        self.root = config.path.rstrip("/")
        self._root_files = fs.LocalFileSystem()
        self._files = fs.SubTreeFileSystem(self.root, self._root_files)

    def local_path(self, path: str) -> Path:
        """Where a file of the store lies on this machine's file system (every kind so far is mounted)."""
        return Path(self.root) / path

    def check_writable(self) -> None:
        """Raises `UserError` unless a file can be written, read back and deleted."""
        probe = f".probe-{uuid.uuid4().hex}"
        try:
            self.write(probe, b"probe")
            if self.read(probe) != b"probe":
                raise OSError("what was written could not be read back")
            self.delete_file(probe)
        except OSError as error:
            raise bad_input(
                "store.path",
                self.root,
                f"cannot be written ({error.strerror or error})",
                "name a folder that this user may write, on a file system shared by head and workers",
            ) from error

    def write(self, path: str, data: bytes) -> None:
        def put() -> None:
            temporary = self._temporary(path)
            with self._files.open_output_stream(temporary) as stream:
                stream.write(data)
            self._publish(temporary, path)

        _retry(put)

    def upload(self, source: Path, path: str) -> str:
        """Copies a local file to `path`, then reads the copy back; returns its SHA-256, hex.

        Raises `OSError` when the copy differs from the source: a silent short write must not become a checkpoint.
        """

        def put() -> str:
            temporary = self._temporary(path)
            digest = hashlib.sha256()
            with source.open("rb") as reader, self._files.open_output_stream(temporary) as stream:
                while block := reader.read(BLOCK_BYTES):
                    digest.update(block)
                    stream.write(block)
            self._publish(temporary, path)
            if self.sha256(path) != digest.hexdigest():
                raise OSError(f"{self.root}/{path} differs from what was written ({source.stat().st_size} bytes)")
            return digest.hexdigest()

        return _retry(put)

    def read(self, path: str) -> bytes:
        def get() -> bytes:
            with self._files.open_input_stream(path) as stream:
                return stream.read()

        return _retry(get)

    def sha256(self, path: str) -> str:
        digest = hashlib.sha256()
        with self._files.open_input_stream(path) as stream:
            while block := stream.read(BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()

    def exists(self, path: str) -> bool:
        return _retry(lambda: self._files.get_file_info(path).type == fs.FileType.File)

    def files(self, folder: str) -> list[Stored]:
        """The files right inside `folder`, sorted; empty when it does not exist. Unfinished writes are left out."""
        return [Stored(i.path, i.size) for i in self._infos(folder) if i.type == fs.FileType.File]

    def folders(self, folder: str) -> list[str]:
        """Names of the folders right inside `folder`, sorted."""
        return [i.base_name for i in self._infos(folder) if i.type == fs.FileType.Directory]

    def delete_file(self, path: str) -> None:
        _retry(lambda: self._files.delete_file(path))

    def delete_folder(self, folder: str) -> None:
        _retry(lambda: self._files.delete_dir(folder))

    def _infos(self, folder: str) -> list[fs.FileInfo]:
        selector = fs.FileSelector(folder, allow_not_found=True)
        infos = _retry(lambda: self._files.get_file_info(selector))
        return sorted((i for i in infos if ".writing-" not in i.base_name), key=lambda i: i.path)

    def _temporary(self, path: str) -> str:
        folder = self.local_path(path).parent.relative_to(self.root).as_posix()
        self._root_files.create_dir(f"{self.root}/{folder}", recursive=True)
        return f"{path}.writing-{uuid.uuid4().hex}"

    def _publish(self, temporary: str, path: str) -> None:
        _flush(self.local_path(temporary))
        self._files.move(temporary, path)
        _flush(self.local_path(path).parent)


def _flush(path: Path) -> None:
    """Waits until a file or a folder's entries are on disk: a rename alone survives a process, not a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _retry[T](action: Callable[[], T]) -> T:
    for _ in range(RETRIES - 1):
        try:
            return action()
        except (FileNotFoundError, PermissionError, NotADirectoryError):
            raise
        except OSError:
            time.sleep(RETRY_SECONDS)
    return action()
