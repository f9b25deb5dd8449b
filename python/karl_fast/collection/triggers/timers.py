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
    collect_command,
    drop_marked_lines,
    is_ours,
    mark,
    read_text,
    remove_file,
    write_text,
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
        words = " ".join(_quote_for_systemd(word) for word in collect_command(archive))
        write_text(self._timer().with_suffix(".service"), SERVICE.format(mark=MARK, words=words))
        write_text(self._timer(), TIMER.format(mark=MARK, minutes=MINUTES))
        _call_manager("systemctl", "--user", "daemon-reload")
        _call_manager("systemctl", "--user", "enable", "--now", self._timer().name)

    def remove(self) -> None:
        """Remove it."""
        _call_manager("systemctl", "--user", "disable", "--now", self._timer().name)
        for path in filter(_is_marked, self._paths()):
            remove_file(path)
        _call_manager("systemctl", "--user", "daemon-reload")

    def _paths(self) -> tuple[Path, Path]:
        return self._timer(), self._timer().with_suffix(".service")

    def _timer(self) -> Path:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return folder / "systemd" / "user" / "karl-fast-collect.timer"


def _quote_for_systemd(word: str) -> str:
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
            job = plistlib.loads(read_text(self._job()).encode())
        except (plistlib.InvalidFileException, ValueError, ExpatError):
            return False
        return isinstance(job, dict) and "karl_fast" in job.get("ProgramArguments", [])

    def add(self, archive: str | None) -> None:
        """Add it."""
        _refuse_other(self._job(), self.is_installed())
        job = {
            "Label": LABEL,
            "ProgramArguments": collect_command(archive),
            "StartInterval": MINUTES * 60,
            "RunAtLoad": True,
            "Nice": 10,
        }
        write_text(self._job(), plistlib.dumps(job).decode())
        _call_manager("launchctl", "bootstrap", f"gui/{os.getuid()}", self.place())

    def remove(self) -> None:
        """Remove it."""
        _call_manager("launchctl", "bootout", f"gui/{os.getuid()}/{LABEL}")
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
        return any(is_ours(line) for line in _read_crontab().split("\n"))

    def add(self, archive: str | None) -> None:
        """Add it."""
        words = shlex.join(collect_command(archive)).replace("%", r"\%")
        text = _read_crontab()
        before = text if not text or text.endswith("\n") else text + "\n"
        _write_crontab(f"{before}*/{MINUTES} * * * * {words} {mark([])}\n")

    def remove(self) -> None:
        """Remove it."""
        _write_crontab(drop_marked_lines(_read_crontab()))


def _read_crontab() -> str:
    """Return the user's crontab, empty where there is none."""
    if not shutil.which("crontab"):
        return ""
    result = subprocess.run(["crontab", "-l"], capture_output=True, text=True, check=False)
    if result.returncode and "no crontab" not in result.stderr:
        raise FileError(f"cannot read the crontab: {result.stderr.strip()}")
    return result.stdout


def _write_crontab(text: str) -> None:
    if not shutil.which("crontab"):
        raise UsageError("there is no crontab on this machine, wanted another trigger")
    result = subprocess.run(["crontab", "-"], input=text, capture_output=True, text=True, check=False)
    if result.returncode:
        raise FileError(f"cannot write the crontab: {result.stderr.strip()}")


def _call_manager(*words: str) -> None:
    """Tell a service manager about a file; without one, it is read at the next login."""
    if shutil.which(words[0]):
        subprocess.run(words, capture_output=True, check=False)


def _is_marked(path: Path) -> bool:
    """Return whether a file is one that a trigger wrote: it begins with the mark."""
    return read_text(path).startswith(MARK)


def _refuse_other(path: Path, is_ours: bool) -> None:
    """Refuse to replace a file that no trigger wrote."""
    if path.exists() and not is_ours:
        raise UsageError(f"{path}: it exists and karl-fast did not write it; rename it, or use another trigger")
