"""Rollouts for learning, and batches of them with padding."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast._safe_text import told
from karl_fast.rl.compiled import round_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


def is_message(one: Any) -> bool:
    """Return whether it is a message: its role a text, its content a text or parts, or calls of tools in its place."""
    if not isinstance(one, dict) or not isinstance(one.get("role"), str):
        return False
    content = one.get("content")
    return isinstance(content, str | list) or (content is None and bool(one.get("tool_calls")))


def no_text(value: Any) -> str | None:
    """Return the reason why a value cannot be logged: no JSON form, or half a surrogate pair; None if it can."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        return told(error)
    return None


@dataclass(frozen=True)
class Prompt:
    """A line of the file of prompts.

    Attributes:
        id: its own, or the number of its line.
        number: of its line, from 0.
        messages: what the policy is asked.
        columns: all other fields of the line, which reward functions get by name.
    """

    id: str
    number: int
    messages: tuple[Mapping[str, Any], ...]
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Rollout:
    """One attempt at a prompt: tokens and outcome. n is the number of its tokens, U that of its turns.

    Attributes:
        id: unique in the run.
        prompt: its prompt.
        group: the number of its group; rollouts of a group were drawn together.
        tokens: prompt, turns and the answers to them. int32, [n]
        spans: start and end of each turn of the policy, its own tokens. [U]
        logp: of its own tokens when they were drawn, turn after turn. float32, [length]
        entropy: of the distributions of its own tokens, in nats. float32, [length]
        messages: messages after the prompt.
        states: state of the environment before each turn. [U]
        turn_rewards: reward of the environment for each turn. [U]
        finish: stop (the policy or the environment ended it), length (out of tokens), turns (out of turns), failed (the
            environment failed).
        version: number of steps that the policy had taken.
        reward: reward to learn from; NaN if missing.
        outcome: the reward before shaping, or the component that is the outcome.
        components: each reward by name, unweighted; absent if its function gave none.
        missing: reason why the reward is missing.
    """

    id: str
    prompt: Prompt
    group: int
    tokens: NDArray[np.int32]
    spans: tuple[tuple[int, int], ...]
    logp: NDArray[np.float32]
    entropy: NDArray[np.float32]
    messages: tuple[Mapping[str, Any], ...]
    states: tuple[str, ...]
    turn_rewards: tuple[float, ...]
    finish: str
    version: int
    reward: float = float("nan")
    outcome: float = float("nan")
    components: Mapping[str, float] = field(default_factory=dict)
    missing: str | None = None

    def own(self, column: NDArray[Any]) -> NDArray[Any]:
        """Select the entries of a column for the policy's own tokens, turn after turn. [n] -> [length]"""
        if len(self.spans) == 1:
            return column[slice(*self.spans[0])]
        return np.concatenate([column[start:end] for start, end in self.spans] or [column[:0]])

    @property
    def length(self) -> int:
        """Number of tokens of the policy."""
        return sum(end - start for start, end in self.spans)

    def but(self, **other: Any) -> Rollout:
        """Return a copy with other fields, as `dataclasses.replace`, without making each field again.

        Raises:
            TypeError: a rollout has no such field.
        """
        if unknown := sorted(other.keys() - FIELDS):
            raise TypeError(f"a rollout has no field {unknown[0]!r}")
        found = object.__new__(Rollout)
        found.__dict__.update(self.__dict__, **other)
        return found

    @property
    def truncated(self) -> bool:
        """True if it was cut before its end."""
        return self.finish in ("length", "turns")


FIELDS = frozenset(each.name for each in fields(Rollout))
"""Names of the fields of a rollout."""


@dataclass(frozen=True, eq=False)
class Packed:
    """Rollouts, padded on the right to the longest, or slightly more. Index t of a mask scores token t + 1.

    Attributes:
        tokens: int32, [B, T + 1]
        mask: True for targets of the policy. bool, [B, T]
        turns: the turn of each target, -1 for none. int64, [B, T]
        logp: when the tokens were drawn. float32, [B, T]
    """

    tokens: NDArray[np.int32]
    mask: NDArray[np.bool_]
    turns: NDArray[np.int64]
    logp: NDArray[np.float32]

    def rows(self, rows: Sequence[int]) -> Packed:
        """Return some rows."""
        chosen = np.asarray(rows, dtype=np.int64)
        return Packed(self.tokens[chosen], self.mask[chosen], self.turns[chosen], self.logp[chosen])


def pack(rollouts: Sequence[Rollout]) -> Packed:
    """Pack rollouts as one padded batch. The first token is never the policy's own, since prompts are not empty."""
    width = 1 + round_size(max(len(rollout.tokens) for rollout in rollouts) - 1)
    tokens, logp = np.zeros((len(rollouts), width), np.int32), np.zeros((len(rollouts), width), np.float32)
    turns = np.full(tokens.shape, -1, dtype=np.int64)
    for row, rollout in enumerate(rollouts):
        tokens[row, : len(rollout.tokens)] = rollout.tokens
        seen = 0
        for number, (start, end) in enumerate(rollout.spans):
            turns[row, start:end], logp[row, start:end] = number, rollout.logp[seen : seen + end - start]
            seen += end - start
    return Packed(tokens, turns[:, 1:] >= 0, turns[:, 1:], logp[:, 1:])
