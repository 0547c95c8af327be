"""What `teardown-check` makes of what it found: kinds and names, what is kept, what goes by itself, commands."""

from __future__ import annotations

import pytest

from infra.answers import NotAsked
from infra.cost import KEPT
from infra.eks_settings import EfsStore, FsxStore, S3Store
from infra.sweep.everything import KINDS
from infra.teardown.found import Found, confirm, group, of_arn
from infra.teardown.remedies import remedy

REGION = "us-east-2"
S3 = S3Store(kind="s3", noncurrent_days=30, purge_on_destroy=False)
BUCKET = Found(kind="s3:bucket", name="b", key="arn:k")
KEY = Found(kind="kms:key", name="k", arn="arn:k", state="Enabled")
FILES = Found(kind="elasticfilesystem:file-system", name="fs-1", state="available")
POINT = Found(kind="elasticfilesystem:access-point", name="fsap-1")
BACKUP = Found(kind="backup:recovery-point", name="r")


@pytest.mark.parametrize(
    ("store", "kept"),
    [
        (S3, [BUCKET, KEY]),
        (S3.model_copy(update={"purge_on_destroy": True}), []),
        (
            FsxStore(kind="fsx", noncurrent_days=1, purge_on_destroy=False, deployment="SCRATCH_2", capacity_gib=1200),
            [BUCKET, KEY],
        ),
        (EfsStore(kind="efs", purge_on_destroy=False), [FILES, POINT, BACKUP]),
        (EfsStore(kind="efs", purge_on_destroy=True), []),
    ],
)
def test_what_is_kept_is_what_the_store_says(store: object, kept: list[Found]) -> None:
    every = [BUCKET, KEY, FILES, POINT, BACKUP]
    groups = group(every, store)

    assert groups.kept == kept
    assert groups.left_over == [one for one in every if one not in kept]


def test_another_key_than_the_buckets_is_not_kept_with_it() -> None:
    other = Found(kind="kms:key", name="o", arn="arn:o", state="Enabled")

    assert group([BUCKET, KEY, other], S3).left_over == [other]


@pytest.mark.parametrize("state", ["PendingDeletion", "deleting", "DELETING", "deleted", "shutting-down", "terminated"])
def test_what_aws_takes_away_by_itself_is_scheduled(state: str) -> None:
    going = Found(kind="ec2:natgateway", name="n", state=state)

    assert group([going], S3).scheduled == [going]


def test_every_kind_that_may_be_kept_has_a_price() -> None:
    assert set(KEPT) == {one.kind for one in (BUCKET, KEY, FILES, POINT, BACKUP)}


@pytest.mark.parametrize(
    ("arn", "kind", "name"),
    [
        ("arn:aws:ec2:r:1:natgateway/nat-1", "ec2:natgateway", "nat-1"),
        ("arn:aws:s3:::some-bucket", "s3:bucket", "some-bucket"),
        ("arn:aws:logs:r:1:log-group:/aws/eks/x/cluster:*", "logs:log-group", "/aws/eks/x/cluster"),
        ("arn:aws:eks:r:1:nodegroup/x/gpu/uuid", "eks:nodegroup", "x/gpu/uuid"),
        ("arn:aws:backup:r:1:recovery-point:uuid", "backup:recovery-point", "uuid"),
        ("arn:aws:sqs:r:1:queue", "sqs:queue", "queue"),
    ],
)
def test_an_arn_says_kind_and_name(arn: str, kind: str, name: str) -> None:
    assert (of_arn(arn).kind, of_arn(arn).name) == (kind, name)


def test_parts_of_a_cluster_that_stands_are_there_with_it() -> None:
    arn = "arn:aws:eks:r:1:nodegroup/x/gpu/uuid"
    cluster = Found(kind="eks:cluster", name="x")

    real, gone = confirm([arn], [cluster], ["eks:cluster"])
    assert ([one.kind for one in real], gone) == (["eks:cluster", "eks:nodegroup"], [])
    assert real[1].confirmed
    assert confirm([arn], [], ["eks:cluster"]) == ([], [arn])
    assert [one.confirmed for one in confirm([arn], [], [])[0]] == [False]


def test_a_name_is_quoted_for_the_shell() -> None:
    assert remedy(Found(kind="ec2:placement-group", name="a b"), REGION).endswith("--group-name 'a b' --region us-east-2")


def test_every_kind_that_is_looked_for_has_a_command_of_its_own() -> None:
    """Of another kind all that can be said is how to look at its tags."""
    for kind in KINDS:
        assert "get-resources" not in remedy(Found(kind=kind, name="n", arn="arn:n"), REGION), kind


def test_a_question_that_was_not_answered_reads_as_its_reason() -> None:
    assert str(NotAsked("needs permission x")) == "needs permission x"
