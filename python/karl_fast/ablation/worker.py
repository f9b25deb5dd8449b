"""The process of one run: `python -m karl_fast.ablation.worker FOLDER`; its outcome is a file of the folder.

It ends with its parent, whose end closes the standard input.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from karl_fast import _atomic
from karl_fast.errors import AlarmError

RUN_FILE, RESULT_FILE, RUN_FOLDER = "rl.toml", "result.json", "run"


def main(folder: Path) -> None:
    """Make the run of a folder, or continue it, and write how it ended."""
    from karl_fast.rl import load, rl

    threading.Thread(target=_end_with_parent, daemon=True).start()
    start, alarm = time.monotonic(), None
    try:
        rl(load(folder / RUN_FILE), resume=True, force=True)
    except AlarmError as error:  # a result like others: the rounds before it count
        alarm = str(error)
    seconds, cpu_seconds = round(time.monotonic() - start, 1), round(time.process_time(), 1)
    text = json.dumps({"alarm": alarm, "seconds": seconds, "cpu_seconds": cpu_seconds})
    _atomic.write_file(folder / RESULT_FILE, lambda file: file.write(text.encode()))


def _end_with_parent() -> None:
    os.read(0, 1)  # not through a stream, whose lock the end of the interpreter would wait for
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
