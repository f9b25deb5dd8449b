"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, BinaryIO

from karl_fast.errors import FileError, OutputForeignError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

UNFINISHED = ".unfinished-"
"""What the name of something begins with that is not whole yet."""


@contextlib.contextmanager
def refused(path: Path) -> Iterator[None]:
    """Say which file the system refused, and what it said."""
    try:
        yield
    except OSError as error:
        said = error.strerror or str(error)
        raise FileError(f"cannot write {path}: {said}", error.errno, str(path)) from error


def refuse_file(path: Path) -> None:
    """Refuse a place for a folder where something else is.

    Raises:
        OutputForeignError: a file, or a link that leads nowhere.
    """
    if os.path.lexists(path) and not path.is_dir():
        raise OutputForeignError(f"{path}: it exists and is no directory")


def write(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Write a file beside its place, and move it there when it is on the disk."""
    draft = path.with_name(UNFINISHED + path.name)
    with refused(path):
        try:
            with draft.open("wb") as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name when it is full."""
    draft = path.with_name(UNFINISHED + path.name)
    with refused(path):
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            yield draft
            draft.rename(path)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
