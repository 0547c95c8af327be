"""The two kinds of storage behind a store: a mounted folder, and a bucket of S3 or of a service that speaks its protocol.

Each knows how a file becomes whole or stays absent, and how this machine gets to read a file's bytes under a path.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from pyarrow import NativeFile, fs

from workload.errors import Problem
from workload.run_config import S3StoreConfig, StoreConfig, fingerprint

BLOCK_BYTES = 8 * 2**20
RETRIES = 3
RETRY_SECONDS = 0.5
DOWNLOADS_AT_ONCE = 8
# Of one request to S3, whose client has attempts of its own before the store tries again.
CONNECT_SECONDS, REQUEST_SECONDS, REQUEST_ATTEMPTS = 10, 60, 4


class MountedFiles:
    """A folder that head and workers see under the same path."""

    creates_exclusively = True

    def __init__(self, config: StoreConfig) -> None:
        self.root = config.path.rstrip("/")
        self._root_files = fs.LocalFileSystem()
        self.system = fs.SubTreeFileSystem(self.root, self._root_files)

    def not_writable(self, reason: str) -> Problem:
        fix = "name a folder that this user may write, on a file system shared by head and workers"
        return Problem("store.path", self.root, f"cannot be written ({reason})", fix)

    def put(self, path: str, fill: Callable[[NativeFile], None], *, flush: bool = True) -> None:
        """Written beside its place, flushed to disk, then moved there."""
        temporary = self._beside(path, fill)
        if flush:
            self._publish(temporary, path)
        else:
            self.system.move(temporary, path)

    def create(self, path: str, fill: Callable[[NativeFile], None]) -> None:
        """Whole or not at all, like `put`, and once: link(2) is the one of its kind that NFS decides on the server.

        Raises `FileExistsError` when somebody was there first.
        """
        temporary = self._local(self._beside(path, fill))
        _flush(temporary)
        try:
            os.link(temporary, self._local(path))
        finally:
            temporary.unlink()
        _flush(self._local(path).parent)

    def fetched(self, path: str) -> Path:
        return self._local(path)

    def release(self, path: str) -> None:
        """Nothing to forget: the files are read in place."""

    @contextmanager
    def work_folder(self, folder: str, upload: Callable[[Path, str], object], last: str) -> Iterator[Path]:  # noqa: ARG002
        yield self._local(folder)

    def _local(self, path: str) -> Path:
        return Path(self.root) / path

    def _beside(self, path: str, fill: Callable[[NativeFile], None]) -> str:
        folder = PurePosixPath(path).parent.as_posix()
        self._root_files.create_dir(f"{self.root}/{folder}", recursive=True)
        temporary = f"{path}.writing-{uuid.uuid4().hex}"
        with self.system.open_output_stream(temporary) as stream:
            fill(stream)
        return temporary

    def _publish(self, temporary: str, path: str) -> None:
        _flush(self._local(temporary))
        self.system.move(temporary, path)
        _flush(self._local(path).parent)


class BucketFiles:
    """Objects under one prefix. Credentials come from where the pod's identity, or the environment, has them."""

    creates_exclusively = False  # S3 could (If-None-Match), Arrow's client has no way to ask for it

    def __init__(self, config: S3StoreConfig) -> None:
        self.root = f"s3://{config.bucket}/{config.prefix}"
        scheme, _, host = (config.endpoint or "https://").partition("://")
        service = fs.S3FileSystem(
            region=config.region, scheme=scheme, endpoint_override=host or None, allow_delayed_open=True,
            connect_timeout=CONNECT_SECONDS, request_timeout=REQUEST_SECONDS,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=REQUEST_ATTEMPTS),
        )  # fmt: skip
        self.system = fs.SubTreeFileSystem(f"{config.bucket}/{config.prefix}", service)
        # Another service, another cache: two endpoints may have buckets of one name.
        self._cache = Path(tempfile.gettempdir()) / f"ray-train-store-{fingerprint(config.to_json())[:16]}"

    def not_writable(self, reason: str) -> Problem:
        fix = "check bucket, region and endpoint, and what the credentials of this pod or user allow"
        return Problem("store", self.root, f"cannot be written ({reason})", fix)

    def put(self, path: str, fill: Callable[[NativeFile], None], *, flush: bool = True) -> None:  # noqa: ARG002
        """An upload appears when it is complete. One that `fill` gave up is completed by closing it, so it is deleted."""
        stream = self.system.open_output_stream(path)
        try:
            fill(stream)
        except BaseException:
            with suppress(OSError):
                stream.close()
                self.system.delete_file(path)
            raise
        stream.close()

    create = put

    def fetched(self, path: str) -> Path:
        """A copy of a file or folder as it is now, made once on this machine however many ask for it.

        Raises `FileNotFoundError` when there is nothing under `path`.
        """
        base = path.rstrip("/")
        infos = self._listing(base)
        version = fingerprint(*(f"{i.path} {i.size} {i.mtime_ns}" for i in infos))[:16]
        target = self._copies(base) / version
        with self._locked(base):
            if not target.exists():
                self._download(base, infos, target)
        is_file = len(infos) == 1 and infos[0].path == base
        return target / PurePosixPath(base).name if is_file else target

    def release(self, path: str) -> None:
        base = path.rstrip("/")
        with self._locked(base):
            shutil.rmtree(self._copies(base), ignore_errors=True)

    @contextmanager
    def work_folder(self, folder: str, upload: Callable[[Path, str], object], last: str) -> Iterator[Path]:
        """A private copy; what was changed in it is uploaded when the block ends well, `last` last."""
        scratch = Path(tempfile.mkdtemp(prefix="ray-train-work-"))
        try:
            infos = retry(lambda: self.system.get_file_info(fs.FileSelector(folder, allow_not_found=True)))
            stored = [i for i in infos if i.type == fs.FileType.File]
            if any(i.base_name == last for i in stored):
                self._download(folder, stored, scratch / "copy")
            copy = scratch / "copy"
            copy.mkdir(exist_ok=True)
            before = _stamps(copy)
            yield copy
            changed = [name for name, stamp in _stamps(copy).items() if before.get(name) != stamp]
            if changed and last in before:
                retry(lambda: self.system.delete_file(f"{folder}/{last}"))
            for name in sorted(changed, key=lambda name: (name == last, name)):
                upload(copy / name, f"{folder}/{name}")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _listing(self, path: str) -> list[fs.FileInfo]:
        """All files under `path`, sorted, or the file that it is."""
        selector = fs.FileSelector(path, allow_not_found=True, recursive=True)
        infos = [i for i in retry(lambda: self.system.get_file_info(selector)) if i.type == fs.FileType.File]
        if not infos:
            info = retry(lambda: self.system.get_file_info(path))
            infos = [info] if info.type == fs.FileType.File else []
        if not infos:
            raise FileNotFoundError(f"{self.root}/{path} does not exist")
        return sorted(infos, key=lambda i: i.path)

    def _copies(self, path: str) -> Path:
        return self._cache / fingerprint(path)[:16]

    @contextmanager
    def _locked(self, path: str) -> Iterator[None]:
        """One process of this machine at a time; the lock goes with the process that holds it."""
        self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._copies(path).with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _download(self, base: str, infos: list[fs.FileInfo], target: Path) -> None:
        """Into a folder beside `target`, which is there when all files are."""
        partial = target.with_name(f"{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)

        def get(info: fs.FileInfo) -> None:
            name = PurePosixPath(info.path).relative_to(base).as_posix() if info.path != base else info.base_name
            file = partial / name
            file.parent.mkdir(parents=True, exist_ok=True)
            retry(lambda: self._copy_down(info, file))

        partial.mkdir(parents=True)
        with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
            list(pool.map(get, infos))
        partial.rename(target)

    def _copy_down(self, info: fs.FileInfo, file: Path) -> None:
        with self.system.open_input_stream(info.path) as stream, file.open("wb") as writer:
            shutil.copyfileobj(stream, writer, BLOCK_BYTES)
        if file.stat().st_size != info.size:
            raise OSError(f"{self.root}/{info.path}: {file.stat().st_size} of {info.size} bytes arrived")


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    return {f.name: (f.stat().st_mtime_ns, f.stat().st_size) for f in folder.iterdir() if f.is_file()}


def _flush(path: Path) -> None:
    """Waits until a file or a folder's entries are on disk: a rename alone survives a process, not a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def retry[T](action: Callable[[], T]) -> T:
    for _ in range(RETRIES - 1):
        try:
            return action()
        except (FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError):
            raise
        except OSError:
            time.sleep(RETRY_SECONDS)
    return action()
