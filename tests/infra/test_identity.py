"""What makes another run, and what doesn't."""

from __future__ import annotations

import pytest

from infra.identity import identify
from tests.infra.environments import local, raw
from workload.run_config import RUN_NAME_MAX_LENGTH

CODE = "a" * 64
RAY_JOB_NAME_MAX_LENGTH = 47  # KubeRay: controllers/ray/utils/validation.go


@pytest.mark.parametrize(
    "change",
    [
        "training.runName=other",
        "training.seed=18",
        "training.optimizer.learningRate=0.001",
        "training.faults=[]",
        "image.reference=example.com/other:1",
        "workers.cpu=700m",
        "workers.memory=4Gi",
        "workers.cpusPerWorker=2",
    ],
)
def test_what_a_run_is_made_of_changes_its_identity(change: str) -> None:
    assert identify(local(change), CODE).sha256 != identify(local(), CODE).sha256


@pytest.mark.parametrize(
    "change",
    [
        "store.path=/elsewhere",
        "target.namespace=other",
        "target.context=other",
        "job.retries=5",
        "job.activeDeadlineSeconds=9999",
        "job.keepClusterSeconds=1",
    ],
)
def test_where_it_runs_and_how_long_it_may_take_does_not(change: str) -> None:
    assert identify(local(change), CODE) == identify(local(), CODE)


def test_other_code_is_another_run() -> None:
    assert identify(local(), CODE).sha256 != identify(local(), "b" * 64).sha256


def test_the_same_number_written_differently_is_the_same_run() -> None:
    assert identify(local("training.optimizer.gradientClipNorm=1.0"), CODE) == identify(local(), CODE)
    assert identify(local("training.optimizer.learningRate=2e-3"), CODE) == identify(local(), CODE)


def test_spelling_a_default_out_is_the_same_run() -> None:
    assert "pullPolicy" not in raw()["image"]
    assert identify(local("image.pullPolicy=IfNotPresent"), CODE) == identify(local(), CODE)


@pytest.mark.case("C065")
def test_the_longest_run_name_gives_a_job_name_that_the_operator_takes() -> None:
    identity = identify(local(f"training.runName={'a' * RUN_NAME_MAX_LENGTH}"), CODE)

    assert len(identity.job_name) == RAY_JOB_NAME_MAX_LENGTH


def test_provenance_says_what_the_identity_was_made_of() -> None:
    provenance = identify(local(), CODE).provenance

    assert provenance.code_sha256 == CODE
    assert provenance.image == local().image.reference
