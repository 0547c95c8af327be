"""Where a run continues and where it starts over."""

import pytest

from workload import lineage, receipts
from workload.errors import UserError
from workload.lineage import AttemptEnd, AttemptStart
from workload.store import Store


def with_identity(config, identity: str, resume: str):
    made = config(training__checkpoint={"everySteps": 2, "keep": 3, "resume": resume})
    provenance = made.provenance.model_copy(update={"identity": identity * 64})
    return made.model_copy(update={"provenance": provenance})


def opened(config, identity: str, resume: str) -> lineage.RunPlace:
    made = with_identity(config, identity, resume)
    return lineage.open_run(Store(made.store), made)


def test_a_changed_run_continues_in_the_same_lineage_with_auto(config):
    assert opened(config, "a", "auto") == opened(config, "b", "auto") == lineage.RunPlace("test/lineage-0001", 1)


def test_a_changed_run_starts_over_beside_the_old_state_with_never_and_its_restart_continues(config):
    assert opened(config, "a", "auto").lineage == 1
    assert opened(config, "b", "never").lineage == 2
    assert opened(config, "b", "never").lineage == 2
    assert opened(config, "a", "never").lineage == 3


def test_required_without_a_complete_checkpoint_is_refused_and_writes_nothing(config):
    made = with_identity(config, "a", "required")
    store = Store(made.store)

    with pytest.raises(UserError, match=r"training\.checkpoint\.resume = required: .* holds no complete checkpoint"):
        lineage.open_run(store, made)

    assert store.folders("") == []
    opened(config, "a", "auto")
    with pytest.raises(UserError, match="holds no complete checkpoint"):
        lineage.open_run(store, made)


def test_required_with_a_complete_checkpoint_continues(config):
    place = opened(config, "a", "auto")
    made = with_identity(config, "b", "required")
    Store(made.store).write(f"{place.folder}/checkpoints/{receipts.folder_name(2, 1)}/{receipts.MARKER}", b"{}")

    assert lineage.open_run(Store(made.store), made) == place


def test_attempts_are_numbered_on_and_only_those_with_an_end_completed(config):
    place = opened(config, "a", "auto")
    store = Store(config().store)
    assert lineage.next_attempt(store, place.folder) == 1
    for number in (1, 2):
        start = AttemptStart(number=number, identity="a" * 64, started_at=lineage.now(), restored=None)
        lineage.write_attempt_start(store, place.folder, start)
    lineage.write_attempt_end(store, place.folder, AttemptEnd(number=2, ended_at=lineage.now(), step=8))

    assert lineage.next_attempt(store, place.folder) == 3
    assert [s.number for s in lineage.attempt_starts(store, place.folder)] == [1, 2]
    assert list(lineage.attempt_ends(store, place.folder)) == [2]


def test_two_runs_in_one_store_do_not_see_each_other(config):
    opened(config, "a", "auto")
    other = with_identity(config, "a", "auto")
    training = other.training.model_copy(update={"run_name": "other"})
    place = lineage.open_run(Store(other.store), other.model_copy(update={"training": training}))

    assert place.folder == "other/lineage-0001"
    assert lineage.current_run(Store(other.store), "absent") is None
