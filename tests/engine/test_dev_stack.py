"""`dev` on the engine: from nothing to a run that proves itself, then changed in every way that a cluster is, then gone.

One stack stands through this module. Each change is applied to it as it then is, and says which resources it replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.engine.conftest import World
from tests.engine.eks_project import EksProject, replaced, updated

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
NewStack = Callable[..., EksProject]
# What stays when the stack goes: the bucket, its key, and what protects it.
KEPT = [
    "aws_kms_key", "aws_s3_bucket", "aws_s3_bucket_lifecycle_configuration", "aws_s3_bucket_ownership_controls",
    "aws_s3_bucket_policy", "aws_s3_bucket_public_access_block", "aws_s3_bucket_server_side_encryption_configuration",
    "aws_s3_bucket_versioning",
]  # fmt: skip
NEVER_REPLACED = ("eks:index:Cluster", "aws:eks/cluster:Cluster", "aws:s3/bucket:Bucket", "aws:kms/key:Key", "aws:ec2/vpc:Vpc")


@pytest.fixture(scope="module")
def stack(new_stack: NewStack) -> EksProject:
    project = new_stack()
    project.up()
    return project


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
