"""Result of an objective: its loss, and the derivative of it by each quantity that a model computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A loss, its derivatives and its statistics.

    ``(coefficients * logp).sum()``, with the coefficients held constant, has the gradient of the loss in any framework.

    Attributes:
        loss: of this batch; the losses of micro-batches add up where they are given the denominator of the whole.
        coefficients: d loss / d logp of each token, exactly 0 outside the mask; of the dtype of ``logp``. [B, T]
        statistics: ``tokens`` and ``rollouts`` that count; of the ratio to the behaviour policy ``ratio`` (mean),
            ``ratio_std``, ``ratio_max``, ``ratio_min``, over tokens at the level of the recipe, 1 where it has none;
            ``ratio_ess``, the effective share of rollouts by the products of their token ratios; ``kl_old``, the mean
            over tokens of k3 to the behaviour policy; ``clip_low`` and ``clip_high``, the
            shares of tokens beyond the bounds; ``kl`` (to the reference), ``entropy``, ``divergence``, ``residual`` and
            ``residual_std`` where the objective has them.
        log_z_coefficients: d loss / d log Z of each rollout, where log Z is learned. float64, [B]
        entropy_coefficients: d loss / d entropy of each token, where the objective reads it. [B, T]
        divergence_coefficients: d loss / d divergence of each token, where the objective reads it. [B, T]
    """

    loss: float
    coefficients: NDArray[Any]
    statistics: dict[str, float]
    log_z_coefficients: NDArray[np.float64] | None = None
    entropy_coefficients: NDArray[Any] | None = None
    divergence_coefficients: NDArray[Any] | None = None
