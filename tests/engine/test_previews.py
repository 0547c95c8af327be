"""First previews of the environments on EKS as they are, with the policies, on the engine: no cluster, no account."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engine.account import Account
from tests.engine.eks_project import EksProject

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_a_first_preview_needs_no_cluster_and_no_account_and_breaks_no_policy(
    account: Account, tmp_path: Path, environment: str
) -> None:
    done_before = len(account.journal())
    project = EksProject(tmp_path / "project", os.environ["RAYTRAIN_E2E_CHARTS"], environment)
    nowhere = {"KUBECONFIG": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true"}
    done = project.pulumi("preview", "--stack", environment, "--policy-pack", "infra/policy", more=nowhere)

    assert "USD/h" in done.stdout
    assert "[mandatory]" not in done.stdout
    assert "ray-train-eks@v" in done.stdout  # the pack was there
    assert " to create" in done.stdout
    assert len(account.journal()) == done_before


def test_a_policy_that_is_broken_ends_the_preview(account: Account, tmp_path: Path) -> None:
    done_before = len(account.journal())
    project = EksProject(tmp_path / "project", os.environ["RAYTRAIN_E2E_CHARTS"], "dev")
    project.edit("infra/gpu_nodes.py", 'encrypted="true"', 'encrypted="false"')
    done = project.pulumi("preview", "--stack", "dev", "--policy-pack", "infra/policy", check=False)

    assert done.returncode != 0
    assert "[mandatory]" in done.stdout
    assert "gpu-nodes-template: its disk /dev/xvda is not encrypted" in done.stdout
    assert len(account.journal()) == done_before
