"""Runs `karl-fast` again and again in children of one warm process, each under a fault of its own.

Started by `shim.Server` with `fault.c` preloaded: one JSON request a line comes in, one reply a line goes out.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pydantic

from karl_fast.cli import main
from karl_fast.cli.app import COMMANDS

SHIM = ctypes.CDLL(None)


def child(request: dict[str, Any]) -> None:
    """Become the command; never return."""
    folder = request["folder"]
    os.chdir(folder)
    streams = [os.open(request["stdin"], os.O_RDONLY)]
    streams += [os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for name in ("stdout", "stderr")]
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    tempfile.tempdir = str(Path(folder, "tmp"))
    sys.argv = ["karl-fast", *request["arguments"]]
    if request["exchange"] is not None and SHIM.fault_exchange(request["exchange"]) != 0:
        os._exit(99)
    SHIM.fault_arm(request["function"].encode(), ctypes.c_long(request["at"]), request["action"], folder.encode())
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run one request to its end; where it stops on the way, run what is to happen meanwhile, and let it go on."""
    pid = os.fork()
    if pid == 0:
        child(request)
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        subprocess.run(request["meanwhile"], shell=True, cwd=request["folder"], check=True)
        os.kill(pid, signal.SIGCONT)
        _, status = os.waitpid(pid, 0)
    return {"code": os.waitstatus_to_exitcode(status), "calls": SHIM.fault_calls(), "hits": SHIM.fault_hits()}


def load() -> None:
    """Import what commands import, once for all children."""
    for command in COMMANDS:
        importlib.import_module(f"karl_fast.cli.commands.{command}")
    for module in ("cli.app", "cli.fast_parser", "reward"):
        importlib.import_module(f"karl_fast.{module}")
    pydantic.TypeAdapter(int)  # loads the rest of pydantic, which typer uses


if __name__ == "__main__":
    load()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
