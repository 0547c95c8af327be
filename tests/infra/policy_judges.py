"""Asks single policies of the pack, as the pack would ask them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pulumi_policy import (
    PolicyProviderResource,
    PolicyResource,
    PolicyResourceOptions,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.policy import PolicyCustomTimeouts
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy

from infra.policy.pack import POLICIES
from infra.settings import PROJECT

UNKNOWN = UNKNOWN_STRING_VALUE
BY_NAME = {policy.name: policy for policy in POLICIES}
PROVIDER = "pulumi:providers:aws"
TEMPLATE, NODES = "aws:ec2/launchTemplate:LaunchTemplate", "aws:eks/nodeGroup:NodeGroup"
CLUSTER, COMPONENT = "aws:eks/cluster:Cluster", "eks:index:Cluster"
BUCKET, BLOCK = "aws:s3/bucket:Bucket", "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
ROLE, KEY = "aws:iam/role:Role", "aws:kms/key:Key"
SERVICE, RAY_JOB = "kubernetes:core/v1:Service", "kubernetes:ray.io/v1:RayJob"
Setting = Callable[..., None]  # what the fixture `policy_environment` gives: `write_environment` for other settings
PINNED = f"registry.example.com/ray@sha256:{'a' * 64}"


def write_environment(monkeypatch: pytest.MonkeyPatch, target: str = "eks", *, production: bool = False) -> None:
    """The stack's config, as the CLI gives it to a pack."""
    config = {"target": {"kind": target}, "aws": {"isProduction": production}}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps({f"{PROJECT}:{key}": json.dumps(value) for key, value in config.items()}))
    monkeypatch.setattr("pulumi.get_project", lambda: PROJECT)


def ray_job(container: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, **cluster: Any) -> dict[str, Any]:
    """A RayJob as it should be, but for what a test changes in its container, its pods or its cluster."""
    made = {"name": "ray", "image": PINNED, "securityContext": {"allowPrivilegeEscalation": False}, **(container or {})}
    template = {"spec": {"automountServiceAccountToken": False, "containers": [made], **(pod or {})}}
    head = {"serviceType": "ClusterIP", "template": template, **cluster.pop("head", {})}
    spec = {"authOptions": {"mode": "token"}, "headGroupSpec": head, "workerGroupSpecs": [{"template": template}], **cluster}
    return {"metadata": {"namespace": "ray"}, "spec": {"rayClusterSpec": spec, "submitterPodTemplate": template}}


def options(*, protect: bool = False) -> PolicyResourceOptions:
    return PolicyResourceOptions(protect, [], None, [], PolicyCustomTimeouts(0, 0, 0), [], None)


def judge(
    policy: str,
    kind: str,
    props: Mapping[str, Any],
    *,
    protect: bool = False,
    config: Mapping[str, Any] | None = None,
    provider: Mapping[str, Any] | None = None,
) -> list[str]:
    """What a policy over single resources says of one."""
    said: list[str] = []
    behind = (
        PolicyProviderResource(PROVIDER, unknown_checking_proxy(dict(provider)), "u", "aws") if provider is not None else None
    )
    args = ResourceValidationArgs(
        kind, unknown_checking_proxy(dict(props)), f"urn::{kind}::it", "it", options(protect=protect), behind, config
    )
    found = BY_NAME[policy]
    assert isinstance(found, ResourceValidationPolicy)
    found.validate(args, lambda message, urn=None: said.append(message))
    return said


@dataclass
class Made:
    """One resource of a stack; `refers` names the resources whose outputs a property holds."""

    kind: str
    name: str
    props: Mapping[str, Any]
    refers: Mapping[str, str] = field(default_factory=dict)
    protect: bool = False


def judge_stack(policy: str, *made: Made) -> list[str]:
    """What a policy over all resources says of these."""
    resources = {
        one.name: PolicyResource(
            one.kind,
            unknown_checking_proxy(dict(one.props)),
            f"urn::{one.name}",
            one.name,
            options(protect=one.protect),
            None,
            None,
            [],
            {},
        )
        for one in made
    }
    for one in made:
        resources[one.name].property_dependencies = {prop: [resources[name]] for prop, name in one.refers.items()}
    said: list[str] = []
    found = BY_NAME[policy]
    assert isinstance(found, StackValidationPolicy)
    ordered: Sequence[PolicyResource] = list(resources.values())
    found.validate(StackValidationArgs(list(ordered)), lambda message, urn=None: said.append(message))
    return said
