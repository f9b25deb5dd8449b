"""Entry point of the script `karl-fast`: the command line, without costs that a short process can avoid.

Of the 0.1 s that a small log takes, 6 ms are the garbage collector during imports, and 11 ms the interpreter's own
clean-up at the end.
"""

from __future__ import annotations

import gc
import os
import sys

from karl_fast._signals import STOPS, handle

# Not imported from `typing`, which is slow to load: Ctrl-C is handled only once this module is loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line, and exit at once when its output is flushed."""
    handle(_end_at_signal)
    gc.disable()  # nothing that a run makes in numbers refers to itself
    from karl_fast.cli import main as run

    try:
        run()
    except SystemExit as end:
        _exit(end.code if isinstance(end.code, int) else 0)
    _exit(0)


def _end_at_signal(number: int, _frame: FrameType | None) -> NoReturn:
    # Nothing is begun, and an exception in the middle of an import may end as another.
    try:
        os.write(2, f"{STOPS[number]}; nothing was written\n".encode())
    finally:
        os._exit(128 + number)


def _exit(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 1
    os._exit(code)
