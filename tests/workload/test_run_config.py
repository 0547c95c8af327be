"""The contract: strict, frozen, the same after a round trip, and with rules between its sections."""

import json

import pytest
from pydantic import ValidationError

from tests.workload.runs import run_config, settings
from workload.run_config import RunConfig, fingerprint
from workload.run_rules import cross_check


def test_a_config_is_equal_after_a_round_trip_and_its_json_is_stable(tmp_path):
    config = run_config(tmp_path)

    assert RunConfig.from_json(config.to_json()) == config
    assert RunConfig.from_json(config.to_json()).to_json() == config.to_json()


def test_no_field_has_a_default(tmp_path):
    """Defaults have one home, and it is not here."""

    def leaves(value, path=()):
        if isinstance(value, dict):
            for key, child in value.items():
                yield (*path, key)
                yield from leaves(child, (*path, key))

    whole = settings(tmp_path)
    for path in list(leaves(whole)):
        cut = json.loads(json.dumps(whole))
        place = cut
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]
        with pytest.raises(ValidationError, match=r"missing|required|discriminator"):
            RunConfig.from_json(json.dumps(cut))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("training__seed", "1"), ("training__seed", -1), ("training__runName", "Upper"), ("training__runName", "x" * 39),
        ("training__runName", "1dev"), ("training__runName", "end-"), ("store__path", "relative"), ("workers__count", 0),
        ("training__optimizer__learningRate", 0.0), ("training__checkpoint__resume", "maybe"),
        ("training__data__text", {"source": "text", "paths": [], "documentSeparator": "\n"}),
        ("training__model__numAttentionHeads", 3), ("training__model__unknown", 1),
    ],
)  # fmt: skip
def test_what_is_not_in_the_contract_is_refused(tmp_path, key, value):
    with pytest.raises(ValidationError):
        run_config(tmp_path, **{key: value})


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"training__schedule__globalBatchSequences": 9}, "training.schedule.globalBatchSequences"),
        ({"workers__perPod": 3}, "workers.count"),
        ({"training__optimizer__warmupSteps": 9}, "training.optimizer.warmupSteps"),
        ({"training__checkpoint__everySteps": 9}, "training.checkpoint.everySteps"),
        ({"training__data__sequenceLength": 129}, "training.data.sequenceLength"),
        ({"training__faults": [{"at": "step", "step": 4, "rank": 2, "attempt": 1}]}, "training.faults[0].rank"),
        ({"training__faults": [{"at": "step", "step": 9, "rank": 0, "attempt": 1}]}, "training.faults[0].step"),
        ({"training__faults": [{"at": "before-marker", "step": 3, "rank": 0, "attempt": 1}]}, "training.faults[0].step"),
        ({"training__faults": [{"at": "before-marker", "step": 4, "rank": 1, "attempt": 1}]}, "training.faults[0].rank"),
    ],
)
def test_rules_between_sections_name_the_key_to_change(tmp_path, changes, key):
    config = run_config(tmp_path, **changes)

    assert [found[0] for found in cross_check(config.training, config.workers)] == [key]


def test_a_consistent_config_breaks_no_rule(tmp_path):
    config = run_config(tmp_path)

    assert cross_check(config.training, config.workers) == []


def test_fingerprints_do_not_confuse_where_one_part_ends():
    assert fingerprint("ab", "c") != fingerprint("a", "bc")
    assert fingerprint("ab", "c") == fingerprint("ab", "c")
