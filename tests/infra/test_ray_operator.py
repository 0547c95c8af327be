"""The operator: pinned, with CRDs that match it, which come first and outlive it."""

from __future__ import annotations

from typing import Any

import pulumi_aws as aws
import pytest
from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import resource_pb2

from infra import ray_crds
from infra.eks_settings import RayOperatorSettings, RegistriesSettings
from infra.ray_operator import RayOperator, RayOperatorArgs
from infra.versions import KUBERAY_OPERATOR
from tests.infra import fake_engine
from tests.infra.component import build
from tests.infra.crd import ray_job_schema
from tests.infra.fake_engine import Recording, record
from workload.errors import UserError

CRDS = {"rayclusters", "rayjobs", "rayservices"}


def settings(**changes: Any) -> RayOperatorSettings:
    return RayOperatorSettings(**{"kind": "managed", "version": "1.6.2", "namespace": "ray-system", **changes})


def program(registries: RegistriesSettings | None = None, **changes: Any) -> RayOperator:
    nodes = aws.ec2.PlacementGroup("nodes", strategy="cluster")
    args = RayOperatorArgs(
        settings=settings(**changes),
        registries=registries or RegistriesSettings(),
        node_labels={"nodes": "system"},
        nodes=[nodes],
        kubeconfig="{}",
    )
    return RayOperator("operator", args)


@pytest.fixture(scope="module")
def managed() -> Recording:
    return build(program)


@pytest.mark.case("C021")
def test_the_chart_is_pinned_and_leaves_the_crds_alone(managed: Recording) -> None:
    release = managed.of("operator-release")

    assert (release["chart"], release["version"], release["namespace"]) == ("kuberay-operator", "1.6.2", "ray-system")
    assert release["repositoryOpts"] == {"repo": "https://ray-project.github.io/kuberay-helm/"}
    assert release["skipCrds"] is True
    assert release["skipAwait"] is True
    assert release["values"]["nodeSelector"] == {"nodes": "system"}
    assert "image" not in release["values"]


@pytest.mark.case("C021")
def test_the_operator_is_waited_for_by_a_gate_that_says_why(managed: Recording) -> None:
    assert managed.comes_after("operator-gate") >= {"operator-release", "operator-crds"}


@pytest.mark.case("C060")
def test_the_operator_keeps_its_own_choice_of_shell(managed: Recording) -> None:
    """ENABLE_LOGIN_SHELL would rebuild PATH in every Ray pod, and lose a `ray` that is in a virtual environment."""
    assert not {"env", "operatorCommand"} & set(managed.of("operator-release")["values"])


@pytest.mark.case("C019")
def test_c019_the_crds_are_those_of_the_chart_and_come_before_it(managed: Recording) -> None:
    crds = managed.of("operator-crds")

    assert (crds["version"], crds["digest"]) == ("1.6.2", ray_crds.digest("1.6.2"))
    assert "operator-crds" in managed.comes_after("operator-release")
    assert "nodes" in managed.comes_after("operator-release")


def test_the_crd_is_the_one_that_jobs_are_checked_against() -> None:
    (crd,) = [crd for crd in ray_crds.operator_crds("1.6.2") if crd["metadata"]["name"] == "rayjobs.ray.io"]
    (version,) = [version for version in crd["spec"]["versions"] if version["name"] == "v1"]
    expected = {key: value for key, value in ray_job_schema().items() if not key.startswith("x-source")}

    assert version["schema"]["openAPIV3Schema"]["properties"]["spec"] == expected["properties"]["spec"]


def test_the_pinned_operator_has_its_crds() -> None:
    assert ray_crds.version_problems(KUBERAY_OPERATOR) == []
    assert {crd["spec"]["names"]["plural"] for crd in ray_crds.operator_crds(KUBERAY_OPERATOR)} == CRDS


@pytest.mark.case("C019")
def test_an_operator_whose_crds_are_not_at_hand_is_refused() -> None:
    with pytest.raises(UserError, match=r"rayOperator\.version = 1\.9\.0: its CRDs .* use one of: 1\.6\.0, 1\.6\.1, 1\.6\.2"):
        program(version="1.9.0")


def test_mirrors_serve_chart_and_image() -> None:
    mirrors = RegistriesSettings(charts="https://charts.example", images="registry.example/mirror")
    release = build(lambda: program(mirrors)).of("operator-release")

    assert release["repositoryOpts"] == {"repo": "https://charts.example"}
    assert release["values"]["image"] == {"repository": "registry.example/mirror/kuberay/operator", "tag": "v1.6.2"}


def test_a_preview_shows_the_same_resources() -> None:
    assert build(program, preview=True).names() == build(program).names()


def existing(monkeypatch: pytest.MonkeyPatch, *versions: dict[str, Any]) -> Recording:
    """A cluster whose RayJob CRD has these versions."""

    def read(_self: Any, request: Any, _context: Any) -> resource_pb2.ReadResourceResponse:
        assert request.id == "rayjobs.ray.io"
        state = json_format.ParseDict({"spec": {"versions": list(versions)}}, struct_pb2.Struct())
        return resource_pb2.ReadResourceResponse(urn=f"urn:pulumi:test::test::{request.type}::{request.name}", properties=state)

    monkeypatch.setattr(fake_engine._Monitor, "ReadResource", read)
    return record(lambda: program(kind="existing"), {}, "test")


def test_an_existing_operator_is_looked_at_and_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = existing(monkeypatch, {"name": "v1", "served": True, "storage": True})

    assert not recording.error
    assert {request.name for request in recording.requests.values() if request.custom} == {"nodes"}


@pytest.mark.case("C019")
def test_an_existing_operator_without_this_kind_of_job_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = existing(monkeypatch, {"name": "v1alpha1", "served": True, "storage": True})

    said = recording.error + " ".join(recording.logs)
    assert "rayOperator.kind = existing: the cluster's rayjobs.ray.io serves v1alpha1, not v1" in said
