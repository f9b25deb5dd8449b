"""Temporary copies of inputs that cannot be read twice from their place, line by line."""

from __future__ import annotations

import stat
from errno import EISDIR
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from karl_fast.errors import FileError

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Sequence

    from karl_fast.log.parquet_columns import LeftOut, Needed, SummedReward

NOWHERE = "it is a link to what is not there"
"""Reason to skip a broken link."""


class ReadableTwice(NamedTuple):
    """A file that can be read twice, line by line.

    Attributes:
        path: the file itself, or a copy of a pipe or of the rows of a table of Parquet.
        left_out: columns of the table that are not in it.
        summed: reward that is the sum of columns of the table.
    """

    path: str
    left_out: Sequence[LeftOut] = ()
    summed: SummedReward | None = None


def keep_input(
    path: str, stack: contextlib.ExitStack, *, table: bool, needed: Needed | None, rewarded: bool
) -> ReadableTwice:
    """Return a file that can be read twice, line by line; ``rewarded`` as for :func:`parquet_in.lines`."""
    # Imported here: most runs need neither, and the import delays their start.
    if _is_stream(path):
        from karl_fast.log.spool import spool

        return ReadableTwice(stack.enter_context(spool(path)))
    if table:
        from karl_fast.log.parquet_in import lines

        return ReadableTwice(*stack.enter_context(lines(path, needed, rewarded=rewarded)))
    return ReadableTwice(path)


def _is_stream(name: str) -> bool:
    try:
        mode = 0 if name == "-" else Path(name).stat().st_mode
        if stat.S_ISDIR(mode):  # a file when the logs were resolved
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        return not stat.S_ISREG(mode)
    except OSError as error:
        why = NOWHERE if Path(name).is_symlink() and not Path(name).exists() else error.strerror
        raise FileError(f"cannot open {name}: {why}", error.errno, name) from error
