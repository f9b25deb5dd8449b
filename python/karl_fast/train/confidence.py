"""Confidence intervals of differences of losses: Student's t over independent clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

STUDENT = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139)
"""The 97.5 % quantile of Student's t for 1 to 10 degrees of freedom."""


@dataclass(frozen=True)
class Difference:
    """A mean difference a token, in nats.

    Attributes:
        value: the difference over all rows.
        low, high: its 95% interval by Student's t over clusters; None where there is but one cluster.
        clusters: groups of rows that vary together.
    """

    value: float
    low: float | None
    high: float | None
    clusters: int


def mean_difference(nats: NDArray[np.float64], counts: NDArray[np.int64], clusters: list[str]) -> Difference:
    """Compute the difference a token, and its 95% interval.

    ```text
    value = sum_c d_c / sum_c n_c
    half  = t(C - 1) sqrt(C / (C - 1) sum_c (d_c - value n_c)^2) / sum_c n_c
    ```

    C clusters have differences d_c and tokens n_c; t is the 97.5% quantile of Student's t. Rows are paired, so what
    makes a row hard for both falls out; rows of one group share a prompt and make one cluster, so that they do not
    count as independent. Of two or three clusters the interval is wide, as it has to be.

    Args:
        nats: the difference of each row, summed over its tokens. [B]
        counts: tokens of each row. [B]
        clusters: the name of each row's cluster. [B]

    Returns:
        The difference with its interval.

    Reference: Cochran 1977, Sampling Techniques, sections 6.4 and 9A.2 (the variance of a ratio over clusters).
    """
    _, numbers = np.unique(np.array(clusters), return_inverse=True)
    sums: NDArray[np.float64] = np.bincount(numbers, weights=nats).astype(np.float64)
    sizes: NDArray[np.float64] = np.bincount(numbers, weights=counts).astype(np.float64)
    found, value = len(sums), float(sums.sum() / sizes.sum())
    if found < 2:
        return Difference(value, None, None, found)
    spread = float(np.square(sums - value * sizes).sum()) * found / (found - 1)
    half = student(found - 1) * spread**0.5 / float(sizes.sum())
    return Difference(value, value - half, value + half, found)


def student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t: a table to 10 degrees of freedom, then the Cornish-Fisher expansion.

    Reference: Abramowitz & Stegun 1964, table 26.10 and formula 26.7.5.
    """
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    z = 1.959964
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    return z + (z**3 + z) / (4 * freedom) + second + third
