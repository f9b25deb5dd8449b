"""A point of the advantage axis that scales the credit of turns by the entropy of the policy in them (EMPG)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast import advantage as kernels
from karl_fast.objective.axes.advantage import Derived
from karl_fast.objective.axes.point import check_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch

__all__ = ["EntropyModulated"]


@dataclass(frozen=True)
class EntropyModulated(Derived):
    """The ``advantage`` of each turn, larger where the policy was sure and smaller where it was not.

    ```text
    A_k <- A_k g_k + bonus exp(-bonus_fade h_{k+1}),    g_k = exp(-fade h_k) / mean g,    less the mean over all turns
    ```

    h is the mean entropy of the tokens of a turn (``Batch.entropies``), from 0 to 1 over the batch; ``eps`` is added to
    both denominators. The number of a token is that of its turn.
    Reference: EMPG (arXiv:2509.09265), equations 8 to 12; the defaults are those of ARLArena.
    """

    fade: float = 1.0
    bonus_fade: float = 1.0
    bonus: float = 0.05
    eps: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("fade", "bonus_fade", "bonus", "eps"):
            check_number(name, getattr(self, name))

    @property
    def per_token(self) -> bool:
        """True."""
        return True

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the modulated advantage of each token; NaN for a token of no turn."""
        base = self.advantage(batch, keep)
        credit = np.broadcast_to(base if base.ndim == 2 else base[:, None], batch.mask.shape)
        turns, entropies = batch.need("turns"), batch.need("entropies")
        present = batch.mask & keep[:, None] & (turns >= 0)
        rows = np.nonzero(present)[0]
        width = int(turns[present].max(initial=0)) + 1
        steps, member, tokens = np.unique(rows * width + turns[present], return_inverse=True, return_counts=True)
        offsets = np.searchsorted(steps, np.arange(len(turns) + 1) * width)
        advantages = np.bincount(member, credit[present], len(steps)) / tokens
        means = np.bincount(member, entropies[present], len(steps)) / tokens
        how = {"fade": self.fade, "bonus_fade": self.bonus_fade, "bonus": self.bonus, "eps": self.eps}
        modulated = np.full(turns.shape, np.nan)
        if len(steps):
            modulated[present] = kernels.empg(advantages, means, offsets.astype(np.int64), **how)[member]
        return modulated
