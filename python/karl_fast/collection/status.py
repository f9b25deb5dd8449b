"""State of an archive and of the triggers that fill it."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TypedDict

from karl_fast.collection import archive_folder
from karl_fast.collection.triggers import TRIGGERS

CATALOGUE = "catalogue"
"""File of an archive that changes with each collection that finds something."""


class ArchiveState(TypedDict):
    """State of an archive.

    Attributes:
        path: its folder.
        files: number of its files.
        bytes: bytes of them, packed.
        collected_at: time of the last collection that found something new; None before the first.
    """

    path: str
    files: int
    bytes: int
    collected_at: str | None


class TriggerState(TypedDict):
    """State of a trigger: its name, its place, and whether it is installed."""

    name: str
    place: str
    installed: bool


class CollectionState(TypedDict):
    """State of an archive and its triggers."""

    archive: ArchiveState
    triggers: list[TriggerState]


def read_state(archive: str | Path | None = None) -> CollectionState:
    """Return the state of an archive and of every trigger."""
    folder = Path(archive).expanduser() if archive else archive_folder()
    sizes = [path.stat().st_size for path in folder.rglob("*.zst")]
    archive_state: ArchiveState = {
        "path": str(folder),
        "files": len(sizes),
        "bytes": sum(sizes),
        "collected_at": _modified_at(folder / CATALOGUE),
    }
    triggers: list[TriggerState] = [
        {"name": trigger.name, "place": trigger.place(), "installed": trigger.is_installed()}
        for trigger in TRIGGERS.values()
    ]
    return {"archive": archive_state, "triggers": triggers}


def _modified_at(path: Path) -> str | None:
    try:
        moment = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
    except FileNotFoundError:
        return None
    return moment.isoformat(timespec="seconds")
