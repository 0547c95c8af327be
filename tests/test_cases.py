"""docs/cases.md and the tests that name a field case (`@pytest.mark.case`) say the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "cases.md").read_text(encoding="utf-8")
# Cases of the infrastructure that a preview, a Kubernetes API or a text can reproduce: none may be passed over in silence.
IN_SCOPE = frozenset(
    f"C{number:03d}"
    for number in (
        1, 2, 4, 5, 7, 8, 9, 11, 13, 14, 16, 17, 19, 21, 22, 24, 26, 27, 29, 30, 32,  # infrastructure
        33, 35, 36, 38, 42, 44, 48, 49, 51, 52, 55, 57, 59, 60, 63, 65,  # RayJob
        152, 153, 155, 156, 158, 160,  # teardown
        161, 162, 164, 165, 167, 169,  # preview
        170, 171, 173, 175,  # security
    )
)  # fmt: skip
ROW = re.compile(r"^\| (C\d{3}) \| (.+) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
SOURCE = re.compile(r"\((?:[\w.-]+/[\w.-]+(?:#\d+|:[\w./-]+)(?:, )?)+\)")
# What a row without a test begins its reason with.
REASONS = ("No test: ", "Not held yet: ")
ROWS = {found[1]: (found[2], found[3]) for found in ROW.finditer(PAGE)}
NAMED = sorted((case, file, test) for case, (_, held) in ROWS.items() for file, test in TEST.findall(held))


def marked() -> Iterator[tuple[str, str, str]]:
    """Case, file and test of every marker, also of those on one parameter alone; read, not run."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            for call in (node for decorator in function.decorator_list for node in ast.walk(decorator)):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.case":
                    for argument in call.args:
                        yield ast.literal_eval(argument), str(path.relative_to(ROOT)), function.name


MARKED = frozenset(marked())


def test_every_case_in_scope_is_on_the_page_and_no_case_twice() -> None:
    on_page = [found[1] for found in ROW.finditer(PAGE)]

    assert sorted(IN_SCOPE - set(on_page)) == []
    assert len(on_page) == len(set(on_page))
    assert len(on_page) == len(re.findall(r"^\| C\d+", PAGE, re.MULTILINE)), "a row that isn't read as one"


@pytest.mark.parametrize(("case", "file", "test"), NAMED, ids=lambda value: value)
def test_a_test_that_the_page_names_carries_the_id_of_the_case(case: str, file: str, test: str) -> None:
    assert (case, file, test) in MARKED


def test_every_case_that_a_test_names_is_on_the_page() -> None:
    assert sorted({case for case, _, _ in MARKED} - set(ROWS)) == []


def test_a_case_has_a_test_or_the_reason_why_not() -> None:
    silent = [case for case, (_, held) in ROWS.items() if not TEST.search(held) and not held.startswith(REASONS)]

    assert silent == []


def test_a_case_that_a_test_proves_is_not_called_open() -> None:
    opened = {case for case, (_, held) in ROWS.items() if held.startswith(REASONS)}

    assert sorted(opened & {case for case, _, _ in MARKED}) == []


def test_a_case_names_the_public_report_that_it_is_from() -> None:
    assert [case for case, (field, _) in ROWS.items() if not SOURCE.search(field)] == []
