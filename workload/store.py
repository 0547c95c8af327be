"""The store: where checkpoints, evidence and records live. One class hides the kind of storage from the rest.

Every write is whole or absent. Paths are relative to the store's root, with "/" between parts, whatever the kind.
"""

from __future__ import annotations

import hashlib
import uuid
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from pyarrow import NativeFile, fs

from workload.errors import UserError
from workload.run_config import AnyStoreConfig, S3StoreConfig
from workload.store_files import BLOCK_BYTES, BucketFiles, MountedFiles, retry


@dataclass(frozen=True)
class Stored:
    """One file as the store has it."""

    path: str
    size: int


class Store:
    """Files under one root that all workers and the driver share; `root` is how people name it.

    Raises `OSError` when an operation still fails after several tries: one flaky answer of a network disk must not end
    a run that has cost hours.
    """

    def __init__(self, config: AnyStoreConfig) -> None:
        self._kind = BucketFiles(config) if isinstance(config, S3StoreConfig) else MountedFiles(config)
        self._files = self._kind.system
        self.root = self._kind.root
        self.creates_exclusively = self._kind.creates_exclusively

    def check_writable(self) -> None:
        """Raises `UserError` unless a file can be written, read back and deleted."""
        probe = f".probe-{uuid.uuid4().hex}"
        try:
            self.write(probe, b"probe")
            if self.read(probe) != b"probe":
                raise OSError("what was written could not be read back")
            self.delete_file(probe)
        except OSError as error:
            raise UserError(self._kind.not_writable(str(error.strerror or error))) from error

    def write(self, path: str, data: bytes, *, flush: bool = True) -> None:
        """Without `flush` the machine may lose it, whole, in a power cut: it does not wait until a busy disk has it."""

        def fill(stream: NativeFile) -> None:
            stream.write(data)

        retry(lambda: self._kind.put(path, fill, flush=flush))

    def create(self, path: str, data: bytes) -> None:
        """`write`, and where the store `creates_exclusively`: raises `FileExistsError` when `path` is there."""

        def fill(stream: NativeFile) -> None:
            stream.write(data)

        retry(lambda: self._kind.create(path, fill))

    def upload(self, source: Path, path: str) -> str:
        """Copies a local file to `path`, then reads the copy back; returns its SHA-256, hex.

        Raises `OSError` when the copy differs from the source: a silent short write must not become a checkpoint.
        """

        def put() -> str:
            digest = hashlib.sha256()

            def fill(stream: NativeFile) -> None:
                with source.open("rb") as reader:
                    while block := reader.read(BLOCK_BYTES):
                        digest.update(block)
                        stream.write(block)

            self._kind.put(path, fill)
            if self.sha256(path) != digest.hexdigest():
                raise OSError(f"{self.root}/{path} differs from what was written ({source.stat().st_size} bytes)")
            return digest.hexdigest()

        return retry(put)

    def fetched(self, path: str) -> Path:
        """Where a file or folder can be read under a path of this machine: in place, or copied here once.

        Nobody changes what is there. A copy follows the store: what has changed since is copied anew.
        """
        return self._kind.fetched(path)

    def release(self, path: str) -> None:
        """Gives back the disk that `fetched` took for `path`. Nobody on this machine may be reading it."""
        self._kind.release(path)

    def work_folder(self, folder: str, last: str) -> AbstractContextManager[Path]:
        """A local folder to fill or mend `folder` in: in place, or a copy whose changes are uploaded at the end, `last` last.

        What is there counts as something only if file `last` is. Nothing is uploaded when the block raises.
        """
        return self._kind.work_folder(folder, self.upload, last)

    def read(self, path: str) -> bytes:
        def get() -> bytes:
            with self._files.open_input_stream(path) as stream:
                return stream.read()

        return retry(get)

    def sha256(self, path: str) -> str:
        digest = hashlib.sha256()
        with self._files.open_input_stream(path) as stream:
            while block := stream.read(BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()

    def exists(self, path: str) -> bool:
        return retry(lambda: self._files.get_file_info(path).type == fs.FileType.File)

    def files(self, folder: str) -> list[Stored]:
        """The files right inside `folder`, sorted; empty when it does not exist. Unfinished writes are left out."""
        return [Stored(i.path, i.size) for i in self._infos(folder) if i.type == fs.FileType.File]

    def folders(self, folder: str) -> list[str]:
        """Names of the folders right inside `folder`, sorted."""
        return [i.base_name for i in self._infos(folder) if i.type == fs.FileType.Directory]

    def delete_file(self, path: str) -> None:
        retry(lambda: self._files.delete_file(path))

    def delete_folder(self, folder: str) -> None:
        retry(lambda: self._files.delete_dir(folder))

    def _infos(self, folder: str) -> list[fs.FileInfo]:
        selector = fs.FileSelector(folder, allow_not_found=True)
        infos = retry(lambda: self._files.get_file_info(selector))
        return sorted((i for i in infos if ".writing-" not in i.base_name), key=lambda i: i.path)
