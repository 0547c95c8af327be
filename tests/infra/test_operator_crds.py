"""The operator's CRDs in a cluster: applied whole, known by their hash, never deleted."""

from __future__ import annotations

from typing import Any

import pytest

from infra import live_crds, ray_crds
from infra.operator_crds import OperatorCrdsProvider
from tests.infra.fake_cluster import FakeCluster

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMES = {"rayclusters.ray.io", "rayjobs.ray.io", "rayservices.ray.io"}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a megabyte each is for a real cluster."""
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    found = [{**kind, "metadata": {"name": name}, "spec": {"group": "ray.io"}} for name in sorted(NAMES)]
    monkeypatch.setattr(ray_crds, "operator_crds", lambda _version: found)


def props(kubeconfig_file: str, **more: str) -> dict[str, Any]:
    return {"kubeconfig": kubeconfig_file, "version": "1.6.2", "digest": "0123456789abcdef" * 4, **more}


def seen(outs: dict[str, Any]) -> dict[str, Any]:
    """What a refresh writes into the state."""
    return OperatorCrdsProvider().read("operator-crds", outs).outs or {}


def in_cluster(cluster: FakeCluster) -> set[str]:
    return {path.removeprefix(f"{CRDS}/") for path in cluster.objects if path.startswith(CRDS)}


def test_a_chart_that_has_put_them_there_already_is_no_conflict(cluster: FakeCluster, kubeconfig_file: str) -> None:
    cluster.add(CRDS, "rayjobs.ray.io")
    OperatorCrdsProvider().create(props(kubeconfig_file))

    assert in_cluster(cluster) == NAMES
    assert cluster.objects[f"{CRDS}/rayjobs.ray.io"]["spec"] == {"group": "ray.io"}
    assert cluster.applied == [{"fieldManager": ["ray-train-eks"], "force": ["true"]}] * 3


@pytest.mark.case("C160")
def test_c160_a_destroy_leaves_them_with_every_job_of_the_cluster(cluster: FakeCluster, kubeconfig_file: str) -> None:
    OperatorCrdsProvider().create(props(kubeconfig_file))
    OperatorCrdsProvider().delete("operator-crds", props(kubeconfig_file))

    assert in_cluster(cluster) == NAMES


@pytest.mark.case("C019")
@pytest.mark.parametrize("damage", ["gone", "another chart's", "changed under our label"])
def test_c019_a_refresh_finds_crds_that_are_not_the_operators(cluster: FakeCluster, kubeconfig_file: str, damage: str) -> None:
    provider, wanted = OperatorCrdsProvider(), props(kubeconfig_file)
    outs = provider.create(wanted).outs or {}
    assert not provider.diff("operator-crds", seen(outs), wanted).changes
    if damage == "gone":
        del cluster.objects[f"{CRDS}/rayclusters.ray.io"]
    elif damage == "another chart's":
        cluster.objects[f"{CRDS}/rayclusters.ray.io"]["metadata"]["labels"] = {}
    else:
        cluster.objects[f"{CRDS}/rayclusters.ray.io"]["metadata"]["generation"] = 7

    found = seen(outs)
    assert provider.diff("operator-crds", found, wanted).changes
    outs = provider.update("operator-crds", found, wanted).outs or {}
    assert not provider.diff("operator-crds", seen(outs), wanted).changes


def test_the_same_hash_is_no_change_and_another_one_is(kubeconfig_file: str) -> None:
    provider, wanted = OperatorCrdsProvider(), props(kubeconfig_file)

    assert not provider.diff("operator-crds", wanted, dict(wanted)).changes
    assert provider.diff("operator-crds", wanted, {**wanted, "digest": "f" * 64}).changes


def test_crds_that_are_never_served_are_named(
    cluster: FakeCluster, kubeconfig_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_crds, "_ESTABLISHED_SECONDS", 0.1)
    cluster.operator = False
    with pytest.raises(TimeoutError, match=r"not established after 0\.1 s: CRD rayclusters\.ray\.io, rayjobs"):
        OperatorCrdsProvider().create(props(kubeconfig_file))
