"""Ways into the cluster: services, ingresses, gateways, and the Ray head, whose job server runs whatever it is sent.

A chart's templates aren't rendered here; its values are searched for the words that open a service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infra.policy import environment
from infra.policy.rules import UNKNOWN, Subject, items, of_kind, reach, resource_policy, stack_policy

RAY_JOB = "kubernetes:ray.io/v1:RayJob"
RAY_KINDS = (RAY_JOB, "kubernetes:ray.io/v1:RayCluster", "kubernetes:ray.io/v1:RayService")
RELEASES = ("kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v4:Chart")
_CLUSTER_IP = (None, "ClusterIP")
_INGRESS = ("kubernetes:networking.k8s.io/", "kubernetes:extensions/", "kubernetes:gateway.networking.k8s.io/")
_NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
_GATEWAYS = ("Gateway", "HTTPRoute", "TCPRoute", "TLSRoute", "GRPCRoute", "UDPRoute")
_FIX = "Fix: use ClusterIP, and kubectl port-forward to reach it"


def judge_services(subject: Subject) -> Iterator[str]:
    name = subject.kind.rpartition(":")[2]
    if subject.kind == "kubernetes:core/v1:Service":
        if subject.get("spec.type") not in _CLUSTER_IP:
            yield f"has the type {subject.get('spec.type')}. {_FIX}"
        if subject.get("spec.externalIPs"):
            yield f"has external addresses. {_FIX}"
    elif subject.kind.startswith(_INGRESS) and name in ("Ingress", *_GATEWAYS):
        yield f"lets the outside in. {_FIX}"
    elif subject.kind in RAY_KINDS:
        yield from _ray(ray_cluster(subject))
    elif subject.kind in RELEASES:
        yield from _values(subject.get("values"), "values")


def ray_cluster(subject: Subject) -> Any:
    paths = {"RayJob": "spec.rayClusterSpec", "RayCluster": "spec", "RayService": "spec.rayClusterConfig"}
    return subject.get(paths[subject.kind.rpartition(":")[2]])


def _ray(cluster: Any) -> Iterator[str]:
    head = reach(cluster, "headGroupSpec", {})
    for kind in (reach(head, "serviceType"), reach(head, "headService.spec.type")):
        if kind not in _CLUSTER_IP:
            yield f"its head's service has the type {kind}. {_FIX}"
    if reach(head, "enableIngress"):
        yield f"its head gets an ingress. {_FIX}"
    if environment.on_eks() and reach(cluster, "authOptions.mode") != "token":
        yield "whoever reaches its head can run code. Fix: set rayClusterSpec.authOptions.mode: token"


def _values(values: Any, path: str) -> Iterator[str]:
    if isinstance(values, list):
        for index, value in enumerate(values):
            yield from _values(value, f"{path}[{index}]")
    if not isinstance(values, Mapping):
        return
    for key, value in values.items():
        here = f"{path}.{key}"
        in_service = key == "serviceType" or (key == "type" and path.lower().endswith("service"))
        if in_service and value in ("LoadBalancer", "NodePort"):
            yield f"{here} is {value}. {_FIX}"
        elif key == "ingress" and reach(value, "enabled") is True:
            yield f"{here} is enabled. {_FIX}"
        else:
            yield from _values(value, here)


def judge_network_policies(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, str]]:
    """Ray's ports (dashboard, client, GCS) are for pods of the run alone: a NetworkPolicy in the namespace must say so."""
    if not environment.on_eks():
        return
    policies = [
        one for one in of_kind(subjects, _NETWORK_POLICY) if "Ingress" in items(one.get("spec.policyTypes", ["Ingress"]))
    ]
    for job in of_kind(subjects, *RAY_KINDS):
        where = job.get("metadata.namespace")
        if not any(
            UNKNOWN in (where, policy.get("metadata.namespace")) or policy.get("metadata.namespace") == where
            for policy in policies
        ):
            yield job, "no NetworkPolicy for ingress is in its namespace. Fix: add one that allows the run's own pods"


POLICIES = [
    resource_policy("cluster-ip-only", "Nothing in the cluster is reachable from outside.", judge_services),
    stack_policy("ray-has-a-network-policy", "Ray's ports are closed to other pods.", judge_network_policies),
]
