"""Calls of user code with a timeout; its exceptions are reported by name."""

from __future__ import annotations

import os
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from karl_fast._user_code import raised

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
