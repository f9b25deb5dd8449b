"""Signals that end a run, and the exception that they raise."""

from __future__ import annotations

import contextlib
import signal
import threading

# Not imported from `typing`, which is slow to load: Ctrl-C is handled only once this module is loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

STOPS: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
"""The signals that end a run, and the word that reports each."""


class Stopped(SystemExit):
    """Exit because of a signal; raised inside the running call, so that temporary files are removed.

    Attributes:
        number: number of the signal.
        line: function from the word of the signal to the last line of the run.
    """

    def __init__(self, number: int, line: Callable[[str], str]) -> None:
        super().__init__(128 + number)
        self.number, self.line = number, line


def handle(handler: Callable[[int, FrameType | None], object]) -> None:
    """Install a handler for the signals that end a run, except those that the parent process ignores."""
    for stop in STOPS:
        if signal.getsignal(stop) != signal.SIG_IGN:
            signal.signal(stop, handler)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Let the signals that end a run raise only at the end of a block, which they would leave half done."""
    if threading.current_thread() is not threading.main_thread():  # which gets all signals
        yield
        return
    handlers = {stop: handler for stop in STOPS if callable(handler := signal.getsignal(stop))}
    came: list[int] = []
    for stop in handlers:
        signal.signal(stop, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        for stop, handler in handlers.items():
            signal.signal(stop, handler)
        for number in came[:1]:
            handlers[number](number, None)
