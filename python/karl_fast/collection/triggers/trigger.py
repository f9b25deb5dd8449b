"""One trigger, and the command that it starts."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from karl_fast._atomic import write_file
from karl_fast.collection.places import VARIABLES, archive_folder
from karl_fast.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Sequence

MARK = "# karl-fast collect"
"""Mark at the end of what was added to a file."""

ENTRY = "-m karl_fast collect "
"""Part of the command that every line of ours has: a line of somebody else may name the mark."""


class Trigger(ABC):
    """A way to start a collection.

    Attributes:
        name: its name.
    """

    name: str

    @abstractmethod
    def place(self) -> str:
        """Return the file that holds it."""

    @abstractmethod
    def is_installed(self) -> bool:
        """Return whether it is there."""

    @abstractmethod
    def add(self, archive: str | None) -> None:
        """Add it."""

    @abstractmethod
    def remove(self) -> None:
        """Remove it."""


def collect_command(archive: str | None) -> list[str]:
    """Return the command of a collection by absolute paths: a timer does not have the user's.

    Nor does it have the user's environment, so what that says of the places of the agents and the archive goes along.
    """
    if not archive and any(os.environ.get(name) for name in ("KARL_FAST_ARCHIVE", "XDG_DATA_HOME")):
        archive = str(archive_folder())
    options = ["--archive", str(Path(archive).expanduser().absolute())] if archive else []
    variables = [f"{name}={value}" for name in VARIABLES if (value := os.environ.get(name))]
    environment = [shutil.which("env") or "/usr/bin/env", *variables] if variables else []
    return [*environment, sys.executable, "-m", "karl_fast", "collect", "--quiet", *options]


def shell_line(archive: str | None, added: Sequence[str] = ()) -> str:
    """Return a shell line that starts a collection and ends at once, with exit code 0 and no output.

    The collection has a session of its own where the system has `setsid`: an agent that ends takes its own with it.
    Its end names what of the file around it was `made` for it.
    """
    words = shlex.join(collect_command(archive))
    detached = f"command -v setsid && exec setsid {words}; exec nohup {words}"
    return f"({detached}) </dev/null >/dev/null 2>&1 & exit 0 {mark(added)}"


def mark(added: Sequence[str]) -> str:
    """Return the mark, with the names of what was made."""
    return f"{MARK}; made {', '.join(added) or 'nothing'}"


def parse_mark(text: str) -> set[str] | None:
    """Return what was made for a command, by its mark; None if the command is not ours.

    Earlier versions named nothing, and made what was missing.
    """
    match = re.search(rf"{MARK}(?:; made ([a-zA-Z, ]+))?$", text.rstrip())
    if ENTRY not in text or not match:
        return None
    return set((match[1] or "hooks, event").split(", "))


def read_text(path: Path) -> str:
    """Return the text of a file, empty where there is none.

    Raises:
        FileError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise FileError(f"cannot read {path}: it is not UTF-8", None, str(path)) from error
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", error.errno, str(path)) from error


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, with the mode it had; one behind a link, where people keep their settings.

    Raises:
        FileError: it cannot be written.
    """
    real = Path(os.path.realpath(path))
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        mode = real.stat().st_mode & 0o7777 if real.exists() else None
        write_file(real, lambda file: file.write(text.encode("utf-8")))
        if mode is not None:
            real.chmod(mode)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}", error.errno, str(path)) from error


def is_ours(line: str) -> bool:
    """Return whether a line of a file is one that a trigger added; a comment is not."""
    return parse_mark(line) is not None and not line.lstrip().startswith("#")


def drop_marked_lines(text: str) -> str:
    """Return a text without the lines that a trigger added."""
    return "".join(line for line in re.split(r"(?<=\n)", text) if not is_ours(line))


def remove_file(path: Path) -> None:
    """Remove a file.

    Raises:
        FileError: it cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"cannot remove {path}: {error.strerror}", error.errno, str(path)) from error
