"""Intervals of means over prompts, and tests of paired differences.

| name | result |
|---|---|
| `bootstrap_mean` | a bootstrap interval of a mean |
| `sign_flip`, `sign_flip_limit` | the sign-flip test of paired differences, and its confidence limit |
| `Attempts` | n attempts at each prompt: mean reward, pass@k, best@k, solved, lengths, variety |
| `measure`, `Measure` | a measure over prompts, with its interval |
| `paired_differences`, `PairedDifference` | the difference of two policies on the same prompts |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from karl_fast import _core
from karl_fast._core import bootstrap_mean, sign_flip, sign_flip_limit
from karl_fast.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Column = NDArray[np.float64]

__all__ = [
    "Attempts",
    "Measure",
    "PairedDifference",
    "bootstrap_mean",
    "measure",
    "paired_differences",
    "sign_flip",
    "sign_flip_limit",
]

FEW = 40
"""Maximum number of prompts for which every sign pattern is counted; with more the bootstrap gives the interval."""

DRAWS = 99_999
"""Drawn sign patterns for more prompts than that; with the observed one 100,000, so that p has five digits."""


@dataclass(frozen=True)
class PairedDifference:
    """The mean over prompts of a paired difference, new less old.

    Attributes:
        value: the mean difference.
        low, high: its interval; None where so few prompts exclude nothing.
        p: one-sided p-value of the sign-flip test of a difference of 0 or less.
        prompts: number of prompts that both have.
        method: of the interval: ``sign-flip`` inverts the exact test, for up to 40 prompts; ``bootstrap`` for more.
    """

    value: float
    low: float | None
    high: float | None
    p: float
    prompts: int
    method: Literal["sign-flip", "bootstrap"]


def paired_differences(
    new: Mapping[str, Column], old: Mapping[str, Column], *, level: float = 0.95, resamples: int = 9999, seed: int = 0
) -> dict[str, PairedDifference]:
    """Compare two policies on the same prompts, a measure at a time.

    ```text
    d_p = new_p - old_p,   value = mean d_p
    ```

    What makes a prompt hard for both cancels in the difference.

    Args:
        new, old: values by measure, with the same prompts in the same order; NaN is left out. [P] each
        level: of confidence.
        resamples: of the bootstrap.
        seed: of the resamples and drawn sign patterns.

    Returns:
        The measures that both have for at least one prompt.

    Raises:
        ArgumentError: a level outside 0 to 1, or no resample.
        ValueError: columns of one measure that differ in length.

    Reference: `sign_flip`, `sign_flip_limit`, `bootstrap_mean`.
    """
    by_name = {}
    for name in new.keys() & old.keys():
        difference = new[name] - old[name]
        difference = np.ascontiguousarray(difference[~np.isnan(difference)])
        if len(difference):
            by_name[name] = _compare_column(difference, level, resamples, seed)
    return {name: by_name[name] for name in new if name in by_name}


def _compare_column(difference: Column, level: float, resamples: int, seed: int) -> PairedDifference:
    whole = np.array([0, len(difference)], dtype=np.int64)
    p = float(sign_flip(difference, whole, draws=DRAWS, seed=seed)[0])
    value = float(difference.mean())
    if len(difference) > FEW:
        low, high = bootstrap_mean(difference, level=level, resamples=resamples, seed=seed)
        return PairedDifference(value, low, high, p, len(difference), "bootstrap")
    ones, tail = np.ones(len(difference)), (1 - level) / 2
    low = sign_flip_limit(difference, ones, alpha=tail)
    high = 0.0 - sign_flip_limit(-difference, ones, alpha=tail)  # 0.0 - x, because -x of 0 is -0.0
    return PairedDifference(value, finite(low), finite(high), p, len(difference), "sign-flip")


@dataclass(frozen=True, eq=False)
class Attempts:
    """Attempts at P prompts in columns, prompt after prompt.

    Attributes:
        prompts: the name of each prompt. [P]
        offsets: where the attempts at each prompt begin, and where the last ones end. [P + 1]
        rewards: of each attempt; NaN where missing. [B]
        tokens: number of tokens of each attempt. [B]
        distinct: number of different attempts at each prompt, among those with a reward. [P]
    """

    prompts: tuple[str, ...]
    offsets: NDArray[np.int64]
    rewards: Column
    tokens: NDArray[np.int64]
    distinct: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.offsets) != len(self.prompts) + 1 or len(self.distinct) != len(self.prompts):
            wanted = f"{len(self.prompts) + 1} and {len(self.prompts)}"
            raise ArgumentError(
                f"offsets and distinct have lengths {len(self.offsets)} and {len(self.distinct)}, wanted {wanted}"
            )

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of attempts with a reward at each prompt. [P]"""
        return self._sums(~np.isnan(self.rewards)).astype(np.int64)

    def _sums(self, values: NDArray[np.generic]) -> Column:
        """Return the sum over the attempts at each prompt. [B] -> [P]"""
        ends = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
        sums: Column = ends[self.offsets[1:]] - ends[self.offsets[:-1]]
        return sums

    def columns(self, *, solved_at: float = 1.0) -> dict[str, Column]:
        """Return each measure of each prompt; NaN where it has too few attempts with a reward.

        ```text
        reward      mean reward
        solved      share of attempts with a reward of at least solved_at (pass@1)
        solved_once 1 if any attempt has one, else 0
        pass@k      chance that one of k attempts has one, unbiased;   k = 2, 4, ... up to the attempts
        best@k      expected largest reward of k attempts, unbiased
        distinct    different attempts among those with a reward
        tokens      mean length
        ```

        Args:
            solved_at: the least reward of a solved attempt.

        Reference: Chen et al. 2021 (arXiv:2107.03374) for pass@k.
        """
        counts = self.counts
        solved = self._sums(self.rewards >= solved_at).astype(np.int64)
        divisors = np.where(counts > 0, counts, 1)
        missing = np.where(counts > 0, 0.0, np.nan)
        sizes = np.diff(self.offsets)
        measures: dict[str, Column] = {
            "reward": _core.best_at_k(self.rewards, offsets=self.offsets, k=1),
            "solved": solved / divisors + missing,
            "solved_once": (solved > 0).astype(np.float64) + missing,
        }
        for k in powers(int(counts.max(initial=0))):
            measures[f"pass@{k}"] = _core.pass_at_k(counts, solved, k)
            measures[f"best@{k}"] = _core.best_at_k(self.rewards, offsets=self.offsets, k=k)
        measures["distinct"] = self.distinct / divisors + missing
        measures["tokens"] = np.where(sizes > 0, self._sums(self.tokens) / np.maximum(sizes, 1), np.nan)
        return measures


