"""Calling code that nobody vouches for: what it raises is named, and it is not waited for without end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from karl_fast.cli.words import clean

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 200
"""Characters of what an exception says."""


class Failure(Exception):
    """What went wrong: a short ``kind`` to count by, and a sentence."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class Guard:
    """Calls one function, in a thread that is left alone when its time is up.

    A thread cannot be ended from outside. While one still runs, the function is not called again, so that no more than
    one is ever left behind.
    """

    def __init__(self, name: str, timeout_seconds: float) -> None:
        """A guard of what is called `name` in sentences."""
        self.name, self.timeout_seconds = name, timeout_seconds
        self._left: threading.Thread | None = None

    def __call__(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """What the function returns.

        Raises:
            Failure: it raised, or its time is up.
        """
        if self._left is not None and self._left.is_alive():
            raise Failure("busy", f"{self.name} still runs from a call that was given up")
        returned: list[Any] = []
        raised: list[BaseException] = []

        def run() -> None:
            try:
                returned.append(function(*arguments, **named))
            except BaseException as error:  # whatever it is, it is theirs
                raised.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(self.timeout_seconds)
        if thread.is_alive():
            self._left = thread
            raise Failure("timeout", f"{self.name} took more than {self.timeout_seconds:g} s")
        if raised:
            raise Failure("raised", f"{self.name} raised {told(raised[0])}") from raised[0]
        return returned[0]


def told(error: BaseException) -> str:
    """An exception in a line that cannot steer a terminal."""
    return clean(f"{type(error).__name__}: {error}".replace("\n", " "))[:LONGEST]
