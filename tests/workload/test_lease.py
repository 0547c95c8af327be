"""One driver at a time: how a lease is watched, taken, renewed, lost and released, over a folder and over a bucket."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.workload.runs import ROOT, run_config
from workload.errors import UserError
from workload.lease import (
    PACE,
    Claim,
    Fence,
    Lease,
    LeaseLostError,
    Pace,
    Seen,
    Watch,
    claim_path,
    newest_claim,
)
from workload.lease_holder import LeaseHolder
from workload.run_config import S3StoreConfig
from workload.store import Store

# Wide enough that a busy machine delays no renewal for as long as a lease is watched.
QUICK = Pace(renew=0.2, watch=1.2, outage=60.0)


@pytest.fixture(params=["folder", "bucket"])
def config(request, tmp_path, monkeypatch):
    """A run in a store of each kind."""
    monkeypatch.setattr("workload.store_files.RETRY_SECONDS", 0.01)
    made = run_config(tmp_path / "store")
    if request.param == "folder":
        return made
    endpoint = request.getfixturevalue("endpoint")
    prefix = f"lease/{tmp_path.name}"
    bucket = S3StoreConfig(kind="s3", bucket="checkpoints", prefix=prefix, region="us-east-1", endpoint=endpoint)
    return made.model_copy(update={"store": bucket})


class Driver(LeaseHolder):
    """A driver that keeps what it says, and whose thread can be held up as a paused process's is."""

    def __init__(self, config, pace: Pace = QUICK, store: Store | None = None) -> None:
        self.said: list[str] = []
        self.lost = threading.Event()
        self.running = threading.Event()
        self.running.set()
        super().__init__(store or Store(config.store), config, self.said.append, self.lost.set, pace)

    def _renew(self) -> None:
        self.running.wait()
        super()._renew()


def leave_stale(config) -> Lease:
    """A claim whose driver is gone without a word."""
    driver = Driver(config)
    driver._take()
    return driver.lease


def newest(config) -> Lease:
    claim = newest_claim(Store(config.store), "test")
    assert claim
    assert claim.lease
    return claim.lease


def claim(beat: int, term: int = 1, released: bool = False) -> Claim:
    return Claim(f"run/lease/{term:06d}.json", json.dumps([beat, released]).encode())


def looks(*claims: Claim | None, every: float = 1.0) -> list[Seen]:
    watch = Watch(Pace(renew=3.0, watch=9.0, outage=60.0))
    return [watch.look(claim, 100.0 + i * every) for i, claim in enumerate(claims)]


def test_a_lease_that_moves_is_held_from_the_look_on_that_sees_it_move():
    assert looks(claim(4), claim(4), claim(5)) == [Seen.UNKNOWN, Seen.UNKNOWN, Seen.HELD]


def test_a_lease_that_does_not_move_is_free_after_three_missed_renewals_and_not_before():
    assert looks(*[claim(4)] * 10) == [Seen.UNKNOWN] * 9 + [Seen.FREE]
    assert PACE.watch == 3 * PACE.renew


def test_no_claim_is_free_at_once():
    assert looks(None) == [Seen.FREE]


def test_a_watcher_that_was_paused_or_found_the_store_away_has_not_watched():
    assert looks(claim(4), claim(4), claim(4), every=8.0) == [Seen.UNKNOWN] * 3


def test_a_renewal_that_is_seen_late_is_a_renewal():
    assert looks(claim(4), claim(5), every=60.0)[-1] is Seen.HELD


def test_another_drivers_claim_is_watched_from_its_first_look_on():
    assert looks(*[claim(4)] * 9, *[claim(0, term=2)] * 10) == [Seen.UNKNOWN] * 18 + [Seen.FREE]


def test_a_lease_is_renewed_while_it_is_held_and_a_second_driver_is_refused_with_its_host_and_attempt(config):
    with Driver(config) as first:
        first.begin(3)
        before = newest(config)
        with pytest.raises(UserError) as refused, Driver(config):
            pytest.fail("two drivers work on one run")
        assert newest(config).beat > before.beat
        first.check()

    problem = refused.value.problems[0]
    assert (problem.where, problem.value) == ("training.runName", "test")
    assert f"host {before.host} (process {os.getpid()}), since {before.since}, from attempt 3 on" in problem.reason
    assert "give this run another name" in problem.fix


