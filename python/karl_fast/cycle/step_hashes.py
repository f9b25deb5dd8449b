"""Hashes of what a step depends on: files, folders, settings, and the code that settings name."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True)
class Content:
    """Content of some files.

    Attributes:
        digest: SHA-256 of their names and bytes.
        files: number of files.
        size_bytes: bytes in them.
    """

    digest: str
    files: int = 0
    size_bytes: int = 0


def hash_files(paths: Iterable[str | Path]) -> Content:
    """Return the content of files, folders with all that is in them, and globs; a missing one counts as absent.

    Raises:
        FileError: one cannot be read.
    """
    whole, files, size = hashlib.sha256(), 0, 0
    for path in paths:
        for name, file in _walk_files(str(path)):
            digest, length = _hash_file(file)
            whole.update(f"{name}\0{digest}\0".encode("utf-8", "surrogateescape"))
            files, size = files + 1, size + length
    return Content(whole.hexdigest(), files, size)


def hash_value(value: Any) -> Content:
    """Return the content of a setting: any value that JSON takes."""
    text = json.dumps(value, sort_keys=True, default=str)
    return Content(hashlib.sha256(text.encode()).hexdigest())


def hash_code(values: Any, folder: Path) -> Content:
    """Return the content of the Python files that settings name as `file.py:function`."""
    return hash_files(sorted({folder / f"{text.partition('.py:')[0]}.py" for text in _texts(values) if ".py:" in text}))


def hash_model(name: str) -> Content:
    """Return the content of a model's folder, or its name on the hub."""
    return hash_files([name]) if Path(name).is_dir() else hash_value(name)


def hash_data_set(folder: Path) -> Content:
    """Return the content of a data set: its rows, and the parts of its manifest that do not name files or the run."""
    rows = hash_files(sorted(folder.glob("*.jsonl")))
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    kept = {name: value for name, value in manifest.items() if name not in ("inputs", "run")}
    return Content(hash_value([rows.digest, kept]).digest, rows.files, rows.size_bytes)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _texts(part)


def _walk_files(path: str) -> Iterator[tuple[str, str]]:
    """Yield the name below a path and the place of each of its files, in order."""
    tops = [path] if os.path.lexists(path) else sorted(glob.glob(path, recursive=True))
    for top in tops:
        if not os.path.isdir(top):  # noqa: PTH112
            yield Path(top).name, top
        for folder, inner, names in os.walk(top):
            inner.sort()
            for name in sorted(names):
                place = os.path.join(folder, name)  # noqa: PTH118  (ten times as fast)
                if os.path.isfile(place):  # noqa: PTH113
                    yield os.path.relpath(place, top), place


def _hash_file(place: str) -> tuple[str, int]:
    try:
        with open(place, "rb") as file:  # noqa: PTH123
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return digest, file.tell()
    except OSError as error:
        raise FileError(f"cannot read {place}: {error.strerror}", error.errno, place) from error
