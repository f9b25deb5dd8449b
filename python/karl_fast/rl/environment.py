"""Guarded environment: it answers the policy until it is done; each of its three calls may fail."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from karl_fast._safe_text import told
from karl_fast._user_code import raised
from karl_fast.reward.validate import DEFECTS, LENGTH, NoReward, parse_reward, show_value
from karl_fast.rl.rollout import is_message, no_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
            raise CallError(LENGTH, f"{self.guard.name} gave {show_value(found)}, wanted (observation, done)")
        given = 0.0 if len(found) == 2 else self._reward(found[2])
        if given is None:
            raise CallError("none", f"{self.guard.name} gave the reward None for a turn, wanted a number")
        done = parse_reward(found[1])
        if done not in (0.0, 1.0):
            raise CallError(LENGTH, f"{self.guard.name} gave {show_value(found[1])} as done, wanted True or False")
        return self._messages(found[0]), done == 1.0, given

    def _reward(self, value: Any) -> float | None:
        found = parse_reward(value)
        if isinstance(found, NoReward):
            said = f"gave {DEFECTS[found.kind]} as a reward: {found.said}"
            raise CallError(found.kind, f"{self.guard.name} {said}")
        return found

    def _messages(self, observation: Any) -> list[dict[str, Any]]:
        if observation is None:
            return []
        if isinstance(observation, str):
            observation = [{"role": getattr(self.environment, "role", "user"), "content": observation}]
        if not isinstance(observation, list) or not all(map(is_message, observation)):
            wanted = "wanted None, a text or a list of messages"
            raise CallError(LENGTH, f"{self.guard.name} gave the observation {show_value(observation)}, {wanted}")
        if wrong := no_text(observation):
            raise CallError(LENGTH, f"{self.guard.name} gave an observation that is not JSON: {wrong}")
        return [dict(one) for one in observation]

    def refused(self, error: Exception) -> None:
        """Record that an observation does not fit the chat template."""
        said = f"the chat template does not take what {self.guard.name} gave: {told(error)}"
        self.failure = self.failure or CallError(BAD_TEMPLATE, said)


# Calls of user code with a timeout; its exceptions are reported by name.


LONGEST = 1e6
"""Seconds that a thread waits at a time: systems refuse very long waits, so the caller waits repeatedly."""


class CallError(Exception):
    """Failure of a call: a short ``kind`` for counts, and a sentence."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class Guard:
    """Calls one function, in a thread that is left alone when its time is up, and else used again.

    A thread cannot be ended from outside. While one still runs, the function is not called again, so that no more than
    one is ever left behind.
    """

    def __init__(self, name: str, timeout_seconds: float) -> None:
        """Make a guard with the `name` used in messages."""
        self.name, self.timeout_seconds = name, timeout_seconds
        self._left: _Worker | None = None

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function and return its result.

        Raises:
            CallError: it raised, or ran into the timeout.
        """
        (found,) = self.each([lambda: function(*arguments)])
        if isinstance(found, CallError):
            raise found
        return found

    def each(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """Make calls one after the other in one thread, and return each result or `CallError`.

        The timeout is that of one call. After a timeout the later calls are not made.
        """
        if self._left is not None and self._left.is_alive():
            return [CallError("busy", f"{self.name} still runs from a call that was given up")] * len(calls)
        made, worker = _CallSequence(calls), _worker()
        worker.given.put(made)
        while not made.ended(left := made.begun + self.timeout_seconds - time.monotonic()):
            if left <= 0:
                return self._given_up(made, worker)
        IDLE.append(worker)
        return [self._told(*one) for one in made.found]

    def _given_up(self, made: _CallSequence, worker: _Worker) -> list[Any]:
        made.given_up, self._left = True, worker
        worker.given.put(None)  # it ends as soon as the function comes back
        found = [self._told(*one) for one in made.found[: len(made.calls) - 1]]
        late = CallError("timeout", f"{self.name} took more than {self.timeout_seconds:g} s")
        busy = CallError("busy", f"{self.name} still runs from a call that was given up")
        return [*found, late, *[busy] * (len(made.calls) - len(found) - 1)]

    def _told(self, value: Any, error: BaseException | None) -> Any:
        if error is None:
            return value
        if isinstance(error, CallError):
            return error
        failure = CallError("raised", f"{self.name} raised {raised(error)}")
        failure.__cause__ = error
        return failure


class _CallSequence:
    """Calls that a thread makes one after the other.

    Attributes:
        found: what each returned, or what it raised.
        begun: when the one that runs began.
        given_up: True to make no more of them.
    """

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        self.calls, self.found, self.begun = calls, list[tuple[Any, BaseException | None]](), time.monotonic()
        self._over, self.given_up = SimpleQueue[None](), False

    def run(self) -> None:
        """Make them."""
        for call in self.calls:
            if self.given_up:
                return
            self.begun = time.monotonic()
            try:
                self.found.append((call(), None))
            except BaseException as error:  # whatever it is, it is theirs
                self.found.append((None, error))
        self._over.put(None)

    def ended(self, seconds: float) -> bool:
        """Wait for at most so many seconds, and return whether all calls are over."""
        try:
            self._over.get(timeout=min(max(0.0, seconds), LONGEST))
        except Empty:
            return False
        return True


class _Worker(threading.Thread):
    """A thread that makes the calls that it is given, until it is given None."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.given = SimpleQueue[_CallSequence | None]()

    def run(self) -> None:
        for made in iter(self.given.get, None):
            made.run()
            del made  # what it holds is a round's


IDLE: list[_Worker] = []
"""Threads that wait for calls: to start one takes longer than most of them."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=IDLE.clear)  # a child of this process has none of its threads


def _worker() -> _Worker:
    """Return an idle thread, or a new one."""
    try:
        return IDLE.pop()
    except IndexError:
        found = _Worker()
        found.start()
        return found
