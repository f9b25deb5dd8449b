"""The distribution that rows are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.settings import DEFAULT_ESS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.protocols import Floats, Integers


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
        note: why wanted and reached differ, or None.
    """

    log_weights: NDArray[np.float64]
    log_z: NDArray[np.float64]
    inverse_temperature: float
    wanted_ess: float | None
    reached_ess: float
    reached_share: float
    note: str | None


def boltzmann(
    scores: Floats,
    scopes: Integers | None = None,
    *,
    ess: float | None = None,
    inverse_temperature: float | None = None,
) -> Target:
    """Temper scores into log-weights: log w_i = b * s_i - log Z(scope of i).

    Args:
        scores: what is tempered; NaN for a row that cannot be drawn. An array of NumPy, or an Arrow column, which is
            copied where it has nulls (missing) or several chunks. [B]
        scopes: the number of what each row is normalised with, negative for none; or names, in an Arrow column.
            Everything is one scope by default. [B]
        ess: the share of rows, above 0 and up to 1, that the effective sample size is to be; b is solved for it to
            twelve digits. 0.5 where neither this nor the next is given.
        inverse_temperature: b itself.

    Raises:
        ArgumentError: an infinite score, or a number outside its range.
        UsageError: both ``ess`` and ``inverse_temperature``.
        DTypeError, LayoutError: an array that would have to be cast or copied.
    """
    if ess is None and inverse_temperature is None:
        ess = DEFAULT_ESS
    return Target(**_core.boltzmann(scores, scopes, ess=ess, inverse_temperature=inverse_temperature))
