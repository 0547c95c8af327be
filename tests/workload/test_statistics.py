"""Perplexity, summaries and the paired bootstrap, against closed forms and known cases."""

import math

import numpy as np
import pytest

from workload.statistics import BLOCK_DRAWS, paired_bootstrap, perplexity, summarise


def losses(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(5, 1, count)


def test_the_difference_is_before_minus_after_so_that_better_is_positive():
    found = paired_bootstrap([5.0, 4.0, 6.0], [4.0, 3.0, 5.0], 100, 0.95, 1)

    assert (found.difference, found.low, found.high) == (1.0, 1.0, 1.0)
    assert (found.confidence, found.resamples) == (0.95, 100)


def test_the_interval_agrees_with_the_normal_approximation_on_many_sequences():
    before = losses(400)
    after = before - 0.1 + np.random.default_rng(1).normal(0, 0.2, 400)
    found = paired_bootstrap(before.tolist(), after.tolist(), 4000, 0.95, 1)

    half = 1.96 * (before - after).std() / math.sqrt(400)
    assert found.low == pytest.approx(found.difference - half, abs=0.1 * half)
    assert found.high == pytest.approx(found.difference + half, abs=0.1 * half)


def test_pairing_finds_a_small_gain_under_a_large_spread_of_sequences():
    before = losses(50)
    found = paired_bootstrap(before.tolist(), (before - 0.01).tolist(), 500, 0.95, 1)

    assert 0 < found.low <= found.high < 0.02


def test_no_change_has_an_interval_that_holds_zero():
    before = losses(50)
    after = before + np.random.default_rng(3).normal(0, 0.5, 50)
    found = paired_bootstrap(before.tolist(), after.tolist(), 1000, 0.95, 1)

    assert found.low < 0 < found.high


def test_more_confidence_is_a_wider_interval():
    before, after = losses(40).tolist(), losses(40, seed=1).tolist()
    narrow, wide = (paired_bootstrap(before, after, 1000, confidence, 1) for confidence in (0.5, 0.99))

    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_interval_is_repeatable_and_the_same_in_every_version_of_numpy():
    before, after = [k * k % 17 / 3 for k in range(20)], [k * k % 19 / 4 for k in range(20)]
    found = paired_bootstrap(before, after, 1000, 0.9, 7)

    assert (found.low, found.high) == pytest.approx((-0.23354166666666684, 1.125416666666666), abs=1e-12)
    assert paired_bootstrap(before, after, 1000, 0.9, 7) == found
    assert paired_bootstrap(before, after, 1000, 0.9, 8) != found


def test_drawing_in_blocks_changes_nothing(monkeypatch):
    before, after = losses(30).tolist(), losses(30, seed=1).tolist()
    whole = paired_bootstrap(before, after, 500, 0.95, 1)
    monkeypatch.setattr("workload.statistics.BLOCK_DRAWS", 30 * 7)

    assert paired_bootstrap(before, after, 500, 0.95, 1) == whole
    assert BLOCK_DRAWS > 30 * 500


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ([1.0, 2.0], [1.0], "2 losses before and 1 after"),
        ([1.0], [1.0], "needs 2 or more"),
        ([], [], "needs 2 or more"),
        ([1.0, math.nan], [1.0, 2.0], "value 1 is nan"),
        ([1.0, 2.0], [math.inf, 2.0], "value 0 is inf"),
    ],
)
def test_losses_that_make_no_pairs_are_refused(before, after, reason):
    with pytest.raises(ValueError, match=reason):
        paired_bootstrap(before, after, 100, 0.95, 1)


@pytest.mark.parametrize(("resamples", "confidence"), [(0, 0.95), (100, 0.0), (100, 1.0)])
def test_an_interval_without_resamples_or_confidence_is_refused(resamples, confidence):
    with pytest.raises(ValueError, match="resamples"):
        paired_bootstrap([1.0, 2.0], [1.0, 2.0], resamples, confidence, 1)


def test_perplexity_is_the_exponential_and_stays_finite():
    assert perplexity(0.0) == 1.0
    assert perplexity(math.log(50)) == pytest.approx(50)
    assert math.isfinite(perplexity(710.0))
    assert perplexity(1e300) >= perplexity(709.0)


def test_a_summary_is_the_mean_over_sequences_and_counts_tokens():
    summary = summarise(8, [2.0, 4.0], 128)

    assert (summary.step, summary.loss, summary.sequences, summary.tokens) == (8, 3.0, 2, 256)
    assert summary.perplexity == pytest.approx(math.exp(3))
