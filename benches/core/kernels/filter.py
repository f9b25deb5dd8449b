"""Masks over groups and tokens, beside the same by NumPy and polars."""

from __future__ import annotations

import numpy as np
import polars as pl
from timing import SMOKE, table

from karl_fast import filter

ROWS = 20_000 if SMOKE else 4_000_000
SIZE = 8


def deviation_by_polars(outcomes: np.ndarray, groups: np.ndarray) -> np.ndarray:
    frame = pl.DataFrame({"outcome": outcomes, "group": groups})
    mixed = pl.col("outcome").max().over("group") > pl.col("outcome").min().over("group")
    return frame.select(mixed).to_series().to_numpy()


def ends_by_numpy(outcomes: np.ndarray, groups: np.ndarray) -> np.ndarray:
    low, high = np.full(ROWS // SIZE, np.inf), np.full(ROWS // SIZE, -np.inf)
    np.minimum.at(low, groups, outcomes)
    np.maximum.at(high, groups, outcomes)
    return (high > low)[groups]


def moved_by_numpy(logp: np.ndarray, logp_old: np.ndarray, signs: np.ndarray) -> np.ndarray:
    moved = np.exp(logp) - np.exp(logp_old)
    return ~(((signs > 0) & (moved > 0.1)) | ((signs < 0) & (moved < -0.1)))


def fallen_by_numpy(logp: np.ndarray, logp_old: np.ndarray, offsets: np.ndarray, advantages: np.ndarray) -> np.ndarray:
    sums = np.add.reduceat((logp_old - logp).astype(np.float64), offsets[:-1])
    return (advantages >= 0) | (sums / np.diff(offsets) <= 0.223)


def main() -> None:
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(ROWS // SIZE), SIZE))
    outcomes = (rng.random(ROWS) < 0.2).astype(np.float64)
    ours = filter.constant_groups(outcomes, groups).keep
    assert np.array_equal(ours, ends_by_numpy(outcomes, groups))
    assert np.array_equal(ours, deviation_by_polars(outcomes, groups))
    table(
        f"constant groups, {ROWS:,} rows in any order",
        {
            "karl-fast": lambda: filter.constant_groups(outcomes, groups),
            "polars, over": lambda: deviation_by_polars(outcomes, groups),
            "NumPy, ufunc.at": lambda: ends_by_numpy(outcomes, groups),
        },
    )

    lengths = rng.integers(200, 600, ROWS // 400)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    advantages = rng.normal(size=len(lengths))
    logp_old = -rng.exponential(1.0, offsets[-1]).astype(np.float32)
    logp = (logp_old + rng.normal(0.2, 0.3, offsets[-1])).astype(np.float32)
    table(
        f"low ratio negatives, {offsets[-1]:,} tokens of float32",
        {
            "karl-fast": lambda: filter.low_ratio_negatives(logp, logp_old, offsets, advantages),
            "NumPy": lambda: fallen_by_numpy(logp, logp_old, offsets, advantages),
        },
    )
    signs = np.repeat(advantages, lengths)
    found = filter.probability_difference(logp, logp_old, offsets, advantages, low=0.1, high=0.1).keep
    assert (found != moved_by_numpy(logp, logp_old, signs)).mean() < 1e-4  # NumPy stays in float32
    table(
        f"probability difference, {offsets[-1]:,} tokens of float32",
        {
            "karl-fast": lambda: filter.probability_difference(logp, logp_old, offsets, advantages, low=0.1, high=0.1),
            "NumPy": lambda: moved_by_numpy(logp, logp_old, signs),
        },
    )


if __name__ == "__main__":
    main()