def test_a_released_lease_is_taken_at_once_and_nothing_is_said_to_be_taken_over(config):
    with Driver(config):
        pass
    started = time.monotonic()
    with Driver(config) as second:
        assert time.monotonic() - started < QUICK.watch / 2
        assert (second.lease.term, second.lease.taken_over, second.said) == (2, None, [])


def test_a_stale_lease_is_watched_then_taken_over_and_the_new_one_names_the_old(config):
    old = leave_stale(config)
    started = time.monotonic()
    with Driver(config) as second:
        assert QUICK.watch <= time.monotonic() - started < QUICK.watch + 3
        taken_over = second.lease.taken_over

    assert taken_over
    assert (taken_over.term, taken_over.host, taken_over.process, taken_over.since) == (1, old.host, old.process, old.since)
    assert "watching" in second.said[0]
    assert f"host {old.host}" in second.said[0]
    assert "taken over" in second.said[-1]


def test_a_claim_that_cannot_be_read_is_watched_like_any_other_and_bars_nobody_for_ever(config):
    store = Store(config.store)
    store.write(claim_path("test", 7, "ab", exclusive=store.creates_exclusively), b"{")
    with Driver(config) as driver:
        assert driver.lease.term == 8
        assert driver.lease.taken_over
        assert driver.lease.taken_over.host is None


