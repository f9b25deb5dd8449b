"""Exact gradients of long rows, which pass through the model in segments, and of rows with a common prefix.

For a causal model cut into segments s = 1 .. S, with states c_0 empty, (logp_s, c_s) = f(theta, x_s, c_{s-1}):

```text
forward:   s = 1 .. S:   keep logp_s and c_s, no graph
           the objective: coefficients of all logp
reverse:   s = S .. 1:   (dtheta_s, dc_{s-1}) = vjp of f at (theta, c_{s-1}), cotangents (coefficients_s, dc_s)
                         dtheta += dtheta_s
```

No graph is longer than a segment. In the reverse sweep each layer is recomputed alone, and its attention is computed by
blocks of keys, so that the scores of one block (heads x segment x keys) are in memory at a time. Cotangents of states
and gradients add up in float32, whatever the type of the model. Dropout draws from (seed, segment, layer), the same in
both sweeps.

Rows that begin alike pass through a segment as one row, and part at its end:

```text
row 0   prompt ............ | answer 0 ......
row 1   (the same tokens)   | answer 1 ...
          segment 0: 1 row       segment 1: 2 rows, each reads the state of row 0
```

| class | what it is |
|---|---|
| `SegmentPass` | a batch, segment by segment: the two sweeps |
| `WholePass` | a batch that fits whole, in one graph, where common prefixes are computed once |
| `SegmentBoundaries`, `Cotangents` | the states at the borders of segments, and their gradients |
| `Segment`, `Prefixes` | which rows and tokens pass together |
| `StatefulModel` | a model whose states can be carried on: found by trying (`carry_states`), refused with the reason |
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from karl_fast.errors import KarlError, ModelError
from karl_fast.modeling import chunked_logp as chunked
from karl_fast.modeling.block_attention import attention_by_blocks
from karl_fast.modeling.chunked_logp import Traced, backward, forward, score_tokens
from karl_fast.modeling.layers import derive_seed, recompute_layer, replace_calls, seed_layer
from karl_fast.modeling.model_views import DIFFERENT, chunkwise, training_mode
from karl_fast.modeling.optimizer import GradientSum, global_norm, join_leaves
from karl_fast.modeling.parameters import flatten_tree, locate_leaf
from karl_fast.modeling.segment_states import empty_states, leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from karl_fast.modeling.chunked_logp import Arrays, Columns
    from karl_fast.modeling.layers import Call
    from karl_fast.modeling.segment_states import Layered, Rows

    Key = tuple[int, int, int]

LEAST_TOKENS = 8
"""Tokens of the shortest stretch that is computed by itself: more than a convolution looks back."""

LEAST_SAVED = 96
"""Tokens that a border within a segment has to save, its own times the rows that need not compute them: about what
another call of the model and its gradient cost (in a group of 8, 84 tokens saved gain nothing and 168 gain a tenth)."""

LEAST_SHARE = 1 / 8
"""Share of a segment's tokens that a border within it has to save, too: attention to a prefix copies its states."""

PROBE = np.array([[1, 2, 3, 1, 3, 2, 2, 1, 3, 1]], dtype=np.int32)
"""Tokens of a row that passes whole, and in three segments."""

