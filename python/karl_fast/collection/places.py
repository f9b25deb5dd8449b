"""Places where agents keep their sessions."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from karl_fast._suggest import suggest_path
from karl_fast.errors import FileError
from karl_fast.log.discovery import path_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Form = Literal["lines", "document", "rows"]
"""Forms of a file: lines that grow at their end, a JSON document that is rewritten, a database."""


class AgentFile(NamedTuple):
    """A file of an agent.

    Attributes:
        agent: name of the agent.
        path: the file.
        name: its name in the archive.
        form: form of its content.
    """

    agent: str
    path: Path
    name: str
    form: Form


class Place(NamedTuple):
    """A folder of an agent.

    Attributes:
        agent: name of the agent.
        folder: the folder.
        patterns: globs of the sessions in it, relative to it; ``*`` matches folders too.
    """

    agent: str
    folder: Path
    patterns: tuple[str, ...]


SUFFIXES: dict[str, Form] = {".jsonl": "lines", ".json": "document", ".db": "rows"}
"""Form of files by suffix."""

PACKED = (".zst", ".gz")
"""Suffixes of files of lines that an agent packed: Codex does so after a week."""

OTHERS = ("*.jsonl", "*.jsonl.zst", "*.jsonl.gz", "*.json", "opencode*.db")
"""Patterns of sessions in a folder that a user names."""


def usual_places() -> list[Place]:
    """Return the usual places, each as its agent finds it."""
    home, claude, codex = Path.home(), claude_folder(), codex_folder()
    gemini = _folder_of("GEMINI_CLI_HOME", home) / ".gemini"
    copilot = _folder_of("COPILOT_HOME", home / ".copilot")
    opencode = _folder_of("XDG_DATA_HOME", home / ".local" / "share") / "opencode"
    database = os.environ.get("OPENCODE_DB", "")
    rollouts = ("*rollout-*.jsonl", "*rollout-*.jsonl.zst")
    return [
        Place("claude-code", claude / "projects", ("*.jsonl",)),
        Place("codex", codex / "sessions", rollouts),
        Place("codex", codex / "archived_sessions", rollouts),
        Place("gemini-cli", gemini / "tmp", ("*/chats/*.json", "*/chats/*.jsonl")),
        Place("copilot-cli", copilot / "session-state", ("*.jsonl",)),
        Place("copilot-cli", copilot / "history-session-state", ("*.json",)),
        Place("pi", _pi_folder(), ("*.jsonl",)),
        Place("opencode", opencode, ("opencode*.db",)),
        *([Place("opencode", Path(database).parent, (Path(database).name,))] if os.path.isabs(database) else []),  # noqa: PTH117
    ]


def archive_folder() -> Path:
    """Return the folder of the archive: ``$KARL_FAST_ARCHIVE``, or ``karl-fast/archive`` among the user's data."""
    folder = os.environ.get("KARL_FAST_ARCHIVE")
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(folder) if folder else Path(data) / "karl-fast" / "archive"


def claude_folder() -> Path:
    """Return the folder of Claude Code."""
    return _folder_of("CLAUDE_CONFIG_DIR", Path.home() / ".claude")


def codex_folder() -> Path:
    """Return the folder of Codex."""
    return _folder_of("CODEX_HOME", Path.home() / ".codex")


def _pi_folder() -> Path:
    """Return the folder of Pi's sessions."""
    return _folder_of(
        "PI_CODING_AGENT_SESSION_DIR", _folder_of("PI_CODING_AGENT_DIR", Path.home() / ".pi" / "agent") / "sessions"
    )


def _folder_of(name: str, default: Path) -> Path:
    return Path(os.environ.get(name) or default)


VARIABLES = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "COPILOT_HOME",
    "PI_CODING_AGENT_DIR",
    "PI_CODING_AGENT_SESSION_DIR",
    "XDG_DATA_HOME",
    "OPENCODE_DB",
)
"""Variables of the environment that move the usual places."""

Unread = list[tuple[str, str]]
"""Folders that cannot be listed, each with the reason."""


def find_usual_files(unread: Unread) -> list[AgentFile]:
    """Return the files in the usual places; add the folders that cannot be listed to `unread`."""
    return _unique_files(file for place in usual_places() for file in _find_sessions(place, place.agent, unread))


def find_named_files(sources: Iterable[str | Path], unread: Unread) -> list[AgentFile]:
    """Return the files in places that a user names; add the folders that cannot be listed to `unread`.

    Raises:
        FileError: there is nothing at such a place.
    """
    return _unique_files(file for source in sources for file in _find_named(Path(os.path.expanduser(source)), unread))  # noqa: PTH111


def _find_named(source: Path, unread: Unread) -> Iterator[AgentFile]:
    path = source.absolute()
    if not path.exists():
        raise FileError(f"cannot open {source}: no such file or folder", 2, str(source), hint=suggest_path(str(source)))
    # Hidden files are passed by where an archive is read.
    under = "/".join(["from", *(part.lstrip(".") or "dot" for part in path.parts[1:])])
    if path.is_dir():
        yield from _find_sessions(Place("other", path, OTHERS), under, unread)
    else:
        yield AgentFile("other", path, _archive_name(under), _form_of(path))


def _find_sessions(place: Place, under: str, unread: Unread) -> Iterator[AgentFile]:
    """Yield the sessions of a folder, hidden files left out; names of the archive begin with `under`."""
    for folder, names in _walk_folders(place.folder, set(), unread):
        for name in names:
            path = Path(folder, name)
            inside = path.relative_to(place.folder).as_posix()
            is_wanted = any(fnmatch(inside, pattern) for pattern in place.patterns)
            if is_wanted and not name.startswith(".") and path.is_file():
                yield AgentFile(place.agent, path, _archive_name(f"{under}/{inside}"), _form_of(path))


def _walk_folders(folder: Path, seen: set[tuple[int, int]], unread: Unread) -> Iterator[tuple[Path, list[str]]]:
    """Yield each folder under a folder once, with the names of its other entries.

    Links are followed, after the real folders: people keep their projects on another disk.
    """
    try:
        facts = folder.stat()
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: (entry.is_symlink(), entry.name))
    except FileNotFoundError:
        return
    except OSError as error:
        unread.append((path_text(str(folder)), f"cannot list the folder: {error.strerror}"))
        return
    if (facts.st_dev, facts.st_ino) in seen:
        return
    seen.add((facts.st_dev, facts.st_ino))
    inner = [entry.name for entry in entries if os.path.isdir(entry)]  # noqa: PTH112
    yield folder, sorted({entry.name for entry in entries}.difference(inner))
    for name in inner:
        if not name.startswith("."):
            yield from _walk_folders(folder / name, seen, unread)


def _form_of(path: Path) -> Form:
    return SUFFIXES.get(path.suffix, "lines")


def _archive_name(name: str) -> str:
    """Return the name of a file in the archive, where every file is one of lines and packed."""
    name = path_text(name)
    name = next((name.removesuffix(suffix) for suffix in PACKED if name.endswith(suffix)), name)
    return name if name.endswith(".jsonl") else name + ".jsonl"


def _unique_files(files: Iterable[AgentFile]) -> list[AgentFile]:
    """Return each file once, though several places hold it."""
    return list({os.path.realpath(file.path): file for file in files}.values())
