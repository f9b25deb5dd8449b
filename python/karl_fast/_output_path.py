"""Check, before anything is read, that an output can be written."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast._safe_text import in_bytes
from karl_fast.errors import FULL, FileError, OutputExistsError, OutputForeignError

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_data_set(out: str | Path, *, force: bool) -> _core.Target:
    """Return the place of a data set; refuse one that is known to be unwritable.

    Raises:
        OutputExistsError: it exists and ``force`` is not set, or it was not written by karl-fast.
        FileError: as `check_around`.
        UsageError: the path does not end in a name.
    """
    refuse_link(out)
    target = _core.Target.data_set(Path(out), force=force)
    check_around(out)
    return target


def refuse_read(out: str | Path, files: Iterable[str]) -> None:
    """Refuse an output that is also an input, which it would replace.

    Raises:
        OutputExistsError: it is one of the files, or the folder of one.
    """
    place = Path(os.path.realpath(out))
    for path in files:
        if path != "-" and Path(os.path.realpath(path)).is_relative_to(place):
            raise OutputExistsError(
                f"{out}: this run reads {path}, which the output would replace", hint="give the output another name"
            )


def refuse_link(out: str | Path) -> None:
    """Refuse a symbolic link: it would be replaced itself, not its target.

    Raises:
        OutputForeignError: it is one.
    """
    if os.path.islink(Path(out)):  # noqa: PTH114  Path.is_symlink raises where a name is too long, or the folder may not be entered
        raise OutputForeignError(
            f"{out}: it exists and is a symbolic link, which is never replaced",
            hint=f"name the place that it leads to: {os.path.realpath(out)}",
        )


def check_around(out: str | Path) -> None:
    """Refuse a place around which no folder is, and none can be made.

    Raises:
        FileError: what should be the folder around it is none, or may not be written to.
    """
    around = next((path for path in Path(out).parents if os.path.lexists(path) or not path.name), Path())
    try:
        is_folder = stat.S_ISDIR(around.stat().st_mode)
    except OSError as error:
        raise _write_error(out, error.errno, f"{around}: {error.strerror}") from error
    if not is_folder:
        raise _write_error(out, errno.ENOTDIR, f"{around} is not a folder")
    if not os.access(around, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise _write_error(out, errno.EACCES, f"the folder {around} may not be written to")


def _write_error(out: str | Path, number: int | None, why: str) -> FileError:
    return FileError(
        f"cannot write {out}: {why}", number, str(out), hint="give the output a name in a folder that can be written to"
    )


def add_disk_hint(error: FileError, out: str | Path, size: int | None = None) -> None:
    """Add a hint to an error about writing the output or one of its files; ``size`` is its length if known."""
    if error.filename is None or not Path(error.filename).is_relative_to(out):
        return
    needed = "" if size is None else f"the data set has {in_bytes(size)}: "
    ways = f"{needed}free space, or " if error.errno in FULL else ""
    error.hint = f"{ways}write to another place"
