"""Sums of each rollout over its tokens, of the gap between the log-probabilities of the sampler and of the trainer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast import kl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.float64]

CAP = 2.0
"""Weight of a token beyond which verl's guide truncates it (`rollout_is_threshold`)."""

LARGEST_GAP = 20.0
"""Largest difference that enters a sum, in nats, as in verl: exp(20) is beyond any cap."""


@dataclass(frozen=True, eq=False)
class TokenSums:
    """Sums over the tokens of each rollout that has both log-probabilities. [B] each

    Attributes:
        tokens: their number.
        gap: of d.
        k3: of w - 1 - d.
        weight, square: of w and of its square.
        beyond: number of tokens with w or 1/w above the cap.
        largest: the largest size of d.
    """

    tokens: Column
    gap: Column
    k3: Column
    weight: Column
    square: Column
    beyond: Column
    largest: Column

    @classmethod
    def joined(cls, parts: Sequence[TokenSums]) -> TokenSums:
        """Return the sums of several windows as one."""
        names = cls.__dataclass_fields__
        empty = np.empty(0)
        return cls(**{name: np.concatenate([empty, *(getattr(part, name) for part in parts)]) for name in names})


def token_sums(drawn: Sequence[NDArray[np.float32] | None], learned: Sequence[NDArray[np.float32] | None]) -> TokenSums:
    """Return the sums of rollouts, given the log-probabilities of the sampler and of the trainer; 0 without both."""
    pairs = [
        (row, old, new)
        for row, (old, new) in enumerate(zip(drawn, learned, strict=True))
        if old is not None and new is not None and len(old)
    ]
    sums = {name: np.zeros(len(drawn)) for name in TokenSums.__dataclass_fields__}
    if not pairs:
        return TokenSums(**sums)
    rollout = np.concatenate([old for _, old, _ in pairs]).astype(np.float64)
    trainer = np.concatenate([new for _, _, new in pairs]).astype(np.float64)
    finite = np.isfinite(rollout) & np.isfinite(trainer)
    gap = np.clip(np.where(finite, trainer - rollout, 0.0), -LARGEST_GAP, LARGEST_GAP)
    # k3(policy, reference) = exp(-d) + d - 1 of d = policy - reference; the policy is the sampler.
    zero = np.zeros_like(gap)
    k3 = kl.estimate(zero, gap, estimator="k3")
    weight = np.exp(gap)
    beyond = finite & (np.abs(gap) > np.log(CAP))
    starts = np.cumsum([0, *(len(old) for _, old, _ in pairs)])[:-1]
    rows = np.array([row for row, _, _ in pairs])
    columns = {"tokens": finite, "gap": gap, "k3": k3, "weight": weight * finite, "square": weight**2 * finite}
    for name, values in (columns | {"beyond": beyond}).items():
        sums[name][rows] = np.add.reduceat(np.asarray(values, dtype=np.float64), starts)
    sums["largest"][rows] = np.maximum.reduceat(np.abs(gap), starts)
    return TokenSums(**sums)
