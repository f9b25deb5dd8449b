"""One trigger, and the command that it starts."""

from __future__ import annotations

import os
import shlex
import sys
from abc import ABC, abstractmethod
from pathlib import Path

from karl_fast._atomic import write
from karl_fast.errors import FileError

MARK = "# karl-fast collect"
"""Mark of what was added to a file."""


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


def command(archive: str | None) -> list[str]:
    """Return the command of a collection by absolute paths: a timer does not have the user's."""
    options = ["--archive", str(Path(archive).expanduser().absolute())] if archive else []
    return [sys.executable, "-m", "karl_fast", "collect", "--quiet", *options]


def shell_line(archive: str | None) -> str:
    """Return a shell line that starts a collection and ends at once, with exit code 0 and no output.

    The collection has a session of its own where the system has `setsid`: an agent that ends takes its own with it.
    """
    words = shlex.join(command(archive))
    detached = f"command -v setsid && exec setsid {words}; exec nohup {words}"
    return f"({detached}) </dev/null >/dev/null 2>&1 & exit 0 {MARK}"


def read(path: Path) -> str:
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


def put(path: Path, text: str) -> None:
    """Write a file whole or not at all, with the mode it had; one behind a link, where people keep their settings.

    Raises:
        FileError: it cannot be written.
    """
    real = Path(os.path.realpath(path))
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        mode = real.stat().st_mode & 0o7777 if real.exists() else None
        write(real, lambda file: file.write(text.encode("utf-8")))
        if mode is not None:
            real.chmod(mode)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}", error.errno, str(path)) from error


def unmarked(text: str) -> str:
    """Return a text without the lines that have the mark."""
    return "".join(line for line in text.splitlines(keepends=True) if MARK not in line)
