"""Axis: likelihood of right tokens in the place of the policy's own, where a task knows them.

With l_t the right token after the policy's own tokens before t, the loss of a token has ``-coef * w_t * log pi(l_t)``;
the weight w carries no gradient, and is 0 where no right token is known:

| point | w_t |
|---|---|
| `NoLabels` | 0 |
| `GatedLabels` | the gate of `Delight`, sigmoid(-A_t logp_t / temperature) |
| `SuffixLabels` | of rollouts with a wrong token, 1 from the first one on; over their share of all tokens |

The call is given ``log pi(l_t)`` as ``label_logp``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.objective.axes.clip import delight_gate
from karl_fast.objective.axes.point import Point, check_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch, Scored

__all__ = ["GatedLabels", "Labels", "NoLabels", "SuffixLabels"]


class Labels(Point):
    """Likelihood of right tokens."""

    coef: float = 0.0

    def places(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the part of the weights that is known before any step. [B, T]"""
        raise NotImplementedError

    def weights(self, logp: NDArray[np.float64], scored: Scored) -> NDArray[np.float64]:
        """Return the weight of each token; ``logp`` is 0 outside the mask. [B, T] -> [B, T]"""
        places: NDArray[np.float64] = scored.need("label_places")
        return places


@dataclass(frozen=True)
class NoLabels(Labels):
    """No right tokens."""


class Weighed(Labels):
    """A term with a coefficient."""

    coef: float

    def __post_init__(self) -> None:
        check_number("coef", self.coef, above=True)


@dataclass(frozen=True)
class GatedLabels(Weighed):
    """``-coef * sg(sigmoid(-A_t logp_t / temperature)) * log pi(l_t)``: more where a surprise paid (SelfDistillDG).

    Reference: rl-experiments, ``SelfDistillDGLoss``.
    """

    coef: float = 0.5
    temperature: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("temperature", self.temperature, above=True)

    def places(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return 1 where a right token is known."""
        known = batch.mask & keep[:, None] & (batch.need("labels") >= 0)
        return np.asarray(known, dtype=np.float64)

    def weights(self, logp: NDArray[np.float64], scored: Scored) -> NDArray[np.float64]:
        """Return the gate of each token with a right one."""
        places: NDArray[np.float64] = scored.need("label_places")
        return places * delight_gate(logp, scored, self.temperature)


@dataclass(frozen=True)
class SuffixLabels(Weighed):
    """``-coef * log pi(l_t)`` from the first wrong token of a rollout on, as a mean over these tokens (SCOPELite).

    The weight is the number of tokens over that of these tokens, both of the whole batch: under `TokenMean` the term is
    their mean.
    Reference: rl-experiments, ``SCOPELiteLoss``.
    """

    coef: float = 0.5

    def places(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the weight of tokens from the first wrong one on."""
        counted = batch.mask & keep[:, None]
        known = counted & (batch.need("labels") >= 0)
        wrong = known & (batch.need("tokens") != batch.need("labels"))
        suffix = known & (np.cumsum(wrong, axis=1) > 0)
        return np.where(suffix, int(counted.sum()) / max(1, int(suffix.sum())), 0.0)
