"""How sure a difference of losses is: a paired bootstrap over what varies independently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESAMPLES = 2_000

LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """A mean difference a token, in nats.

    Attributes:
        value: the difference over all rows.
        low, high: between which it lies in 95% of resamples; None where there is but one cluster.
        clusters: groups of rows that were drawn together.
    """

    value: float
    low: float | None
    high: float | None
    clusters: int


def difference(nats: NDArray[np.float64], counts: NDArray[np.int64], clusters: list[str], seed: int) -> Difference:
    """The difference a token, and its percentile interval.

    ```text
    value = sum_c d_c / sum_c n_c;   each resample draws as many clusters as there are, with replacement
    ```

    Rows are paired, so what makes a row hard for both falls out; rows of one group share a prompt and are drawn
    together, so that they do not count as independent.

    Args:
        nats: the difference of each row, summed over its tokens. [B]
        counts: tokens of each row. [B]
        clusters: the name of each row's cluster. [B]
        seed: of the resamples.

    Returns:
        The difference with its interval.

    Reference: Efron & Tibshirani 1993, An Introduction to the Bootstrap, chapter 13.
    """
    _, numbers = np.unique(np.array(clusters), return_inverse=True)
    sums: NDArray[np.float64] = np.bincount(numbers, weights=nats).astype(np.float64)
    sizes: NDArray[np.float64] = np.bincount(numbers, weights=counts).astype(np.float64)
    value = float(sums.sum() / sizes.sum())
    if len(sums) < 2:
        return Difference(value, None, None, len(sums))
    low, high = np.quantile(_resampled(sums, sizes, seed), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Difference(value, float(low), float(high), len(sums))


def _resampled(sums: NDArray[np.float64], sizes: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    random, found = np.random.default_rng(seed), np.empty(RESAMPLES)
    for at in range(RESAMPLES):
        drawn = random.integers(len(sums), size=len(sums))
        found[at] = sums[drawn].sum() / sizes[drawn].sum()
    return found
