"""Random subsets of a fixed size: the law by which a masked diffusion chooses the positions of a step.

```text
P(S) = prod_{i in S} w_i / e_n(w),   |S| = n,   e_n(w) = sum over all S of size n of prod_{i in S} w_i
```

It is the distribution of independent coins with odds w_i, given that n of them show heads (conditional Bernoulli
sampling; Chen, Dempster and Liu, Biometrika 1994). Taking the n most confident positions after adding noise, as public
code does, has no probability of this closed form: it is a sum over all orders of n positions.

Weights are logarithms here. A position that cannot be chosen has the weight `NEVER`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEVER = -1e30
"""Logarithm of 0: finite, because infinity less infinity is NaN in a gradient."""


def log_symmetric(weights: mx.array, sizes: mx.array) -> mx.array:
    """Compute log e_n(w) of each row, by the recursion over positions. [N, L], [N] -> [N]"""
    rows, length = weights.shape
    table = mx.concatenate([mx.zeros((rows, 1)), mx.full((rows, length), NEVER)], axis=1)
    for place in range(length):
        taken = mx.concatenate([mx.full((rows, 1), NEVER), table[:, :-1] + weights[:, place : place + 1]], axis=1)
        table = mx.logaddexp(table, taken)
    return mx.take_along_axis(table, sizes[:, None], axis=1)[:, 0]


def inclusion(weights: mx.array, sizes: mx.array) -> mx.array:
    """Compute the probability that each position is in the subset: w_i e_{n-1}(w without i) / e_n(w). [N, L]"""
    rows, length = weights.shape
    without = mx.where(mx.eye(length, dtype=mx.bool_)[None], NEVER, weights[:, None, :]).reshape(-1, length)
    smaller = mx.repeat(mx.maximum(sizes - 1, 0), length)
    rest = log_symmetric(without, smaller).reshape(rows, length)
    whole = log_symmetric(weights, sizes)[:, None]
    return mx.where(sizes[:, None] > 0, mx.exp(mx.minimum(weights + rest - whole, 0.0)), 0.0)


def draw_subsets(
    weights: NDArray[np.float64], sizes: NDArray[np.int64], uniforms: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Draw a subset for each row, position by position.

    Args:
        weights: logarithms of the odds. [N, L]
        sizes: n of each row. [N]
        uniforms: between 0 and 1. [N, L]

    Returns:
        True for positions in the subset. [N, L]
    """
    rows, length = weights.shape
    tables = np.full((length + 1, rows, length + 1), NEVER)
    tables[length, :, 0] = 0.0
    for place in range(length - 1, -1, -1):  # log e_j of the positions from here on
        after = tables[place + 1]
        tables[place] = after
        tables[place, :, 1:] = np.logaddexp(after[:, 1:], after[:, :-1] + weights[:, place : place + 1])
    chosen, left, numbers = np.zeros((rows, length), dtype=np.bool_), sizes.copy(), np.arange(rows)
    for place in range(length):
        fewer = np.maximum(left - 1, 0)
        log_odds = weights[:, place] + tables[place + 1][numbers, fewer] - tables[place][numbers, left]
        chosen[:, place] = (left > 0) & (np.log(uniforms[:, place]) < log_odds)
        left = left - chosen[:, place]
    return chosen
