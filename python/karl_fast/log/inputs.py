"""From what a person types to a list of files."""

from __future__ import annotations

import contextlib
import glob
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast.errors import FileError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIXES = tuple(
    suffix + packed for suffix in (".jsonl", ".json", ".ndjson") for packed in ("", ".gz", ".zst", ".zstd")
)
"""What is taken from a folder."""


@contextlib.contextmanager
def files(logs: Iterable[str | Path]) -> Iterator[list[tuple[str, str]]]:
    """Pairs of a path and what to call it, for files, folders (searched through), globs and ``-``.

    Standard input and pipes are spooled to a temporary file, because a log is read twice; it is gone afterwards.

    Raises:
        FileError: for a path that leads nowhere.
        UsageError: for a folder or a glob without any log in it.
    """
    with contextlib.ExitStack() as stack:
        found = [file for log in logs for file in _expand(str(log))]
        if not found:
            raise UsageError("no log given")
        yield [(_spool(name, stack) if _is_stream(name) else name, name) for name in found]


def _expand(log: str) -> list[str]:
    path = Path(log)
    if log == "-" or _exists(path):
        return _inside(path) if path.is_dir() else [log]
    matches = sorted(glob.glob(log, recursive=True))
    if matches:
        return [file for match in matches for file in (_inside(Path(match)) if Path(match).is_dir() else [match])]
    if glob.has_magic(log):
        raise UsageError(f"no file matches {log}")
    raise FileError(f"cannot open {log}: no such file or folder", 2, log)


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _inside(folder: Path) -> list[str]:
    logs = sorted(str(file) for file in folder.rglob("*") if file.name.endswith(SUFFIXES) and file.is_file())
    if not logs:
        raise UsageError(f"the folder {folder} holds no file that ends in {', '.join(SUFFIXES)}")
    return logs


def _is_stream(name: str) -> bool:
    try:
        return name == "-" or not stat.S_ISREG(Path(name).stat().st_mode)
    except OSError as error:
        raise FileError(f"cannot open {name}: {error.strerror}", error.errno, name) from error


def _spool(name: str, stack: contextlib.ExitStack) -> str:
    # Imported here: most runs have no stream, and all of them would wait for what it takes.
    from karl_fast.log.spool import spool

    return stack.enter_context(spool(name))
