"""A data set that karl-fast wrote, read back: its manifest, and its rows one after the other."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from karl_fast import _core
from karl_fast._suggest import suggest_path
from karl_fast.errors import DataSetError, FileError, KarlError
from karl_fast.export.manifest import SCHEMA, SPLITS, Manifest
from karl_fast.export.tables import SHAPES
from karl_fast.log.discovery import PARQUET, is_output
from karl_fast.log.field_hints import STAMP
from karl_fast.log.parquet_out import require_pyarrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MANIFEST = "manifest.json"
"""Name of the file that marks a folder written by `karl-fast sample`."""


class Row(NamedTuple):
    """Row of a data set.

    Attributes:
        split: train, valid or test; the file's name where the data set is one file.
        line: its bytes, without the line end.
        value: the row.
        stamp: its `karl_fast` object, or None.
    """

    split: str
    line: bytes
    value: dict[str, Any]
    stamp: dict[str, Any] | None


@dataclass(frozen=True)
class DataSet:
    """A data set on disk.

    Attributes:
        path: the folder or the file.
        files: the file of each split.
        manifest: what ``manifest.json`` holds; None where the data set is one file of rows.
    """

    path: str
    files: dict[str, Path]
    manifest: Manifest | None

    def rows(self) -> Iterator[Row]:
        """Yield every row, split after split; one is in memory at a time.

        Raises:
            FileError: a file cannot be read.
            DataSetError: a row is damaged, or there are more or fewer than the manifest says.
        """
        for split, file in self.files.items():
            count = 0
            for count, row in enumerate(self._split_rows(split, file), 1):  # noqa: B007  (how many there were)
                yield row
            self._check_count(split, count)

    def columns(self) -> tuple[bool, dict[str, int], dict[str, Any]]:
        """Read numbers and hashes of every row.

        Returns:
            Whether rows have a stamp; rows by split; and the columns of all rows in their order: ``lines`` (hash),
            ``bytes``, ``messages`` and ``turns`` (-1 where there are none), ``records`` (hash of group and id, else of
            the line), ``groups`` (hash; 0 where there is none) and ``rewards`` (NaN where there is none).

        Raises:
            FileError: a file cannot be read.
            DataSetError: a row is damaged, or there are more or fewer than the manifest says.
        """
        import numpy as np  # 50 ms, which other readers of this module do without

        parts = {split: self._columns(split) for split in self.files}
        names = parts[next(iter(parts))] if parts else ()
        joined = {name: np.concatenate([part[name] for part in parts.values()]) for name in names}
        return self._stamped, {split: part["lines"].size for split, part in parts.items()}, joined

    def _columns(self, split: str) -> dict[str, Any]:
        with _lines_of(self.files[split]) as lines:
            columns = _core.data_set_rows(lines, self._stamped)
        if (bad := columns.pop("bad")) is not None:
            raise DataSetError(f"{self.files[split]}, line {bad[0]:,}: {bad[1]}")
        self._check_count(split, columns["lines"].size)
        return columns

    @property
    def _stamped(self) -> bool:
        return self.manifest is None or self.manifest["export"]["shape"] != "raw"

    def _check_count(self, split: str, count: int) -> None:
        promised = self.manifest["export"]["splits"][split] if self.manifest else count
        if count != promised:
            raise DataSetError(f"{self.files[split]} has {count:,} rows, and its manifest says {promised:,}")

    def _split_rows(self, split: str, file: Path) -> Iterator[Row]:
        try:
            with _lines_of(file) as path, path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    yield _parse_row(split, line.rstrip(b"\r\n"), self._stamped, f"{file}, line {number:,}")
        except OSError as error:
            raise FileError(f"cannot read {file}: {error.strerror}", error.errno, str(file)) from error


def open_data_set(path: str | Path) -> DataSet:
    """Open a folder that ``karl-fast sample`` wrote, or one of its files of rows.

    Raises:
        FileError: there is no such folder or file, or it cannot be read.
        DataSetError: it is something else.
    """
    folder = Path(path)
    if folder.is_file():
        _check_first(data_set := DataSet(str(path), {folder.stem: folder}, None))
        return data_set
    manifest = _read_manifest(folder)
    suffix = PARQUET if manifest["export"]["shape"] in SHAPES else ".jsonl"
    files = {split: folder / f"{split}{suffix}" for split in SPLITS if manifest["export"]["splits"][split]}
    return DataSet(str(path), files, manifest)


@contextlib.contextmanager
def _lines_of(file: Path) -> Iterator[Path]:
    """Yield a file of rows as lines: a file of Parquet is copied to a temporary one."""
    if file.suffix != PARQUET:
        yield file
        return
    require_pyarrow()
    from karl_fast.log.parquet_in import lines  # with pyarrow, which files of lines do without

    with lines(str(file)) as copy:
        yield Path(copy.path)


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


JSON = json.JSONDecoder(parse_constant=_refuse_constant)
"""Decoder shared by all rows: `json.loads` with an argument builds one for each."""

RAW = json.JSONDecoder(parse_int=float)
"""Raw rows are as they were logged: they may hold NaN, and integers of more digits than Python takes as one."""


def _parse_row(split: str, line: bytes, stamped: bool, place: str) -> Row:
    try:
        value = (JSON if stamped else RAW).decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DataSetError(f"{place}: the row is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise DataSetError(f"{place}: the row is not JSON") from error
    if not isinstance(value, dict):
        raise DataSetError(f"{place}: the row is not a JSON object")
    stamp = stamp_of(value)
    if stamped and not _is_stamp(stamp):
        raise DataSetError(f"{place}: the row has no object {STAMP} with its id, group and reward")
    return Row(split, line, value, stamp if stamped else None)


def stamp_of(row: dict[str, Any]) -> Any:
    """Return the metadata of a row; a trajectory of Harbor has it in its object `extra`."""
    extra = row.get("extra")
    return row[STAMP] if STAMP in row else extra.get(STAMP) if isinstance(extra, dict) else None


def _is_stamp(stamp: Any) -> bool:
    return (
        isinstance(stamp, dict)
        and isinstance(stamp.get("id"), str | None)
        and isinstance(stamp.get("group"), str | None)
        and _is_number(stamp.get("reward"))
    )


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number, or missing."""
    return (
        value is None
        or (type(value) is int and abs(value) < 1 << 53)  # beyond 2^53 float64 skips integers
        or (type(value) is float and math.isfinite(value))
    )


