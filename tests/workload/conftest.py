"""A config maker, a server that speaks S3's protocol, and one Ray cluster for all tests."""

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


@pytest.fixture(scope="module")
def endpoint():
    """Address of a server on loopback that speaks S3's protocol, with a bucket `checkpoints`."""
    server = pytest.importorskip("moto.server", reason="needs moto[s3,server] (tests/requirements.txt)")
    from pyarrow import fs

    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "testing")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        threaded = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        threaded.start()
        host, port = threaded.get_host_and_port()
        address = f"{host}:{port}"
        service = fs.S3FileSystem(endpoint_override=address, scheme="http", region="us-east-1", allow_bucket_creation=True)
        service.create_dir("checkpoints")
        yield f"http://{address}"
        threaded.stop()


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