@pytest.mark.parametrize("stale", [False, True])
def test_of_drivers_that_come_at_once_one_works_and_all_others_are_refused(config, stale):
    if stale:
        leave_stale(config)
    drivers, done, working, refused = 5, threading.Event(), [], []
    barrier = threading.Barrier(drivers)

    def drive() -> None:
        driver = Driver(config)
        barrier.wait()
        try:
            with driver:
                working.append(driver)
                done.wait(60)
                driver.check()
        except UserError as error:
            refused.append(error)
        if len(refused) == drivers - 1:
            done.set()

    threads = [threading.Thread(target=drive) for _ in range(drivers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)

    assert (len(working), len(refused)) == (1, drivers - 1)


@pytest.mark.parametrize("config", ["bucket"], indirect=True)
def test_two_that_see_each_other_in_a_bucket_both_withdraw_and_the_run_is_not_blocked(config, monkeypatch):
    rivals = [f"test/lease/000001-{'f' * 32}.json"]
    create, delete = Store.create, Store.delete_file
    deleted = []

    def create_both(self, path, data):
        create(self, path, data)
        if rivals:
            create(self, rivals[0], data)

    def delete_both(self, path):
        delete(self, path)
        deleted.append(path)
        if rivals:
            delete(self, rivals.pop())

    monkeypatch.setattr(Store, "create", create_both)
    monkeypatch.setattr(Store, "delete_file", delete_both)
    with Driver(config) as driver:
        assert driver.lease.term == 1
        assert len(deleted) == 1
        assert deleted[0] != driver._path


def test_a_driver_whose_claim_is_older_than_another_made_meanwhile_has_not_got_the_run(config, monkeypatch):
    create = Store.create
    later = []

    def overtaken(self, path, data):
        if not later:
            later.append(claim_path("test", 5, "e" * 32, exclusive=self.creates_exclusively))
            create(self, later[0], data)
        create(self, path, data)

    monkeypatch.setattr(Store, "create", overtaken)
    with Driver(config) as driver:
        assert driver.lease.term == 6


def test_a_driver_that_was_taken_over_is_told_at_its_next_renewal_and_leaves_the_others_lease_alone(config):
    with contextlib.ExitStack() as stack:
        first = Driver(config)
        stack.enter_context(pytest.raises(LeaseLostError, match=r"^host .* has taken over this run"))
        stack.enter_context(first)
        first.running.clear()
        second = stack.enter_context(Driver(config))
        assert not first.lost.is_set()
        first.running.set()
        assert first.lost.wait(10)
        with pytest.raises(LeaseLostError):
            first.check()
        second.check()
        assert newest(config).owner == second.lease.owner
        assert not newest(config).released


def test_a_driver_that_was_taken_over_is_told_when_it_looks_before_a_renewal_and_whatever_else_ended_it(config):
    first = Driver(config)
    with pytest.raises(LeaseLostError), first:
        first.running.clear()
        with Driver(config):
            pass
        try:
            first.check()
        finally:
            first.running.set()
    with pytest.raises(LeaseLostError), Driver(config) as third:
        third.running.clear()
        with Driver(config):
            pass
        third.running.set()
        assert third.lost.wait(10)
        raise RuntimeError("the workers are gone")


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_lease_is_released_however_the_work_ends(config, error):
    with pytest.raises(error), Driver(config):
        raise error
    assert newest(config).released


def test_an_outage_of_the_store_shorter_than_its_bound_ends_nothing(config, monkeypatch):
    with Driver(config) as driver:
        with monkeypatch.context() as outage:
            outage.setattr(Store, "write", unreachable)
            outage.setattr(Store, "files", unreachable)
            time.sleep(6 * QUICK.renew)
        beat = newest(config).beat
        time.sleep(4 * QUICK.renew)
        assert newest(config).beat > beat
        driver.check()
    assert not driver.lost.is_set()


def test_an_outage_longer_than_its_bound_ends_the_driver_with_the_reason(config, monkeypatch):
    pace = Pace(renew=0.1, watch=0.5, outage=0.4)
    with (
        pytest.raises(LeaseLostError, match=r"could not be renewed for 0 s: .*the disk is gone"),
        Driver(config, pace) as driver,
    ):
        monkeypatch.setattr(Store, "write", unreachable)
        assert driver.lost.wait(10)


@pytest.mark.parametrize("config", ["folder"], indirect=True)
def test_a_renewal_does_not_wait_for_a_disk_that_a_checkpoint_keeps_busy(config, monkeypatch):
    with Driver(config) as driver:
        monkeypatch.setattr("workload.store_files._flush", lambda _: time.sleep(60))
        beat = newest(config).beat
        time.sleep(4 * QUICK.renew)
        assert newest(config).beat > beat
        driver.check()


def test_a_store_that_is_away_at_the_end_leaves_the_result_and_says_that_the_lease_stays(config, monkeypatch):
    with Driver(config) as driver:
        monkeypatch.setattr(Store, "write", unreachable)
    assert "was not released (the disk is gone)" in driver.said[-1]


def unreachable(*_, **__):
    raise OSError("the disk is gone")


def test_a_rank_looks_at_the_lease_now_and_then_and_bears_a_store_that_is_away(config, monkeypatch):
    with Driver(config) as driver:
        fence = Fence(Store(config.store), "test", driver.lease.term, Pace(renew=0.0, watch=1.0, outage=1.0))
        with monkeypatch.context() as outage:
            outage.setattr(Store, "files", unreachable)
            fence.glance()
            with pytest.raises(OSError, match="gone"):
                fence.check()
        fence.glance()
    with Driver(config):
        with pytest.raises(LeaseLostError):
            fence.glance()
        Fence(Store(config.store), "test", driver.lease.term).glance()  # not yet due


# What follows is about processes: one that is killed, told to end, or stopped and woken again.
DRIVER = """
import sys, time
from tests.workload.test_lease import Driver, QUICK
from workload.lease import LeaseLostError
from workload.lease_holder import LeaseHolder
from workload.run_config import RunConfig
from workload.store import Store
from workload.train import _end_main_thread, _unwind_on_signals
config = RunConfig.from_json(sys.argv[1])
_unwind_on_signals()
try:
    with LeaseHolder(Store(config.store), config, print, _end_main_thread, QUICK):
        print("held", flush=True)
        time.sleep(120)
except LeaseLostError as error:
    print(f"lost: {error}")
"""


@contextlib.contextmanager
def driver_process(config):
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, config.to_json()], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.case("C040")
def test_a_killed_drivers_lease_is_taken_over_and_one_that_was_told_to_end_has_released_it(config):
    with driver_process(config) as process:
        process.kill()
        process.wait()
        with Driver(config) as second:
            assert second.lease.taken_over
            assert second.lease.taken_over.process == process.pid
    with driver_process(config) as process:
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
    assert newest(config).released
    assert newest(config).process == process.pid


@pytest.mark.case("C040")
def test_a_driver_that_was_stopped_and_wakes_up_after_a_takeover_ends_wherever_it_is_and_says_who_has_the_run(config):
    with driver_process(config) as process:
        process.send_signal(signal.SIGSTOP)
        with Driver(config) as second:
            process.send_signal(signal.SIGCONT)
            output, _ = process.communicate(timeout=30)
            second.check()
    assert f"lost: host {second.lease.host} (process {os.getpid()})" in output
