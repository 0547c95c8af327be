"""What README and docs name exists: paths, make targets, commands, settings keys."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(text: str) -> list[str]:
    """Lines of all bash blocks, continued lines joined."""
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def test_the_readme_has_at_most_120_lines():
    assert len(README.splitlines()) <= 120


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_path_that_a_page_names_exists(page):
    """Of this repository: `owner/repo:path` is another one's."""
    named = set(
        re.findall(r"(?<!:)\b((?:infra|workload|tests|docs)/[\w./-]+\.(?:py|md|json|j2|txt))", page.read_text(encoding="utf-8"))
    )

    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_make_target_of_the_readme_exists_and_is_listed_by_make():
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wanted = [c.split()[1] for c in commands(README) if c.startswith("make ")]

    assert wanted == ["demo", "test"]
    assert all(re.search(rf"^{target}\s", listed, re.MULTILINE) for target in [*wanted, "check", "e2e"])


def test_every_command_of_ours_in_the_readme_has_the_options_that_it_is_given():
    ours = [c.split() for c in commands(README) if "-m infra" in c]
    assert {words[3] for words in ours} == {"laptop", "watch", "fetch", "image", "preflight", "teardown-check"}
    for words in ours:
        text = subprocess.run(
            [sys.executable, "-m", words[2], words[3], "--help"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        assert [word for word in words[4:] if word.startswith("-") and word not in text] == []


def test_pulumi_is_only_asked_for_stacks_that_have_settings():
    stacks = re.findall(r"pulumi (?:up|destroy|preview|refresh) -s (\w+)", README)

    assert stacks
    assert all((ROOT / f"Pulumi.{stack}.yaml").is_file() for stack in stacks)


def test_the_settings_table_names_the_objects_of_the_environments():
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", README, re.MULTILINE)
    table = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    config = {
        key.removeprefix("ray-train-eks:")
        for stack in ("local", "dev")
        for key in yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))["config"]
    }

    assert table == config


def test_the_readmes_exit_codes_are_those_of_the_code():
    from workload.errors import EXIT_COMPLETED, EXIT_FAILED, EXIT_USER_ERROR

    assert (EXIT_COMPLETED, EXIT_FAILED, EXIT_USER_ERROR) == (0, 1, 2)
    assert "0 (succeeded, nothing refuted), 1 (failed or refuted), 2 (bad input) or 3 (still running)" in README


def test_the_runbook_knows_every_command_that_looks_at_an_environment():
    from infra.__main__ import cli

    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    assert [name for name in cli.commands if name != "laptop" and f"python -m infra {name}" not in text] == []


def test_the_demos_claims_in_the_readme_are_those_of_the_record():
    from workload.record import ClaimName

    shown = re.findall(r"^(\w[\w ]*?)  +(?:proven|not tested) ", README, re.MULTILINE)
    assert shown == [name.value for name in ClaimName]
