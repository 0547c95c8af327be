"""`dev` on the engine: from nothing to a run that proves itself, then changed in every way that a cluster is, then gone.

One stack stands through this module. Each change is applied to it as it then is, and says which resources it replaces.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.engine.account import Account
from tests.engine.conftest import World, fails, no_system_node, part
from tests.engine.eks_project import EksProject

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
NewStack = Callable[..., EksProject]
# What stays when the stack goes: the bucket, its key, and what protects it.
KEPT = [
    "aws_kms_key", "aws_s3_bucket", "aws_s3_bucket_lifecycle_configuration", "aws_s3_bucket_ownership_controls",
    "aws_s3_bucket_policy", "aws_s3_bucket_public_access_block", "aws_s3_bucket_server_side_encryption_configuration",
    "aws_s3_bucket_versioning",
]  # fmt: skip
GATE_FILE = "infra/rollout_gate.py"
# What is all gone before the first of the other goes.
ORDER = (
    ("aws_eks_addon", "aws_eks_cluster"), ("aws_eks_node_group", "aws_eks_cluster"),
    ("aws_eks_node_group", "aws_iam_role_policy_attachment"), ("aws_eks_cluster", "aws_subnet"),
    ("aws_eks_node_group", "aws_route"), ("aws_subnet", "aws_vpc"),
)  # fmt: skip


@dataclass
class Story:
    """How the stack came to stand: what each try that failed in the middle said, and left when it was destroyed at once."""

    before: Counter[str]  # what others have in the account, by type
    said: dict[str, str] = field(default_factory=dict)
    left: Counter[str] = field(default_factory=Counter)


FAULTS = {
    "role": "aws_iam_role:create:LimitExceeded: Cannot exceed quota for RolesPerAccount: 1000",
    "capacity": "aws_eks_node_group:create:UnfulfillableCapacity: no g6.12xlarge in us-east-2a",
}


@pytest.fixture(scope="module")
def story(account: Account) -> Story:
    return Story(Counter(account.types()))


@pytest.fixture(scope="module")
def stack(new_stack: NewStack, world: World, story: Story) -> EksProject:
    """Stands after four tries: two that the account refuses, one destroyed at once, one whose chart never gets ready."""
    project = new_stack("rayOperator.version=1.6.0")
    story.said["role"] = failed(project.up(check=False, more=fails(FAULTS["role"])))
    project.destroy()
    story.left = Counter(world.account.types()) - story.before
    story.said["capacity"] = failed(project.up(check=False, more=fails(FAULTS["capacity"])))
    project.edit(GATE_FILE, "_WAIT_SECONDS = 300", "_WAIT_SECONDS = 20")
    with no_system_node():
        story.said["chart"] = failed(project.up(check=False))
    project.edit(GATE_FILE, "_WAIT_SECONDS = 20", "_WAIT_SECONDS = 300")
    project.up()
    return project


def failed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


@pytest.mark.case("C004", "C021")
@pytest.mark.usefixtures("stack")
def test_an_update_that_fails_in_the_middle_says_why_and_the_next_one_finishes(story: Story) -> None:
    assert "Cannot exceed quota for RolesPerAccount" in story.said["role"]
    assert "no g6.12xlarge in us-east-2a" in story.said["capacity"]
    assert "Helm release ray-system/kuberay-operator isn't ready after 20 s" in story.said["chart"]
    assert "didn't match Pod's node affinity/selector" in story.said["chart"]
    assert "Traceback" not in "".join(story.said.values())


@pytest.mark.usefixtures("stack")
def test_a_destroy_after_a_failed_update_leaves_nothing_but_the_bucket(story: Story) -> None:
    assert not story.left - Counter(KEPT)


ASK = """
import os, sys, urllib.error, urllib.request
headers = {"Authorization": "Bearer " + os.environ["RAY_AUTH_TOKEN"]} if sys.argv[1] == "token" else {}
try:
    print(urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8265/api/jobs/", headers=headers), timeout=20).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.mark.case("C171")
def test_rays_dashboard_wants_the_runs_token(stack: EksProject) -> None:
    """While the job runs, which was submitted with it."""
    head = stack.pods("head")[0]["metadata"]["name"]
    answers = {who: stack.kubectl("exec", head, "--", "python", "-c", ASK, who).strip() for who in ("nobody", "token")}

    assert answers == {"nobody": "401", "token": "200"}


def test_from_nothing_to_a_run_that_proves_itself(stack: EksProject, world: World) -> None:
    watched = stack.infra("watch")

    assert watched.returncode == 0, watched.stdout + watched.stderr
    assert re.search(r"training, step \d+/24", watched.stdout)
    record = stack.record()
    verdicts = {claim["name"]: claim["verdict"] for claim in record["claims"]}
    assert {name: verdicts[name] for name in ("executed", "learned", "data is real")} == {
        "executed": "proven", "learned": "proven", "data is real": "proven",
    }  # fmt: skip
    assert verdicts["transport"] == "not tested"  # a run without GPUs says nothing of EFA
    outputs = stack.outputs()
    assert record["identity"] == outputs["identity"]
    assert outputs["storePath"] == f"s3://{outputs['bucket']}/store/cpu-dev"
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


@pytest.mark.case("C013")
def test_a_second_update_and_one_after_a_refresh_change_nothing(stack: EksProject) -> None:
    assert stack.is_unchanged()
    stack.refresh()
    assert stack.is_unchanged(), "refresh found a change"


# What is changed -> what that does, by the name of the resource; everything else is left alone.
CHANGES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "another AMI release": (("gpuNodes.releaseVersion=1.35.8-20261019",), {"gpu-nodes-nodes": "update"}),
    "a larger disk": (
        ("gpuNodes.rootVolumeGib=250",), {"gpu-nodes-template": "update", "gpu-nodes-nodes": "update"},
    ),
    "another zone for the GPU nodes": (("gpuNodes.zone=us-east-2b",), {"gpu-nodes-nodes": "replace"}),
    "a newer operator": (
        ("rayOperator.version=1.6.2",),
        {"ray-operator-crds": "update", "ray-operator-release": "update", "ray-operator-gate": "update"},
    ),
    "other log types": (("cluster.logTypes=[audit]",), {"cluster-control-plane-eksCluster": "update"}),
    "public access": (
        ("cluster.publicAccessCidrs=[203.0.113.0/24]",), {"cluster-control-plane-eksCluster": "update"},
    ),
    "a third zone": (
        ("network.zones=[us-east-2a, us-east-2b, us-east-2c]",),
        {
            **dict.fromkeys(
                (f"network-{part}" for part in (
                    "public-us-east-2c", "public-us-east-2c-association", "private-us-east-2c", "private-us-east-2c-routes",
                    "private-us-east-2c-association", "private-us-east-2c-nat",
                )), "create",
            ),
            "network-s3": "update", "cluster-control-plane-eksCluster": "update",
        },
    ),
}  # fmt: skip


