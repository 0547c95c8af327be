"""What is said before anything is built on a cluster."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from infra import cluster_access
from infra.cluster_access import check_cluster
from infra.settings_models import TargetSettings
from tests.infra.fake_cluster import FakeCluster
from workload.errors import UserError


def target(kubeconfig: str, context: str | None = None) -> TargetSettings:
    return TargetSettings(kind="existing", namespace="ns", kubeconfig=kubeconfig, context=context)


def refusal(kubeconfig: str, context: str | None = None, *, needs_namespace: bool = False) -> str:
    with pytest.raises(UserError) as caught:
        check_cluster(target(kubeconfig, context), needs_namespace)
    return str(caught.value)


def test_a_good_cluster_gives_the_name_of_the_current_context(kubeconfig_file: str) -> None:
    assert check_cluster(target(kubeconfig_file), needs_namespace=False) == "here"


def test_a_context_that_does_not_exist_is_refused_with_those_that_do(kubeconfig_file: str) -> None:
    assert refusal(kubeconfig_file, "typo") == (
        "target.context = typo: is no context of the kubeconfig. Fix: use one of: here, nowhere"
    )


def test_a_missing_kubeconfig_is_refused(tmp_path: Path) -> None:
    assert refusal(str(tmp_path / "none")).startswith("target.kubeconfig = ")


def test_a_cluster_without_ray_jobs_is_refused_in_one_line_with_the_install_command(
    cluster: FakeCluster, kubeconfig_file: str
) -> None:
    cluster.served = []
    said = refusal(kubeconfig_file)

    assert "serves no RayJob" in said
    assert "helm install kuberay-operator kuberay-operator --repo https://" in said
    assert "\n" not in said


def test_another_api_of_the_same_group_is_not_enough(cluster: FakeCluster, kubeconfig_file: str) -> None:
    cluster.served = ["rayclusters"]

    assert "serves no RayJob" in refusal(kubeconfig_file)


@pytest.mark.case("C165")
def test_a_cluster_that_is_not_there_is_refused_within_the_bound(kubeconfig_file: str) -> None:
    started = time.monotonic()
    said = refusal(kubeconfig_file, "nowhere")

    assert said.startswith("target.context = nowhere: doesn't answer")
    assert "\n" not in said
    assert time.monotonic() - started < 5


@pytest.mark.case("C164")
def test_a_cluster_that_hangs_is_refused_within_the_bound(
    cluster: FakeCluster, kubeconfig_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_access, "REQUEST_SECONDS", 1)
    cluster.delay_seconds = 6
    started = time.monotonic()

    assert "doesn't answer" in refusal(kubeconfig_file)
    assert time.monotonic() - started < 5


@pytest.mark.case("C019")
def test_an_older_kuberay_that_would_drop_a_field_is_refused_by_the_field(cluster: FakeCluster, kubeconfig_file: str) -> None:
    cluster.job_fields = ["entrypoint"]
    said = refusal(kubeconfig_file)

    assert "RayJobs lack preRunningDeadlineSeconds" in said
    assert "Fix: upgrade it and its CRDs to 1." in said


def test_a_cluster_that_keeps_its_schemas_to_itself_is_taken_on_trust(cluster: FakeCluster, kubeconfig_file: str) -> None:
    cluster.job_fields = []

    assert check_cluster(target(kubeconfig_file), needs_namespace=False) == "here"


@pytest.mark.case("C165")
@pytest.mark.parametrize("status", [401, 403])
def test_a_cluster_that_refuses_its_user_is_not_called_one_without_kuberay(
    cluster: FakeCluster, kubeconfig_file: str, status: int
) -> None:
    cluster.refuses = status
    said = refusal(kubeconfig_file)

    assert said.startswith(f"target.context = here: refuses: {status}")
    assert "KubeRay" not in said


def test_an_existing_claim_needs_its_namespace(kubeconfig_file: str) -> None:
    assert "target.namespace = ns: can't be read (404" in refusal(kubeconfig_file, needs_namespace=True)
