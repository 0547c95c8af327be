"""Numbers about losses: perplexity, and whether held-out loss fell by more than chance. Pure, numpy alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from workload.record import EvaluationSummary, Improvement

BLOCK_DRAWS = 1 << 22  # drawn at once, so that many resamples of many sequences stay within some 100 MB


def perplexity(loss: float) -> float:
    """exp(loss); the largest float where that would overflow, since a record holds finite numbers only."""
    return math.exp(min(loss, math.log(np.finfo(np.float64).max) - 1e-9))


def summarise(step: int, losses: Sequence[float], tokens_per_sequence: int) -> EvaluationSummary:
    """The mean over sequences that all have `tokens_per_sequence` tokens: per token, in nats."""
    values = _checked(losses, "losses")
    loss = float(values.mean())
    return EvaluationSummary(
        step=step, loss=loss, perplexity=perplexity(loss), sequences=len(values), tokens=len(values) * tokens_per_sequence
    )


def paired_bootstrap(
    before: Sequence[float], after: Sequence[float], resamples: int, confidence: float, seed: int
) -> Improvement:
    """Mean of before minus after over the same sequences, with a percentile interval over resampled sequences.

    Paired: the same sequences are drawn on both sides, so that easy and hard text cancels out.

    Raises:
        ValueError: the two differ in length, have fewer than 2 values, or one that is not finite.
    """
    if len(before) != len(after):
        raise ValueError(f"{len(before)} losses before and {len(after)} after; pairs need the same sequences")
    if resamples < 1 or not 0 < confidence < 1:
        raise ValueError(f"resamples = {resamples}, confidence = {confidence}; need 1 or more, and between 0 and 1")
    differences = _checked(before, "losses before") - _checked(after, "losses after")
    means = _resampled_means(differences, resamples, seed)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Improvement(
        difference=float(differences.mean()), low=float(low), high=float(high), confidence=confidence, resamples=resamples
    )


def _checked(losses: Sequence[float], name: str) -> np.ndarray:
    values = np.asarray(losses, dtype=np.float64)
    if len(values) < 2:
        raise ValueError(f"{name}: {len(values)} values; an interval needs 2 or more")
    if not np.isfinite(values).all():
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"{name}: value {at} is {values[at]}")
    return values


def _resampled_means(values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    # Raw draws of a bit generator are the same in every numpy, so a verdict can be derived again years later.
    bits = np.random.PCG64(seed)
    count, means = len(values), []
    block = max(1, BLOCK_DRAWS // count)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        draws = (bits.random_raw(size * count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        means.append(values[(draws * count).astype(np.int64)].reshape(size, count).mean(axis=1))
    return np.concatenate(means)
