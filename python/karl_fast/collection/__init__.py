"""Collection of what agents wrote into an archive, before the agents delete it."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.collection.opencode import export
from karl_fast.collection.places import archive_folder, find_named_files, find_usual_files
from karl_fast.errors import FileError
from karl_fast.log.discovery import path_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karl_fast.collection.places import AgentFile

__all__ = ["Collection", "archive_folder", "collect"]


@dataclass(frozen=True)
class Collection:
    """The account of a collection: ``files`` = ``grown`` + ``unchanged`` + those ``failed``.

    Attributes:
        archive: folder of the archive.
        agents: number of files by agent.
        files: number of files looked at.
        grown: number of them with something new.
        unchanged: number of them without.
        reread: number of them read again from the start, because they were rewritten, moved or packed.
        lines: lines added.
        duplicates: lines of files read again that the archive has already.
        size_bytes: bytes added, unpacked.
        written_bytes: bytes added, packed.
        failed: files and folders that could not be read, each with the reason.
    """

    archive: str
    agents: dict[str, int]
    files: int
    grown: int
    unchanged: int
    reread: int
    lines: int
    duplicates: int
    size_bytes: int
    written_bytes: int
    failed: list[tuple[str, str]]


def collect(
    archive: str | Path | None = None,
    sources: Iterable[str | Path] | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Collection:
    """Add what agents wrote since the last collection to an archive.

    The archive only grows. A folder of it is read by every other function as the agents' own folder is. One collection
    runs at a time; another waits for it. It may be ended at any moment: the next one goes on.

    Args:
        archive: folder of the archive, which is made if it is missing; by default `archive_folder`.
        sources: files and folders to collect from instead of the usual places of agents.
        progress: called with the bytes read so far and the bytes there are.

    Raises:
        FileError: a source is missing, or the archive cannot be written; what was collected before is kept.
        LogError: the catalogue of the archive is damaged.
        OutputForeignError: the folder holds something, and is not an archive.
        OutputTakenError: another collection has held the archive for a minute.
    """
    folder = (Path(archive) if archive is not None else archive_folder()).expanduser()
    failed: list[tuple[str, str]] = []
    files = find_usual_files(failed) if sources is None else find_named_files(sources, failed)
    files = [file for file in files if folder.absolute() not in file.path.parents]
    _make_private(folder)
    with contextlib.ExitStack() as stack:
        exported = [_export_rows(file, stack) for file in files]
        failed += [(path_text(str(file.path)), why) for file, _, why in exported if why]
        facts = _core.collect(
            [(file.agent, file.path, file.name, file.form, rows) for file, rows, why in exported if not why],
            folder,
            progress=progress,
        )
    agents: dict[str, int] = {}
    for file in files:
        agents[file.agent] = agents.get(file.agent, 0) + 1
    values = dict(facts) | {"failed": [*facts["failed"], *failed], "files": facts["files"] + len(failed)}
    return Collection(archive=str(folder), agents=agents, **values)  # type: ignore[arg-type]


def _export_rows(file: AgentFile, stack: contextlib.ExitStack) -> tuple[AgentFile, Path | None, str | None]:
    """Export a database to a temporary file of lines; return the file, its lines, and why there are none."""
    if file.form != "rows":
        return file, None, None
    lines = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="karl-fast-")), "rows.jsonl")
    try:
        export(file.path, lines)
    except OSError as error:
        raise FileError(f"cannot write {lines}: {error.strerror}", error.errno, str(lines)) from error
    except ValueError as error:
        return file, None, str(error)
    return file, lines, None


def _make_private(folder: Path) -> None:
    """Make the folder of an archive, which nobody else may read."""
    try:
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {folder}: {error.strerror}", error.errno, str(folder)) from error
