"""Signals that end a run, and the exception that they raise."""

from __future__ import annotations

import signal
import threading

# Not imported from `typing`, which is slow to load: Ctrl-C is handled only once this module is loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
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


class Deferred:
    """Block whose signals that end a run raise only at its end: inside, they would leave it half done.

    A class, because `contextlib` is not imported this early.
    """

    def __enter__(self) -> None:
        self.signals: list[int] = []
        self.handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
        if threading.current_thread() is threading.main_thread():  # which gets all signals
            for stop in STOPS:
                if callable(handler := signal.getsignal(stop)):
                    self.handlers[stop] = handler
                    signal.signal(stop, lambda number, _frame: self.signals.append(number))

    def __exit__(self, *_: object) -> None:
        for stop, handler in self.handlers.items():
            signal.signal(stop, handler)
        for number in self.signals[:1]:
            self.handlers[number](number, None)
