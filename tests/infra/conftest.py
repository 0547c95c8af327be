"""Fixtures of the tests that speak to a cluster's API, and of those that judge policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.infra.fake_cluster import FakeCluster, kubeconfig


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    made = FakeCluster()
    yield made
    made.close()


@pytest.fixture
def kubeconfig_file(cluster: FakeCluster, tmp_path: Path) -> str:
    return str(kubeconfig(tmp_path / "kubeconfig", cluster.url))


@pytest.fixture
def policy_environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """An EKS environment that isn't production, unless a test says otherwise."""
    from tests.infra.policy_judges import write_environment  # most tests need no policy pack

    write_environment(monkeypatch)
    return partial(write_environment, monkeypatch)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code, with bounds that a test can wait for."""
    bounds = ("live_job._OPERATOR_SECONDS", "live_job._LEFTOVER_SECONDS", "store_reader._WAIT_SECONDS")
    polls = ("live_job._POLL_SECONDS", "store_reader._POLL_SECONDS", "job_gate._POLL_SECONDS", "rollout_gate._POLL_SECONDS")
    for name, seconds in [(name, 0.3) for name in bounds] + [(name, 0.02) for name in polls]:
        monkeypatch.setattr(f"infra.{name}", seconds)
