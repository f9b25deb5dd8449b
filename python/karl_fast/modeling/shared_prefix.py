"""Rows that are in memory at once, with a graph in which each common prefix of rows is computed once."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.modeling import chunked_logp as chunked
from karl_fast.modeling.external_objective import Traced
from karl_fast.modeling.flat_gradients import join_leaves
from karl_fast.modeling.model_views import chunkwise
from karl_fast.modeling.segment_boundaries import SegmentBoundaries
from karl_fast.modeling.segment_gradients import SegmentPass
from karl_fast.modeling.segments import pass_alike, shares_prefix, used_width

if TYPE_CHECKING:
    from collections.abc import Callable

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.modeling.external_objective import Arrays, Columns
    from karl_fast.modeling.stateful_model import StatefulModel


class PrefixSharing:
    """Decision to compute common prefixes once, and the remark of the first batch that has one and may not."""

    def __init__(self, obstacle: Callable[[], str | None]) -> None:
        """Take a function that returns the reason why prefixes cannot be shared; asked where rows have one."""
        self._obstacle = obstacle
        self._why: str | None = None
        self._remarked = False

    def __call__(self) -> bool:
        """Return whether the rows of a batch that have a common prefix may share it."""
        self._why = self._obstacle()
        return self._why is None

    def remark(self) -> str | None:
        """Return the remark once; None where there is none, or it was returned before."""
        if self._why is None or self._remarked:
            return None
        self._remarked = True
        return f"each row computes by itself the prefix that it has in common with others: {self._why}"


def pass_segments(
    carrier: Callable[[], StatefulModel],
    head: Any,
    chunk_rows: int,
    tokens: NDArray[np.int32],
    mask: NDArray[np.bool_],
    *,
    length: int | None,
    sharing: PrefixSharing,
    **how: Any,
) -> SegmentPass | None:
    """Return the way of a batch in segments, or at once with common prefixes; None for whole rows without any.

    Args:
        carrier: the model with the states that segments carry on.
        head, chunk_rows, tokens, mask: as for `Sweep`.
        length: tokens of a segment; None for whole rows.
        sharing: of common prefixes.
        how: further arguments of `Sweep`.
    """
    shared = (head, chunk_rows, tokens, mask)
    if length is not None and used_width(mask) > length:
        return SegmentPass(carrier(), *shared, length=length, share=pass_alike(mask, length, tokens) and sharing(), **how)
    if shares_prefix(mask, tokens) and sharing():
        return WholePass(carrier(), *shared, length=used_width(mask), share=True, **how)
    return None


class WholePass(SegmentPass):
    """The way of a batch through a model, all segments in one graph.

    A segment ends where rows part, and nowhere else. MLX differentiates through the states: the cotangents of the rows
    that read one add up in float32. A pass without a gradient is that of `Sweep`.
    """

    def outputs(self, *, keep: bool = True) -> Columns:
        """Run the forward pass, and return the quantities of the targets. [N]

        Args:
            keep: False if no backward pass follows.
        """
        if not keep:
            return super().outputs(keep=False)
        self._traced = Traced(self._names, sum(len(one.places) for one in self.segments), self._gradient)
        values = self._traced.outputs()
        return {name: self._spread(array) for name, array in values.items()}

    def pull(self, coefficients: Columns) -> Arrays:
        """Return the gradient of ``sum(coefficient * quantity)``, joined, which is not computed yet."""
        gathered = {
            name: np.concatenate([one.gathered(values) for one in self.segments])
            for name, values in coefficients.items()
        }
        gradient: Arrays = self._traced.pull(gathered)
        return gradient

    def _spread(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the values of places for the targets that share them. [N'] -> [N]"""
        found = np.zeros(self._count, dtype=np.float32)
        ends = list(accumulate(len(one.places) for one in self.segments))[:-1]
        for segment, part in zip(self.segments, np.split(values, ends), strict=True):
            found[segment.numbers] = part[segment.which]
        return found

    @chunkwise()
    def _gradient(self, coefficients: Arrays) -> tuple[Arrays, Arrays]:
        import mlx.nn as nn

        other = self._at_reference()

        def weighed() -> tuple[mx.array, Arrays]:
            hidden, targets = self._passed()
            return chunked.surrogate(self._head, hidden, targets, self._chunk_rows, coefficients, other)

        (_, values), gradient = nn.value_and_grad(self._carrier.model, weighed)()
        return values, join_leaves(gradient)

    def _passed(self) -> tuple[mx.array, mx.array]:
        """Return the hidden states in front of the targets of all segments, and the targets. [N, E], [N]"""
        import mlx.core as mx

        borders, found = SegmentBoundaries(self._carrier.states(), self.segments), []
        for number, segment in enumerate(self.segments):
            borders.begin(number)
            hidden = self._hidden(borders, segment)
            borders.fill(borders.made(number))
            found.append(self._chosen(hidden, segment))
        return mx.concatenate([hidden for hidden, _ in found]), mx.concatenate([targets for _, targets in found])

    def _at_reference(self) -> chunked.ReferenceLogits | None:
        """Return the reference at the targets, if the divergence from it is wanted."""
        import mlx.core as mx

        if self._reference is None:
            return None
        with self._reference.context():
            hidden, _ = self._passed()
        return chunked.ReferenceLogits(mx.stop_gradient(hidden), self._reference.head, self._reference.direction)
