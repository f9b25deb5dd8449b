"""Places where agents keep their sessions."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from karl_fast._suggest import beside
from karl_fast.errors import FileError

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


def usual() -> list[Place]:
    """Return the usual places, each as its agent finds it."""
    home, claude, codex = Path.home(), claude_folder(), codex_folder()
    gemini = _variable("GEMINI_CLI_HOME", home) / ".gemini"
    copilot = _variable("COPILOT_HOME", home / ".copilot")
    opencode = _variable("XDG_DATA_HOME", home / ".local" / "share") / "opencode"
    database = os.environ.get("OPENCODE_DB", "")
    rollouts = ("*rollout-*.jsonl", "*rollout-*.jsonl.zst")
    return [
        Place("claude-code", claude / "projects", ("*.jsonl",)),
        Place("codex", codex / "sessions", rollouts),
        Place("codex", codex / "archived_sessions", rollouts),
        Place("gemini-cli", gemini / "tmp", ("*/chats/*.json", "*/chats/*.jsonl")),
        Place("copilot-cli", copilot / "session-state", ("*.jsonl",)),
        Place("copilot-cli", copilot / "history-session-state", ("*.json",)),
        Place("opencode", opencode, ("opencode*.db",)),
        *([Place("opencode", Path(database).parent, (Path(database).name,))] if os.path.isabs(database) else []),  # noqa: PTH117
    ]


def claude_folder() -> Path:
    """Return the folder of Claude Code."""
    return _variable("CLAUDE_CONFIG_DIR", Path.home() / ".claude")


def codex_folder() -> Path:
    """Return the folder of Codex."""
    return _variable("CODEX_HOME", Path.home() / ".codex")


def _variable(name: str, default: Path) -> Path:
    return Path(os.environ.get(name) or default)


def found() -> list[AgentFile]:
    """Return the files in the usual places."""
    return _once(file for place in usual() for file in _files(place, place.agent))


def named(sources: Iterable[str | Path]) -> list[AgentFile]:
    """Return the files in places that a user names.

    Raises:
        FileError: there is nothing at such a place.
    """
    return _once(file for source in sources for file in _named(Path(os.path.expanduser(source))))  # noqa: PTH111


def _named(source: Path) -> Iterator[AgentFile]:
    path = source.absolute()
    if not path.exists():
        error = FileError(f"cannot open {source}: no such file or folder", 2, str(source))
        error.hint = beside(str(source))
        raise error
    # Hidden files are passed by where an archive is read.
    under = "/".join(["from", *(part.lstrip(".") or "dot" for part in path.parts[1:])])
    if path.is_dir():
        yield from _files(Place("other", path, OTHERS), under)
    else:
        yield AgentFile("other", path, _stored(under), _form(path))


def _files(place: Place, under: str) -> Iterator[AgentFile]:
    """Yield the sessions of a folder, hidden files left out; names of the archive begin with `under`."""
    for here, folders, names in os.walk(place.folder):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        for name in sorted(names):
            path = Path(here, name)
            inside = path.relative_to(place.folder).as_posix()
            is_wanted = any(fnmatch(inside, pattern) for pattern in place.patterns)
            if is_wanted and not name.startswith(".") and path.is_file():
                yield AgentFile(place.agent, path, _stored(f"{under}/{inside}"), _form(path))


def _form(path: Path) -> Form:
    return SUFFIXES.get(path.suffix, "lines")


def _stored(name: str) -> str:
    """Return the name of a file in the archive, where every file is one of lines and packed."""
    name = next((name.removesuffix(suffix) for suffix in PACKED if name.endswith(suffix)), name)
    return name if name.endswith(".jsonl") else name + ".jsonl"


def _once(files: Iterable[AgentFile]) -> list[AgentFile]:
    """Return each file once, though several places hold it."""
    return list({os.path.realpath(file.path): file for file in files}.values())
