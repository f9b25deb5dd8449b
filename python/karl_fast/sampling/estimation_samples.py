"""Samples for the estimation of totals: rows with their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.sampling.draw import check_draw

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.typing import Reals


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Rows drawn without replacement by Gumbel keys.

    Attributes:
        rows: the rows by falling key. [k, or rows that can be drawn]
        threshold: the key of the first row not drawn; None where all were.
        inclusion: P(key_i > threshold) of each row drawn, 1 where all were. [as rows]
    """

    rows: NDArray[np.int64]
    threshold: float | None
    inclusion: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimated:
    """Sampled rows with estimates: those of a subset add up to its total weight on average.

    Attributes:
        rows: the rows drawn. [k, or rows that have a weight]
        threshold: what a row below it counts for when it is drawn; 0 where all rows were.
        estimates: max(w_i, threshold) of each row drawn. [as rows]
    """

    rows: NDArray[np.int64]
    threshold: float
    estimates: NDArray[np.float64]


def draw_with_inclusion(
    log_weights: Reals, k: int, *, seed: int = 0, keys: NDArray[np.uint64] | None = None
) -> DrawnRows:
    """Draw k rows as `draw` does, with the inclusion probability of each given the threshold.

        q_i = P(key_i > threshold) = 1 - exp(-w_i exp(-threshold)),    E[sum over drawn i of f_i / q_i] = sum f_i

    The threshold is the (k + 1)-th key. The estimate is unbiased for any f; q is not the probability over all draws,
    which `inclusion` gives.

    Args:
        log_weights: any constant may be added; minus infinity is never drawn. Float32 is widened once. [B]
        k: number of rows; all rows that can be drawn if there are fewer.
        seed: 0 to 2^64 - 1.
        keys: ``Log.keys``; the index of each row where absent. [B, 3]

    Returns:
        Rows by falling key.

    Raises:
        ArgumentError: a log-weight that is NaN or plus infinity, or a number outside its range.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    References: Cohen and Kaplan 2007; Kool, van Hoof, Welling 2019 (arXiv:1903.06059), section 4.
    """
    check_draw(k, seed)
    return DrawnRows(**_core.draw_with_inclusion(log_weights, k, seed=seed, keys=keys))


def inclusion(log_weights: Reals, k: int) -> NDArray[np.float64]:
    """Compute the probability of each row to be among k drawn without replacement (Plackett-Luce).

        P(i drawn) = integral over t of w_i exp(-w_i t) P(fewer than k of the others before t) dt

    computed by the trapezoid rule in log t, with the step halved until no probability changes by 1e-12. They add up to
    k, and differ from k * p_i: for weights 1, 2, 3, 4 and k = 2 the first is 0.2345.

    Args:
        log_weights: any constant may be added; minus infinity has probability 0. Float32 is widened once. [B]
        k: number of rows drawn; if no more rows have a weight, each of them has probability 1.

    Returns:
        A probability a row. [B]

    Raises:
        ArgumentError: a log-weight that is NaN or plus infinity, a number outside its range, or probabilities that do
            not add up to k.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    Rows far above or below all others are certain and not integrated. Ctrl-C stops it.

    Cost: a few hundred nodes of B exponentials; some dozen of them, the fewer the larger k is, of B k log B
    multiplications. For large draws use the conditional probabilities of `draw_with_inclusion`.

    References: Efraimidis and Spirakis 2006; Kool, van Hoof, Welling 2019 (arXiv:1903.06059).
    """
    check_draw(k, 0)
    return _core.inclusion(log_weights, k)


def threshold(weights: Reals, k: int) -> tuple[float, NDArray[np.float64]]:
    """Solve for the threshold at which k rows are expected, and return each row's probability.

        sum_i min(1, w_i / tau) = k,      pi_i = min(1, w_i / tau)

    pi is exact for `draw_var_opt`: inclusion probabilities in proportion to weight, unlike those of successive
    draws without replacement.

    Args:
        weights: finite, zero or more; float32 is widened once. [B]
        k: number of rows, 1 or more.

    Returns:
        tau, 0 if at most k rows have a weight, and pi. [B]

    Raises:
        ArgumentError: a weight that is negative, NaN or infinite, weights with a total that overflows, or k = 0.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    References: Cohen, Duffield, Kaplan, Lund, Thorup 2009 (arXiv:0803.0473).

    >>> import numpy as np
    >>> threshold(np.array([1.0, 2.0, 3.0, 4.0, 20.0]), 3)
    (5.0, array([0.2, 0.4, 0.6, 0.8, 1. ]))
    """
    check_draw(k, 0)
    return _core.threshold(weights, k)


def draw_priority(weights: Reals, k: int, *, seed: int = 0, keys: NDArray[np.uint64] | None = None) -> Estimated:
    """Draw k rows by priority sampling.

        q_i = w_i / u_i,    the k largest q,    threshold = the next q,    estimate of a row drawn = max(w_i, threshold)

    Estimates are unbiased, and those of two rows uncorrelated. u_i follows from the seed and the row's key alone, so a
    draw does not change with shards or order where keys are given; `Priority` merges shards.

    Args:
        weights: finite, zero or more; from 1e290 on priorities overflow. Float32 is widened once. [B]
        k: number of rows; all rows with a weight if there are fewer.
        seed: 0 to 2^64 - 1.
        keys: ``Log.keys``; the index of each row where absent. [B, 3]

    Returns:
        Rows by falling priority.

    Raises:
        ArgumentError: a weight that is negative, NaN or infinite, or a number outside its range.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    References: Duffield, Lund, Thorup 2007; Szegedy 2006.
    """
    check_draw(k, seed)
    return Estimated(**_core.draw_priority(weights, k, seed=seed, keys=keys))


def draw_var_opt(weights: Reals, k: int, *, seed: int = 0, keys: NDArray[np.uint64] | None = None) -> Estimated:
    """Draw exactly k rows with estimates that add up to the true total at the least variance: VarOpt.

    Row i is drawn with probability min(1, w_i / tau), tau from `threshold`, and then counts for max(w_i, tau).
    No unbiased scheme of k rows has a smaller average variance over sets of one size.

    Args:
        weights: finite, zero or more; float32 is widened once. [B]
        k: number of rows, 1 or more; all rows with a weight if there are fewer.
        seed: 0 to 2^64 - 1.
        keys: ``Log.keys``; the index of each row by default. The draw still depends on the order of the rows. [B, 3]

    Returns:
        Rows in row order.

    Raises:
        ArgumentError: a weight that is negative, NaN or infinite, weights with a total that overflows, or a number
            outside its range.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    References: Cohen, Duffield, Kaplan, Lund, Thorup 2009 (arXiv:0803.0473).
    """
    check_draw(k, seed)
    return Estimated(**_core.draw_var_opt(weights, k, seed=seed, keys=keys))
