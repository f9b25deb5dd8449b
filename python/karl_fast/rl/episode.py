"""Conversation of the policy with an environment, turn by turn; turns of the policy keep the token ids drawn."""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.rl.rewards import ENVIRONMENT
from karl_fast.rl.rollout import Prompt, Rollout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karl_fast.rl.environment import GuardedEnvironment
    from karl_fast.rl.policy import Policy
    from karl_fast.rl.turn import Turn


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


BEGINNING = _hash("[]")
"""The state of a first turn that no environment opened."""


@dataclass(frozen=True)
class RolloutBudget:
    """Limits of a rollout.

    Attributes:
        tokens: that the policy says in all turns together.
        turns: of the policy.
        context: tokens of the prompt, the turns and what answers them.
        turn_tokens: that the policy says in one turn.
    """

    tokens: int
    turns: int = 1
    context: int = 1 << 20
    turn_tokens: int = 1 << 20


@dataclass
class Episode:
    """A rollout in the making."""

    id: str
    prompt: Prompt
    group: int
    budget: RolloutBudget
    environment: GuardedEnvironment | None
    opening: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    said: list[tuple[int, Turn]] = field(default_factory=list)
    messages: list[Mapping[str, Any]] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    finish: str | None = None

    def begin(self, policy: Policy, tokens: Sequence[int] | None = None) -> None:
        """Start the environment, and encode the prompt; `tokens` are that, if known."""
        if self.environment is not None:
            line = {"id": self.prompt.id, **self.prompt.columns, "prompt": list(self.prompt.messages)}
            self.opening = self.environment.begin(deepcopy(line))  # an environment may change what it is given
        self.tokens = list(self._asked(policy) if tokens is None else tokens)
        self.states.append(_state(self.opening))
        if self.environment is not None and self.environment.failure is not None:
            self.finish = "failed"
        elif self.room < 1:
            self.tokens, self.finish = self.tokens[: self.budget.context], "length"

    def _asked(self, policy: Policy) -> Sequence[int]:
        """Return the tokens of the prompt and the first observation; without that if it cannot be rendered."""
        if self.environment is not None and self.opening:
            try:
                return policy.encode([*self.prompt.messages, *self.opening])
            except Exception as error:  # of a template
                self.environment.refused(error)
        return policy.encode(self.prompt.messages)

    @property
    def drawn(self) -> int:
        """Number of tokens that the policy has drawn."""
        return sum(len(turn.tokens) for _, turn in self.said)

    @property
    def last_turn(self) -> bool:
        """True if no turn can follow the next one."""
        return self.environment is None or len(self.said) + 1 >= self.budget.turns

    @property
    def room(self) -> int:
        """Number of tokens that the next turn may have."""
        return min(self.budget.tokens - self.drawn, self.budget.context - len(self.tokens), self.budget.turn_tokens)

    def hear(self, policy: Policy, turn: Turn) -> None:
        """Add a turn of the policy, and the answer of the environment."""
        text = self.say(policy, turn)
        if self.environment is not None:
            self.answered(policy, *self.environment.answer(text))

    def say(self, policy: Policy, turn: Turn) -> str:
        """Add a turn of the policy, and return its text; without an environment it is the last."""
        self.said.append((len(self.tokens), turn))
        said = turn.tokens.tolist()
        self.tokens += said
        text = policy.decode(said)
        self.messages.append({"role": "assistant", "content": text})
        if self.environment is None:
            self.finish = "stop" if turn.ended else "length"
        return text

    def answered(self, policy: Policy, answer: list[dict[str, Any]], done: bool) -> None:
        """Add the answer of the environment to the last turn."""
        turn = self.said[-1][1]
        self.messages += answer
        self.finish = self._ends(turn, done)
        if self.finish is None:
            self._go_on(policy, answer, int(turn.tokens[-1]) if turn.ended else None)

    def _go_on(self, policy: Policy, answer: list[dict[str, Any]], last: int | None) -> None:
        """Append the answer of the environment before the next turn; if no room is left, there is no next turn."""
        assert self.environment is not None
        try:
            more = policy.answer(answer, last)
        except Exception as error:  # of a template
            self.environment.refused(error)
            self.finish = "failed"
            return
        if len(self.tokens) + len(more) >= self.budget.context:
            self.finish = "length"
            return
        self.tokens += more
        self.states.append(_state(answer))

    def _ends(self, turn: Turn, done: bool) -> str | None:
        if self.environment is not None and self.environment.failure is not None:
            return "failed"
        if done:
            return "stop"
        if self.room < 1:
            return "length"
        return "turns" if len(self.said) >= self.budget.turns else None

    def rollout(self, version: int) -> Rollout:
        """Return the finished rollout."""
        score = None if self.environment is None else self.environment.score()
        failure = None if self.environment is None else self.environment.failure
        return Rollout(
            id=self.id,
            prompt=self.prompt,
            group=self.group,
            tokens=np.array(self.tokens, dtype=np.int32),
            spans=tuple((start, start + len(turn.tokens)) for start, turn in self.said),
            messages=(*self.opening, *self.messages),
            states=tuple(self.states[: len(self.said)]),
            turn_rewards=self._turn_rewards(),
            finish=self.finish or "failed",
            version=version,
            components={} if score is None else {ENVIRONMENT: score},
            missing=f"{ENVIRONMENT}: {failure.kind}" if failure is not None else None,
            logp=_joined([turn.logp for _, turn in self.said]),
            entropy=_joined([turn.entropy for _, turn in self.said]),
        )

    def _turn_rewards(self) -> tuple[float, ...]:
        return tuple(self.environment.turn_rewards) if self.environment is not None else (0.0,) * len(self.said)


def _joined(turns: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Concatenate as a copy: arrays of a turn are rows of larger ones."""
    return np.concatenate([*turns, np.zeros(0, np.float32)])


def _state(messages: list[Any]) -> str:
    return _hash(json.dumps(messages, sort_keys=True, default=str)) if messages else BEGINNING
