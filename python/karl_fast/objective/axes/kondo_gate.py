"""Points of the advantage axis that choose rollouts or tokens to learn from: the Kondo gates.

Delight is advantage times surprise, ``chi = -A * logp_old``. What a gate leaves out has advantage 0 and stays in every
denominator. A gate is judged before the forward pass, by the behaviour policy, over the whole batch: micro-batches do
not change it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast import replay as kernels
from karl_fast._core import uniforms
from karl_fast.objective.axes.advantage import Derived
from karl_fast.objective.axes.point import check_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch

__all__ = ["Gated", "TopGated", "gate_probabilities"]


@dataclass(frozen=True)
class Gated(Derived):
    """Random gate: keeps a rollout with probability ``sigmoid((chi - price) / temperature)``, chi its largest delight.

    ``advantage`` is that of what is kept. The price is such that the probabilities have the mean ``keep``; the draw is
    of ``Batch.seed``.
    Reference: Kondo gate (arXiv:2603.20526), in the form of rl-experiments.
    """

    keep: float = 0.5
    temperature: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("keep", self.keep, 0, 1, above=True)
        check_number("temperature", self.temperature, above=True)

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the advantages, 0 for rollouts that the gate excludes."""
        advantages = self.advantage(batch, keep)
        delight = _delight(batch, advantages)
        present = np.isfinite(delight).any(1)
        probabilities = np.zeros(len(delight))
        best = np.max(delight, axis=1, where=np.isfinite(delight), initial=-np.inf)[present]
        probabilities[present] = gate_probabilities(best, self.keep, self.temperature)
        passed = uniforms(len(delight), seed=batch.seed, purpose="draw", keys=_keys(len(delight))) < probabilities
        return np.where(passed if advantages.ndim == 1 else passed[:, None], advantages, advantages * 0.0)


@dataclass(frozen=True)
class TopGated(Derived):
    """Only the ``share`` of all tokens with the most delight is learned from, at least one; ties are kept.

    ``advantage`` is that of what is kept.
    Reference: Kondo gate (arXiv:2603.20526), in the form of Google's egg.
    """

    share: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("share", self.share, 0, 1, above=True)

    @property
    def per_token(self) -> bool:
        """True: it gates tokens."""
        return True

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the advantage of each token, 0 for tokens that the gate excludes."""
        advantages = self.advantage(batch, keep)
        credit = np.broadcast_to(advantages if advantages.ndim == 2 else advantages[:, None], batch.mask.shape)
        delight = _delight(batch, advantages)
        present = np.isfinite(delight)
        if not present.any():
            return np.array(credit)
        count = max(1, round(self.share * int(present.sum())))
        return np.where(delight >= np.sort(delight[present])[-count], credit, credit * 0.0)


def gate_probabilities(delight: NDArray[np.float64], keep: float, temperature: float) -> NDArray[np.float64]:
    """Return the probability of each gate, with the mean ``keep``.

    ```text
    p_i = sigmoid((chi_i - price) / temperature),    mean p = keep
    ```

    Args:
        delight: chi, finite. [B]
        keep: the mean, above 0 and up to 1.
        temperature: how soft the gate is, above 0.

    Returns:
        float64. [B]

    Raises:
        ArgumentError: a mean within 1e-12 of 0 or of 1.

    Reference: Kondo gate (arXiv:2603.20526).
    """
    if not delight.size or keep == 1:
        return np.ones(len(delight))
    price = kernels.kondo_price(delight, keep, eta=temperature)
    return kernels.delight_gate(delight, eta=temperature, price=price)


def _keys(rows: int) -> NDArray[np.uint64]:
    """Return random keys distinct from those of the directions of `SetScore`."""
    keys = np.zeros((rows, 3), dtype=np.uint64)
    keys[:, 0], keys[:, 2] = np.arange(rows), 1
    return keys


def _delight(batch: Batch, advantages: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return -A * logp_old of each token that counts; minus infinity elsewhere. [B, T]"""
    advantages = advantages if advantages.ndim == 2 else advantages[:, None]
    present = batch.mask & ~np.isnan(advantages)
    return np.where(present, -advantages * np.where(present, batch.need("logp_old"), 0.0), -np.inf)
