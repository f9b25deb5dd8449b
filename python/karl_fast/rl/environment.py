"""Environments, and guarded calls of user code: a timeout, and exceptions as named failures.

An environment answers the policy until it is done. Each of its three calls may raise, return a wrong value, or never
return; a `GuardedEnvironment` turns that into a failure of its own rollout. A `Guard` makes such calls in a thread,
which is abandoned when its time is up; reward functions are called through it, too.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from karl_fast._safe_text import describe_exception
from karl_fast._user_code import describe_user_error
from karl_fast.reward.validate import DEFECTS, LENGTH, NoReward, parse_reward, show_value
from karl_fast.rl.rollout import is_message, no_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BAD_TEMPLATE = "bad_template"
"""Kind of failure if the chat template does not take an observation."""


NO_CALLS = "calls"
"""Kind of failure if an environment calls the policy where there are no calls."""


class Environment(Protocol):
    """Environment of a policy; a new one is made for each rollout.

    An observation is text, or messages. Text gets the role ``user``, or that of the attribute ``role`` of the
    environment if there is one (``tool``, if the chat template has it).
    """

    def reset(self, prompt: Mapping[str, Any]) -> Any:
        """Begin; return the first observation, or None if the prompt suffices. ``prompt`` is the line of the prompt."""

    def step(self, text: str) -> tuple[Any, ...]:
        """Act on a turn; return ``(observation, done)`` or ``(observation, done, reward)`` of this turn.

        In the place of an observation there may be a `Call`, or a list of them.
        """

    def score(self) -> float | None:
        """Return the reward of the episode; None if there is none."""


@dataclass(frozen=True)
class Call:
    """Call of the policy by itself, which a step returns in the place of an observation, alone or in a list.

    A sub-rollout answers it: the same policy, with an environment of its own, that is made and answers like that of its
    caller. The text of its last turn is the result. With ``done`` the episode ends with the results.

    An environment may have two more methods. ``result()`` returns the text of the result, where that is not the last
    turn. ``join(texts)`` returns the observation that the results of calls make; None stands for that of a call beyond
    `max_depth` or `max_children`. Without it each result is a message of the role of an observation.

    Attributes:
        prompt: of the sub-rollout: text of the role ``user``, or messages.
        fields: what its environment gets at `reset` over the fields of the prompt of the run, besides ``prompt`` and
            ``depth``, 1 for a call of a root.
    """

    prompt: Any
    fields: Mapping[str, Any] = field(default_factory=dict)


REFUSED = "error: this call was not made, because there were too many"
"""Result of a call beyond the limits, where an environment does not make an observation of results."""


@dataclass(frozen=True)
class Answer:
    """Answer of an environment to a turn: messages, or calls of the policy, and whether it is done then."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    done: bool = False
    calls: list[Call] = field(default_factory=list)