@pytest.mark.case("C016", "C019")
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_does_what_the_table_says_and_never_replaces_what_holds_data(stack: EksProject, name: str) -> None:
    changes, expected = CHANGES[name]
    stack.change(*changes)

    assert stack.update() == expected


@pytest.mark.case("C014")
def test_another_owner_is_a_tag_on_everything_in_place(stack: EksProject) -> None:
    owned = stack.owned()
    assert {"network-vpc", "gpu-nodes-nodes", "store-s3-bucket"} <= owned
    stack.change("aws.owner=somebody-else")

    assert stack.update() == dict.fromkeys({*owned, "aws"}, "update")


@pytest.mark.case("C017")
def test_a_plan_that_would_replace_a_protected_cluster_ends_before_anything_is_done(stack: EksProject, world: World) -> None:
    stack.change("cluster.deletionProtection=true")
    stack.up()
    done, uid = len(world.account.journal()), stack.job()["metadata"]["uid"]
    stack.change("cluster.serviceCidr=172.21.0.0/16")

    refused = stack.pulumi("up", "--yes", "--stack", stack.stack, check=False)
    assert refused.returncode != 0
    assert "cluster-control-plane-eksCluster" in refused.stdout + refused.stderr
    assert "protect" in refused.stdout + refused.stderr
    assert world.account.journal()[done:] == []
    assert stack.job()["metadata"]["uid"] == uid
    stack.change("cluster.serviceCidr=172.20.0.0/16", "cluster.deletionProtection=false")
    stack.up()


# The code is the same, and is labelled with the run that uses it.
NEW_JOB = {"job-code": "update", "job-run-config": "replace", "job-ray-job": "replace", "job-gate": "replace"}


def test_fewer_nodes_are_another_job_on_the_same_cluster(stack: EksProject) -> None:
    stack.change("gpuNodes.count=1", "workers.perPod=2", "workers.cpu=1200m", "workers.memory=6Gi")

    assert stack.update() == {"gpu-nodes-nodes": "update", **NEW_JOB}


@pytest.mark.case("C055", "C057")
def test_another_image_replaces_the_job_alone_which_resumes_from_the_bucket(stack: EksProject) -> None:
    stack.lock_image("second", "first")
    stack.change("training.schedule.steps=30")

    assert stack.update() == NEW_JOB
    assert stack.wait_for_end()["jobStatus"] == "SUCCEEDED"
    assert stack.fetch().returncode == 0
    restored = stack.record()["attempts"][-1]["restored"]
    assert restored["step"] >= 24, "it began anew"


@pytest.mark.case("C152", "C153")
def test_destroy_with_a_dead_api_server_leaves_the_bucket_and_what_protects_it(
    stack: EksProject, story: Story, world: World
) -> None:
    """In the order of its dependencies: what runs on nodes before the nodes, nodes before their rights, the network last."""
    done_before = len(world.account.journal())
    part("STOP", "apiserver")
    try:
        looked = stack.fetch()
        stack.destroy()
    finally:
        part("START", "apiserver")

    assert looked.returncode == 2
    assert "can't be asked" in looked.stderr
    assert sorted((Counter(world.account.types()) - story.before).elements()) == KEPT
    deleted = [each["type"] for each in world.account.journal()[done_before:] if each["operation"] == "delete"]
    assert deleted.index("aws_eks_pod_identity_association") < deleted.index("aws_iam_role_policy")
    last = {kind: len(deleted) - 1 - deleted[::-1].index(kind) for kind in set(deleted)}
    for earlier, later in ORDER:
        assert last[earlier] < deleted.index(later), f"{earlier} goes before {later}: {deleted}"
