"""Automatic maximum length of a row: as long as the estimate of memory allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from karl_fast.train.memory import largest, limit_bytes
from karl_fast.train.settings import AUTO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karl_fast.train.memory import Need, TrainingMemory

SHORTEST = 16
"""Below it, there is nothing to choose."""

SEGMENTS = tuple(1 << power for power in range(6, 12))
"""Tokens of a segment that are chosen from: longer ones take more memory, and are no faster."""


@dataclass(frozen=True)
class LengthBudget:
    """A length that was chosen, and why not a longer one.

    Attributes:
        tokens: a row may have.
        rows: of a batch that it was chosen for.
        beyond: the next length, and what such a batch of it needs; None where the longest row fits.
    """

    tokens: int
    rows: int
    beyond: tuple[int, Need] | None


def lengths(longest: int) -> list[int]:
    """Return the candidate lengths: powers of two, the midpoints between them, and the length of the longest row."""
    powers = [SHORTEST << number for number in range(longest.bit_length())]
    below = [length for power in powers for length in (power, power + power // 2) if length < longest]
    return [*below, longest]


def chosen(memory: TrainingMemory, longest: int, limit: int) -> LengthBudget:
    """Return the longest candidate length with a largest batch that fits in memory, whole or in segments.

    Args:
        memory: the estimate of memory; its settings give the rows of a batch.
        longest: tokens of the longest row.
        limit: bytes available.

    Returns:
        The budget; that of the shortest length if none fits, which `TrainingMemory.check` then refuses.
    """
    choice, rows = lengths(longest), memory.settings.batch_size
    fit = largest(len(choice), lambda count: _least(memory, rows, choice[count - 1]).total <= limit)
    tokens = choice[max(0, fit - 1)]
    beyond = choice[choice.index(tokens) + 1 :][:1]
    return LengthBudget(tokens, rows, (beyond[0], _least(memory, rows, beyond[0])) if beyond else None)


def _least(memory: TrainingMemory, rows: int, tokens: int) -> Need:
    """Return the memory for a batch, whole or in the segments that the settings allow, whichever is least.

    The shortest segments need not be: recurrent layers leave a state at every border.
    """
    whole = memory.need(rows, tokens)
    given, fits = memory.settings.segment_tokens is not None, whole.total <= limit_bytes(memory.settings)
    if given or fits or tokens <= SEGMENTS[0] or memory.segments is not None:
        return whole
    swept = [memory.swept(rows, tokens, length) for length in SEGMENTS if length < tokens]
    return min([whole, *swept], key=lambda need: need.total)


def settled(memory: TrainingMemory, longest: int) -> tuple[TrainingMemory, LengthBudget | None]:
    """Return the estimate with a number for the length, and its choice; None if the length was given."""
    settings = memory.settings
    if settings.max_seq_length != AUTO:
        return memory, None
    budget = chosen(memory, longest, limit_bytes(settings))
    tokens = max(2, budget.tokens)  # the least that a length may be; of a shorter row nothing is learned
    return replace(memory, settings=replace(settings, max_seq_length=tokens)), budget


def in_segments(
    memory: TrainingMemory, batches: Sequence[tuple[int, int]], whole: int, fits: Callable[[TrainingMemory], bool]
) -> TrainingMemory:
    """Return the estimate with a number for the tokens of a segment: those of a row where rows fit whole.

    Args:
        memory: the estimate.
        batches: rows and tokens a row of each batch.
        whole: tokens that no row exceeds.
        fits: whether a run with an estimate fits in memory.

    Raises:
        ModelError: the settings want segments, and the model cannot pass in them.
    """
    settings = memory.settings
    if settings.segment_tokens is not None:
        if settings.segment_tokens < max(tokens for _, tokens in batches):
            memory.carried()
        return memory
    ways = (replace(memory, settings=replace(settings, segment_length=length)) for length in _choice(memory, whole))
    first = next(ways)
    return next((way for way in chain([first], ways) if fits(way)), first)


def _choice(memory: TrainingMemory, whole: int) -> Iterator[int]:
    """Yield the tokens of a segment to choose from: whole rows, and if the model can pass in segments, shorter ones."""
    yield whole
    if memory.segments is None:
        yield from (length for length in reversed(SEGMENTS) if length < whole)
