"""States of a batch at the borders of its segments, and their cotangents."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.modeling.segment_states import leaves

if TYPE_CHECKING:
    from collections.abc import Sequence

    import mlx.core as mx

    from karl_fast.modeling.segment_states import Layered, Rows
    from karl_fast.modeling.segments import Segment

    Key = tuple[int, int, int]


class SegmentBoundaries:
    """The arrays that each segment made, and what a later segment reads of them.

    An array is known by the segment that made it, by the number of its state, and by its place there. It has the rows
    of that segment; a later one has fewer of them, or several that begin like one.

    Attributes:
        caches: the states, in the form that the model takes as its caches.
    """

    def __init__(self, caches: list[Layered], segments: Sequence[Segment]) -> None:
        self.caches, self._segments = caches, segments
        self._states = [leaf for one in caches for leaf in leaves(one)]
        self._made: dict[Key, mx.array] = {}
        self._arrays = [0] * len(self._states)

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
        there, start = changed or {}, self._segments[number].start
        for state_number, state in enumerate(self._states):
            keys = self.read_by(number, state_number)
            rows = [self._rows(key[0], number) for key in keys]
            state.begin([there[key] if key in there else self.array(key) for key in keys], start, rows)

    def read_by(self, number: int, state: int) -> list[Key]:
        """Return the arrays that a segment reads of a state, in turn."""
        return [key for maker in self._makers(number, state) for key in self._keys(maker, state)]

    def _makers(self, number: int, state: int) -> range:
        """Return the segments that made what a segment reads of a state."""
        if number == 0 or not self._states[state].grows:
            return range(max(0, number - 1), number)
        reach, start = self._states[state].reach, self._segments[number].start
        first = 0 if reach is None else next(at for at, one in enumerate(self._segments) if one.stop > start - reach)
        return range(first, number)

    def _keys(self, maker: int, state: int) -> list[Key]:
        return [(maker, state, place) for place in range(self._arrays[state])]

    def array(self, key: Key) -> mx.array:
        """Return an array with all of its rows."""
        return self._made[key]

    def _rows(self, maker: int, number: int) -> Rows:
        """Return the rows of a segment in what an earlier one made: those that are still there, or runs of one row."""
        members = self._segments[maker].members[self._segments[number].rows]
        if (members == np.arange(len(members))).all():
            return slice(0, len(members))
        starts = np.flatnonzero(np.diff(members, prepend=-1))
        counts = np.diff(starts, append=len(members))
        return list(zip(members[starts].tolist(), counts.tolist(), strict=True))

    def made(self, number: int) -> dict[Key, mx.array]:
        """Return what the states made of a segment that has passed."""
        return {
            (number, state_number, place): array
            for state_number, state in enumerate(self._states)
            for place, array in enumerate(state.made)
        }

    def kept(self, number: int) -> dict[Key, mx.array]:
        """Return what is kept of a segment."""
        return {key: array for key, array in self._made.items() if key[0] == number}

    def keep(self, number: int) -> list[mx.array]:
        """Keep what a segment made, and return it."""
        import mlx.core as mx

        # A view, such as the tail of a convolution's input, would keep all of the array it shows.
        found = {key: mx.contiguous(array) for key, array in self.made(number).items()}
        self.fill(found)
        return list(found.values())

    def fill(self, made: dict[Key, mx.array]) -> None:
        """Take arrays as those that segments made."""
        self._made |= made
        for _, state, place in made:
            self._arrays[state] = max(self._arrays[state], place + 1)

    def forget(self, number: int) -> None:
        """Let go of what a segment made."""
        self._made = {key: array for key, array in self._made.items() if key[0] != number}
        for state in self._states:
            state.begin([], 0)

    def forget_replaced(self, number: int) -> None:
        """Let go of what recurrent layers made before a segment, which a forward sweep alone reads no more."""
        self._made = {key: array for key, array in self._made.items() if key[0] >= number or self._states[key[1]].grows}


class Cotangents:
    """Sums of cotangents of states, in float32, until the segment that made them is reached."""

    def __init__(self) -> None:
        self._sums: dict[Key, mx.array] = {}

    def add(self, cotangents: dict[Key, mx.array]) -> None:
        """Add cotangents and empty their dictionary, those of the last layer first: before the next layer has any."""
        import mlx.core as mx

        by_state: dict[int, list[mx.array]] = defaultdict(list)
        for key in list(cotangents):
            self._sums[key] = _add(self._sums.pop(key, None), cotangents.pop(key))
            by_state[key[1]].append(self._sums[key])
        for state in sorted(by_state, reverse=True):
            mx.eval(by_state[state])

    def take(self, made: dict[Key, mx.array]) -> list[mx.array]:
        """Return the sums of what a segment made, in its types, and let go of them; 0 for what nothing has read."""
        import mlx.core as mx

        found = []
        for key, array in made.items():
            one = self._sums.pop(key, None)
            found.append(mx.zeros_like(array) if one is None else one.astype(array.dtype))
        return found


def _add(before: mx.array | None, more: Any) -> mx.array:
    import mlx.core as mx

    wide: mx.array = more.astype(mx.float32)
    return wide if before is None else before + wide
