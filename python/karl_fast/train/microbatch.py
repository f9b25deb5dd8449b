"""A batch that passes through the model in parts, where its loss is not a sum over them.

The loss of a group looks at all its rows at once, and a group can have more of them than are to be in memory. Its slope
in each log-probability is found first, by a pass that keeps nothing, and each part pulls its own share back::

    dL/dtheta = sum over parts of sum_t dL/dlogp_t * dlogp_t/dtheta

which is the gradient of the whole group, not one of its parts' losses, for one more pass forwards.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.modeling.flat_gradients import added, joined
from karl_fast.train.batching import padded

if TYPE_CHECKING:
    from collections.abc import Callable

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.train.examples import Example
    from karl_fast.train.scorer import Scorer

LARGEST_SEED = (1 << 31) - 1


class Parts:
    """The rows of a batch, and the parts of it that are in memory one at a time.

    Attributes:
        whole: the batch.
        parts: the same rows in the same order, a few at a time; the batch itself where it is small.
    """

    def __init__(self, examples: list[Example], most: int | None) -> None:
        """Split a batch of examples into parts of at most so many, or into one part for None."""
        self.whole = padded(examples)
        most = most or len(examples)
        cut = [examples[start : start + most] for start in range(0, len(examples), most)]
        self.parts = [self.whole] if len(cut) == 1 else [padded(some) for some in cut]

    def reference(self, scorer: Scorer) -> NDArray[np.float32]:
        """Compute log-probabilities under the model without its adapters, 0 for tokens not learned. [B, T]"""
        import mlx.core as mx

        found = mx.concatenate([scorer.reference(part) for part in self.parts])
        return np.array(self.whole.spread(found))

    def backward(self, scorer: Scorer, loss: Callable[[mx.array], mx.array]) -> tuple[mx.array, dict[str, mx.array]]:
        """Return a loss of all log-probabilities of the batch, and its gradient in the trainable parameters, joined."""
        import mlx.core as mx

        if len(self.parts) == 1:
            value, tree = scorer.backward(self.whole, loss)
            return value, joined(tree)
        seeds: list[int] = np.array(mx.random.randint(0, LARGEST_SEED, (len(self.parts),))).tolist()
        logp = [scorer.trained_logp(part, seed) for part, seed in zip(self.parts, seeds, strict=True)]
        value, slope = mx.value_and_grad(loss)(mx.concatenate(logp))
        shares = mx.split(slope, list(accumulate(one.size for one in logp))[:-1])
        summed: dict[str, mx.array] = {}
        for part, seed, share in zip(self.parts, seeds, shares, strict=True):
            mx.random.seed(seed)  # what dropout left out of the first pass
            _, tree = scorer.backward(part, _pulling(share))
            summed = added(summed, joined(tree))
            mx.eval(summed, value)  # before the next part needs the room
        return value, summed


def _pulling(slope: mx.array) -> Callable[[mx.array], mx.array]:
    """Return a loss with a known slope in each log-probability."""
    return lambda logp: (logp * slope).sum()
