"""Fork server for runs of the command: a process that has the commands loaded, and forks for every run.

Most of the time of a short command is the import of typer and pydantic, 0.4 of 0.45 s; of a short training it is that
of transformers and MLX, 2.1 of 2.8 s. A fork is a process of its own all the same, with arguments, variables, folder
and pipes as if it were new.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SERVER = """\
import importlib, json, os, socket, sys
import pydantic
from karl_fast.cli.app import COMMANDS
from karl_fast.entrypoint import main

connection = socket.socket(fileno=int(sys.argv[1]))
for module in [*sys.argv[2:], *(f"karl_fast.cli.commands.{command}" for command in COMMANDS)]:
    importlib.import_module(module)
del sys.argv[1:]
pydantic.TypeAdapter(int)  # loads the rest of pydantic, which typer uses

while True:
    line, pipes, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    if not line:
        sys.exit()
    while not line.endswith(b"\\n"):
        line += connection.recv(1 << 16)
    child = os.fork()
    if child == 0:
        break
    for pipe in pipes:
        os.close(pipe)
    connection.send(b"%d\\n" % child)
    _, status = os.waitpid(child, 0)
    connection.send(b"%d\\n" % os.waitstatus_to_exitcode(status))

connection.close()
for number, pipe in enumerate(pipes):
    os.dup2(pipe, number)
    os.close(pipe)
arguments, folder, variables = json.loads(line)
os.chdir(folder)
os.environ.clear()
os.environ.update(variables)
sys.argv += arguments
main()
"""


class ForkServer:
    """Server of one test process, started by its first run, with more modules loaded."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, arguments: list[str], folder: Path | None, variables: Mapping[str, str], timeout: float, given: str | None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command with a text as its standard input, or an empty one."""
        connection = self._started(variables)
        (stdin, feed), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
        request = json.dumps([arguments, str(folder or os.getcwd()), dict(variables)])  # noqa: PTH109
        ours = [stdin, stdout, stderr]
        socket.send_fds(connection, [request.encode() + b"\n"], ours)
        for pipe in ours:
            os.close(pipe)
        read: list[str] = ["", ""]
        jobs = [Thread(target=_feed, args=(feed, given or ""))]
        jobs += [Thread(target=_read, args=(pipe, read, at)) for at, pipe in enumerate((out, err))]
        for job in jobs:
            job.start()
        code = self._waited(connection, timeout, arguments)
        for job in jobs:
            job.join()
        return subprocess.CompletedProcess([sys.executable, *arguments], code, *read)

    def _started(self, variables: Mapping[str, str]) -> socket.socket:
        if self._connection is None:
            self._connection, theirs = socket.socketpair()
            # No file: Python's streams over one would try to seek in the pipes of a run.
            streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
            command = [sys.executable, "-c", SERVER, str(theirs.fileno()), *self._modules]
            self._process = subprocess.Popen(command, env=dict(variables), pass_fds=[theirs.fileno()], **streams)
            theirs.close()
            atexit.register(self._stop, self._connection, self._process)
        return self._connection

    @staticmethod
    def _stop(connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
        connection.close()
        process.wait()

    def _waited(self, connection: socket.socket, timeout: float, arguments: list[str]) -> int:
        with connection.makefile("r") as answers:
            child = int(answers.readline())
            connection.settimeout(timeout)
            try:
                return int(answers.readline())
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                self._connection = None  # its answer comes too late
                raise subprocess.TimeoutExpired(arguments, timeout) from None
            finally:
                connection.settimeout(None)


def _feed(pipe: int, text: str) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(pipe, "w", encoding="utf-8") as file:
        file.write(text)


def _read(pipe: int, into: list[Any], at: int) -> None:
    with os.fdopen(pipe, encoding="utf-8") as file:
        into[at] = file.read()
