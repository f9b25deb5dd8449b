"""Automatic maximum length of a row: as long as the estimate of memory allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from karl_fast.train.memory import largest, limit_bytes
from karl_fast.train.settings import AUTO

if TYPE_CHECKING:
    from karl_fast.train.memory import Memory, Need

SHORTEST = 16
"""Below it, there is nothing to choose."""


@dataclass(frozen=True)
class Budget:
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


def chosen(memory: Memory, longest: int, limit: int) -> Budget:
    """Return the longest candidate length with a largest batch that fits in memory.

    Args:
        memory: the estimate of memory; its settings give the rows of a batch.
        longest: tokens of the longest row.
        limit: bytes available.

    Returns:
        The budget; that of the shortest length if none fits, which `Memory.check` then refuses.
    """
    choice, rows = lengths(longest), memory.settings.batch_size
    fit = largest(len(choice), lambda count: memory.need(rows, choice[count - 1]).total <= limit)
    tokens = choice[max(0, fit - 1)]
    beyond = choice[choice.index(tokens) + 1 :][:1]
    return Budget(tokens, rows, (beyond[0], memory.need(rows, beyond[0])) if beyond else None)


def settled(memory: Memory, longest: int) -> tuple[Memory, Budget | None]:
    """Return the estimate with a number for the length, and its choice; None if the length was given."""
    settings = memory.settings
    if settings.max_seq_length != AUTO:
        return memory, None
    budget = chosen(memory, longest, limit_bytes(settings))
    tokens = max(2, budget.tokens)  # the least that a length may be; of a shorter row nothing is learned
    return replace(memory, settings=replace(settings, max_seq_length=tokens)), budget
