"""Coefficients of an objective that MLX computes, by automatic differentiation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.base import Objective
    from karl_fast.objective.batch import Scored


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A loss and its derivatives.

    Attributes:
        loss: of the rows of a batch; adds up over micro-batches.
        coefficients: derivative by each log-probability, 0 outside the mask. [B, T]
        log_z_coefficients: derivative by log Z of each rollout's prompt; None if it is not learned. [B]
    """

    loss: float
    coefficients: NDArray[np.float32]
    log_z_coefficients: NDArray[np.float32] | None = None


def evaluate(
    objective: Objective,
    logp: NDArray[np.float32],
    scored: Scored,
    *,
    denominator: float | None = None,
    log_z: NDArray[np.float32] | None = None,
) -> Evaluation:
    """Return the loss and the coefficients of log-probabilities. [B, T]"""
    import mlx.core as mx

    by = None if denominator is None else mx.array(denominator)
    given = {"logp": mx.array(logp)} | ({} if log_z is None else {"log_z": mx.array(log_z)})

    def loss(given: dict[str, mx.array]) -> mx.array:
        return objective(scored=scored, denominator=by, **given)

    value, slopes = mx.value_and_grad(loss)(given)
    found: Any = value.item()
    return Evaluation(float(found), *map(np.array, slopes.values()))