LENGTH = 4
"""Tokens of a segment of it: not fewer than a convolution looks back."""


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
    """Return the pass of a batch in segments, or whole with common prefixes; None for whole rows without any.

    Args:
        carrier: the model with the states that segments carry on.
        head, chunk_rows, tokens, mask: as for `SegmentPass`.
        length: tokens of a segment; None for whole rows.
        sharing: of common prefixes.
        how: further arguments of `SegmentPass`.
    """
    shared = (head, chunk_rows, tokens, mask)
    if length is not None and used_width(mask) > length:
        return SegmentPass(
            carrier(), *shared, length=length, share=shares_segment(mask, length, tokens) and sharing(), **how
        )
    if shares_prefix(mask, tokens) and sharing():
        return WholePass(carrier(), *shared, length=used_width(mask), share=True, **how)
    return None


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
    """Pass of one batch through a model, segment by segment.

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
        reference: ReferenceModel | Callable[[], chunked.ReferenceLogits] | None = None,
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
            reference: another model, for the divergence from it; or a function that computes the hidden states of one
                that reads other tokens, for each target in order.
            share: True to compute a common prefix of rows once; not with dropout, which is not the same in two rows.
        """
        self._carrier, self._head, self._chunk_rows, self._names = carrier, head, chunk_rows, tuple(names)
        order, self.segments = cut_segments(mask, length, tokens if share else None)
        self._tokens, self._count, self._seed = tokens[order], int(mask.sum()), seed
        self.borders = SegmentBoundaries(carrier.states(), self.segments)
        self._reference = reference if isinstance(reference, ReferenceModel) else None
        self._references = dict[int, chunked.ReferenceLogits]()
        if callable(reference):
            self._references = self._cut_reference(reference())
        self._outputs_kept = False

    def _cut_reference(self, reference: chunked.ReferenceLogits) -> dict[int, chunked.ReferenceLogits]:
        """Return another model at the places of each segment; targets that share a place have the same states there."""
        cut = {}
        for number, segment in enumerate(self.segments):
            first = segment.numbers[np.unique(segment.which, return_index=True)[1]]
            cut[number] = replace(reference, hidden=reference.hidden[mx.array(first.astype(np.int32))])
        return cut

    def outputs(self, *, keep: bool = True) -> Columns:
        """Run the forward sweep, and return the quantities of the targets. [N]

        Args:
            keep: False if no reverse sweep follows.
        """
        columns = {name: np.zeros(self._count, dtype=np.float32) for name in self._names}
        reference_borders = (
            None if self._reference is None else SegmentBoundaries(self._carrier.states(), self.segments)
        )
        for number, segment in enumerate(self.segments):
            if reference_borders is not None:
                self._forward_reference(reference_borders, number)
            values = self.forward_segment(number)
            new_states = [] if number + 1 == len(self.segments) else self.borders.store(number)
            mx.eval(values, new_states)
            for name, array in values.items():
                columns[name][segment.numbers] = np.array(array)[segment.which]
            if not keep:
                self.borders.forget_replaced(number)
        self._outputs_kept = keep
        return columns

    @attention_by_blocks(forward_only=True)
    def forward_segment(self, number: int) -> Arrays:
        """Build the forward pass of a segment, and return its quantities."""
        segment = self.segments[number]
        self.borders.begin(number)
        with self._layers(seed_layer, number):
            hidden = self._hidden(self.borders, segment)
        if not segment.places.size:
            return {}
        still, targets = self._select_targets(hidden, segment)
        reference = self._references.get(number)
        return score_tokens(self._head, still, targets, self._chunk_rows, self._names, reference, slopes=False)[0]

    def _hidden(self, borders: SegmentBoundaries, segment: Segment) -> mx.array:
        tokens = mx.array(self._tokens[segment.rows, segment.start : segment.stop])
        hidden: mx.array = self._carrier.body(tokens, cache=borders.caches)
        return hidden

    def _select_targets(self, hidden: mx.array, segment: Segment) -> tuple[mx.array, mx.array]:
        tokens = mx.array(self._tokens[segment.rows, segment.start : segment.stop + 1])
        return chunked.select_targets(hidden, tokens, mx.array(segment.places))

    def _layers(self, how: Any, number: int) -> AbstractContextManager[None]:
        seed = None if self._seed is None else derive_seed(self._seed, number)
        return replace_calls(self._carrier.model, partial(how, seed=seed))

    @attention_by_blocks(forward_only=True)
    def _forward_reference(self, borders: SegmentBoundaries, number: int) -> None:
        """Compute the hidden states of the reference in a segment."""
        reference, segment = self._reference, self.segments[number]
        assert reference is not None
        borders.begin(number)
        with reference.context(), self._layers(seed_layer, number):
            hidden, _ = self._select_targets(self._hidden(borders, segment), segment)
        mx.eval(hidden, borders.store(number))
        borders.forget_replaced(number)
        self._references[number] = chunked.ReferenceLogits(hidden, reference.head, reference.direction)

    def pull(self, coefficients: Columns) -> Arrays:
        """Run the reverse sweep, and return the gradient of ``sum(coefficient * quantity)``, joined.

        Args:
            coefficients: the slope of a loss in each quantity, by its name. [N]
        """
        if not self._outputs_kept:
            self.outputs()
        self._outputs_kept = False
        summed, cotangents = GradientSum(), Cotangents()
        with self._carrier.unchanged():
            for number in reversed(range(len(self.segments))):
                gradient, read = self.backward_segment(number, coefficients, cotangents)
                summed.add(join_leaves(gradient))
                cotangents.add(read)
                mx.eval(summed.vectors)
                self.borders.forget(number)
        return summed.result()

    @chunkwise()
    @attention_by_blocks()
    def backward_segment(
        self, number: int, coefficients: Columns, cotangents: Cotangents
    ) -> tuple[dict[str, mx.array], dict[Key, mx.array]]:
        """Build the backward pass of a segment: the gradient by name, and the cotangents of the states it read."""
        names = [name for name, _, _ in self._carrier.parameters]
        read = [key for state in self._trained_states() for key in self.borders.read_by(number, state)]
        inputs = [holder[key] for _, holder, key in self._carrier.parameters]
        inputs += [self.borders.array(key) for key in read]
        outputs = {} if number + 1 == len(self.segments) else self._trained_arrays(number)

        def function(*arrays: mx.array) -> list[mx.array]:
            self._put(arrays)
            self.borders.begin(number, dict(zip(read, arrays[len(names) :], strict=True)))
            return self._segment_outputs(number, coefficients, outputs)

        unit = [mx.array(1.0)] if self.segments[number].places.size else []
        gradients = mx.vjp(function, inputs, [*unit, *cotangents.take(outputs)])[1]
        return dict(zip(names, gradients, strict=False)), dict(zip(read, gradients[len(names) :], strict=True))

    def _trained_states(self) -> list[int]:
        return [number for number, trained in enumerate(self._carrier.trained) if trained]

    def _trained_arrays(self, number: int) -> dict[Key, mx.array]:
        """Return the arrays of trained states that a segment made in the forward sweep."""
        return {key: array for key, array in self.borders.stored(number).items() if self._carrier.trained[key[1]]}

    def _put(self, arrays: Sequence[mx.array]) -> None:
        for (_, holder, key), array in zip(self._carrier.parameters, arrays, strict=False):
            holder[key] = array

    def _segment_outputs(self, number: int, coefficients: Columns, keys: dict[Key, mx.array]) -> list[mx.array]:
        """Return the weighted sum of the quantities of a segment, if it has any, and the states that it makes."""
        segment = self.segments[number]
        with self._layers(recompute_layer, number):
            hidden = self._hidden(self.borders, segment)
        states = self.borders.new_arrays(number)
        new_states = [states[key] for key in keys]
        if not segment.places.size:
            return new_states
        slopes = {name: mx.array(segment.sum_coefficients(values)) for name, values in coefficients.items()}
        selected, targets = self._select_targets(hidden, segment)
        total, _ = chunked.surrogate_loss(
            self._head, selected, targets, self._chunk_rows, slopes, self._references.get(number)
        )
        return [total, *new_states]


