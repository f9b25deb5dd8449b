"""From what a person types to a list of files."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from karl_fast.errors import FileError, UsageError
from karl_fast.near import beside
from karl_fast.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SUFFIXES = tuple(
    suffix + packed for suffix in (".jsonl", ".json", ".ndjson") for packed in ("", ".gz", ".zst", ".zstd")
)
"""What is taken from a folder."""

PARQUET = ".parquet"
"""How a file is called whose rows are records."""


@contextlib.contextmanager
def files(logs: Iterable[object], suffixes: tuple[str, ...] = SUFFIXES) -> Iterator[list[tuple[str, str, bool]]]:
    """For files, folders, globs and ``-``: each path, what to call it, and whether it may hold no records.

    A folder is searched for names that end in one of ``suffixes``; a file in it that holds no records is passed over,
    and so is a data set that karl-fast wrote there. Standard input and pipes are spooled to a temporary file, because a
    log is read twice, and so are the rows of Parquet files; it is gone afterwards.

    Raises:
        FileError: for a path that leads nowhere.
        MissingExtraError: for a Parquet file without pyarrow.
        UsageError: for a folder or a glob without any log in it.
    """
    with contextlib.ExitStack() as stack:
        found = [file for log in logs for file in _expand(path_of(log), suffixes)]
        if not found:
            raise UsageError("no log given")
        yield [(_kept(path, stack), shown(path), inside) for path, inside in found]


def shown(path: str) -> str:
    """A path as text: the bytes of a name that is not UTF-8 are spelled out."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def listed(logs: object) -> list[Any]:
    """One log or several as a list."""
    alone = isinstance(logs, str | bytes | os.PathLike) or not hasattr(logs, "__iter__")
    return [logs] if alone else list(cast("Iterable[Any]", logs))


def path_of(log: object) -> str:
    """What a caller names a log by.

    Raises:
        UsageError: it is no path, or an empty one.
    """
    name = os.fspath(log) if isinstance(log, os.PathLike) else log
    if not isinstance(name, str):
        raise UsageError(f"a log is of type {type(log).__name__}, wanted a path, a folder, a glob or -")
    if not name:
        raise UsageError("a log has an empty name, wanted a path, a folder, a glob or -")
    return name


def _expand(log: str, suffixes: tuple[str, ...]) -> list[tuple[str, bool]]:
    if log == "-" or _exists(Path(log)):
        return _inside(log, suffixes) if Path(log).is_dir() else [(log, False)]
    matches = sorted(glob.glob(log, recursive=True))
    if matches:
        return [file for match in matches for file in _expand(match, suffixes)]
    if glob.has_magic(log):
        raise UsageError(f"no file matches {log}")
    error = FileError(f"cannot open {log}: no such file or folder", 2, log)
    error.hint = beside(log)
    raise error


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _inside(folder: str, suffixes: tuple[str, ...]) -> list[tuple[str, bool]]:
    logs, passed, parquet = [], 0, None
    for here, folders, names in os.walk(folder, onerror=_unlisted):
        folders.sort()
        if is_output(here):
            passed += 1
        else:
            paths = [Path(here, name) for name in sorted(names) if name.endswith(suffixes)]
            logs += [(str(path), True) for path in paths if not _is_special(path)]
            parquet = parquet or (here if any(name.endswith(PARQUET) for name in names) else None)
    if not logs:
        but = f" but in {counted(passed, 'data set')} of karl-fast" if passed else ""
        error = UsageError(f"the folder {folder} holds no file that ends in {', '.join(suffixes)}{but}")
        if parquet is not None:
            error.hint = f"Parquet files are taken by name or glob: {glob.escape(parquet)}/*{PARQUET}"
        raise error
    return logs


def _is_special(path: Path) -> bool:
    """Whether a path leads to a pipe, a socket or a device: in a folder, nobody asked for it."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _unlisted(error: OSError) -> None:
    # Passed over in silence, its logs would be lost.
    raise FileError(f"cannot list {error.filename}: {error.strerror}", error.errno, error.filename) from error


MANIFEST_MAX = 1 << 28
"""The largest file that is looked into for a manifest of ours, in bytes."""


def is_output(folder: str) -> bool:
    """Whether a folder is a data set that karl-fast wrote: its rows are no log.

    Raises:
        FileError: its manifest is there and cannot be read.
    """
    path = Path(folder, "manifest.json")
    try:
        facts = path.stat()
        # Somebody else's may be a pipe that never ends, or larger than memory.
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MANIFEST_MAX:
            return False
        manifest = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return False
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", error.errno, str(path)) from error
    return isinstance(manifest, dict) and {"schema", "karl_fast"} <= manifest.keys()


def _is_stream(name: str) -> bool:
    try:
        return name == "-" or not stat.S_ISREG(Path(name).stat().st_mode)
    except OSError as error:
        raise FileError(f"cannot open {name}: {error.strerror}", error.errno, name) from error


def _kept(path: str, stack: contextlib.ExitStack) -> str:
    """A file that can be read twice, line by line: itself, or a temporary one in the place of a pipe or of Parquet."""
    # Imported here: most runs have neither, and all of them would wait for what it takes.
    if _is_stream(path):
        from karl_fast.log.spool import spool

        return stack.enter_context(spool(path))
    if path.endswith(PARQUET):
        from karl_fast.log.rows import lines

        return stack.enter_context(lines(path))
    return path


def why_no_groups(found: Iterable[Mapping[str, Any]]) -> str | None:
    """Why a format could not tell the groups of some files, from what was found in each; None where it could."""
    without = [file["beside"] for file in found if file["beside"] and file["beside"]["problem"]]
    if not without:
        return None
    first, more = without[0], f" of {len(without)} files" if len(without) > 1 else ""
    why = f"{first['path']}: {first['problem']}"
    return f"no {first['key']}, so no groups{more}: {why}; name them with --group"
