"""Hooks of Claude Code and Codex."""

from __future__ import annotations

import json
import shlex
import tomllib
from typing import Any

from karl_fast.collection.places import claude_folder, codex_folder
from karl_fast.collection.triggers import json_text
from karl_fast.collection.triggers.trigger import (
    Trigger,
    command,
    is_ours,
    made_by,
    mark,
    put,
    read,
    remove_file,
    shell_line,
    unmarked,
)
from karl_fast.errors import UsageError

EVENTS = ("SessionEnd", "Stop", "SubagentStop", "PreCompact")
"""Events of Claude Code after which something is new, or before which something goes."""

TIMEOUT = 5
"""Seconds after which Claude Code ends a hook. It takes milliseconds."""


class ClaudeCode(Trigger):
    """Hooks in Claude Code's settings.json. Every other byte of it stays as it is."""

    name = "claude-code"

    def place(self) -> str:
        """Return the file that holds it."""
        return str(self._path())

    def is_installed(self) -> bool:
        """Return whether it is there."""
        return bool(_ours(self._settings()))

    def add(self, archive: str | None) -> None:
        """Add it."""
        settings = self._settings()
        text = read(self._path())
        made = [] if text else ["object" if self._path().exists() else "file"]
        text = text or "{}\n"
        if "hooks" not in settings:
            text = json_text.add(text, {}, key="hooks")
            made.append("hooks")
        for event in EVENTS:
            made_here = list(made)
            if event not in settings.get("hooks", {}):
                text = json_text.add(text, [], "hooks", key=event)
                made_here.append("event")
            line = shell_line(archive, made_here)
            hook = {"type": "command", "command": line, "async": True, "timeout": TIMEOUT}
            text = json_text.add(text, {"hooks": [hook]}, "hooks", event)
        put(self._path(), text)

    def remove(self) -> None:
        """Remove it, and what was made for it, if nothing else is in that by now."""
        text, made = read(self._path()), set[str]()
        while ours := _ours(json.loads(text)):
            event, matcher, number = ours[-1]
            group = json.loads(text)["hooks"][event][matcher]
            here = made_by(group["hooks"][number]["command"]) or set()
            is_whole = list(group) == ["hooks"] and len(group["hooks"]) == 1
            inside: tuple[str | int, ...] = () if is_whole else ("hooks", number)
            text = json_text.remove(text, "hooks", event, matcher, *inside)
            if "event" in here and not json.loads(text)["hooks"][event]:
                text = json_text.remove(text, "hooks", event)
            made |= here
        if "hooks" in made and not json.loads(text)["hooks"]:
            text = json_text.remove(text, "hooks")
        is_empty = not json.loads(text)
        if is_empty and "file" in made:
            remove_file(self._path())
        else:
            put(self._path(), "" if is_empty and "object" in made else text)

    def _path(self) -> Any:
        return claude_folder() / "settings.json"

    def _settings(self) -> dict[str, Any]:
        """Return the settings, checked as far as hooks are concerned."""
        try:
            settings = json.loads(read(self._path()) or "{}")
        except ValueError as error:
            raise UsageError(f"{self.place()}: it is not JSON: {error}") from error
        hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
        if not isinstance(hooks, dict) or not all(isinstance(hooks.get(event, []), list) for event in EVENTS):
            raise UsageError(f"{self.place()}: its hooks are not an object of lists, as Claude Code has them")
        return dict(settings)


def _ours(settings: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Return event, matcher and number of each hook that starts a collection, in the order of the file."""
    hooks = settings.get("hooks", {})
    return [
        (event, place, number)
        for event, matchers in hooks.items()
        if isinstance(matchers, list)
        for place, matcher in enumerate(matchers)
        if isinstance(matcher, dict) and isinstance(matcher.get("hooks"), list)
        for number, hook in enumerate(matcher["hooks"])
        if isinstance(hook, dict) and made_by(str(hook.get("command"))) is not None
    ]


class Codex(Trigger):
    """The program in Codex's config.toml that it notifies after each turn."""

    name = "codex"

    def place(self) -> str:
        """Return the file that holds it."""
        return str(codex_folder() / "config.toml")

    def is_installed(self) -> bool:
        """Return whether it is there."""
        return any(is_ours(line) for line in read(codex_folder() / "config.toml").split("\n"))

    def add(self, archive: str | None) -> None:
        """Add it."""
        path = codex_folder() / "config.toml"
        text = read(path)
        try:
            settings = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{path}: invalid TOML: {error}") from error
        if "notify" in settings:
            raise UsageError(
                f"{path}: it has a notify already, and Codex notifies one program only",
                hint=f"let that program start: {shlex.join(command(archive))}",
            )
        # Codex adds an argument, which the shell ignores. A string of JSON is one of TOML.
        words = json.dumps(["sh", "-c", shell_line(archive), "karl-fast"])
        made = [] if path.exists() else ["file"]
        # Behind the first table a key would belong to it.
        put(path, f"notify = {words} {mark(made)}\n{text}")

    def remove(self) -> None:
        """Remove it."""
        path = codex_folder() / "config.toml"
        text = read(path)
        ours = [line for line in text.split("\n") if is_ours(line)]
        is_made = any("file" in (made_by(line) or ()) for line in ours)
        left = unmarked(text)
        if is_made and not left:
            remove_file(path)
        else:
            put(path, left)