def powers(count: int) -> list[int]:
    """Return the powers of two from 2 up to a count, and the count itself."""
    powers_of_two = [1 << power for power in range(1, count.bit_length()) if 1 << power <= count]
    return powers_of_two if count < 2 or powers_of_two[-1:] == [count] else [*powers_of_two, count]


SHARES = ("solved", "solved_once", "distinct")
"""Measures between 0 and 1, beside ``pass@k``."""


@dataclass(frozen=True)
class Measure:
    """A mean over prompts.

    Attributes:
        value: the mean.
        low, high: its interval over prompts: of the bootstrap; of Clopper and Pearson for a share that is 0 or 1 at
            every prompt. None with fewer than two prompts, and where all values of another measure are equal.
        prompts: number of prompts with the measure.
    """

    value: float
    low: float | None
    high: float | None
    prompts: int


def measure(
    columns: Mapping[str, Column], *, level: float = 0.95, resamples: int = 9999, seed: int = 0
) -> dict[str, Measure]:
    """Compute the mean of each measure over prompts, with its interval.

    ```text
    value = mean over prompts;   prompts are drawn with replacement, attempts stay with their prompt
    ```

    Resamples of equal values are equal, so the bootstrap would give an interval of width 0. If a share is 0 at all P
    prompts, its mean m has P(all are 0) <= (1 - m)^P, whatever its distribution in 0..1, and the interval of Clopper
    and Pearson holds with the prompts as trials: 0 to 1 - (tail)^(1/P). Likewise for 1.

    Args:
        columns: values by measure, such as `Attempts.columns` gives; NaN is left out. [P] each
        level: of confidence.
        resamples: of the bootstrap.
        seed: of the resamples.

    Returns:
        The measures with at least one prompt.

    Raises:
        ArgumentError: a level outside 0 to 1, or no resample.

    Reference: `bootstrap_mean`; Clopper, Pearson 1934 (doi:10.1093/biomet/26.4.404).
    """
    by_name = {}
    for name, column in columns.items():
        values = np.ascontiguousarray(column[~np.isnan(column)])
        if len(values):
            low, high = bootstrap_mean(values, level=level, resamples=resamples, seed=seed)
            if len(values) > 1 and np.ptp(values) == 0:
                low, high = _interval_of_equal_values(name, float(values[0]), len(values), (1 - level) / 2)
            by_name[name] = Measure(float(values.mean()), finite(low), finite(high), len(values))
    return by_name


def _interval_of_equal_values(name: str, value: float, prompts: int, tail: float) -> tuple[float, float]:
    """Return the exact interval of a share that is 0 or 1 at every prompt; NaN for any other measure."""
    if not (name in SHARES or name.startswith("pass@")) or value not in (0, 1):
        return np.nan, np.nan
    width = 1 - tail ** (1 / prompts)
    return (0.0, width) if value == 0 else (1 - width, 1.0)


def finite(value: float) -> float | None:
    """Return a number; None if it is NaN or infinite."""
    return value if np.isfinite(value) else None
