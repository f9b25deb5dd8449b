"""Paired differences of two policies over prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from karl_fast import _core
from karl_fast.resampling.attempts import finite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Column = NDArray[np.float64]

FEW = 40
"""Maximum number of prompts for which every sign pattern is counted; with more the bootstrap gives the interval."""

DRAWS = 99_999
"""Drawn sign patterns for more prompts than that."""


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

    What makes a prompt hard for both falls out of the difference.

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
    found = {}
    for name in new.keys() & old.keys():
        difference = new[name] - old[name]
        difference = np.ascontiguousarray(difference[~np.isnan(difference)])
        if len(difference):
            found[name] = _compared(difference, level, resamples, seed)
    return {name: found[name] for name in new if name in found}


def _compared(difference: Column, level: float, resamples: int, seed: int) -> PairedDifference:
    whole = np.array([0, len(difference)], dtype=np.int64)
    p = float(_core.sign_flip(difference, whole, draws=DRAWS, seed=seed)[0])
    value = float(difference.mean())
    if len(difference) > FEW:
        low, high = _core.bootstrap_mean(difference, level=level, resamples=resamples, seed=seed)
        return PairedDifference(value, low, high, p, len(difference), "bootstrap")
    ones, tail = np.ones(len(difference)), (1 - level) / 2
    low = _core.sign_flip_limit(difference, ones, alpha=tail)
    high = 0.0 - _core.sign_flip_limit(-difference, ones, alpha=tail)  # not -0.0
    return PairedDifference(value, finite(low), finite(high), p, len(difference), "sign-flip")
