"""What a save may still do when another driver has taken over the run. Saves as such: tests/workload/test_on_ray.py."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from workload import receipts
from workload.checkpoint import Place, SaveFailedError, Saver
from workload.faults import Faults
from workload.lease import Fence, LeaseLostError, claim_path
from workload.store import Store


@pytest.fixture
def one_rank(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def store(config) -> Store:
    return Store(config().store)


@pytest.fixture
def save(store, one_rank):
    """Saves attempt 1's state at a step, keeping one checkpoint, under the lease of term 1."""
    place = Place(
        store=store, folder="run/checkpoints", rank=0, world_size=1, attempt=1, identity="a", layout="full over 1 workers",
        compatibility={}, fence=Fence(store, "run", 1),
    )  # fmt: skip
    saver = Saver(place, Faults((), 0, 1), keep=1, timeout_seconds=20)

    def run(step: int) -> None:
        moments = {"exp_avg": torch.ones(4), "exp_avg_sq": torch.ones(4)}
        saver.save({"model": {"w": torch.ones(4)}, "optimizer": {"w": moments}}, step, step * 8)
        saver.wait()

    return run


def take_over(store: Store) -> None:
    store.write(claim_path("run", 2, "b", exclusive=True), b"{}")


def complete(store: Store) -> list[str]:
    folders = store.folders("run/checkpoints")
    return [name for name in folders if store.exists(f"run/checkpoints/{name}/{receipts.MARKER}")]


def test_a_save_under_the_lease_is_completed_and_older_ones_go(store, save):
    save(2)
    save(4)

    assert store.folders("run/checkpoints") == complete(store) == [receipts.folder_name(4, 1)]


def test_a_save_whose_run_was_taken_over_gets_no_marker_and_prunes_nothing(store, save):
    save(2)
    take_over(store)

    with pytest.raises(SaveFailedError, match="has taken over this run"):
        save(4)

    assert complete(store) == [receipts.folder_name(2, 1)]


def test_a_takeover_between_marker_and_pruning_leaves_the_other_drivers_save_in_progress_alone(store, save, monkeypatch):
    theirs = f"run/checkpoints/{receipts.folder_name(2, 2)}"
    store.write(f"{theirs}/__0_0.distcp", b"half of a shard")
    write = Store.write

    def taken_over_right_after_the_marker(self, path, data, **options):
        write(self, path, data, **options)
        if path.endswith(receipts.MARKER):
            take_over(store)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", taken_over_right_after_the_marker)
        with pytest.raises(SaveFailedError) as failure:
            save(4)

    assert isinstance(failure.value.__cause__, LeaseLostError)
    assert store.exists(f"{theirs}/__0_0.distcp")
