"""Data sets that karl-fast wrote, which are found among logs and are none."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from karl_fast._safe_text import counted
from karl_fast.errors import FileError

MANIFEST_MAX = 1 << 28
"""The largest file that is looked into for a manifest of ours, in bytes."""


def is_output(folder: str) -> bool:
    """Return whether a folder is a data set that karl-fast wrote, and so not a log.

    Raises:
        FileError: its manifest exists and cannot be read.
    """
    return _read_manifest(folder) is not None


def _read_manifest(folder: str) -> dict[str, Any] | None:
    path = Path(folder, "manifest.json")
    try:
        facts = path.stat()
        # Somebody else's may be a pipe that never ends, or larger than memory.
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MANIFEST_MAX:
            return None
        manifest = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", error.errno, str(path)) from error
    ours = isinstance(manifest, dict) and {"schema", "karl_fast"} <= manifest.keys()
    return manifest if ours else None


def data_set_hint(folder: str) -> str:
    """Return a hint for a data set given as a log, with the inputs in its manifest."""
    inputs = (_read_manifest(folder) or {}).get("inputs")
    files = [file for file in inputs if isinstance(file, dict)] if isinstance(inputs, list) else []
    paths = [file["path"] for file in files if isinstance(file.get("path"), str)]
    others = f" and {counted(len(paths) - 1, 'other file')}" if len(paths) > 1 else ""
    return "give what it was drawn from" + (f": {paths[0]}{others}" if paths else "")