def _read_manifest(folder: Path) -> Manifest:
    file = folder / MANIFEST
    try:
        manifest = JSON.decode(file.read_text("utf-8"))
    except FileNotFoundError as error:
        if folder.is_dir():
            raise _foreign_error(folder, f"it has no {MANIFEST}", _folder_hint(folder)) from error
        raise FileError(
            f"cannot open {folder}: no such file or folder", error.errno, str(folder), hint=suggest_path(folder)
        ) from error
    except OSError as error:
        raise FileError(f"cannot open {file}: {error.strerror}", error.errno, str(file)) from error
    except (ValueError, RecursionError) as error:
        raise DataSetError(f"{file} is damaged: it is not JSON") from error
    return _check_manifest(file, manifest)


def _check_manifest(file: Path, manifest: Any) -> Manifest:
    """Return the manifest if the parts read here have the form that this version knows."""
    if not isinstance(manifest, dict) or not {"schema", "karl_fast"} <= manifest.keys():
        raise DataSetError(f"{file} is not a manifest of karl-fast")
    if not isinstance(manifest["schema"], int) or manifest["schema"] > SCHEMA:
        version = f"{manifest['schema']!r}, of karl-fast {manifest['karl_fast']}"
        raise DataSetError(f"{file} has the form {version}; this version reads forms up to {SCHEMA}")
    for part, is_right in PARTS.items():
        value: Any = manifest
        for key in part.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if not is_right(value):
            raise DataSetError(f"{file} is damaged: {part} is missing, or not what it was written as")
    return manifest


def _is_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(type(count) is int for count in value.values())


def _is_numbers(value: Any) -> bool:
    """Return whether a value has numbers by name, as a summary; it may be missing, or have text and tables."""
    return value is None or (
        isinstance(value, dict) and all(_is_number(inner) or isinstance(inner, str | dict) for inner in value.values())
    )


def _is_inputs(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(file, dict) and isinstance(file.get("path"), str) for file in value
    )


def _is_domains(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_counts, value.values()))


PARTS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("export.splits", "accounting.dropped", "draw.failed", "secrets"), _is_counts),
    **dict.fromkeys((f"export.splits.{split}" for split in SPLITS), lambda value: type(value) is int),
    **dict.fromkeys(("accounting.rows_read", "accounting.rows_kept"), lambda value: type(value) is int),
    **dict.fromkeys(("target", "target.log_z", "reward", "reward.after"), _is_numbers),
    "settings": lambda value: isinstance(value, dict),
    "export.shape": lambda value: isinstance(value, str),
    "domains": _is_domains,
    "inputs": _is_inputs,
}
"""Parts of a manifest that are read, each with its check."""


def _check_first(data_set: DataSet) -> None:
    """Raise if the first line of a file is not a row of ours: most likely it is a log."""
    path = Path(data_set.path)
    if path.name == MANIFEST and is_output(str(path.parent)):
        raise _foreign_error(path, "it is the manifest of one", f"give its folder: {path.parent}")
    try:
        first = next(data_set.rows(), None)
    except DataSetError as error:
        unpack = "unpack it if it is packed; " if isinstance(error.__cause__, UnicodeDecodeError) else ""
        raise _foreign_error(path, str(error).removeprefix(f"{path}, "), unpack + _sample_hint(path)) from error
    if first is None:
        raise _foreign_error(path, "it holds no rows", WANTED)


def _foreign_error(path: Path, why: str, hint: str) -> DataSetError:
    return DataSetError(f"{path} is not a data set of karl-fast: {why}", hint=hint)


WANTED = "give a folder that karl-fast sample wrote, or one .jsonl file out of it"


def _sample_hint(path: Path) -> str:
    return f"karl-fast sample {shlex.quote(str(path))} -o data -k 512 makes one of a log"


def _folder_hint(folder: Path) -> str:
    """Return a hint with the path to give instead of a folder without a manifest."""
    for file in (folder / f"{split}.jsonl" for split in SPLITS):
        with contextlib.suppress(KarlError):
            return f"give a file of its rows: {open_data_set(file).path}"
    return WANTED if _is_empty(folder) else _sample_hint(folder)


def _is_empty(folder: Path) -> bool:
    """Return whether a folder is empty, as far as it can be read."""
    try:
        return not any(folder.iterdir())
    except OSError:
        return False
