"""A warm `karl-fast` whose calls to the system fail on demand."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cli.run import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ACTIONS = {"kill": -1, "short": -2, "EINTR every other": -3, "stop": -4, "SIGINT": -5, "SIGTERM": -6}


@dataclass(frozen=True)
class Done:
    """What became of one run: exit code (negative: the signal that ended it), what it said, what the fault met."""

    code: int
    out: str
    err: str
    calls: int
    hits: int


class Server:
    """Runs the command in a folder under one fault at a time."""

    def __init__(self, process: subprocess.Popen[str], scratch: Path) -> None:
        self.process = process
        self.scratch = scratch

    def run(
        self,
        *arguments: Any,
        folder: Path,
        function: str = "any",
        at: int = 0,
        action: int | str = 0,
        exchange: int | None = None,
        stdin: Path = Path(os.devnull),
        meanwhile: str = "",
    ) -> Done:
        """Runs `karl-fast` with its `at`-th call of a function on a path below the folder going wrong; 0 is none.

        `action` is an errno or one of ACTIONS; `exchange` the errno of renames with flags, 0 to be
        killed in one that exchanges; `meanwhile` what a shell does while the run is stopped.
        """
        said = {name: str(self.scratch / name) for name in ("stdout", "stderr")}
        request = {"arguments": [str(one) for one in arguments], "folder": str(folder), "stdin": str(stdin)} | said
        request |= {"function": function, "at": at, "action": ACTIONS.get(str(action), action)}
        request |= {"exchange": exchange, "meanwhile": meanwhile}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline())
        out, err = (Path(said[name]).read_text("utf-8") for name in ("stdout", "stderr"))
        return Done(reply["code"], out, err, reply["calls"], reply["hits"])


def unavailable() -> str | None:
    """Why there can be no server here."""
    if sys.platform != "linux":
        return "faults are injected on Linux only"
    return None if shutil.which("cc") else "faults need a C compiler (cc)"


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """Compile the shim, and start a process under it."""
    with tempfile.TemporaryDirectory() as scratch:
        library = Path(scratch, "fault.so")
        compiler = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", str(library), str(HERE / "fault.c"), "-ldl"]
        subprocess.run(compiler, check=True)
        command = [sys.executable, "-m", "tests.robustness.fault_server"]
        with subprocess.Popen(
            command,
            cwd=HERE.parent.parent,
            # A signal in the middle of os.walk leaves its iterator open, which ends with the process.
            env=environment() | {"LD_PRELOAD": str(library), "PYTHONWARNINGS": "error,ignore::ResourceWarning"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            yield Server(process, Path(scratch))
            process.stdin.close()
