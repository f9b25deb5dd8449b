"""An environment: what answers the policy until it is done, behind three calls that may fail."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from karl_fast.rl.guard import CallError, Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Environment(Protocol):
    """What a policy acts in. One is made for each rollout, and used for it alone.

    An observation is a text, or messages. A text is said by ``role``, which is ``user`` unless the environment has an
    attribute of that name (``tool``, where the chat template knows one).
    """

    def reset(self, prompt: Mapping[str, Any]) -> Any:
        """Begin; the first observation, or None where the prompt says it all. ``prompt`` is the line of the prompt."""

    def step(self, text: str) -> tuple[Any, ...]:
        """Act on what the policy said: ``(observation, done)``, or ``(observation, done, reward)`` of this turn."""

    def score(self) -> float | None:
        """The reward of the whole; None for none."""


@dataclass
class Stage:
    """An environment under guard; after a failure it is not called again.

    Attributes:
        turn_rewards: what each turn was given.
        failure: what went wrong, once something did.
    """

    environment: Environment | None
    guard: Guard
    turn_rewards: list[float] = field(default_factory=list)
    failure: CallError | None = None

    @classmethod
    def made(cls, make: Callable[[], Environment], guard: Guard) -> Stage:
        """A fresh environment."""
        try:
            return cls(guard(make), guard)
        except CallError as failure:
            return cls(None, guard, failure=failure)

    def begin(self, line: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The messages that it begins with."""
        found = self._call("reset", line)
        return [] if found is None else self._messages(found)

    def answer(self, text: str) -> tuple[list[dict[str, Any]], bool]:
        """What it says to a turn, and whether it is done; a failure ends it."""
        found = self._call("step", text)
        if self.failure is None and not (isinstance(found, tuple) and len(found) in (2, 3)):
            self.failure = CallError("length", f"{self.guard.name} gave no (observation, done)")
        if self.failure is not None:
            self.turn_rewards.append(0.0)
            return [], True
        self.turn_rewards.append(self._reward(found[2]) if len(found) == 3 else 0.0)
        return ([] if found[0] is None else self._messages(found[0])), bool(found[1]) or self.failure is not None

    def score(self) -> float | None:
        """The reward of the whole; None where there is none, or it failed."""
        found = self._call("score")
        if found is None or self.failure is not None:
            return None
        return self._reward(found)

    def _call(self, name: str, *arguments: Any) -> Any:
        if self.failure is not None:
            return None
        try:
            return self.guard(getattr(self.environment, name), *arguments)
        except CallError as failure:
            self.failure = failure
            return None

    def _reward(self, value: Any) -> float:
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
        self.failure = CallError("nan", f"{self.guard.name} gave the reward {value!r:.40}")
        return 0.0

    def _messages(self, observation: Any) -> list[dict[str, Any]]:
        if isinstance(observation, str):
            return [{"role": str(getattr(self.environment, "role", "user")), "content": observation}]
        if isinstance(observation, list) and all(isinstance(one, dict) and "role" in one for one in observation):
            return [dict(one) for one in observation]
        self.failure = CallError("length", f"{self.guard.name} gave an observation that is neither a text nor messages")
        return []
