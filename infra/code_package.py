"""Packs a folder's code as a zip that is the same, byte for byte, whatever the machine, clock, umask or file order. Pure but
for reading the folder.

Stored, not compressed: compressed bytes differ between zlib versions, and the code is small.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

from workload.errors import Problem, UserError

# A ConfigMap's data has at most 1 MiB: https://kubernetes.io/docs/concepts/configuration/configmap/
MAX_ENCODED_BYTES = 2**20
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time that a zip can hold
_MODE = 0o100644 << 16
_UNIX = 3


@dataclass(frozen=True)
class CodePackage:
    """A zip that holds `<folder name>/...`, so that it can stand in PYTHONPATH."""

    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def base64(self) -> str:
        return base64.b64encode(self.content).decode()


def pack(folder: Path) -> CodePackage:
    """The package of `folder`. Raises: UserError if it wouldn't fit into a ConfigMap, or holds a link."""
    files = _files(folder)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr, entry.create_system = _MODE, _UNIX
            archive.writestr(entry, content)
    package = CodePackage(buffer.getvalue())
    encoded = len(package.base64)
    if encoded > MAX_ENCODED_BYTES:
        raise UserError(_too_large(folder, encoded, files))
    return package


def _files(folder: Path) -> dict[str, bytes]:
    """Name in the archive -> content, sorted by name; without caches, compiled files and hidden ones."""
    found: dict[str, bytes] = {}
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if any(part.startswith(".") or part == "__pycache__" for part in relative.parts) or path.suffix in (".pyc", ".pyo"):
            continue
        if path.is_symlink():
            raise UserError(Problem(str(path), "", "is a link, which a package can't hold", "put the file itself there"))
        if path.is_file():
            found[f"{folder.name}/{relative.as_posix()}"] = path.read_bytes()
    return dict(sorted(found.items()))


def _too_large(folder: Path, encoded: int, files: dict[str, bytes]) -> Problem:
    largest = sorted(files.items(), key=lambda item: len(item[1]), reverse=True)[:3]
    names = ", ".join(f"{name} ({len(content):,} bytes)" for name, content in largest)
    reason = f"has {encoded:,} bytes as a package, and a ConfigMap holds {MAX_ENCODED_BYTES:,}. The largest: {names}"
    return Problem(f"{folder.name}/", "", reason, "move data out of the code; the store is the place for it")
