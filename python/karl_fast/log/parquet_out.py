"""Columns of a log in Parquet files, through pyarrow, which the extra ``arrow`` installs."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast._extras import missing_extra
from karl_fast._output_path import refuse_read
from karl_fast._safe_text import LONGEST, clean, counted
from karl_fast.errors import FULL, ColumnError, FileError, KarlError, OutputExistsError
from karl_fast.log.spool import copy_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from karl_fast.typing import ArrowStream


def load(path: Path, names: Collection[str]) -> Any:
    """Return the columns of these names that a file has, as a table of pyarrow.

    Raises:
        MissingExtraError: pyarrow is not installed.
        ColumnError: two of its columns have one name.
        FileError: the file cannot be read, is damaged, or is not Parquet.
    """
    pyarrow, parquet = require_pyarrow()
    with damage(str(path)), parquet.ParquetFile(path, page_checksum_verification=True) as file:
        refuse_doubled(str(path), file.schema_arrow.names)
        wanted = [name for name in file.schema_arrow.names if name in names]
        table = file.read(wanted).select(wanted)
        # A damaged page may have invalid values for its type; no later code checks them.
        table.validate(full=True)
        if table.num_rows != file.metadata.num_rows:
            raise pyarrow.ArrowInvalid(f"it has {table.num_rows} rows, and its footer says {file.metadata.num_rows}")
        return table


@contextlib.contextmanager
def damage(path: str, *, writing: bool = False) -> Iterator[None]:
    """Name the file in any error of pyarrow: a damaged file raises exceptions of any class.

    ``writing`` is True while a temporary copy is written: a full disk then has a hint of its own.

    Raises:
        FileError: in place of any exception that is not of karl-fast.
    """
    try:
        yield
    except KarlError:
        raise
    except OSError as error:
        if writing and error.errno in FULL:
            raise copy_error(path, error) from error
        raise unreadable(path, error) from error
    except Exception as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: Exception, where: str = "") -> FileError:
    """Return the error of a file that cannot be read, or not at some place in it."""
    errno = error.errno if isinstance(error, OSError) else None
    if errno is not None:
        return FileError(f"cannot read {path}: {os.strerror(errno)}", errno, path)
    why = " ".join(str(error).split())[:LONGEST] or type(error).__name__
    return FileError(
        f"cannot read {path} as Parquet: {where and where + ': '}{clean(why)}", None, path, hint=_name_hint(path)
    )


def _name_hint(path: str) -> str | None:
    """Return a hint for a file with the suffix of Parquet that begins as JSON or as a packed file."""
    with contextlib.suppress(OSError), Path(path).open("rb") as file:
        start = file.read(4)
        if start.lstrip()[:1] in (b"{", b"[") or start[:2] == b"\x1f\x8b" or start == b"\x28\xb5\x2f\xfd":
            return "it does not begin as Parquet does: a log of JSON is read under a name that ends in .jsonl"
    return None


def refuse_doubled(path: str, names: list[str]) -> None:
    """Refuse a table that has two columns of one name.

    Raises:
        ColumnError: it has.
    """
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise ColumnError(
            f"{path}: {counted(names.count(doubled[0]), 'column')} are named {doubled[0]}, wanted one",
            hint="write the file with a name of its own for each column",
        )


def save(table: ArrowStream, path: Path, *, force: bool, read: Iterable[str] = ()) -> None:
    """Write a table as one file, whole or not at all; never over a file that it is ``read`` from.

    Raises:
        MissingExtraError: pyarrow is not installed.
        OutputExistsError: the file exists, and ``force`` is not set; or the path is not a Parquet file.
        FileError: it cannot be written; nothing is left behind.
    """
    import tempfile  # most logs are not Parquet

    pyarrow, parquet = require_pyarrow()
    target = _target(path, force=force)
    refuse_read(path, read)
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:NAME_LENGTH]}.", delete=False) as draft:
            try:
                parquet.write_table(pyarrow.table(table), draft)
                draft.flush()
                os.fsync(draft.fileno())
                _open_to_all(Path(draft.name))
                target.put(Path(draft.name))
            finally:
                Path(draft.name).unlink(missing_ok=True)
    except KarlError:
        raise
    except pyarrow.ArrowException as error:
        raise FileError(f"cannot write {path} as Parquet: {error}", None, str(path)) from error
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}", error.errno, str(path)) from error


NAME_LENGTH = 50
"""Characters of the name that the hidden draft begins with: the name may be as long as the file system allows."""


def _target(path: Path, *, force: bool) -> _core.Target:
    try:
        return _core.Target.parquet(path, force=force)
    except OutputExistsError as error:
        if type(error) is OutputExistsError:
            error.hint = "force=True replaces a file that is there"  # no command line gets here
        raise


def _open_to_all(draft: Path) -> None:
    """Set the mode of a finished file to that of a new one: temporary files are private."""
    mask = os.umask(0)
    os.umask(mask)
    draft.chmod(0o666 & ~mask)


def require_pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its module for Parquet.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise missing_extra("Parquet needs pyarrow, which is not installed", "arrow") from error
    return pyarrow, parquet
