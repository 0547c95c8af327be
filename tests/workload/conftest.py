"""A config maker, and one Ray cluster for all tests."""

import os

import pytest

from tests.workload.runs import ROOT, run_config
from workload.run_config import RunConfig


@pytest.fixture
def config(tmp_path):
    """A run config over a fresh store; call it with changes."""

    def make(**changes) -> RunConfig:
        return run_config(tmp_path / "store", **changes)

    return make


@pytest.fixture(scope="session")
def ray_cluster():
    """One Ray cluster for the whole test run; `ray.init` and process starts cost seconds each. Yields its environment."""
    import ray

    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)  # as every pod has it: Ray's processes take it from the node, not from the driver
    context = ray.init(num_cpus=4, include_dashboard=False, logging_level="error", log_to_driver=False)
    environment = dict(
        os.environ, RAY_ADDRESS=context.address_info["address"], PYTHONPATH=str(ROOT), RAY_TRAIN_HEALTH_CHECK_INTERVAL_S="0.3"
    )
    yield environment
    ray.shutdown()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before
