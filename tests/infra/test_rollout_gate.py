"""What a Helm release runs is ready, or an update says what keeps it from that."""

from __future__ import annotations

from typing import Any

import pytest

from infra.job_gate import JobGateProvider
from infra.rollout_gate import RolloutGateProvider
from infra.rollout_status import shortfall
from tests.infra.fake_cluster import DAEMON_SETS, DEPLOYMENTS, PODS, FakeCluster

HELM = {"app.kubernetes.io/managed-by": "Helm"}
DONE = {"observedGeneration": 2, "updatedReplicas": 1, "availableReplicas": 1}
SPREAD = {"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}


def add(cluster: FakeCluster, collection: str, name: str, status: dict[str, Any], release: str = "operator") -> None:
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": name, "tier": "x"}}}
    spec |= {"replicas": 1} if collection == DEPLOYMENTS else {}
    made = cluster.add(collection, name, HELM, spec=spec, status=status)
    made["metadata"] |= {"generation": 2, "annotations": {"meta.helm.sh/release-name": release}}


def props(kubeconfig_file: str, **more: Any) -> dict[str, Any]:
    whole = {"kubeconfig": kubeconfig_file, "namespace": "ns", "release": "operator", "revision": 1, "waitSeconds": 0.1}
    return {**whole, **more}


def failure(kubeconfig_file: str) -> str:
    return (RolloutGateProvider().create(props(kubeconfig_file)).outs or {})["failure"]


def test_a_release_whose_pods_are_all_new_and_ready_passes(cluster: FakeCluster, kubeconfig_file: str) -> None:
    add(cluster, DEPLOYMENTS, "operator", DONE)
    add(cluster, DAEMON_SETS, "plugin", SPREAD)
    add(cluster, DEPLOYMENTS, "of-another-release", {}, release="other")

    assert failure(kubeconfig_file) == ""


@pytest.mark.case("C021")
def test_what_keeps_a_release_from_being_ready_is_said_with_its_pods(cluster: FakeCluster, kubeconfig_file: str) -> None:
    add(cluster, DEPLOYMENTS, "operator", {"observedGeneration": 2, "updatedReplicas": 1})
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such tag: v9"}}, "name": "operator"}
    cluster.add(PODS, "operator-1", {"app": "operator", "tier": "x"}, status={"containerStatuses": [waiting]})
    cluster.add(PODS, "foreign", {"app": "operator"}, status={"containerStatuses": [waiting]})

    assert failure(kubeconfig_file).splitlines() == [
        "Helm release ns/operator isn't ready after 0 s:",
        "  Deployment operator: 0 of 1 pods are ready",
        "  pod operator-1, container operator: ErrImagePull: no such tag: v9",
    ]


def test_a_release_that_runs_nothing_and_a_cluster_that_is_away_are_said(cluster: FakeCluster, kubeconfig_file: str) -> None:
    assert "there is no Deployment or DaemonSet of release operator in namespace ns" in failure(kubeconfig_file)
    cluster.refuses = 503
    assert "the cluster can't be asked: 503" in failure(kubeconfig_file)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({**SPREAD, "observedGeneration": 1}, "its change has not been looked at yet"),
        ({**SPREAD, "desiredNumberScheduled": 0}, "it is wanted on no node: none has the labels that it asks for"),
        ({**SPREAD, "updatedNumberScheduled": 1}, "1 of 2 pods are ready"),
        ({**SPREAD, "numberAvailable": 0}, "0 of 2 pods are ready"),
        (SPREAD, ""),
    ],
)
def test_old_pods_and_pods_that_nobody_wants_are_not_ready(status: dict[str, Any], said: str) -> None:
    assert shortfall({"metadata": {"generation": 2}, "spec": {}, "status": status}) == said


def test_another_revision_and_a_failure_are_waited_for_again(kubeconfig_file: str) -> None:
    provider, olds = RolloutGateProvider(), props(kubeconfig_file, failure="")

    assert not provider.diff("operator", olds, props(kubeconfig_file, waitSeconds=9)).changes
    assert provider.diff("operator", olds, props(kubeconfig_file, revision=2)).changes
    assert provider.diff("operator", {**olds, "failure": "not ready"}, props(kubeconfig_file)).changes


def test_a_job_whose_operator_is_not_ready_is_not_waited_for(kubeconfig_file: str) -> None:
    job = {
        "kubeconfig": kubeconfig_file,
        "context": "",
        "namespace": "ns",
        "jobName": "run-1",
        "uid": "uid-1",
        "waitSeconds": 99,
    }
    provider = JobGateProvider()
    outs = provider.create({**job, "blocked": "Helm release ns/operator isn't ready"}).outs or {}

    assert outs["failure"] == "Helm release ns/operator isn't ready"
    assert provider.diff("uid-1", outs, {**job, "blocked": ""}).changes
    assert provider.diff("uid-1", {**outs, "failure": "", "blocked": ""}, {**job, "blocked": "it broke"}).changes
