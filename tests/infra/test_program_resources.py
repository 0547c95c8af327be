"""What each environment consists of, whole: golden lists, one resource of a name, each under its component, secrets kept."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime import rpc

from tests.infra.eks_component import KUBECONFIG, texts
from tests.infra.environments import ROOT
from tests.infra.fake_engine import Recording
from tests.infra.recordings import ALL, ENVIRONMENTS, recorded

COMPONENT = "ray-train-eks:index:"
# Children of the stack itself that are no component: everything on AWS is made through this one.
PROVIDERS = {"aws"}
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-unique-ids, private keys, tokens
CREDENTIAL = re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b|BEGIN [A-Z ]*PRIVATE KEY|\beyJ[A-Za-z0-9_-]{20,}\.|client-key-data")
SECRET_NAME = re.compile(r"(?i)(password|secret_?access|api_?key|private_?key)")


def golden(environment: str) -> Path:
    return ROOT / "tests" / "golden" / f"resources-{environment}.txt"


def tree(recording: Recording) -> str:
    """Every resource under its parent, sorted by name, with what a destroy does to it where that is special."""
    children: dict[str, list[str]] = {}
    for urn, request in recording.requests.items():
        children.setdefault(request.parent, []).append(urn)

    def below(parent: str, depth: int) -> Iterator[str]:
        for urn in sorted(children.get(parent, []), key=lambda each: recording.requests[each].name):
            request = recording.requests[urn]
            yield "  " * depth + f"{request.name}  {request.type}{_fate(request)}"
            yield from below(urn, depth + 1)

    return "\n".join(below("", 0)) + "\n"


def _fate(request: Any) -> str:
    words = ["stays"] if request.retainOnDelete else []
    words += ["protected"] if request.protect else []
    words += ["forgotten with " + request.deletedWith.rsplit("::", 1)[-1]] if request.deletedWith else []
    return f"  [{', '.join(words)}]" if words else ""


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_environment_is_exactly_its_golden_list(environment: str) -> None:
    """After a change that is meant: python -m tests.infra.test_program_resources, and read the diff."""
    assert tree(recorded(environment)) == golden(environment).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ALL)
def test_no_two_resources_of_a_type_share_a_name(name: str) -> None:
    counts = Counter((request.type, request.name) for request in recorded(name).requests.values())

    assert [each for each, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("name", ALL)
def test_every_resource_is_named_after_its_component_and_under_it(name: str) -> None:
    found = recorded(name).requests
    strays = []
    for request in found.values():
        parent = found.get(request.parent)
        if parent is None or request.type.startswith(COMPONENT) or request.name in PROVIDERS:
            continue
        if not parent.type.startswith(COMPONENT) or not request.name.startswith(f"{parent.name}-"):
            strays.append(f"{request.name} under {parent.name}")

    assert strays == []
    assert sum(request.custom for request in found.values()) > 5


@pytest.mark.parametrize("name", ALL)
def test_components_are_under_the_stack_or_are_parts_of_another(name: str) -> None:
    found = recorded(name).requests
    parents = {request.name: found[request.parent] for request in found.values() if request.type.startswith(COMPONENT)}

    nested = {child: parent.name for child, parent in parents.items() if parent.type != "pulumi:pulumi:Stack"}
    assert all(child.startswith(f"{parent}-") for child, parent in nested.items())
    assert set(nested.values()) <= {"store"}


@pytest.mark.parametrize("name", ALL)
def test_no_input_and_no_export_holds_a_credential(name: str) -> None:
    recording = recorded(name)
    for where, value in [*recording.inputs.items(), *recording.outputs.items()]:
        text = json.dumps(_without_code(value))
        assert not CREDENTIAL.search(text), where
        named = [key for key, item in pairs(value) if SECRET_NAME.search(key) and isinstance(item, str)]
        assert named == [], where


def _without_code(value: dict[str, Any]) -> dict[str, Any]:
    """Without the package: its base64 could spell anything. tests/infra/test_code_package.py says what is in it."""
    return {key: item for key, item in value.items() if key != "binaryData"}


def pairs(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key, item
            yield from pairs(item)
    elif isinstance(value, list):
        for item in value:
            yield from pairs(item)


def plain_texts(value: Any) -> Iterator[str]:
    """Every text that is outside of a secret."""
    if isinstance(value, dict) and value.get(rpc._special_sig_key) == rpc._special_secret_sig:
        return
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from plain_texts(item)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_what_a_provider_calls_secret_stays_secret_wherever_it_goes(name: str) -> None:
    """The kubeconfig: neither the provider nor what reaches the cluster past it nor the export may unwrap it."""
    recording = recorded(name)
    values = {**recording.inputs, "exports": recording.exports}
    holders = {where.rsplit("::", 1)[-1] for where, value in values.items() if KUBECONFIG in texts(value)}

    assert holders == {
        "cluster-provider", "ray-operator-crds", "ray-operator-gate", "device-plugins-nvidia-gate", "device-plugins-efa-gate",
        "job-gate", "exports",
    }  # fmt: skip
    assert [where for where, value in values.items() if KUBECONFIG in plain_texts(value)] == []


if __name__ == "__main__":
    for each in ENVIRONMENTS:
        golden(each).write_text(tree(recorded(each)), encoding="utf-8")
