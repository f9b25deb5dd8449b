"""The rows of a data set: one that `karl-fast sample` wrote, or any directory that `mlx_lm lora --data` takes."""

from __future__ import annotations

import errno
import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast._suggest import suggest_path
from karl_fast.errors import DataSetError, FileError, NothingToTrainError
from karl_fast.reward.validate import parse_reward

if TYPE_CHECKING:
    from collections.abc import Iterator

STAMP = "karl_fast"
"""The object of a row that says where it came from."""

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Source:
    """A data set on disk.

    Attributes:
        folder: where it is.
        sampler: how its rows were drawn; None where no manifest says so.
        file: the file of the training split, where that is all there is; None for a folder.
    """

    folder: Path
    sampler: str | None
    file: Path | None = None

    def place(self, split: str) -> Path:
        """Return the file of a split, whether it exists or not."""
        return self.file if self.file is not None and split == "train" else self.folder / f"{split}.jsonl"

    def rows(self, split: str) -> list[dict[str, Any]]:
        """Read the rows of a split; empty if there is no such file.

        Raises:
            FileError: it cannot be read.
            DataSetError: a row is not a JSON object; the message names the line.
        """
        file = self.place(split)
        if not file.is_file() or (self.file is not None and split != "train"):
            return []
        try:
            with file.open("rb") as lines:
                return list(_parse_rows(file, lines))
        except OSError as error:
            raise FileError(f"cannot read {file}: {error.strerror}", error.errno, str(file)) from error


def open_source(path: str | Path, *, lone: bool = False) -> Source:
    """Open a directory with train.jsonl, valid.jsonl or test.jsonl in it.

    Args:
        path: the directory.
        lone: take a file too, as the training split.

    Raises:
        FileError: there is no such directory, or it is a file where that is not allowed.
        DataSetError: it holds none of them, or a damaged manifest.
        NothingToTrainError: every file in it is empty.
    """
    folder = Path(path)
    if folder.is_file():
        if lone:
            return Source(folder.parent, None, folder)
        raise _file_error(folder)
    if not folder.is_dir():
        raise FileError(f"cannot open {folder}: no such folder", 2, str(folder), hint=suggest_path(folder, Path.is_dir))
    files = [folder / f"{split}.jsonl" for split in SPLITS]
    if not any(file.is_file() for file in files):
        tables = any((folder / f"{split}.parquet").is_file() for split in SPLITS)
        hint = "karl-fast train reads lines: draw the rows with --as chat" if tables else None
        raise DataSetError(f"{folder} is not a data set: it has no train.jsonl, valid.jsonl or test.jsonl", hint=hint)
    if not any(file.is_file() and file.stat().st_size for file in files):
        raise NothingToTrainError(f"{folder} has no rows")
    return Source(folder, _read_sampler(folder / "manifest.json"))


def _file_error(path: Path) -> FileError:
    """Return the error for a file given as a folder: one of its splits, or a log without a data set."""
    error = FileError(f"{path} is a file, wanted a folder with train.jsonl", errno.ENOTDIR, str(path))
    if path.stem in SPLITS:
        error.hint = f"give the folder that it is in, {path.parent}"
    else:
        error.hint = f"karl-fast sample {path} -o data -k 512 makes such a folder of a log"
    return error


def _read_sampler(file: Path) -> str | None:
    if not file.is_file():
        return None
    try:
        return str(json.loads(file.read_text("utf-8"))["draw"]["sampler"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataSetError(f"{file} is damaged: it does not say how rows were drawn") from error


def _parse_rows(file: Path, lines: Any) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataSetError(f"{file}, line {number:,}: the row is not JSON") from error
        if not isinstance(row, dict):
            raise DataSetError(f"{file}, line {number:,}: the row is not a JSON object")
        yield row


def number_of(stamp: dict[str, Any], name: str) -> float:
    """Return a number of a row's ``karl_fast`` object, NaN if missing."""
    number = parse_reward(stamp.get(name))
    return number if isinstance(number, float) else math.nan


def empty_split(source: Source, split: str) -> NothingToTrainError:
    """Return the error for a split without rows to judge by, with another split, or the shares that give it some."""
    rows = {name: source.rows(name) for name in SPLITS}
    error = NothingToTrainError(f"{source.folder / f'{split}.jsonl'} has no rows to judge by")
    others = [name for name in ("test", "valid") if rows[name]]
    shares = _split_option([row for part in rows.values() for row in part], split)
    no_shares = "draw more rows, or rows of more groups: no --split of these leaves it enough"
    hint = f"karl-fast sample ... {shares} leaves it some" if shares else no_shares
    error.hint = hint + "".join(f"; --split {name} has {len(rows[name]):,} rows" for name in others)
    return error


def _split_option(rows: list[dict[str, Any]], split: str) -> str | None:
    """Return the option that leaves a split enough of some rows, whose groups go whole; None if there is none.

    It gets the smallest groups, as long as train keeps as many rows as it.
    """
    stamps = [row[STAMP] if isinstance(row.get(STAMP), dict) else {} for row in rows]
    sizes = Counter(f"g{stamp['group']}" if stamp.get("group") is not None else at for at, stamp in enumerate(stamps))
    split_rows = 0
    for size in sorted(sizes.values()):
        split_rows += size
        if split_rows >= FEWEST_ROWS or 2 * split_rows > len(rows):
            break
    # In steps of 5 %, rounded up: a share that a user would write.
    share = math.ceil(20 * split_rows / max(len(rows), 1)) / 20
    if split_rows < FEWEST_ROWS or 2 * split_rows > len(rows) or share > 1 / 2:
        return None
    return f"--split {1 - share:g},{share:g},0" if split == "valid" else f"--split {1 - share:g},0,{share:g}"


FEWEST_ROWS = 4
"""Rows that `sample` leaves a split at least."""