class WholePass(SegmentPass):
    """Pass of a batch through a model, all segments in one graph.

    A segment ends where rows part, and nowhere else. MLX differentiates through the states: the cotangents of the rows
    that read one add up in float32. A pass without a gradient is that of `SegmentPass`.
    """

    def outputs(self, *, keep: bool = True) -> Columns:
        """Run the forward pass, and return the quantities of the targets. [N]

        Args:
            keep: False if no backward pass follows.
        """
        if not keep:
            return super().outputs(keep=False)
        self._traced = Traced(self._names, sum(len(segment.places) for segment in self.segments), self._gradient)
        values = self._traced.outputs()
        return {name: self._spread(array) for name, array in values.items()}

    def pull(self, coefficients: Columns) -> Arrays:
        """Return the gradient of ``sum(coefficient * quantity)``, joined, which is not computed yet."""
        sums = {
            name: np.concatenate([segment.sum_coefficients(values) for segment in self.segments])
            for name, values in coefficients.items()
        }
        gradient: Arrays = self._traced.pull(sums)
        return gradient

    def _spread(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the values of places for the targets that share them. [N'] -> [N]"""
        columns = np.zeros(self._count, dtype=np.float32)
        ends = list(accumulate(len(part.places) for part in self.segments))[:-1]
        for segment, part in zip(self.segments, np.split(values, ends), strict=True):
            columns[segment.numbers] = part[segment.which]
        return columns

    @chunkwise()
    def _gradient(self, coefficients: Arrays) -> tuple[Arrays, Arrays]:
        other = self._at_reference()

        def weighed() -> tuple[mx.array, Arrays]:
            hidden, targets = self._forward_segments()
            return chunked.surrogate_loss(self._head, hidden, targets, self._chunk_rows, coefficients, other)

        (_, values), gradient = nn.value_and_grad(self._carrier.model, weighed)()
        return values, join_leaves(gradient)

    def _forward_segments(self) -> tuple[mx.array, mx.array]:
        """Return the hidden states in front of the targets of all segments, and the targets. [N, E], [N]"""
        borders, parts = SegmentBoundaries(self._carrier.states(), self.segments), []
        for number, segment in enumerate(self.segments):
            borders.begin(number)
            hidden = self._hidden(borders, segment)
            borders.fill(borders.new_arrays(number))
            parts.append(self._select_targets(hidden, segment))
        return mx.concatenate([hidden for hidden, _ in parts]), mx.concatenate([targets for _, targets in parts])

    def _at_reference(self) -> chunked.ReferenceLogits | None:
        """Return the reference at the targets, if the divergence from it is wanted."""
        if self._references:
            first, *others = self._references.values()
            return replace(first, hidden=mx.concatenate([first.hidden, *(other.hidden for other in others)]))
        if self._reference is None:
            return None
        with self._reference.context():
            hidden, _ = self._forward_segments()
        return chunked.ReferenceLogits(mx.stop_gradient(hidden), self._reference.head, self._reference.direction)


class SegmentBoundaries:
    """The arrays that each segment leaves, and what a later segment reads of them.

    The key of an array is the segment that made it, the number of its state, and its place there. It has the rows
    of that segment; a later one has fewer of them, or several that begin like one.

    Attributes:
        caches: the states, in the form that the model takes as its caches.
    """

    def __init__(self, caches: list[Layered], segments: Sequence[Segment]) -> None:
        self.caches, self._segments = caches, segments
        self._states = [leaf for cache in caches for leaf in leaves(cache)]
        self._stored: dict[Key, mx.array] = {}
        self._counts = [0] * len(self._states)

    @property
    def growing(self) -> list[bool]:
        """For each state, whether it grows with every segment."""
        return [state.grows for state in self._states]

    def begin(self, number: int, changed: dict[Key, mx.array] | None = None) -> None:
        """Set the states to the start of a segment.

        Args:
            number: of the segment.
            changed: arrays in the place of those that were made.
        """
        replacements, start = changed or {}, self._segments[number].start
        for state_number, state in enumerate(self._states):
            keys = self.read_by(number, state_number)
            rows = [self._rows(key[0], number) for key in keys]
            state.begin([replacements[key] if key in replacements else self.array(key) for key in keys], start, rows)

    def read_by(self, number: int, state: int) -> list[Key]:
        """Return the arrays that a segment reads of a state, in turn."""
        return [key for maker in self._makers(number, state) for key in self._keys(maker, state)]

    def _makers(self, number: int, state: int) -> range:
        """Return the segments that made what a segment reads of a state."""
        if number == 0 or not self._states[state].grows:
            return range(max(0, number - 1), number)
        reach, start = self._states[state].reach, self._segments[number].start
        first = (
            0
            if reach is None
            else next(at for at, segment in enumerate(self._segments) if segment.stop > start - reach)
        )
        return range(first, number)

    def _keys(self, maker: int, state: int) -> list[Key]:
        return [(maker, state, place) for place in range(self._counts[state])]

    def array(self, key: Key) -> mx.array:
        """Return an array with all of its rows."""
        return self._stored[key]

    def _rows(self, maker: int, number: int) -> Rows:
        """Return the rows of a segment in what an earlier one made: those that are still there, or runs of one row."""
        members = self._segments[maker].members[self._segments[number].rows]
        if (members == np.arange(len(members))).all():
            return slice(0, len(members))
        starts = np.flatnonzero(np.diff(members, prepend=-1))
        counts = np.diff(starts, append=len(members))
        return list(zip(members[starts].tolist(), counts.tolist(), strict=True))

    def new_arrays(self, number: int) -> dict[Key, mx.array]:
        """Return what the states made of a segment that has passed."""
        return {
            (number, state_number, place): array
            for state_number, state in enumerate(self._states)
            for place, array in enumerate(state.new)
        }

    def stored(self, number: int) -> dict[Key, mx.array]:
        """Return the stored arrays of a segment."""
        return {key: array for key, array in self._stored.items() if key[0] == number}

    def store(self, number: int) -> list[mx.array]:
        """Store what a segment made, and return it."""
        # A view, such as the tail of a convolution's input, would keep all of the array it shows.
        arrays = {key: mx.contiguous(array) for key, array in self.new_arrays(number).items()}
        self.fill(arrays)
        return list(arrays.values())

    def fill(self, arrays: dict[Key, mx.array]) -> None:
        """Store arrays as those of their segments."""
        self._stored |= arrays
        for _, state, place in arrays:
            self._counts[state] = max(self._counts[state], place + 1)

    def forget(self, number: int) -> None:
        """Forget what a segment made."""
        self._stored = {key: array for key, array in self._stored.items() if key[0] != number}
        for state in self._states:
            state.begin([], 0)

    def forget_replaced(self, number: int) -> None:
        """Forget what recurrent layers made before a segment: a forward sweep alone does not read it again."""
        self._stored = {
            key: array for key, array in self._stored.items() if key[0] >= number or self._states[key[1]].grows
        }


class Cotangents:
    """Sums of cotangents of states, in float32, until the segment that made them is reached."""

    def __init__(self) -> None:
        self._sums: dict[Key, mx.array] = {}

    def add(self, cotangents: dict[Key, mx.array]) -> None:
        """Add cotangents and empty their dictionary, those of the last layer first: before the next layer has any."""
        by_state: dict[int, list[mx.array]] = defaultdict(list)
        for key in list(cotangents):
            self._sums[key] = _add(self._sums.pop(key, None), cotangents.pop(key))
            by_state[key[1]].append(self._sums[key])
        for state in sorted(by_state, reverse=True):
            mx.eval(by_state[state])

    def take(self, arrays: dict[Key, mx.array]) -> list[mx.array]:
        """Return the sums of what a segment made, in its types, and forget them; 0 for what nothing has read."""
        cotangents = []
        for key, array in arrays.items():
            total = self._sums.pop(key, None)
            cotangents.append(mx.zeros_like(array) if total is None else total.astype(array.dtype))
        return cotangents


def _add(total: mx.array | None, cotangent: Any) -> mx.array:
    wide: mx.array = cotangent.astype(mx.float32)
    return wide if total is None else total + wide


@dataclass(frozen=True)
class Segment:
    """Inputs of the rows that are still there, each distinct one once.

    Attributes:
        start, stop: of the inputs, in tokens of a row.
        rows: the distinct rows, as numbers of rows of the batch, the longest first. [R]
        members: for each row that is still there, the number of the distinct row that it is up to here. [n]
        places: the targets, as numbers into the flattened [R, stop - start]. [N']
        numbers: targets of the batch, several of which may share a place. [M]
        which: the place of each, as a number into `places`. [M]
    """

    start: int
    stop: int
    rows: NDArray[np.int64]
    members: NDArray[np.int64]
    places: NDArray[np.int32]
    numbers: NDArray[np.int64]
    which: NDArray[np.int64]

    def sum_coefficients(self, coefficients: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the sum of the coefficients of each place, given those of the batch. [N] -> [N']"""
        summed = np.bincount(self.which, weights=coefficients[self.numbers], minlength=len(self.places))
        return summed.astype(np.float32)


def cut_segments(
    mask: NDArray[np.bool_], length: int, tokens: NDArray[np.int32] | None = None
) -> tuple[NDArray[np.int64], list[Segment]]:
    """Cut a batch into segments.

    A row ends with the last input that has a target: nothing depends on what comes behind it. It leaves the batch at
    the segment in which it ends, so that no padding is ever part of a state that a later segment reads.

    Where the tokens are given, rows that are the same up to the end of a segment pass through it as one, and a segment
    ends earlier where that saves enough.

    Args:
        mask: which inputs have a target. [B, T]
        length: most inputs of a segment.
        tokens: with the target of the last input; None to share nothing. [B, T + 1]

    Returns:
        The order of the rows, the longest first, and the segments of the rows in that order.
    """
    ends = np.where(mask.any(1), mask.shape[1] - mask[:, ::-1].argmax(1), 0)
    order = np.argsort(-ends, kind="stable")
    numbers = np.cumsum(mask.ravel()).reshape(mask.shape) - 1
    mask, numbers, ends = mask[order], numbers[order], ends[order]
    prefixes = None if tokens is None or len(tokens) < 2 else Prefixes(tokens[order])
    segments: list[Segment] = []
    start, last = 0, int(ends.max(initial=0))
    while start < last:
        rows, stop = int((ends > start).sum()), min(start + length, last)
        members = np.arange(rows)
        if prefixes is not None:
            stop = prefixes.border(rows, start, stop)
            members = prefixes.members(rows, stop)
        segments.append(_cut_segment(start, stop, members, mask[:rows], numbers[:rows]))
        start = stop
    return order, segments


def _cut_segment(
    start: int, stop: int, members: NDArray[np.int64], mask: NDArray[np.bool_], numbers: NDArray[np.int64]
) -> Segment:
    part = mask[:, start:stop]
    row, at = np.nonzero(part)
    places, which = np.unique(members[row] * (stop - start) + at, return_inverse=True)
    _, rows = np.unique(members, return_index=True)
    return Segment(start, stop, rows, members, places.astype(np.int32), numbers[:, start:stop][part], which)


def used_width(mask: NDArray[np.bool_]) -> int:
    """Return the inputs up to the last one that has a target, in the longest row. [B, T]"""
    return int(np.flatnonzero(mask.any(0)).max(initial=-1)) + 1


def shares_segment(mask: NDArray[np.bool_], length: int, tokens: NDArray[np.int32]) -> bool:
    """Return whether several rows share a segment of at most so many tokens."""
    return len(mask) > 1 and any(
        len(segment.rows) < len(segment.members) for segment in cut_segments(mask, length, tokens)[1]
    )


def shares_prefix(mask: NDArray[np.bool_], tokens: NDArray[np.int32]) -> bool:
    """Return whether rows that pass whole have a common prefix that is worth a segment of its own."""
    return len(mask) > 1 and len(cut_segments(mask, used_width(mask), tokens)[1]) > 1


class Prefixes:
    """Common prefixes of the rows of a batch with the rows before them.

    A stretch of inputs is shared if its targets are the same, too: then its states, its hidden states and its
    log-probabilities are.

    Attributes:
        reach: inputs that a row shares with the row before it that is most like it; -1 for the first. [B]
        nearest: the number of that row. [B]
    """

    def __init__(self, tokens: NDArray[np.int32]) -> None:
        """Compare each row with those before it. [B, T + 1]"""
        self.reach = np.full(len(tokens), -1)
        self.nearest = np.zeros(len(tokens), dtype=np.int64)
        for row in range(1, len(tokens)):
            other = tokens[:row] != tokens[row]
            common = np.where(other.any(1), other.argmax(1), tokens.shape[1])
            self.nearest[row] = common.argmax()
            self.reach[row] = common.max() - 1

    def distinct(self, rows: int, stop: int) -> int:
        """Return how many of the first rows differ in the inputs up to `stop`, or their targets."""
        return int((self.reach[:rows] < stop).sum())

    def members(self, rows: int, stop: int) -> NDArray[np.int64]:
        """Return the number of the distinct row that each of the first rows is up to `stop`. [rows]"""
        numbers = np.zeros(rows, dtype=np.int64)
        count = 0
        for row in range(rows):
            same = self.reach[row] >= stop
            numbers[row] = numbers[self.nearest[row]] if same else count
            count += not same
        return numbers

    def border(self, rows: int, start: int, stop: int) -> int:
        """Return the end of a segment of the first rows: where most tokens are saved by it, or `stop`."""
        places = [end for end in np.unique(self.reach[:rows]).tolist() if start + LEAST_TOKENS <= end < stop]
        whole = self.distinct(rows, stop)
        saved = {end: (whole - self.distinct(rows, end)) * (end - start) for end in places}
        best = max(saved, key=saved.__getitem__, default=stop)
        return best if saved.get(best, 0) >= max(LEAST_SAVED, LEAST_SHARE * whole * (stop - start)) else stop


class StatefulModel:
    """A model, its trainable parameters, and its states.

    Attributes:
        model, body: the model, and its tokens to hidden states.
        parameters: name, holder and key of each trainable parameter.
        trained: for each single state, True if its layer, or one below it, has trainable parameters.
    """

    def __init__(self, model: Any, body: Any) -> None:
        """Note which layer has which states.

        Raises:
            ModelError: the model has caches that cannot be carried.
        """
        self.model, self.body = model, body
        self.parameters = [(name, *locate_leaf(model, name)) for name in flatten_tree(model.trainable_parameters())]
        self.trained = self._trained()

    def states(self) -> list[Layered]:
        """Return empty states, one for each cache of the model."""
        return empty_states(self.model)

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """Restore the parameters that tracing a gradient replaces."""
        arrays = [holder[key] for _, holder, key in self.parameters]
        try:
            yield
        finally:
            for (_, holder, key), array in zip(self.parameters, arrays, strict=True):
                holder[key] = array

    def _trained(self) -> list[bool]:
        caches, untrained = self.states(), set[int]()
        first = next(
            (at for at, layer in enumerate(self.model.layers) if flatten_tree(layer.trainable_parameters())), 0
        )

        def watch(number: int, _: Any, call: Call) -> Call:
            def watched_call(*arguments: Any, **named: Any) -> Any:
                if number < first:
                    untrained.update(id(leaf) for value in (*arguments, *named.values()) for leaf in leaves(value))
                return call(*arguments, **named)

            return watched_call

        with replace_calls(self.model, watch):
            self.body(mx.array([[1, 2, 3]]), cache=caches)  # lazy: nothing is computed
        return [id(leaf) not in untrained for value in caches for leaf in leaves(value)]


def carry_states(model: Any, body: Any, head: Any) -> StatefulModel:
    """Return a model with the states that segments carry on.

    Raises:
        ModelError: its gradient by segments is not that of whole rows, or a cache of it cannot be carried.
    """
    try:
        if getattr(model, "shares_caches", False):
            raise ModelError("its layers share keys and values")
        if not isinstance(getattr(model, "layers", None), list | tuple):
            raise ModelError("it has no list `layers`")
        carrier = StatefulModel(model, body)
        with training_mode(model):
            far = _relative_distance(carrier, head)
    except ModelError as error:
        raise _refusal(model, str(error)) from error
    except KarlError:
        raise
    except Exception as error:  # of a model's own code, which was not written for these caches
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        raise _refusal(model, f"its caches cannot be carried: {message}") from error
    if not far < DIFFERENT:
        raise _refusal(model, f"its gradient by segments differs by {far:.2g} from that of a whole row")
    return carrier


def _refusal(model: Any, why: str) -> ModelError:
    kind = getattr(model, "model_type", type(model).__name__)
    return ModelError(
        f"a model of type {kind} cannot be trained in segments: {why}",
        hint="segment_length auto takes whole rows for it",
    )


def _relative_distance(carrier: StatefulModel, head: Any) -> float:
    """Return the relative distance of the gradients, or of the log-probabilities of a model that is frozen."""
    tokens, mask = PROBE, np.ones((1, PROBE.shape[1] - 1), dtype=np.bool_)
    shared = (carrier.body, head, mx.array(tokens), mx.arange(mask.size, dtype=mx.int32), mask.size)
    sweep = SegmentPass(carrier, head, mask.size, tokens, mask, length=LENGTH)
    if not carrier.parameters:
        return _relative({"logp": mx.array(sweep.outputs(keep=False)["logp"])}, forward(*shared))
    ones = np.ones(mask.size, dtype=np.float32)
    with carrier.unchanged():
        whole = join_leaves(backward(carrier.model, *shared, {"logp": mx.array(ones)})[1])
    return _relative(sweep.pull({"logp": ones}), whole)


def _relative(gradient: Arrays, reference: Arrays) -> float:
    wide = {name: vector.astype(mx.float32) for name, vector in reference.items()}
    size: Any = global_norm(wide).item()
    far: Any = global_norm({name: gradient[name].astype(mx.float32) - vector for name, vector in wide.items()}).item()
    return float(far / max(size, 1e-30))
