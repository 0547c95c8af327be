"""The real `__main__.py`, recorded once for each environment and shared by every test that reads what it asked for.

What AWS would compute has the form of AWS's own (identifiers, ARNs, names with the provider's suffix), so that the models
of its APIs can judge what is built from it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import uuid
from typing import Any

import pytest
from pulumi.runtime import rpc

from infra import image
from infra.checkpoint_store import CheckpointStore
from infra.eks_settings import EfsStore, FsxStore
from infra.environment_file import read_environment
from infra.image import ImageLock, LockEntry
from infra.mounted_volume import StoreSite
from infra.settings import PROJECT
from tests.infra import eks_component
from tests.infra.component import ACCOUNT
from tests.infra.eks_component import CONTROL_PLANE, KUBECONFIG
from tests.infra.environments import ROOT
from tests.infra.fake_engine import Recording, record

PROGRAM = ROOT / "__main__.py"
RAY_JOB = "kubernetes:ray.io/v1:RayJob"
REGION = "us-east-2"
DIGEST = "sha256:" + "d" * 64
# What the provider puts behind a logical name to make a physical one.
# https://www.pulumi.com/docs/iac/concepts/resources/names/#autonaming
NAME_SUFFIX = "-0a1b2c3"
LOCK = ImageLock(
    schema_version=1,
    history=(
        LockEntry(
            repository="public.ecr.aws/deep-learning-containers/ray", tag="train-ml-cuda-v1.1.0", digest=DIGEST,
            locked_at="2026-12-01T00:00:00Z", registry="test", compressed_bytes=1,
            versions={"ray": "2.58.0", "python": "3.13", "cuda": "13.0.2"}, version_sources={},
        ),
    ),
)  # fmt: skip
ENVIRONMENTS = ("dev", "prod", "local")
# Kinds of store that no environment file has: the component alone, which takes a tenth of a whole program's time.
STORES = {
    "store-fsx": FsxStore(
        kind="fsx", noncurrent_days=30, purge_on_destroy=False, deployment="PERSISTENT_2", capacity_gib=1200,
        throughput_per_tib=250,
    ),
    "store-efs": EfsStore(kind="efs", purge_on_destroy=False),
}  # fmt: skip
ALL = (*ENVIRONMENTS, *STORES)

_IDENTIFIERS = {
    "aws:ec2/vpc:Vpc": "vpc", "aws:ec2/subnet:Subnet": "subnet", "aws:ec2/internetGateway:InternetGateway": "igw",
    "aws:ec2/natGateway:NatGateway": "nat", "aws:ec2/eip:Eip": "eipalloc", "aws:ec2/routeTable:RouteTable": "rtb",
    "aws:ec2/securityGroup:SecurityGroup": "sg", "aws:ec2/launchTemplate:LaunchTemplate": "lt",
    "aws:efs/fileSystem:FileSystem": "fs", "aws:efs/accessPoint:AccessPoint": "fsap",
    "aws:fsx/lustreFileSystem:LustreFileSystem": "fs",
}  # fmt: skip
_NAMED = (
    "aws:iam/role:Role", "aws:ec2/placementGroup:PlacementGroup", "aws:cloudwatch/logGroup:LogGroup",
    "aws:ec2/launchTemplate:LaunchTemplate",
)  # fmt: skip
# Their API's own word for what is seen of one of them beside its identifier.
_OTHERS: dict[str, dict[str, Any]] = {
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
    "aws:fsx/lustreFileSystem:LustreFileSystem": {"dnsName": "fs-0.fsx.us-east-2.amazonaws.com", "mountName": "abcdefgh"},
    "aws:s3/bucket:Bucket": {"bucket": "the-bucket", "arn": "arn:aws:s3:::the-bucket", "region": REGION},
}


def config_of(environment: str = "local", **changes: Any) -> dict[str, str]:
    """The environment's own file, after changes such as `gpuNodes__efa=False`."""
    objects = read_environment(ROOT / f"Pulumi.{environment}.yaml", PROJECT)
    for path, value in changes.items():
        section, _, key = path.partition("__")
        objects[section] = {**objects[section], key: value} if key else value
    return {f"{PROJECT}:{key}": json.dumps(value) for key, value in objects.items()}


def computed(kind: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """What the providers add to what was asked for; `id` is the physical identifier."""
    if kind == RAY_JOB:
        return {"metadata": {"uid": "uid-1"}}
    if kind.startswith("pulumi-python"):
        return {"failure": ""}
    if kind == "kubernetes:core/v1:PersistentVolume":
        return {"metadata": {"name": name + NAME_SUFFIX}}
    if kind == CONTROL_PLANE:
        return _control_plane(inputs)
    if kind == "aws:eks/cluster:Cluster":
        return {"name": name}
    return {**_identity(kind, name), **_name(kind, name, inputs), **_OTHERS.get(kind, {})}


def _control_plane(inputs: dict[str, Any]) -> dict[str, Any]:
    """The kubeconfig as a secret, which the component may call it in any version, so that a recording shows where it goes."""
    secret = {rpc._special_sig_key: rpc._special_secret_sig, "value": KUBECONFIG}
    found = eks_component.computed(CONTROL_PLANE, inputs["name"], inputs)
    return {**found, "clusterSecurityGroupId": f"sg-{_hex(inputs['name'])}", "kubeconfigJson": secret}


def _hex(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:17]


def _identity(kind: str, name: str) -> dict[str, Any]:
    if kind in _IDENTIFIERS:
        return {"id": f"{_IDENTIFIERS[kind]}-{_hex(name)}"}
    if kind == "aws:kms/key:Key":
        key = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
        return {"id": key, "arn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{key}"}
    return {}


def _name(kind: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
    if kind not in _NAMED:
        return {}
    physical = inputs.get("name", name + NAME_SUFFIX)
    arns = {
        "aws:iam/role:Role": f"arn:aws:iam::{ACCOUNT}:role/{physical}",
        "aws:cloudwatch/logGroup:LogGroup": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{physical}",
    }
    return {"name": physical, **({"arn": arns[kind]} if kind in arns else {})}


def run(environment: str = "dev", *, preview: bool = False, **changes: Any) -> Recording:
    """A recording of one's own: for a preview, or for settings that the file doesn't have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_ERROR_OUTPUT_STRING", "true")
        patch.setattr(image, "read_lock", lambda: LOCK)
        patch.setattr("infra.cluster_access.check_cluster", lambda target, needs_namespace: target.context or "the-context")
        return record(PROGRAM, config_of(environment, **changes), environment, preview=preview, computed=computed)


def _store(settings: FsxStore | EfsStore) -> Recording:
    def program() -> None:
        site = StoreSite(
            region=REGION,
            cluster_name="ray-train-eks-dev",
            vpc_id=f"vpc-{_hex('vpc')}",
            subnet_ids={zone: f"subnet-{_hex(zone)}" for zone in ("us-east-2a", "us-east-2b")},
            gpu_zone="us-east-2a",
            node_security_group_id=f"sg-{_hex('nodes')}",
            nodes=[],
        )
        CheckpointStore("store", settings, "ray-train", site=site)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_ERROR_OUTPUT_STRING", "true")
        return record(program, {}, "test", computed=computed)


@functools.cache
def recorded(name: str) -> Recording:
    """The recording of one of ALL: made once, so nobody may change it."""
    recording = _store(STORES[name]) if name in STORES else run(name)
    assert not recording.error, "\n".join([recording.error, *recording.logs])
    return recording
