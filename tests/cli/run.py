"""The command as a person runs it: a process of its own, at no terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.cli.forked import ForkServer

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-c", "from karl_fast.entrypoint import main; main()"]
"""Not the script on the path, which may belong to another installation."""

REPORTING = """\
import signal
from karl_fast.cli.commands import {module}
from karl_fast.entrypoint import main
{module}.dumps = lambda *_, **__: signal.raise_signal(signal.SIGTERM)
main()
"""
"""The command, which is ended while it makes its report in JSON."""

ENVIRONMENT = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "error"}


def environment() -> dict[str, str]:
    return os.environ | ENVIRONMENT


SERVER = ForkServer()


def karl(*arguments: Any, folder: Path | None = None, **how: Any) -> subprocess.CompletedProcess[str]:
    """Runs `karl-fast`; nothing is raised, whatever the exit code is."""
    words = list(map(str, arguments))
    if how.keys() <= {"timeout", "input"} and isinstance(how.get("input", ""), str):
        return SERVER.run(words, folder, environment(), how.get("timeout", 60), how.get("input"))
    command = [*COMMAND, *words]
    how = {"timeout": 60, "text": True, "encoding": "utf-8", "stdin": subprocess.DEVNULL} | how
    if "input" in how:
        del how["stdin"]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, check=False, **how)


def ended_while_reporting(command: str) -> list[str]:
    """What runs a command with `--json` that gets SIGTERM when all but its report is done."""
    return [sys.executable, "-c", REPORTING.format(module=command), command, "--json"]


def start(*arguments: Any, folder: Path) -> subprocess.Popen[str]:
    """Starts `karl-fast` and does not wait for it."""
    command = [*COMMAND, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=folder, env=environment(), text=True, **pipes)
