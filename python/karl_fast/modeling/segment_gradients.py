r"""Exact gradients of long rows: a forward sweep over segments, the objective, and a reverse sweep.

For a causal model cut into segments s = 1 .. S, with states c_0 empty, (logp_s, c_s) = f(theta, x_s, c_{s-1}):

    forward:   s = 1 .. S:   keep logp_s and c_s, no graph
    reverse:   s = S .. 1:   (dtheta_s, dc_{s-1}) = vjp of f at (theta, c_{s-1}), cotangents (coefficients_s, dc_s)
                             dtheta += dtheta_s

No graph is longer than a segment. In the reverse sweep each layer is recomputed alone, and its attention is computed by
blocks of keys, so that the scores of one block (heads x segment x keys) are in memory at a time. Cotangents of states
and gradients add up in float32, whatever the type of the model. Dropout draws from (seed, segment, layer), the same in
both sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.modeling import chunked_logp as chunked
from karl_fast.modeling.block_attention import attention_by_blocks
from karl_fast.modeling.chunked_logp import scored
from karl_fast.modeling.flat_gradients import GradientSum, join_leaves
from karl_fast.modeling.layers import derived, recomputing, replaced, seeding
from karl_fast.modeling.model_views import chunkwise
from karl_fast.modeling.segment_boundaries import SegmentBoundaries, Cotangents
from karl_fast.modeling.segments import cut_segments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.modeling.external_objective import Arrays, Columns
    from karl_fast.modeling.segment_boundaries import Key
    from karl_fast.modeling.segments import Segment
    from karl_fast.modeling.stateful_model import StatefulModel


@dataclass(frozen=True)
class ReferenceModel:
    """Another model in the place of the one that is trained, for the divergence from it.

    Attributes:
        context: turns the model into the reference.
        head: hidden states to its logits.
        direction: ``reverse`` or ``forward``.
    """

    context: Callable[[], AbstractContextManager[None]]
    head: Any
    direction: str


class SegmentPass:
    """The way of one batch through a model, segment by segment.

    Attributes:
        segments: of the batch.
        borders: the states between them.
    """

    def __init__(
        self,
        carrier: StatefulModel,
        head: Any,
        chunk_rows: int,
        tokens: NDArray[np.int32],
        mask: NDArray[np.bool_],
        *,
        length: int,
        names: Sequence[str] = ("logp",),
        seed: int | None = None,
        reference: ReferenceModel | None = None,
        share: bool = False,
    ) -> None:
        """Cut a batch into segments.

        Args:
            carrier: the model.
            head: hidden states to logits; without trainable parameters.
            chunk_rows: hidden states of a chunk.
            tokens: padded on the right. [B, T + 1]
            mask: which targets are computed. [B, T]
            length: tokens of a segment.
            names: of the quantities of each target.
            seed: of dropout; None without.
            reference: another model, for the divergence from it.
            share: True to compute a common prefix of rows once; not with dropout, which is not the same in two rows.
        """
        self._carrier, self._head, self._chunk_rows, self._names = carrier, head, chunk_rows, tuple(names)
        order, self.segments = cut_segments(mask, length, tokens if share else None)
        self._tokens, self._count, self._seed = tokens[order], int(mask.sum()), seed
        self.borders = SegmentBoundaries(carrier.states(), self.segments)
        self._reference, self._others = reference, dict[int, chunked.ReferenceLogits]()
        self._swept = False

    def outputs(self, *, keep: bool = True) -> Columns:
        """Run the forward sweep, and return the quantities of the targets. [N]

        Args:
            keep: False if no reverse sweep follows.
        """
        import mlx.core as mx

        found = {name: np.zeros(self._count, dtype=np.float32) for name in self._names}
        others = None if self._reference is None else SegmentBoundaries(self._carrier.states(), self.segments)
        for number, segment in enumerate(self.segments):
            if others is not None:
                self._refer(others, number)
            values = self.passed(number)
            made = [] if number + 1 == len(self.segments) else self.borders.keep(number)
            mx.eval(values, made)
            for name, array in values.items():
                found[name][segment.numbers] = np.array(array)[segment.which]
            if not keep:
                self.borders.forget_replaced(number)
        self._swept = keep
        return found

    @attention_by_blocks(forward_only=True)
    def passed(self, number: int) -> Arrays:
        """Build the forward pass of a segment, and return its quantities."""
        segment = self.segments[number]
        self.borders.begin(number)
        with self._layers(seeding, number):
            hidden = self._hidden(self.borders, segment)
        if not segment.places.size:
            return {}
        still, targets = self._chosen(hidden, segment)
        other = self._others.get(number)
        return scored(self._head, still, targets, self._chunk_rows, self._names, other, slopes=False)[0]

    def _hidden(self, borders: SegmentBoundaries, segment: Segment) -> mx.array:
        import mlx.core as mx

        tokens = mx.array(self._tokens[segment.rows, segment.start : segment.stop])
        hidden: mx.array = self._carrier.body(tokens, cache=borders.caches)
        return hidden

    def _chosen(self, hidden: mx.array, segment: Segment) -> tuple[mx.array, mx.array]:
        import mlx.core as mx

        tokens = mx.array(self._tokens[segment.rows, segment.start : segment.stop + 1])
        return chunked.chosen(hidden, tokens, mx.array(segment.places))

    def _layers(self, how: Any, number: int) -> AbstractContextManager[None]:
        seed = None if self._seed is None else derived(self._seed, number)
        return replaced(self._carrier.model, partial(how, seed=seed))

    @attention_by_blocks(forward_only=True)
    def _refer(self, borders: SegmentBoundaries, number: int) -> None:
        """Compute the hidden states of the reference in a segment."""
        import mlx.core as mx

        reference, segment = self._reference, self.segments[number]
        assert reference is not None
        borders.begin(number)
        with reference.context(), self._layers(seeding, number):
            hidden, _ = self._chosen(self._hidden(borders, segment), segment)
        mx.eval(hidden, borders.keep(number))
        borders.forget_replaced(number)
        self._others[number] = chunked.ReferenceLogits(hidden, reference.head, reference.direction)

    def pull(self, coefficients: Columns) -> Arrays:
        """Run the reverse sweep, and return the gradient of ``sum(coefficient * quantity)``, joined.

        Args:
            coefficients: the slope of a loss in each quantity, by its name. [N]
        """
        import mlx.core as mx

        if not self._swept:
            self.outputs()
        self._swept = False
        summed, cotangents = GradientSum(), Cotangents()
        with self._carrier.unchanged():
            for number in reversed(range(len(self.segments))):
                gradient, read = self.pulled(number, coefficients, cotangents)
                summed.add(join_leaves(gradient))
                cotangents.add(read)
                mx.eval(summed.vectors)
                self.borders.forget(number)
        return summed.result()

    @chunkwise()
    @attention_by_blocks()
    def pulled(
        self, number: int, coefficients: Columns, cotangents: Cotangents
    ) -> tuple[dict[str, mx.array], dict[Key, mx.array]]:
        """Build the backward pass of a segment: the gradient by name, and the cotangents of the states it read."""
        import mlx.core as mx

        names = [name for name, _, _ in self._carrier.parameters]
        read = [key for state in self._trained() for key in self.borders.read_by(number, state)]
        there = [holder[key] for _, holder, key in self._carrier.parameters]
        there += [self.borders.array(key) for key in read]
        made = {} if number + 1 == len(self.segments) else self._made(number)

        def function(*arrays: mx.array) -> list[mx.array]:
            self._put(arrays)
            self.borders.begin(number, dict(zip(read, arrays[len(names) :], strict=True)))
            return self._weighed(number, coefficients, made)

        given = [mx.array(1.0)] if self.segments[number].places.size else []
        found = mx.vjp(function, there, [*given, *cotangents.take(made)])[1]
        return dict(zip(names, found, strict=False)), dict(zip(read, found[len(names) :], strict=True))

    def _trained(self) -> list[int]:
        return [number for number, trained in enumerate(self._carrier.trained) if trained]

    def _made(self, number: int) -> dict[Key, mx.array]:
        """Return the arrays of trained states that a segment made in the forward sweep."""
        return {key: array for key, array in self.borders.kept(number).items() if self._carrier.trained[key[1]]}

    def _put(self, arrays: Sequence[mx.array]) -> None:
        for (_, holder, key), array in zip(self._carrier.parameters, arrays, strict=False):
            holder[key] = array

    def _weighed(self, number: int, coefficients: Columns, made: dict[Key, mx.array]) -> list[mx.array]:
        """Return the weighted sum of the quantities of a segment, if it has any, and the states that it makes."""
        import mlx.core as mx

        segment = self.segments[number]
        with self._layers(recomputing, number):
            hidden = self._hidden(self.borders, segment)
        states = self.borders.made(number)
        found = [states[key] for key in made]
        if not segment.places.size:
            return found
        slopes = {name: mx.array(segment.gathered(values)) for name, values in coefficients.items()}
        some, targets = self._chosen(hidden, segment)
        total, _ = chunked.surrogate(self._head, some, targets, self._chunk_rows, slopes, self._others.get(number))
        return [total, *found]
