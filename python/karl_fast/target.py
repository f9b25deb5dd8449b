"""Weights of rows: log partitions, Boltzmann targets, and the values and weights derived from them.

| function | formula |
|---|---|
| `log_sum_exp`, `log_mean_exp`, `log_sum_exp_by`, `LogSumExp` | log sum exp(x): of a column, of groups, of a stream |
| `ess` | (sum w)^2 / sum w^2 |
| `boltzmann` | log w = b s - log Z, with b given, or found from an ESS or a divergence |
| `soft_value` | t log mean exp(r / t): OAPL, A*PO |
| `regression_intercept` | mean(r / t - log_ratio): PACED |
| `awr_weights`, `rwr_weights` | exp(A / t) with a clip; exp(b r) / sum |
| `tpo_target` | softmax(logp_old + z-score / t) |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast._core import (
    LogSumExp,
    awr_weights,
    ess,
    log_mean_exp,
    log_sum_exp,
    log_sum_exp_by,
    regression_intercept,
    rwr_weights,
    soft_value,
    tpo_target,
)
from karl_fast.settings.sample_fields import DEFAULT_ESS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.typing import Integers, Reals

__all__ = [
    "LogSumExp",
    "Target",
    "awr_weights",
    "boltzmann",
    "ess",
    "log_mean_exp",
    "log_sum_exp",
    "log_sum_exp_by",
    "regression_intercept",
    "rwr_weights",
    "soft_value",
    "tpo_target",
]


@dataclass(frozen=True, eq=False)
class Target:
    """A Boltzmann target over rows.

    Attributes:
        log_weights: log w_i = b * score_i - log Z(scope of i); minus infinity for a row without a score. [B]
        log_z: log sum exp(b * score) of each scope, in nats. [scopes]
        inverse_temperature: b.
        wanted_ess: the share of rows asked for; None where b was given.
        reached_ess: effective sample size (sum w)^2 / sum w^2, in rows.
        reached_share: the same as a share of the rows that have a score.
        wanted_kl: the divergence asked for; None where something else was. In nats.
        reached_kl: KL(target, uniform over the rows that have a score): log n less the entropy. In nats.
        note: why wanted and reached differ, or None.
    """

    log_weights: NDArray[np.float64]
    log_z: NDArray[np.float64]
    inverse_temperature: float
    wanted_ess: float | None
    reached_ess: float
    reached_share: float
    wanted_kl: float | None
    reached_kl: float
    note: str | None


def boltzmann(
    scores: Reals,
    scopes: Integers | None = None,
    *,
    ess: float | None = None,
    inverse_temperature: float | None = None,
    kl: float | None = None,
) -> Target:
    """Temper scores into log-weights: log w_i = b * s_i - log Z(scope of i).

    Args:
        scores: what is tempered, float64, or float32, which is widened once; NaN for a row that cannot be drawn. An
            array of NumPy, or an Arrow column, which is copied where it has nulls (missing) or several chunks. [B]
        scopes: the number of what each row is normalised with, negative for none; or names, in an Arrow column.
            Everything is one scope by default. [B]
        ess: the share of rows, above 0 and up to 1, that the effective sample size is to be; b is solved for it to
            twelve digits. 0.5 where neither this nor one of the next is given.
        inverse_temperature: b itself.
        kl: how far the target may be from uniform over the rows that have a score, in nats, from 0 on; b is solved for
            it. It cannot pass log(n / rows at the top): the nearest is then taken, and ``note`` says so.

    Returns:
        The log-weights, log Z of each scope, and what was reached.

    Raises:
        ArgumentError: an infinite score, or a number outside its range.
        UsageError: more than one of ``ess``, ``inverse_temperature`` and ``kl``.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    References: Zhu et al., FlowRL (arXiv:2509.15207); Kish, Survey Sampling (1965).
    """
    if ess is None and inverse_temperature is None and kl is None:
        ess = DEFAULT_ESS
    return Target(**_core.boltzmann(scores, scopes, ess=ess, inverse_temperature=inverse_temperature, kl=kl))
