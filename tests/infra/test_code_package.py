"""The package's bytes depend on the code alone."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from infra.code_package import MAX_ENCODED_BYTES, pack
from tests.infra.environments import ROOT
from workload.errors import UserError

FILES = {
    "__init__.py": "",
    "__main__.py": "print('from the package')",
    "sub/__init__.py": "",
    "sub/page.html": "<p>",
    "z.py": "1",
}


def folder(path: Path, names: list[str] | None = None) -> Path:
    made = path / "workload"
    for name in names or list(FILES):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(FILES[name])
    return made


def test_time_mode_umask_and_order_do_not_matter(tmp_path: Path) -> None:
    first = folder(tmp_path / "a")
    previous = os.umask(0o077)
    try:
        second = folder(tmp_path / "b", sorted(FILES, reverse=True))
    finally:
        os.umask(previous)
    os.utime(second / "z.py", (1, 1))
    (second / "z.py").chmod(0o755)

    assert pack(first) == pack(second)


def test_caches_and_hidden_files_are_left_out(tmp_path: Path) -> None:
    made = folder(tmp_path)
    before = pack(made)
    for name in ("__pycache__/z.cpython-313.pyc", "sub/__pycache__/x.py", "old.pyc", ".hidden", ".cache/x.py", "sub/.DS_Store"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("x")

    assert pack(made) == before


@pytest.mark.parametrize("name", list(FILES))
def test_every_file_and_its_name_count(tmp_path: Path, name: str) -> None:
    made = folder(tmp_path)
    before = pack(made).sha256
    (made / name).write_text("changed")
    changed = pack(made).sha256
    (made / name).rename(made / "renamed.txt")

    assert len({before, changed, pack(made).sha256}) == 3


def test_nothing_in_it_depends_on_the_clock_or_a_library(tmp_path: Path) -> None:
    archive = zipfile.ZipFile(BytesIO(pack(folder(tmp_path)).content))

    assert [entry.filename for entry in archive.infolist()] == sorted(f"workload/{name}" for name in FILES)
    assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
    assert {(entry.date_time, entry.external_attr) for entry in archive.infolist()} == {((1980, 1, 1, 0, 0, 0), 0o100644 << 16)}


def test_python_runs_it_from_the_zip(tmp_path: Path) -> None:
    package = tmp_path / "x.zip"
    package.write_bytes(pack(folder(tmp_path)).content)
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "workload"],
        cwd=tmp_path / "empty", env={"PYTHONPATH": str(package)}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout == "from the package\n"


def test_what_does_not_fit_into_a_config_map_is_refused_and_the_largest_named(tmp_path: Path) -> None:
    made = folder(tmp_path)
    (made / "weights.bin").write_bytes(b"x" * (MAX_ENCODED_BYTES * 3 // 4))
    with pytest.raises(UserError) as caught:
        pack(made)

    assert "The largest: workload/weights.bin (786,432 bytes)" in str(caught.value)


def test_a_link_is_refused(tmp_path: Path) -> None:
    made = folder(tmp_path)
    (made / "link.py").symlink_to(made / "z.py")

    with pytest.raises(UserError, match="is a link"):
        pack(made)


def test_the_real_workload_fits_with_room(tmp_path: Path) -> None:
    assert len(pack(ROOT / "workload").base64) < MAX_ENCODED_BYTES // 2
