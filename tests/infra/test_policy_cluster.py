"""Ways into the cluster, and what pods may do: what passes, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infra.policy_judges import (
    RAY_JOB,
    SERVICE,
    UNKNOWN,
    Made,
    Setting,
    judge,
    judge_stack,
    ray_job,
)

DAEMON_SET, RELEASE = "kubernetes:apps/v1:DaemonSet", "kubernetes:helm.sh/v3:Release"
NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"

pytestmark = pytest.mark.usefixtures("policy_environment")


def test_services_inside_the_cluster_pass() -> None:
    for spec in ({}, {"type": "ClusterIP"}, {"clusterIP": "None"}):
        assert judge("cluster-ip-only", SERVICE, {"spec": spec}) == []
    assert judge("cluster-ip-only", NETWORK_POLICY, {"spec": {}}) == []


@pytest.mark.case("C030", "C170")
@pytest.mark.parametrize(
    ("kind", "props"),
    [
        (SERVICE, {"spec": {"type": "LoadBalancer"}}),
        (SERVICE, {"spec": {"type": "NodePort"}}),
        (SERVICE, {"spec": {"type": UNKNOWN}}),
        (SERVICE, {"spec": {"type": "ClusterIP", "externalIPs": UNKNOWN}}),
        (SERVICE, {"spec": {"externalIPs": ["203.0.113.1"]}}),
        ("kubernetes:networking.k8s.io/v1:Ingress", {"spec": {}}),
        ("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute", {"spec": {}}),
        (RELEASE, {"values": {"controller": {"service": {"type": "LoadBalancer"}}}}),
        (RELEASE, {"values": {"list": [{"ingress": {"enabled": True}}]}}),
    ],
)
def test_ways_in_from_outside_are_refused_c170(kind: str, props: dict[str, Any]) -> None:
    assert [("port-forward" in message) for message in judge("cluster-ip-only", kind, props)] == [True]


def test_what_lies_behind_something_unknown_is_unknown_too() -> None:
    assert len(judge("cluster-ip-only", SERVICE, {"spec": UNKNOWN})) == 2  # neither type nor addresses can be judged


POD_POLICIES = ("cluster-ip-only", "no-privileged-pods", "small-ray-pods", "pinned-images")


@pytest.mark.parametrize("policy", POD_POLICIES)
def test_a_ray_job_as_it_should_be_passes(policy: str) -> None:
    assert judge(policy, RAY_JOB, ray_job()) == []


@pytest.mark.case("C170")
@pytest.mark.parametrize(
    "cluster",
    [
        {"head": {"serviceType": "LoadBalancer"}},
        {"head": {"enableIngress": True}},
        {"head": {"headService": {"spec": {"type": "NodePort"}}}},
    ],
)
def test_a_ray_head_that_is_open_is_refused_c170(cluster: dict[str, Any]) -> None:
    assert len(judge("cluster-ip-only", RAY_JOB, ray_job(**cluster))) == 1


@pytest.mark.case("C171")
def test_ray_wants_a_token_on_eks_c171(policy_environment: Setting) -> None:
    assert "authOptions.mode: token" in judge("cluster-ip-only", RAY_JOB, ray_job(authOptions={}))[0]
    policy_environment("existing")
    assert judge("cluster-ip-only", RAY_JOB, ray_job(authOptions={})) == []


@pytest.mark.case("C170")
def test_ray_needs_a_network_policy_in_its_own_namespace_c170(policy_environment: Setting) -> None:
    job = Made(RAY_JOB, "job", ray_job())
    closed = {"spec": {"policyTypes": ["Ingress"]}}
    here, elsewhere = ({"metadata": {"namespace": name}, **closed} for name in ("ray", "other"))

    assert judge_stack("ray-has-a-network-policy", job, Made(NETWORK_POLICY, "n", here)) == []
    assert (
        judge_stack("ray-has-a-network-policy", job, Made(NETWORK_POLICY, "n", {**here, "metadata": {"namespace": UNKNOWN}}))
        == []
    )
    for policies in ([], [elsewhere], [{**here, "spec": {"policyTypes": ["Egress"]}}]):
        made = [Made(NETWORK_POLICY, f"n{index}", one) for index, one in enumerate(policies)]
        assert "job: no NetworkPolicy" in judge_stack("ray-has-a-network-policy", job, *made)[0]
    policy_environment("existing")
    assert judge_stack("ray-has-a-network-policy", job) == []


# Pods


@pytest.mark.case("C143", "C175")
@pytest.mark.parametrize(
    ("container", "pod", "words"),
    [
        ({"securityContext": {"privileged": True}}, {}, "container ray is privileged"),
        ({"securityContext": {"privileged": UNKNOWN}}, {}, "container ray is privileged"),
        ({"securityContext": {"capabilities": {"add": ["IPC_LOCK", "SYS_ADMIN"]}}}, {}, "adds SYS_ADMIN"),
        ({"ports": [{"hostPort": 8265}]}, {}, "takes port 8265 of the node"),
        ({"ports": [{"containerPort": 22.0}]}, {}, "offers SSH"),
        ({}, {"hostNetwork": True}, "shares the node's Network"),
        ({}, {"hostPID": True}, "shares the node's PID"),
        ({}, {"volumes": [{"name": "v", "hostPath": {"path": "/var/lib"}}]}, "mounts /var/lib of the node"),
        ({}, {"initContainers": [{"name": "i", "securityContext": {"privileged": True}}]}, "container i is privileged"),
    ],
)
def test_pods_that_reach_for_the_node_are_refused_c175(container: dict[str, Any], pod: dict[str, Any], words: str) -> None:
    said = judge("no-privileged-pods", RAY_JOB, ray_job(container, pod))

    assert len(said) == 3  # head, workers, submitter
    assert all(words in message for message in said)
    assert {message.split(": ")[1] for message in said} == {
        "spec.rayClusterSpec.headGroupSpec.template.spec", "spec.rayClusterSpec.workerGroupSpecs[0].template.spec",
        "spec.submitterPodTemplate.spec",
    }  # fmt: skip


def test_folders_of_a_node_are_for_existing_clusters_alone(policy_environment: Setting) -> None:
    props = ray_job(pod={"volumes": [{"name": "v", "hostPath": {"path": "/data"}}]})
    volume = {"spec": {"hostPath": {"path": "/data"}}}

    assert len(judge("no-privileged-pods", RAY_JOB, props)) == 3
    assert len(judge("no-privileged-pods", "kubernetes:core/v1:PersistentVolume", volume)) == 1
    policy_environment("existing")
    assert judge("no-privileged-pods", RAY_JOB, props) == []
    assert judge("no-privileged-pods", "kubernetes:core/v1:PersistentVolume", volume) == []


def test_device_plugins_in_kube_system_are_the_only_privileged_pods() -> None:
    spec = {"template": {"spec": {"hostNetwork": True, "containers": [{"name": "c", "securityContext": {"privileged": True}}]}}}
    values = {"values": {"securityContext": {"privileged": True}}}

    def said(kind: str, namespace: str | None) -> int:
        return len(judge("no-privileged-pods", kind, {"metadata": {"namespace": namespace}, "spec": spec}))

    assert said(DAEMON_SET, "kube-system") == 0
    assert said(DAEMON_SET, "ray") == said(DAEMON_SET, None) == said(DAEMON_SET, UNKNOWN) == 2
    assert said("kubernetes:apps/v1:Deployment", "kube-system") == 2
    assert judge("no-privileged-pods", RELEASE, {"namespace": "kube-system", **values}) == []
    assert "values.securityContext.privileged" in judge("no-privileged-pods", RELEASE, {"namespace": "ray", **values})[0]


@pytest.mark.case("C175")
def test_ray_pods_have_no_token_for_kubernetes_and_gain_no_rights_c175() -> None:
    assert (
        "automountServiceAccountToken: false"
        in judge("small-ray-pods", RAY_JOB, ray_job(pod={"automountServiceAccountToken": None}))[0]
    )
    assert "allowPrivilegeEscalation: false" in judge("small-ray-pods", RAY_JOB, ray_job({"securityContext": {}}))[0]


@pytest.mark.parametrize("image", ["ray:1.0", "registry.example.com/ray", f"r/ray@sha256:{'a' * 63}", UNKNOWN])
def test_images_without_a_digest_are_refused_on_eks(image: str, policy_environment: Setting) -> None:
    said = judge("pinned-images", RAY_JOB, ray_job({"image": image}))

    assert len(said) == 3
    assert "python -m infra image lock" in said[0]
    policy_environment("existing")
    assert judge("pinned-images", RAY_JOB, ray_job({"image": image})) == []
