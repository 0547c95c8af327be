"""Components of the cluster on AWS against the recording engine, with what a provider would compute for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pulumi.runtime import rpc

from infra.eks_settings import ClusterSettings, GpuNodesSettings
from tests.infra.fake_engine import Recording, record

REGION, KUBERNETES, RELEASE = "us-west-2", "1.35", "1.35.8-20261012"
CONTROL_PLANE = "eks:index:Cluster"
TAGS = {"project": "ray-train-eks", "environment": "dev"}
KUBECONFIG = json.dumps({"users": [{"user": {"exec": {"command": "aws"}}}]})


def cluster_settings(**changes: Any) -> ClusterSettings:
    nodes = {"instanceType": "m7i.xlarge", "count": 2, "releaseVersion": RELEASE, "rootVolumeGib": 100}
    whole: dict[str, Any] = {
        "kubernetesVersion": KUBERNETES, "serviceCidr": "172.20.0.0/16", "publicAccessCidrs": ["203.0.113.0/24"],
        "openToTheInternet": False, "logTypes": ["api", "audit"], "logRetentionDays": 30, "admins": [],
        "deletionProtection": False,
    }  # fmt: skip
    nodes |= changes.pop("systemNodes", {})
    return ClusterSettings.model_validate_json(json.dumps({**whole, **changes, "systemNodes": nodes}))


def gpu_settings(**changes: Any) -> GpuNodesSettings:
    whole: dict[str, Any] = {
        "instanceType": "g6.12xlarge", "count": 2, "zone": "us-west-2b", "capacity": {"kind": "on-demand"}, "efa": True,
        "placementGroup": True, "releaseVersion": RELEASE, "rootVolumeGib": 200, "rootVolumeIops": 6000,
        "rootVolumeThroughput": 600, "repair": True,
    }  # fmt: skip
    return GpuNodesSettings.model_validate_json(json.dumps({**whole, **changes}))


def computed(kind: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
    if kind == CONTROL_PLANE:
        urn = f"urn:pulumi:test::ray-train-eks::eks:index:Cluster$aws:eks/cluster:Cluster::{inputs['name']}"
        reference = {rpc._special_sig_key: rpc._special_resource_sig, "urn": urn, "id": inputs["name"]}
        return {"eksCluster": reference, "clusterSecurityGroupId": "sg-0c1a5e", "kubeconfigJson": KUBECONFIG}
    known = {
        "aws:eks/cluster:Cluster": {"name": name},
        "aws:kms/key:Key": {"arn": f"arn:aws:kms:us-west-2:123456789012:key/{name}"},
        "aws:iam/role:Role": {"arn": f"arn:aws:iam::123456789012:role/{name}", "name": name},
        "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
        "aws:ec2/placementGroup:PlacementGroup": {"name": name},
    }
    return known.get(kind, {})


def record_component(program: Callable[[], object], *, preview: bool = False) -> Recording:
    """What a component that can be made asks for."""
    recording = attempt(program, preview=preview)
    assert not recording.error, recording.logs
    return recording


def attempt(program: Callable[[], object], *, preview: bool = False) -> Recording:
    """However it ends. An Output inside a text is an error here; the real engine would send the text of a warning."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PULUMI_ERROR_OUTPUT_STRING", "true")

        def run() -> None:
            program()

        return record(run, {}, "test", preview=preview, computed=computed)


def urns_of(recording: Recording, kind: str) -> list[str]:
    return [request.name for request in recording.requests.values() if request.type == kind]


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def tolerates(tolerations: list[dict[str, str]], taint: dict[str, str]) -> bool:
    """As the scheduler decides: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"""
    return any(
        toleration.get("key", taint["key"]) == taint["key"]
        and (toleration.get("operator") == "Exists" or toleration.get("value") == taint["value"])
        and toleration.get("effect", taint["effect"]) == taint["effect"]
        for toleration in tolerations
    )
