"""Triggers of a collection: hooks of agents, and timers.

A trigger says that something may be new; it is not a source. What it misses, the next collection finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast.collection.triggers.hooks import ClaudeCode, Codex
from karl_fast.collection.triggers.timers import Cron, Launchd, Systemd
from karl_fast.settings.validation import check_choice

if TYPE_CHECKING:
    from karl_fast.collection.triggers.trigger import Trigger

__all__ = ["TRIGGERS", "install", "uninstall"]

TRIGGERS: dict[str, Trigger] = {
    trigger.name: trigger for trigger in (ClaudeCode(), Codex(), Systemd(), Launchd(), Cron())
}
"""Each trigger by its name."""


def install(name: str, archive: str | None = None) -> Trigger:
    """Install a trigger; one that is there is replaced.

    Args:
        name: name of the trigger.
        archive: folder of the archive; that of `karl_fast.collection.archive_folder` by default.

    Raises:
        UsageError: an unknown name, or a place that is taken.
        FileError: its file cannot be written.
    """
    trigger = uninstall(name)
    trigger.add(archive)
    return trigger


def uninstall(name: str) -> Trigger:
    """Remove a trigger, and nothing else of its file.

    Raises:
        UsageError: an unknown name.
        FileError: its file cannot be written.
    """
    check_choice("trigger", name, list(TRIGGERS))
    trigger = TRIGGERS[name]
    if trigger.is_installed():
        trigger.remove()
    return trigger
