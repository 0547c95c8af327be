"""Reading text: what is a document, and which files are refused, each with file, line, value, reason and fix."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workload.errors import UserError
from workload.run_config import PythonDocs, TextFiles
from workload.text import content_hash, normalised, paragraphs, read_source

ROOT = Path(__file__).resolve().parents[2]


def read(*paths: Path, separator: str = "\n\n"):
    return read_source(TextFiles(source="text", paths=tuple(map(str, paths)), document_separator=separator))


def refusal(*paths: Path):
    with pytest.raises(UserError) as caught:
        read(*paths)
    for problem in caught.value.problems:
        assert problem.reason
        assert problem.fix
    return caught.value.problems


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_the_python_documentation_is_a_few_hundred_thousand_characters_of_prose():
    source = read_source(PythonDocs(source="python-docs"))

    assert len(source.documents) > 50
    assert sum(map(len, source.documents)) > 300_000
    assert read_source(PythonDocs(source="python-docs")).sha256 == source.sha256


def test_a_file_is_split_by_its_separator_and_empty_documents_are_counted(tmp_path):
    source = read(written(tmp_path / "a.txt", b"one\n\ntwo\n\n \n\n"))

    assert source.documents == ("one", "two")
    assert source.empty_documents == 2


def test_documents_of_several_files_come_in_the_order_of_the_settings(tmp_path):
    first, second = written(tmp_path / "z.txt", b"one"), written(tmp_path / "a.txt", b"two")

    assert read(first, second).documents == ("one", "two")


@pytest.mark.case("C094")
def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path):
    plain = written(tmp_path / "plain.txt", "eins\n\nzw\u00f6lf\n".encode())
    windows = written(tmp_path / "windows.txt", b"\xef\xbb\xbf" + "eins\r\n\r\nzw\u00f6lf\r\n".encode())

    assert read(windows).documents == read(plain).documents
    assert read(windows).sha256 == read(plain).sha256


def test_moving_a_border_between_documents_changes_the_hash():
    assert content_hash(["ab", "c"]) != content_hash(["a", "bc"])


@pytest.mark.case("C103")
def test_a_system_that_is_not_utf8_reads_the_same_text(tmp_path):
    path = written(tmp_path / "a.txt", "smile \U0001f600\n\ncaf\u00e9\n".encode())
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from workload.run_config import TextFiles\nfrom workload.text import read_source\n"
        f"print(read_source(TextFiles(source='text', paths=({str(path)!r},), document_separator='\\n\\n')).sha256)"
    )
    environment = os.environ | {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == read(path).sha256


def test_a_missing_file_is_refused(tmp_path):
    (problem,) = refusal(tmp_path / "none.txt")

    assert problem.where == str(tmp_path / "none.txt")
    assert "does not exist" in problem.reason


def test_a_folder_is_refused(tmp_path):
    (problem,) = refusal(tmp_path)

    assert problem.where == str(tmp_path)
    assert "folder" in problem.reason


@pytest.mark.parametrize("data", [b"", b" \n\t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_an_empty_file_is_refused(tmp_path, data):
    (problem,) = refusal(written(tmp_path / "a.txt", data))

    assert problem.value == f"{len(data)} bytes"
    assert "empty" in problem.reason


def test_a_binary_file_is_refused_with_the_line_of_its_first_nul(tmp_path):
    path = written(tmp_path / "a.txt", b"one\ntwo\nth\0ree\n")
    (problem,) = refusal(path)

    assert problem.where == f"{path}:3"
    assert problem.value == "byte 0x00 at offset 10"
    assert "binary" in problem.reason


def test_utf16_is_named_as_such(tmp_path):
    (problem,) = refusal(written(tmp_path / "a.txt", "text".encode("utf-16")))

    assert "UTF-16" in problem.reason


@pytest.mark.case("C102")
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_a_latin1_byte_is_refused_with_its_line_and_offset(tmp_path, mark):
    path = written(tmp_path / "a.txt", mark + b"good line\n" * 899 + b"caf\xe9 au lait\n")
    (problem,) = refusal(path)

    assert problem.where == f"{path}:900"
    assert problem.value == f"byte 0xe9 at offset {len(mark) + 8993}"
    assert "not UTF-8" in problem.reason


@pytest.mark.case("C102")
def test_a_character_that_is_cut_at_the_end_is_refused(tmp_path):
    path = written(tmp_path / "a.txt", b"one\ncaf\xc3")
    (problem,) = refusal(path)

    assert problem.where == f"{path}:2"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    path = written(tmp_path / "a.txt", b"text")
    path.chmod(0)
    (problem,) = refusal(path)

    assert "can't be read" in problem.reason


def test_the_problems_of_all_files_come_in_one_error(tmp_path):
    bad = [tmp_path / "none.txt", written(tmp_path / "empty.txt", b""), written(tmp_path / "binary.txt", b"a\0")]
    problems = refusal(bad[0], written(tmp_path / "good.txt", b"text"), *bad[1:])

    assert [problem.where.split(":")[0] for problem in problems] == [str(path) for path in bad]


def test_paragraphs_are_parted_by_blank_lines_and_wrapping_does_not_matter():
    assert paragraphs("one\n two\n \n\nthree\n") == ["one\n two", "three\n"]
    assert normalised(" one\n   two ") == normalised("one two")
