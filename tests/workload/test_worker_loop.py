"""What one rank checks before it trains; the loop itself is tried in tests/workload/test_on_ray.py."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.workload.runs import run_config
from workload.run_config import S3StoreConfig
from workload.store import Store
from workload.worker_loop import check_shared

BUCKET = S3StoreConfig(kind="s3", bucket="checkpoints", prefix="store", region="us-east-1", endpoint="http://127.0.0.1:9")


def rank(config: Any, store: Any) -> Any:
    return SimpleNamespace(config=config, store=store, folder="run/lineage-0001", rank=3)


def test_a_rank_that_sees_what_the_driver_wrote_goes_on(tmp_path):
    config = run_config(tmp_path)
    store = Store(config.store)
    store.write("run/lineage-0001/config/one.json", b"{}")

    check_shared(rank(config, store))


def test_a_path_that_is_not_shared_is_named_with_what_to_mount(tmp_path):
    config = run_config(tmp_path)

    with pytest.raises(FileNotFoundError, match=r"store\.path = /.*: rank 3 does not see.*Fix: mount one shared file system"):
        check_shared(rank(config, Store(config.store)))


def test_of_a_bucket_no_path_and_no_mount_is_spoken_of(tmp_path):
    config = run_config(tmp_path).model_copy(update={"store": BUCKET})
    empty = SimpleNamespace(root="s3://checkpoints/store", files=lambda _folder: [])

    with pytest.raises(FileNotFoundError, match=r"^store = s3://checkpoints/store: rank 3 does not see") as said:
        check_shared(rank(config, empty))
    assert "mount" not in str(said.value)
