"""Timers: systemd, launchd and cron."""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import subprocess
from pathlib import Path
from xml.parsers.expat import ExpatError

from karl_fast.collection.triggers.trigger import (
    MARK,
    Trigger,
    command,
    is_ours,
    mark,
    put,
    read,
    remove_file,
    unmarked,
)
from karl_fast.errors import FileError, UsageError

MINUTES = 30
"""Minutes between two collections."""

LABEL = "karl-fast.collect"
"""Name of the job of launchd."""

SERVICE = """\
{mark}
[Unit]
Description=Collect what agents wrote

[Service]
Type=oneshot
Nice=10
ExecStart={words}
"""

TIMER = """\
{mark}
[Unit]
Description=Collect what agents wrote

[Timer]
OnStartupSec=5min
OnUnitActiveSec={minutes}min

[Install]
WantedBy=timers.target
"""


class Systemd(Trigger):
    """A timer of the user's systemd, with its service."""

    name = "systemd"

    def place(self) -> str:
        """Return the file that holds it."""
        return str(self._timer())

    def is_installed(self) -> bool:
        """Return whether it is there."""
        return _is_marked(self._timer())

    def add(self, archive: str | None) -> None:
        """Add it."""
        for path in self._paths():
            _refuse_other(path, _is_marked(path))
        words = " ".join(_of_systemd(word) for word in command(archive))
        put(self._timer().with_suffix(".service"), SERVICE.format(mark=MARK, words=words))
        put(self._timer(), TIMER.format(mark=MARK, minutes=MINUTES))
        _tell("systemctl", "--user", "daemon-reload")
        _tell("systemctl", "--user", "enable", "--now", self._timer().name)

    def remove(self) -> None:
        """Remove it."""
        _tell("systemctl", "--user", "disable", "--now", self._timer().name)
        for path in filter(_is_marked, self._paths()):
            remove_file(path)
        _tell("systemctl", "--user", "daemon-reload")

    def _paths(self) -> tuple[Path, Path]:
        return self._timer(), self._timer().with_suffix(".service")

    def _timer(self) -> Path:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return folder / "systemd" / "user" / "karl-fast-collect.timer"


def _of_systemd(word: str) -> str:
    """Return a word as systemd reads it back."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


class Launchd(Trigger):
    """A job of launchd for the user."""

    name = "launchd"

    def place(self) -> str:
        """Return the file that holds it."""
        return str(self._job())

    def is_installed(self) -> bool:
        """Return whether it is there."""
        try:
            job = plistlib.loads(read(self._job()).encode())
        except (plistlib.InvalidFileException, ValueError, ExpatError):
            return False
        return isinstance(job, dict) and "karl_fast" in job.get("ProgramArguments", [])

    def add(self, archive: str | None) -> None:
        """Add it."""
        _refuse_other(self._job(), self.is_installed())
        job = {
            "Label": LABEL,
            "ProgramArguments": command(archive),
            "StartInterval": MINUTES * 60,
            "RunAtLoad": True,
            "Nice": 10,
        }
        put(self._job(), plistlib.dumps(job).decode())
        _tell("launchctl", "bootstrap", f"gui/{os.getuid()}", self.place())

    def remove(self) -> None:
        """Remove it."""
        _tell("launchctl", "bootout", f"gui/{os.getuid()}/{LABEL}")
        remove_file(self._job())

    def _job(self) -> Path:
        return Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"


class Cron(Trigger):
    """A line of the user's crontab."""

    name = "cron"

    def place(self) -> str:
        """Return the file that holds it."""
        return "crontab"

    def is_installed(self) -> bool:
        """Return whether it is there."""
        return any(is_ours(line) for line in _crontab().split("\n"))

    def add(self, archive: str | None) -> None:
        """Add it."""
        words = shlex.join(command(archive)).replace("%", r"\%")
        text = _crontab()
        before = text if not text or text.endswith("\n") else text + "\n"
        _put_crontab(f"{before}*/{MINUTES} * * * * {words} {mark([])}\n")

    def remove(self) -> None:
        """Remove it."""
        _put_crontab(unmarked(_crontab()))


def _crontab() -> str:
    """Return the user's crontab, empty where there is none."""
    if not shutil.which("crontab"):
        return ""
    done = subprocess.run(["crontab", "-l"], capture_output=True, text=True, check=False)
    if done.returncode and "no crontab" not in done.stderr:
        raise FileError(f"cannot read the crontab: {done.stderr.strip()}")
    return done.stdout


def _put_crontab(text: str) -> None:
    if not shutil.which("crontab"):
        raise UsageError("there is no crontab on this machine, wanted another trigger")
    done = subprocess.run(["crontab", "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FileError(f"cannot write the crontab: {done.stderr.strip()}")


def _tell(*words: str) -> None:
    """Tell a service manager about a file; without one, it is read at the next login."""
    if shutil.which(words[0]):
        subprocess.run(words, capture_output=True, check=False)


def _is_marked(path: Path) -> bool:
    """Return whether a file is one that a trigger wrote: it begins with the mark."""
    return read(path).startswith(MARK)


def _refuse_other(path: Path, is_ours: bool) -> None:
    """Refuse to replace a file that no trigger wrote."""
    if path.exists() and not is_ours:
        raise UsageError(f"{path}: it exists and is not ours, wanted a free name; rename it, or use another trigger")
