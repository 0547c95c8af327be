"""A job's removal, with and without an operator; the gate in front of it."""

from __future__ import annotations

from typing import Any

import pytest

from infra.job_gate import JobGateProvider
from infra.job_status import Failed
from infra.live_job import LiveJob
from tests.infra.fake_cluster import JOBS, PODS, RAY_CLUSTERS, RAY_JOBS, FakeCluster

ORIGIN, INSTANCE = {"ray.io/originated-from-cr-name": "run-1"}, {"app.kubernetes.io/instance": "run-1"}
FINALIZERS = ["ray.io/rayjob-finalizer"]


def add_job(cluster: FakeCluster, **status: str) -> None:
    cluster.add(RAY_JOBS, "run-1", status=status)["metadata"]["finalizers"] = list(FINALIZERS)
    cluster.add(RAY_CLUSTERS, "run-1-c", ORIGIN, owner="uid-run-1")
    cluster.add(JOBS, "run-1", ORIGIN, owner="uid-run-1")
    cluster.add(PODS, "run-1-head", INSTANCE, owner="uid-run-1")


def props(kubeconfig_file: str, **more: Any) -> dict[str, Any]:
    return {
        "kubeconfig": kubeconfig_file, "context": "here", "namespace": "ns", "jobName": "run-1", "uid": "uid-run-1",
        "waitSeconds": 0.3, "blocked": "", **more,
    }  # fmt: skip


@pytest.mark.case("C155")
@pytest.mark.parametrize("operator", [True, False])
def test_destroy_leaves_nothing_even_without_an_operator(cluster: FakeCluster, kubeconfig_file: str, operator: bool) -> None:
    add_job(cluster, jobStatus="RUNNING")
    cluster.operator = operator
    JobGateProvider().delete("uid-run-1", props(kubeconfig_file))

    assert cluster.objects == {}


@pytest.mark.case("C156")
def test_what_nobody_collects_is_deleted_too(cluster: FakeCluster, kubeconfig_file: str) -> None:
    add_job(cluster)
    cluster.collects = False
    JobGateProvider().delete("uid-run-1", props(kubeconfig_file))

    assert cluster.objects == {}
    assert f"{PODS}/run-1-head" in cluster.deleted


@pytest.mark.case("C156")
def test_what_cannot_be_removed_is_named(cluster: FakeCluster, kubeconfig_file: str) -> None:
    add_job(cluster)
    cluster.collects = cluster.operator = False
    cluster.objects[f"{PODS}/run-1-head"]["metadata"]["finalizers"] = ["someone/else"]

    with pytest.raises(TimeoutError, match="pod/run-1-head"):
        JobGateProvider().delete("uid-run-1", props(kubeconfig_file))


def test_a_job_that_is_gone_already_is_no_error(cluster: FakeCluster, kubeconfig_file: str) -> None:
    JobGateProvider().delete("uid-run-1", props(kubeconfig_file))


def test_a_newer_job_of_the_same_name_is_left_alone(cluster: FakeCluster, kubeconfig_file: str) -> None:
    add_job(cluster, jobStatus="RUNNING")
    before = dict(cluster.objects)
    JobGateProvider().delete("uid-old", props(kubeconfig_file, uid="uid-old"))

    assert cluster.objects == before
    assert cluster.deleted == []


@pytest.mark.parametrize(
    "status",
    [{"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"}, {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}],
)
def test_the_gate_opens_when_the_job_runs_or_has_succeeded(
    cluster: FakeCluster, kubeconfig_file: str, status: dict[str, str]
) -> None:
    add_job(cluster, **status)

    assert JobGateProvider().create(props(kubeconfig_file)).outs["failure"] == ""


def test_the_gate_says_why_a_job_failed(cluster: FakeCluster, kubeconfig_file: str) -> None:
    add_job(cluster, jobStatus="FAILED", jobDeploymentStatus="Failed", reason="AppFailed", message="exit code 2")
    made = JobGateProvider().create(props(kubeconfig_file))

    assert made.outs["failure"] == "RayJob ns/run-1 is FAILED, AppFailed: exit code 2"
    assert made.id == "uid-run-1"


@pytest.mark.case("C033")
def test_the_gate_says_what_keeps_a_job_from_running(cluster: FakeCluster, kubeconfig_file: str) -> None:
    add_job(cluster, jobDeploymentStatus="Initializing")
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    cluster.objects[f"{PODS}/run-1-head"]["status"] = {"containerStatuses": [{"name": "ray-head", "state": waiting}]}
    failure = JobGateProvider().create(props(kubeconfig_file)).outs["failure"]

    assert "doesn't run after 0 s (job.waitForRunningSeconds)" in failure
    assert "pod run-1-head, container ray-head: ImagePullBackOff: no such image" in failure


@pytest.mark.parametrize(
    ("change", "changes", "replaces"),
    [
        ({}, False, []),
        ({"uid": "uid-2"}, True, ["uid"]),
        ({"uid": object()}, True, ["uid"]),  # unknown: the job is about to be replaced
        ({"waitSeconds": 9}, True, []),
        ({"context": "moved"}, True, []),
    ],
)
def test_another_job_means_another_gate(change: dict[str, Any], changes: bool, replaces: list[str]) -> None:
    old = {**props("k"), "failure": ""}
    result = JobGateProvider().diff("id", old, {**old, **change})

    assert (result.changes, result.replaces, result.delete_before_replace) == (changes, replaces, True)


def test_a_gate_that_did_not_open_is_tried_again() -> None:
    old = {**props("k"), "failure": "it failed"}

    assert JobGateProvider().diff("id", old, old).changes is True


def test_a_job_that_something_else_removed_is_a_failure(kubeconfig_file: str) -> None:
    with LiveJob(kubeconfig_file, "here", "ns", "run-1") as job:
        assert job.verdict() == Failed("gone: something else has removed it")


def test_a_cluster_that_is_away_for_a_moment_is_waited_for(cluster: FakeCluster, kubeconfig_file: str) -> None:
    cluster.close()
    failure = JobGateProvider().create(props(kubeconfig_file)).outs["failure"]

    assert "doesn't run after 0 s" in failure
    assert "the cluster can't be asked" in failure


def test_the_class_is_kept_by_its_name_so_that_newer_code_serves_an_older_stack() -> None:
    import base64

    from pulumi.dynamic.dynamic import serialize_provider

    kept = base64.b64decode(serialize_provider(JobGateProvider()))

    assert b"infra.job_gate" in kept
    assert len(kept) < 100
