"""Columns of a log in Parquet files, through pyarrow, which the extra ``arrow`` installs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast.errors import FileError, MissingExtraError, OutputExistsError

if TYPE_CHECKING:
    from collections.abc import Collection

    from karl_fast.protocols import ArrowStream


def load(path: Path, names: Collection[str]) -> Any:
    """The columns of these names that a file has, as a table of pyarrow.

    Raises:
        MissingExtraError: pyarrow is not installed.
        FileError: the file cannot be read, or is no Parquet.
    """
    pyarrow, parquet = _pyarrow()
    try:
        with parquet.ParquetFile(path) as file:
            # As a list, for a file may have two columns of one name: with_columns says so.
            return file.read([name for name in file.schema_arrow.names if name in names])
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}", error.errno, str(path)) from error
    except pyarrow.ArrowException as error:
        raise FileError(f"cannot read {path} as Parquet: {error}", None, str(path)) from error


def save(table: ArrowStream, path: Path, *, force: bool) -> None:
    """Write a table as one file, whole or not at all.

    Raises:
        MissingExtraError: pyarrow is not installed.
        OutputExistsError: the file exists, and ``force`` is not set.
        FileError: it cannot be written; nothing is left behind.
    """
    pyarrow, parquet = _pyarrow()
    if not force and os.path.lexists(path):
        raise _exists(path)
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as draft:
            try:
                parquet.write_table(pyarrow.table(table), draft)
                draft.flush()
                os.fsync(draft.fileno())
                _publish(Path(draft.name), path, force=force)
            finally:
                Path(draft.name).unlink(missing_ok=True)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}", error.errno, str(path)) from error


def _exists(path: Path) -> OutputExistsError:
    error = OutputExistsError(f"{path} exists")
    error.hint = "force=True replaces a file that is there"  # no command line gets here
    return error


def _publish(draft: Path, path: Path, *, force: bool) -> None:
    """Give a finished file its name. A link, unlike a rename, refuses a name that somebody took meanwhile."""
    # Temporary files are for their owner's eyes; this one is to be what any new file is.
    mask = os.umask(0)
    os.umask(mask)
    draft.chmod(0o666 & ~mask)
    if force:
        draft.replace(path)
    else:
        os.link(draft, path)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("Parquet needs pyarrow: pip install 'karl-fast[arrow]'") from error
    return pyarrow, parquet
