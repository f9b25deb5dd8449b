"""Examples side by side, padded on the right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.modeling.segments import used_width

if TYPE_CHECKING:
    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.train.examples import Example

MULTIPLE = 8
"""Inputs are padded to a multiple of it, so that a model sees few shapes."""


@dataclass(frozen=True)
class PaddedBatch:
    """A batch. Index t of a row scores its token t + 1.

    Attributes:
        tokens: 0 where padded. int32, [B, T + 1]
        mask: which of tokens[:, 1:] are learned; padding is not. bool, [B, T]
        places: the same as numbers into the flattened [B * T]. [N]
        real: tokens that are not padding.
    """

    tokens: mx.array
    mask: NDArray[np.bool_]
    places: mx.array
    real: int

    @property
    def inputs(self) -> int:
        """Number of inputs up to the last one that has a target, in the longest row."""
        return used_width(self.mask)

    def spread(self, logp: mx.array) -> mx.array:
        """Scatter values of the learned tokens to their places, 0 elsewhere. [N] -> [B, T]"""
        import mlx.core as mx

        flat = mx.zeros(self.mask.size, logp.dtype).at[self.places].add(logp)
        return flat.reshape(self.mask.shape)


def pad_rows(examples: list[Example]) -> PaddedBatch:
    """Pad examples to one array."""
    import mlx.core as mx

    longest = max(map(len, examples)) - 1
    inputs = -(-longest // MULTIPLE) * MULTIPLE
    tokens = np.zeros((len(examples), inputs + 1), dtype=np.int32)
    mask = np.zeros((len(examples), inputs), dtype=np.bool_)
    for row, example in enumerate(examples):
        tokens[row, : len(example)] = example.text.tokens
        mask[row, : len(example) - 1] = example.text.learned[1:]
    places = np.flatnonzero(mask).astype(np.int32)
    return PaddedBatch(mx.array(tokens), mask, mx.array(places), sum(map(len, examples)))
