"""Logs of Inspect as it writes them by default (`.eval`): a zip archive with a JSON document for each sample.

The names are those of inspect_ai's `_recorders/eval.py`: `samples/ID_epoch_N.json`. Samples in chunks
(`samples/ID_epoch_N/sample.json`, log version 3) are not read.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast.errors import FileError, LogError
from karl_fast.log.spool import copy_error, refuse_change, temporary

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator

SUFFIX = ".eval"
"""Suffix of such a log."""

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
"""First bytes of a zip archive, and of one without a member."""

SAMPLE = re.compile(r"samples/.+\.json")
"""A sample; an id of Inspect may hold a slash."""

CHUNKED = re.compile(r"samples/.+/sample\.json")

CHUNK = 1 << 20
"""Bytes of a sample that are in memory at a time."""


CONVERT = "inspect log convert --to json --output-dir json {} writes a log that is read"


def is_eval(path: str, name: str) -> bool:
    """Return whether a file has the name and the first bytes of such a log."""
    if not name.endswith(SUFFIX):
        return False
    try:
        with Path(path).open("rb") as file:
            return file.read(4) in MAGIC
    except OSError:  # which reading reports
        return False


@contextlib.contextmanager
def samples(path: str) -> Iterator[str]:
    """Write a line of JSON for each sample to a temporary file that is removed afterwards; yield its path.

    Raises:
        LogError: the archive is damaged, or has samples in a form or a compression that is not read.
        FileError: it cannot be read, or the lines cannot be written.
        LogChangedError: it changed while it was read.
    """
    with temporary(path) as copy:
        with refuse_change(path):
            _write_samples(path, copy)
        yield copy


def _write_samples(path: str, copy: str) -> None:
    import zipfile  # most commands read no such log
    import zlib

    hint = CONVERT.format(path)
    try:
        with _open(path) as archive, Path(copy).open("wb") as out:
            names = sorted(name for name in archive.namelist() if SAMPLE.fullmatch(name))
            if any(CHUNKED.fullmatch(name) for name in names):
                raise LogError(f"{path}: it is a log of Inspect with its samples in chunks (log version 3)", hint=hint)
            for name in names:
                with archive.open(name) as sample:
                    # A line break in JSON stands between its parts only: in a text it is written \n.
                    while chunk := sample.read(CHUNK):
                        out.write(chunk.replace(b"\n", b" ").replace(b"\r", b" "))
                out.write(b"\n")
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise LogError(f"{path}: it is a damaged log of Inspect: {error}", hint="copy it again") from error
    except (NotImplementedError, RuntimeError) as error:  # a compression that Python lacks; a password
        raise LogError(f"{path}: it is a log of Inspect that cannot be unpacked: {error}", hint=hint) from error
    except OSError as error:
        raise copy_error(path, error) from error


def _open(path: str) -> zipfile.ZipFile:
    import zipfile  # as in _write_samples

    try:
        return zipfile.ZipFile(path)
    except OSError as error:
        raise FileError(f"cannot open {path}: {error.strerror}", error.errno, path) from error