@dataclass
class GuardedEnvironment:
    """An environment whose calls are guarded; after a failure it is not called again.

    Attributes:
        turn_rewards: reward of each turn.
        failure: what went wrong, once something did.
    """

    environment: Any
    guard: Guard
    turn_rewards: list[float] = field(default_factory=list)
    failure: CallError | None = None

    @classmethod
    def create(cls, make: Callable[[], Environment], guard: Guard) -> GuardedEnvironment:
        """Make a new environment."""
        try:
            return cls(guard(make), guard)
        except CallError as failure:
            return cls(None, guard, failure=failure)

    def begin(self, line: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the messages that it begins with."""
        return self._call(lambda: self._messages(self.environment.reset(line))) or []

    def answer(self, text: str) -> Answer:
        """Return its answer to a turn; a failure ends it."""
        answer, turn_reward = self._call(lambda: self._step(self.environment.step(text))) or (Answer(done=True), 0.0)
        self.turn_rewards.append(turn_reward)
        return answer

    def join(self, texts: Sequence[str | None]) -> list[dict[str, Any]]:
        """Return the messages that results of calls make; None is that of a call that was not made."""
        return self._call(lambda: self._join(list(texts))) or []

    def result(self, text: str) -> str:
        """Return the result of a sub-rollout, by the text of its last turn."""
        return self._call(lambda: self._result(text)) or ""

    def _result(self, text: str) -> str:
        result = self.environment.result() if hasattr(self.environment, "result") else text
        if not isinstance(result, str):
            raise CallError(LENGTH, f"{self.guard.name} gave the result {show_value(result)}, wanted a text")
        return result

    def _join(self, texts: list[str | None]) -> list[dict[str, Any]]:
        if hasattr(self.environment, "join"):
            return self._messages(self.environment.join(texts))
        return [message for text in texts for message in self._messages(REFUSED if text is None else text)]

    def score(self) -> float | None:
        """Return the reward of the whole; None where there is none, or it failed."""
        score: float | None = self._call(lambda: self._reward(self.environment.score()))
        return score

    def _call(self, call: Callable[[], Any]) -> Any:
        """Return the result of a call; None if it failed, or an earlier one did.

        Its result is checked under guard, too: it may be of a class with methods of its own.
        """
        if self.failure is not None:
            return None
        try:
            return self.guard(call)
        except CallError as failure:
            self.failure = failure
            return None

    def _step(self, result: Any) -> tuple[Answer, float]:
        if not (isinstance(result, tuple) and len(result) in (2, 3)):
            raise CallError(LENGTH, f"{self.guard.name} gave {show_value(result)}, wanted (observation, done)")
        turn_reward = 0.0 if len(result) == 2 else self._reward(result[2])
        if turn_reward is None:
            raise CallError("none", f"{self.guard.name} gave the reward None for a turn, wanted a number")
        done = parse_reward(result[1])
        if done not in (0.0, 1.0):
            raise CallError(LENGTH, f"{self.guard.name} gave {show_value(result[1])} as done, wanted True or False")
        calls = [result[0]] if isinstance(result[0], Call) else result[0]
        if isinstance(calls, list) and any(isinstance(call, Call) for call in calls):
            return Answer(calls=[self._check_call(call) for call in calls], done=done == 1.0), turn_reward
        return Answer(self._messages(result[0]), done == 1.0), turn_reward

    def _check_call(self, call: Any) -> Call:
        """Return a call with its prompt as messages."""
        if not isinstance(call, Call):
            raise CallError(LENGTH, f"{self.guard.name} gave {show_value(call)} among calls, wanted calls alone")
        prompt = [{"role": "user", "content": call.prompt}] if isinstance(call.prompt, str) else call.prompt
        if not (isinstance(prompt, list) and prompt and all(map(is_message, prompt))):
            wanted = "wanted a text or messages"
            raise CallError(
                LENGTH, f"{self.guard.name} gave a call with the prompt {show_value(call.prompt)}, {wanted}"
            )
        if wrong := no_text(prompt):
            raise CallError(LENGTH, f"{self.guard.name} gave a call with a prompt that is not JSON: {wrong}")
        return Call(tuple(dict(message) for message in prompt), dict(call.fields))

    def _reward(self, value: Any) -> float | None:
        number = parse_reward(value)
        if isinstance(number, NoReward):
            problem = f"gave {DEFECTS[number.kind]} as a reward: {number.said}"
            raise CallError(number.kind, f"{self.guard.name} {problem}")
        return number

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
        return [dict(message) for message in observation]

    def fail_calls(self) -> None:
        """Record that it called the policy where there are no calls."""
        self.failure = self.failure or CallError(NO_CALLS, f"{self.guard.name} called the policy, and max_depth is 0")

    def fail_template(self, error: Exception) -> None:
        """Record that an observation does not fit the chat template."""
        problem = f"the chat template does not take what {self.guard.name} gave: {describe_exception(error)}"
        self.failure = self.failure or CallError(BAD_TEMPLATE, problem)


LONGEST = 1e6
"""Seconds that a thread waits at a time: systems refuse very long waits, so the caller waits repeatedly."""


class CallError(Exception):
    """Failure of a call: a short ``kind`` for counts, and a sentence."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class Guard:
    """Calls one function in a thread, which is abandoned when its time is up, and else used again.

    A thread cannot be ended from outside. While an abandoned one runs, the function is not called again, so that there
    is never more than one.
    """

    def __init__(self, name: str, timeout_seconds: float) -> None:
        """Make a guard with the `name` used in messages."""
        self.name, self.timeout_seconds = name, timeout_seconds
        self._abandoned: _Worker | None = None

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function and return its result.

        Raises:
            CallError: it raised, or ran into the timeout.
        """
        (result,) = self.run_all([lambda: function(*arguments)])
        if isinstance(result, CallError):
            raise result
        return result

    def run_all(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """Make calls one after the other in one thread, and return each result or `CallError`.

        The timeout is that of one call. After a timeout the later calls are not made.
        """
        if self._abandoned is not None and self._abandoned.is_alive():
            return [CallError("busy", f"{self.name} still runs from a call that was given up")] * len(calls)
        sequence, worker = _CallSequence(calls), _worker()
        worker.queue.put(sequence)
        while not sequence.ended(seconds := sequence.started + self.timeout_seconds - time.monotonic()):
            if seconds <= 0:
                return self._abandon(sequence, worker)
        IDLE.append(worker)
        return [self._result(*outcome) for outcome in sequence.outcomes]

    def _abandon(self, sequence: _CallSequence, worker: _Worker) -> list[Any]:
        sequence.abandoned, self._abandoned = True, worker
        worker.queue.put(None)  # it ends as soon as the function comes back
        results = [self._result(*outcome) for outcome in sequence.outcomes[: len(sequence.calls) - 1]]
        late = CallError("timeout", f"{self.name} took more than {self.timeout_seconds:g} s")
        busy = CallError("busy", f"{self.name} still runs from a call that was given up")
        return [*results, late, *[busy] * (len(sequence.calls) - len(results) - 1)]

    def _result(self, value: Any, error: BaseException | None) -> Any:
        if error is None:
            return value
        if isinstance(error, CallError):
            return error
        failure = CallError("raised", f"{self.name} raised {describe_user_error(error)}")
        failure.__cause__ = error
        return failure


class _CallSequence:
    """Calls that a thread makes one after the other.

    Attributes:
        outcomes: what each returned, or what it raised.
        started: when the call that runs was started.
        abandoned: True to make no more of them.
    """

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        self.calls, self.outcomes, self.started = calls, list[tuple[Any, BaseException | None]](), time.monotonic()
        self._over, self.abandoned = SimpleQueue[None](), False

    def run(self) -> None:
        """Make them."""
        for call in self.calls:
            if self.abandoned:
                return
            self.started = time.monotonic()
            try:
                self.outcomes.append((call(), None))
            except BaseException as error:  # even SystemExit and KeyboardInterrupt of user code are results here
                self.outcomes.append((None, error))
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
        self.queue = SimpleQueue[_CallSequence | None]()

    def run(self) -> None:
        for sequence in iter(self.queue.get, None):
            sequence.run()
            del sequence  # it refers to the rollouts of a round, which would stay in memory while this thread is idle


IDLE: list[_Worker] = []
"""Threads that wait for calls: starting one takes longer than most calls."""


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=IDLE.clear)  # a child of this process has none of its threads


def _worker() -> _Worker:
    """Return an idle thread, or a new one."""
    try:
        return IDLE.pop()
    except IndexError:
        worker = _Worker()
        worker.start()
        return worker
