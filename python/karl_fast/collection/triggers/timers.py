"""Timers: systemd, launchd and cron."""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import subprocess
from pathlib import Path

from karl_fast.collection.triggers.trigger import MARK, Trigger, command, put, read, unmarked
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
        return MARK in read(self._timer())

    def add(self, archive: str | None) -> None:
        """Add it."""
        words = " ".join(_of_systemd(word) for word in command(archive))
        put(self._timer().with_suffix(".service"), SERVICE.format(mark=MARK, words=words))
        put(self._timer(), TIMER.format(mark=MARK, minutes=MINUTES))
        _tell("systemctl", "--user", "daemon-reload")
        _tell("systemctl", "--user", "enable", "--now", self._timer().name)

    def remove(self) -> None:
        """Remove it."""
        _tell("systemctl", "--user", "disable", "--now", self._timer().name)
        _unlink(self._timer())
        _unlink(self._timer().with_suffix(".service"))
        _tell("systemctl", "--user", "daemon-reload")

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
        return self._job().is_file()

    def add(self, archive: str | None) -> None:
        """Add it."""
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
        _unlink(self._job())

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
        return MARK in _crontab()

    def add(self, archive: str | None) -> None:
        """Add it."""
        words = shlex.join(command(archive)).replace("%", r"\%")
        text = _crontab()
        before = text if not text or text.endswith("\n") else text + "\n"
        _put_crontab(f"{before}*/{MINUTES} * * * * {words} {MARK}\n")

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


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"cannot remove {path}: {error.strerror}", error.errno, str(path)) from error
