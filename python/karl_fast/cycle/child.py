"""A command of karl-fast in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karl_fast._signals import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMAND = [sys.executable, "-P", "-m", "karl_fast"]
"""This installation; without the working directory in the path, whose files could have the names of modules."""

LINES_KEPT = 40
"""Last lines of the report that are kept for the message of a failure."""

KILOBYTES = 1 if sys.platform == "darwin" else 1024
"""Bytes in the unit of a process's peak memory."""


@dataclass(frozen=True)
class ChildResult:
    """End of a command.

    Attributes:
        code: its exit code; below 0 the number of the signal that ended it.
        result: object that it printed; None if it printed none.
        error: its message, for a code other than 0.
        seconds: time that it took.
        peak_bytes: its peak memory.
    """

    code: int
    result: dict[str, Any] | None
    error: str
    seconds: float
    peak_bytes: int


def execute(arguments: list[str], folder: Path, lock: int, say: Callable[[str], object]) -> ChildResult:
    """Run a command with `--json` to its end, and pass on the lines of its report.

    The command holds the lock of the cycle too: if the cycle is killed, no other one begins while the command still
    writes. It has a session of its own, so that Ctrl-C reaches it once, from here.

    Args:
        arguments: of `karl-fast`.
        folder: its working directory.
        lock: descriptor of the lock.
        say: receiver of each line of the report.
    """
    began, lines = time.monotonic(), list[str]()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [*COMMAND, *arguments, "--json"],
            cwd=folder,
            env=_child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            pass_fds=(lock,),
            start_new_session=True,
        )
        assert process.stderr is not None
        try:
            with process.stderr as report:
                for line in report:
                    lines = [*lines, line.decode("utf-8", "replace").rstrip("\n")][-LINES_KEPT:]
                    say(lines[-1])
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException as stop:
            _stop_child(process, stop)
            raise
        process.returncode = code = os.waitstatus_to_exitcode(status)
        out.seek(0)
        result = _parse_result(out.read())
    seconds = time.monotonic() - began
    return ChildResult(code, result, _failure_message(code, lines), round(seconds, 3), usage.ru_maxrss * KILOBYTES)


def _child_environment() -> dict[str, str]:
    """Return the environment without settings of karl-fast: those of a cycle are in its file."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KARL_FAST_")}


def _stop_child(process: subprocess.Popen[bytes], stop: BaseException) -> None:
    """Pass a signal on to a command, and wait until it has cleaned up."""
    number = stop.number if isinstance(stop, Stopped) else signal.SIGTERM
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    with contextlib.suppress(ChildProcessError):
        process.wait()


def _parse_result(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _failure_message(code: int, lines: list[str]) -> str:
    """Return the message of a failed command: from its last `error:` on, or its last line."""
    if code == 0:
        return ""
    if code < 0:
        return f"ended by signal {-code} ({signal.Signals(-code).name})"
    starts = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    said = lines[starts[-1] :] if starts else lines[-1:]
    return "\n".join(said).removeprefix("error: ") or f"exit code {code}"
