"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

from karl_fast.errors import FileError, KarlError, OutputExistsError, OutputForeignError, OutputTakenError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

UNFINISHED = ".unfinished-"
"""Prefix of the name of an unfinished file or folder."""


@contextlib.contextmanager
def name_file_errors(path: Path, action: str = "write") -> Iterator[None]:
    """Raise a `FileError` that names the file, and what was to be done with it, for any `OSError`."""
    try:
        yield
    except KarlError:  # which may be an OSError, and says what it has to
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"cannot {action} {path}: {reason}", error.errno, str(path)) from error


def refuse_file(path: Path) -> None:
    """Refuse a place for a folder where something else is.

    Raises:
        OutputForeignError: a file, or a link that leads nowhere.
    """
    if os.path.lexists(path) and not path.is_dir():
        raise OutputForeignError(f"{path}: it exists and is not a directory")


LEFT_BY_OTHERS = (".log", ".out", ".err", ".txt", ".toml", ".karl-index")
"""Suffixes of files that a shell, a scheduler, a user or `--index` may leave in the folder of a run."""


def refuse_other(path: Path, own: Collection[str]) -> None:
    """Refuse a folder with content that no run writes, except hidden files, logs and settings.

    Raises:
        OutputForeignError: a name that is none of the run's own.
    """
    with name_file_errors(path):
        entries = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    other = [
        name for name in entries if name not in own and not name.startswith(".") and not name.endswith(LEFT_BY_OTHERS)
    ]
    if other:
        raise OutputForeignError(
            f"{path}: it exists and holds {other[0]}, which no run writes",
            hint="give another folder; --force writes into this one, and leaves what no run writes as it is",
        )


LOCK = ".lock"
"""Lock file in the folder of a run, held until it ends."""


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[BinaryIO]:
    """Lock a folder for one run, and yield the lock file; the lock of a run that is killed is released.

    Raises:
        OutputExistsError: another run holds it.
    """
    with lock_file(folder / LOCK) as file:
        yield file


@contextlib.contextmanager
def lock_file(place: Path) -> Iterator[BinaryIO]:
    """Lock a file that is removed afterwards, and yield it.

    Raises:
        OutputExistsError: another run holds it.
    """
    with name_file_errors(place):
        file = _open_locked(place)
    try:
        yield file
    finally:
        place.unlink(missing_ok=True)
        file.close()


def _open_locked(place: Path) -> BinaryIO:
    """Open and lock a file; again where the run that held it has just removed it."""
    while True:
        refuse_special(place)
        file = place.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise OutputExistsError(
                f"another run writes to {place.parent} at this moment",
                hint="wait for it, end it, or give another folder",
            ) from None
        except OSError:
            return file  # a disk without locks
        if _is_at(file, place):
            return file
        file.close()


def _is_at(file: BinaryIO, place: Path) -> bool:
    """Return whether an open file is the one at a path."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), place.stat())
    return False


def remove_unfinished(folder: Path) -> None:
    """Remove unfinished files of killed processes."""
    import shutil  # files are written without

    for draft in folder.glob(f"{UNFINISHED}*"):
        if draft.is_dir():
            shutil.rmtree(draft)
        else:
            draft.unlink()


def remove_files(folder: Path, names: Collection[str]) -> None:
    """Remove files of a folder by their names, and the folder where nothing else is in it."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def write_file(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Write a file beside its place, and move it there when it is on the disk.

    Raises:
        OutputTakenError: the place is not a regular file: a link, which would be replaced itself, or a folder.
        FileError: the disk refused.
    """
    draft = path.with_name(UNFINISHED + path.name)
    with name_file_errors(path):
        refuse_special(path)
        try:
            with draft.open("wb") as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def write_unless_locked(path: Path, fill: Callable[[BinaryIO], object]) -> bool:
    """Write a file as `write_file` does; leave it to another process that writes the same file, and return False then.

    Raises:
        OutputTakenError, FileError: as of `write_file`.
    """
    draft = path.with_name(UNFINISHED + path.name)
    with name_file_errors(path):
        refuse_special(path)
        try:
            file = _open_locked(draft)
        except OutputExistsError:
            return False
        with file:
            try:
                file.truncate(0)  # a killed process left a draft
                fill(file)
                file.flush()
                os.fsync(file.fileno())
                draft.replace(path)
            except FileNotFoundError:
                return False  # a disk without locks, and another process was faster
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
    return True


def refuse_special(path: Path) -> None:
    """Refuse the place of a file where something else is, which is never replaced.

    Raises:
        OutputTakenError: a symbolic link, or anything else that is not a regular file.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        what = "a symbolic link" if stat.S_ISLNK(mode) else "not a regular file"
        raise OutputTakenError(f"{path} is {what}: it is left as it is, and nothing was written there")


@contextlib.contextmanager
def write_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that gets its final name once it is complete."""
    import shutil  # as in remove_unfinished

    draft = path.with_name(UNFINISHED + path.name)
    with name_file_errors(path):
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            yield draft
            draft.rename(path)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
