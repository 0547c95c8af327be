"""`dev` on the engine: from nothing to a run that proves itself, then changed in every way that a cluster is, then gone.

One stack stands through this module. Each change is applied to it as it then is, and says which resources it replaces.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.engine.conftest import World, fails, no_system_node
from tests.engine.eks_project import EksProject

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
NewStack = Callable[..., EksProject]
# What stays when the stack goes: the bucket, its key, and what protects it.
KEPT = [
    "aws_kms_key", "aws_s3_bucket", "aws_s3_bucket_lifecycle_configuration", "aws_s3_bucket_ownership_controls",
    "aws_s3_bucket_policy", "aws_s3_bucket_public_access_block", "aws_s3_bucket_server_side_encryption_configuration",
    "aws_s3_bucket_versioning",
]  # fmt: skip
OPERATOR_FILE = "infra/ray_operator.py"
NEVER_REPLACED = ("eks:index:Cluster", "aws:eks/cluster:Cluster", "aws:s3/bucket:Bucket", "aws:kms/key:Key", "aws:ec2/vpc:Vpc")


@dataclass
class Story:
    """How the stack came to stand: what each try that failed in the middle said, and left when it was destroyed at once."""

    said: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


FAULTS = {
    "role": "aws_iam_role:create:LimitExceeded: Cannot exceed quota for RolesPerAccount: 1000",
    "capacity": "aws_eks_node_group:create:UnfulfillableCapacity: no g6.12xlarge in us-east-2a",
}


@pytest.fixture(scope="module")
def story() -> Story:
    return Story()


@pytest.fixture(scope="module")
def stack(new_stack: NewStack, world: World, story: Story) -> EksProject:
    """Stands after four tries: two that the account refuses, one destroyed at once, one whose chart never gets ready."""
    before = world.account.types()
    project = new_stack("rayOperator.version=1.6.0")
    story.said["role"] = failed(project.up(check=False, more=fails(FAULTS["role"])))
    project.destroy()
    story.left = list((Counter(world.account.types()) - Counter(before)).elements())
    story.said["capacity"] = failed(project.up(check=False, more=fails(FAULTS["capacity"])))
    project.edit(OPERATOR_FILE, "_WAIT_SECONDS = 300", "_WAIT_SECONDS = 20")
    with no_system_node():
        story.said["chart"] = failed(project.up(check=False))
    project.edit(OPERATOR_FILE, "_WAIT_SECONDS = 20", "_WAIT_SECONDS = 300")
    project.up()
    return project


def failed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


@pytest.mark.usefixtures("stack")
def test_an_update_that_fails_in_the_middle_says_why_and_the_next_one_finishes(story: Story) -> None:
    assert "Cannot exceed quota for RolesPerAccount" in story.said["role"]
    assert "no g6.12xlarge in us-east-2a" in story.said["capacity"]
    assert "ray-operator-release" in story.said["chart"]


@pytest.mark.usefixtures("stack")
def test_a_destroy_after_a_failed_update_leaves_nothing_but_the_bucket(story: Story) -> None:
    assert sorted(story.left) in (KEPT, [])


def test_from_nothing_to_a_run_that_proves_itself(stack: EksProject, world: World) -> None:
    assert stack.wait_for_end()["jobStatus"] == "SUCCEEDED"
    fetched = stack.fetch()

    assert fetched.returncode == 0, fetched.stdout + fetched.stderr
    record = stack.record()
    verdicts = {claim["name"]: claim["verdict"] for claim in record["claims"]}
    assert {name: verdicts[name] for name in ("executed", "learned", "data is real")} == {
        "executed": "proven", "learned": "proven", "data is real": "proven",
    }  # fmt: skip
    assert verdicts["transport"] == "not tested"  # a run without GPUs says nothing of EFA
    outputs = stack.outputs()
    assert record["identity"] == outputs["identity"]
    keys = world.buckets.keys(outputs["bucket"])
    assert keys
    assert {key.split("/")[0] for key in keys} == {"store"}, "the pods' rights end at this prefix"


def test_pods_have_credentials_by_pod_identity_alone(stack: EksProject, world: World) -> None:
    """The driver, the workers and the reader wrote to and read from the bucket; nothing else gave them a key."""
    given = "".join(world.agent.given_to)

    assert "head" in given
    assert "worker" in given
    assert "reader" in given
    (job,) = stack.objects("rayjobs")
    assert "AWS_ACCESS_KEY_ID" not in str(job)


def test_a_second_update_and_one_after_a_refresh_change_nothing(stack: EksProject) -> None:
    assert stack.is_unchanged()
    stack.refresh()
    assert stack.is_unchanged(), "refresh found a change"


# What is changed -> what that does, by the name of the resource; everything else is left alone.
CHANGES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "another AMI release": (("gpuNodes.releaseVersion=1.35.8-20261019",), {"gpu-nodes-nodes": "update"}),
    "a third node": (("gpuNodes.count=3", "aws.maxHourlyCost=20"), {"gpu-nodes-nodes": "update"}),
    "a newer operator": (
        ("rayOperator.version=1.6.2",), {"ray-operator-crds": "update", "ray-operator-release": "update"},
    ),
    "other log types": (("cluster.logTypes=[audit]",), {"cluster-control-plane-eksCluster": "update"}),
    "public access": (
        ("cluster.publicAccessCidrs=[203.0.113.0/24]",), {"cluster-control-plane-eksCluster": "update"},
    ),
    "a third zone": (
        ("network.zones=[us-east-2a, us-east-2b, us-east-2c]",),
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_does_what_the_table_says_and_never_replaces_what_holds_data(stack: EksProject, name: str) -> None:
    changes, expected = CHANGES[name]
    stack.change(*changes)

    assert stack.preview() == expected
    stack.up()
    assert stack.preview() == {}
