"""Guarded environment: it answers the policy until it is done; each of its three calls may fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from karl_fast._safe_text import told
from karl_fast.reward.validate import CAME, LENGTH, NoReward, reward, shown
from karl_fast.rl.rollout import is_message, no_text
from karl_fast.rl.timeouts import CallError, Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


BAD_TEMPLATE = "bad_template"
"""Kind of failure if the chat template does not take an observation."""


class Environment(Protocol):
    """Environment of a policy; a new one is made for each rollout.

    An observation is text, or messages. Text gets the role ``user``, or that of the attribute ``role`` of the
    environment if there is one (``tool``, if the chat template has it).
    """

    def reset(self, prompt: Mapping[str, Any]) -> Any:
        """Begin; return the first observation, or None if the prompt suffices. ``prompt`` is the line of the prompt."""

    def step(self, text: str) -> tuple[Any, ...]:
        """Act on a turn; return ``(observation, done)`` or ``(observation, done, reward)`` of this turn."""

    def score(self) -> float | None:
        """Return the reward of the episode; None if there is none."""


@dataclass
class GuardedEnvironment:
    """An environment under guard; after a failure it is not called again.

    Attributes:
        turn_rewards: what each turn was given.
        failure: what went wrong, once something did.
    """

    environment: Any
    guard: Guard
    turn_rewards: list[float] = field(default_factory=list)
    failure: CallError | None = None

    @classmethod
    def made(cls, make: Callable[[], Environment], guard: Guard) -> GuardedEnvironment:
        """Make a new environment."""
        try:
            return cls(guard(make), guard)
        except CallError as failure:
            return cls(None, guard, failure=failure)

    def begin(self, line: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the messages that it begins with."""
        return self._call(lambda: self._messages(self.environment.reset(line))) or []

    def answer(self, text: str) -> tuple[list[dict[str, Any]], bool]:
        """Return its answer to a turn, and whether it is done; a failure ends it."""
        found = self._call(lambda: self._step(self.environment.step(text)))
        messages, done, given = ([], True, 0.0) if found is None else found
        self.turn_rewards.append(given)
        return messages, done

    def score(self) -> float | None:
        """Return the reward of the whole; None where there is none, or it failed."""
        found: float | None = self._call(lambda: self._reward(self.environment.score()))
        return found

    def _call(self, call: Callable[[], Any]) -> Any:
        """Return the result of a call; None if it failed, or an earlier one did.

        What the environment gives is looked at under guard too: it may be of a class of its own.
        """
        if self.failure is not None:
            return None
        try:
            return self.guard(call)
        except CallError as failure:
            self.failure = failure
            return None

    def _step(self, found: Any) -> tuple[list[dict[str, Any]], bool, float]:
        if not (isinstance(found, tuple) and len(found) in (2, 3)):
            raise CallError(LENGTH, f"{self.guard.name} gave {shown(found)}, wanted (observation, done)")
        given = 0.0 if len(found) == 2 else self._reward(found[2])
        if given is None:
            raise CallError("none", f"{self.guard.name} gave the reward None for a turn, wanted a number")
        done = reward(found[1])
        if done not in (0.0, 1.0):
            raise CallError(LENGTH, f"{self.guard.name} gave {shown(found[1])} as done, wanted True or False")
        return self._messages(found[0]), done == 1.0, given

    def _reward(self, value: Any) -> float | None:
        found = reward(value)
        if isinstance(found, NoReward):
            said = f"gave {CAME[found.kind]} as a reward: {found.said}"
            raise CallError(found.kind, f"{self.guard.name} {said}")
        return found

    def _messages(self, observation: Any) -> list[dict[str, Any]]:
        if observation is None:
            return []
        if isinstance(observation, str):
            observation = [{"role": getattr(self.environment, "role", "user"), "content": observation}]
        if not isinstance(observation, list) or not all(map(is_message, observation)):
            wanted = "wanted None, a text or a list of messages"
            raise CallError(LENGTH, f"{self.guard.name} gave the observation {shown(observation)}, {wanted}")
        if wrong := no_text(observation):
            raise CallError(LENGTH, f"{self.guard.name} gave an observation that is not JSON: {wrong}")
        return [dict(one) for one in observation]

    def refused(self, error: Exception) -> None:
        """Record that an observation does not fit the chat template."""
        said = f"the chat template does not take what {self.guard.name} gave: {told(error)}"
        self.failure = self.failure or CallError(BAD_TEMPLATE, said)
