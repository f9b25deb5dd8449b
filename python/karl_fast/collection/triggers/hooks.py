"""Hooks of Claude Code and Codex."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from karl_fast.collection.places import claude_folder, codex_folder
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
            text = add(text, {}, key="hooks")
            made.append("hooks")
        for event in EVENTS:
            made_here = list(made)
            if event not in settings.get("hooks", {}):
                text = add(text, [], "hooks", key=event)
                made_here.append("event")
            line = shell_line(archive, made_here)
            hook = {"type": "command", "command": line, "async": True, "timeout": TIMEOUT}
            text = add(text, {"hooks": [hook]}, "hooks", event)
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
            text = remove(text, "hooks", event, matcher, *inside)
            if "event" in here and not json.loads(text)["hooks"][event]:
                text = remove(text, "hooks", event)
            made |= here
        if "hooks" in made and not json.loads(text)["hooks"]:
            text = remove(text, "hooks")
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


# Changes of a JSON text that keep every other byte of it.


SPACE = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder()


class Member(NamedTuple):
    """A member of an object or array.

    Attributes:
        key: its key, or its number.
        start: offset of the key, or of the value in an array.
        value: offset of the value.
        end: offset behind the value.
    """

    key: str | int
    start: int
    value: int
    end: int


def members(text: str, start: int) -> list[Member]:
    """Return the members of the object or array at an offset of a valid text."""
    found: list[Member] = []
    is_object, at = text[start] == "{", _skip(text, start + 1)
    while text[at] not in "}]":
        key: str | int = len(found)
        first = value = at
        if is_object:
            key, end = scanstring(text, at + 1)
            value = _skip(text, _skip(text, end) + 1)
        _, end = DECODER.raw_decode(text, value)
        found.append(Member(key, first, value, end))
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def _skip(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at


def find(text: str, *keys: str | int) -> int | None:
    """Return the offset of the value at a path; None if there is none."""
    at = _skip(text, 0)
    for key in keys:
        found = [member for member in members(text, at) if member.key == key] if text[at] in "{[" else []
        if not found:
            return None
        at = found[-1].value
    return at


def add(text: str, value: Any, *path: str, key: str | None = None) -> str:
    """Add a member behind the others of the object or array at a path."""
    at = find(text, *path)
    assert at is not None, path
    there = members(text, at)
    line, indent = _style(text)
    inner = line + indent * (len(path) + 1)
    written = json.dumps(value, indent=indent, ensure_ascii=False).replace("\n", inner)
    new = inner + (f"{json.dumps(key)}: " if key is not None else "") + written
    if there:
        return text[: there[-1].end] + "," + new + text[there[-1].end :]
    return text[: at + 1] + new + line + indent * len(path) + text[at + 1 :]


def remove(text: str, *path: str | int) -> str:
    """Remove the member at a path, as if :func:`add` had never added it."""
    *outer, key = path
    at = find(text, *outer)
    assert at is not None, path
    there = members(text, at)
    number = [member.key for member in there].index(key)
    if number:
        return text[: there[number - 1].end] + text[there[number].end :]
    if len(there) > 1:
        return text[: there[0].start] + text[there[1].start :]
    # The indent of the member tells what was added behind it: around it nothing else may be indented.
    depth = len(outer) + 1
    lead = re.fullmatch(r"(\r?\n)([ \t]*)", text[at + 1 : there[0].start])
    end = lead[1] + lead[2][: len(lead[2]) // depth * (depth - 1)] if lead else ""
    return text[: at + 1] + text[there[0].end :].removeprefix(end)


def _style(text: str) -> tuple[str, str]:
    """Return the line break and the indent of a text."""
    first = re.search(r"\n([ \t]+)\S", text)
    return "\r\n" if "\r\n" in text else "\n", first[1] if first else "  "
