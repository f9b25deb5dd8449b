"""Replay: the choice of past rollouts, and their weights by age.

| name | result |
|---|---|
| `ExponentialDecay`, `Window`, `Power` | log-weights by age; `FRESH_DG` was used |
| `age_distribution` | how old a draw by log-weights is |
| `surprisal`, `delight`, `delight_gate`, `kondo_price` | priorities by surprise |
| `accuracy_error` | priority by the error of a predicted success rate (PACED-RL) |
| `prioritised`, `importance_log_weights` | log-probabilities by priority, and what undoes them |
| `largest` | the rows of the largest priorities |

The size of an advantage as a priority is ``numpy.abs``. Weights are multiplied by adding their logs, and
``karl_fast.draw`` takes the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast import _core
from karl_fast._core import (
    accuracy_error,
    delight,
    delight_gate,
    importance_log_weights,
    kondo_price,
    largest,
    prioritised,
    surprisal,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karl_fast.typing import Integers, Reals

__all__ = [
    "FRESH_DG",
    "AgeDistribution",
    "ExponentialDecay",
    "Power",
    "Window",
    "accuracy_error",
    "age_distribution",
    "delight",
    "delight_gate",
    "importance_log_weights",
    "kondo_price",
    "largest",
    "prioritised",
    "surprisal",
]

NO_AGES = np.zeros(0, dtype=np.int64)
"""Empty ages for a trial of each new decay, so that numbers outside its range are refused at once."""


@dataclass(frozen=True)
class ExponentialDecay:
    """Weights that halve every ``ln 2 / rate`` versions.

    ```text
    log w = -rate * age
    ```

    Attributes:
        rate: a version; 0 is uniform.

    Raises:
        ArgumentError: a rate that is negative or not finite.
    """

    rate: float

    def __post_init__(self) -> None:
        self(NO_AGES)

    def __call__(self, ages: Integers) -> NDArray[np.float64]:
        """Return the log-weights of ages in versions of the policy. [B]

        Raises:
            ArgumentError: a negative age.
            DTypeError, LayoutError: an array that would have to be cast or copied.
        """
        return _core.exponential_decay(ages, self.rate)


@dataclass(frozen=True)
class Window:
    """Equal weights up to an age, none beyond it.

    ```text
    log w = 0 where age <= max_age, else minus infinity
    ```

    Attributes:
        max_age: the last age that is drawn.

    Raises:
        ArgumentError: a negative ``max_age``.
    """

    max_age: int

    def __post_init__(self) -> None:
        self(NO_AGES)

    def __call__(self, ages: Integers) -> NDArray[np.float64]:
        """Return the log-weights of ages; raises as `ExponentialDecay`. [B]"""
        return _core.window_decay(ages, self.max_age)


@dataclass(frozen=True)
class Power:
    """Weights with a long tail.

    ```text
    log w = -exponent * log(1 + age)
    ```

    Attributes:
        exponent: 0 is uniform, 1 is harmonic.

    Raises:
        ArgumentError: an exponent that is negative or not finite.
    """

    exponent: float

    def __post_init__(self) -> None:
        self(NO_AGES)

    def __call__(self, ages: Integers) -> NDArray[np.float64]:
        """Return the log-weights of ages; raises as `ExponentialDecay`. [B]"""
        return _core.power_decay(ages, self.exponent)


FRESH_DG = ExponentialDecay(rate=0.02)  # code: FreshDG of rl_sandbox, exp(-.02 age)
"""The decay that FreshDG puts on the delightful policy gradient over replay."""


@dataclass(frozen=True)
class AgeDistribution:
    """The ages that rows have once they are drawn in proportion to their weights.

    Attributes:
        mean_age: in versions.
        ess: effective sample size of the weights, in rows.
        quantiles: level to age: the least age at or below which that share of the weight lies.
    """

    mean_age: float
    ess: float
    quantiles: dict[float, int]


def age_distribution(
    ages: Integers, log_weights: Reals, *, quantiles: Sequence[float] = (0.1, 0.5, 0.9)
) -> AgeDistribution:
    """Compute the distribution of ages of a draw by these log-weights.

    ```text
    mean = sum_i p_i age_i,   ess = 1 / sum_i p_i^2,   p_i in proportion to w_i
    quantile(u) = min {a : sum over age_i <= a of p_i >= u}
    ```

    Args:
        ages: in versions of the policy. [B]
        log_weights: any constant may be added; minus infinity is never drawn. float64 or float32. [B]
        quantiles: levels from 0 to 1.

    Returns:
        Mean age, effective sample size, and an age a level.

    Raises:
        ArgumentError: a log-weight that is NaN or plus infinity, no row with any weight, a level outside [0, 1], or
            columns that differ in length.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    Reference: Kish 1965 for the effective sample size.
    """
    levels = list(quantiles)
    mean_age, ess, ages_at_levels = _core.age_distribution(ages, log_weights, levels)
    return AgeDistribution(mean_age, ess, dict(zip(levels, ages_at_levels, strict=True)))
