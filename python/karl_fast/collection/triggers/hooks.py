"""Hooks of Claude Code and Codex, in files of settings of which every other byte stays as it is.

`add_member` and `remove_member` change a JSON text in that way, by the offsets of its members.
"""

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
    collect_command,
    drop_marked_lines,
    is_ours,
    mark,
    parse_mark,
    read_text,
    remove_file,
    shell_line,
    write_text,
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
        return bool(_find_hooks(self._settings()))

    def add(self, archive: str | None) -> None:
        """Add it."""
        settings = self._settings()
        text = read_text(self._path())
        added = [] if text else ["object" if self._path().exists() else "file"]
        text = text or "{}\n"
        if "hooks" not in settings:
            text = add_member(text, {}, key="hooks")
            added.append("hooks")
        for event in EVENTS:
            added_here = list(added)
            if event not in settings.get("hooks", {}):
                text = add_member(text, [], "hooks", key=event)
                added_here.append("event")
            line = shell_line(archive, added_here)
            hook = {"type": "command", "command": line, "async": True, "timeout": TIMEOUT}
            text = add_member(text, {"hooks": [hook]}, "hooks", event)
        write_text(self._path(), text)

    def remove(self) -> None:
        """Remove it, and what was made for it, if nothing else is in that by now."""
        text, added = read_text(self._path()), set[str]()
        while ours := _find_hooks(json.loads(text)):
            event, matcher, number = ours[-1]
            group = json.loads(text)["hooks"][event][matcher]
            added_here = parse_mark(group["hooks"][number]["command"]) or set()
            is_whole = list(group) == ["hooks"] and len(group["hooks"]) == 1
            inside: tuple[str | int, ...] = () if is_whole else ("hooks", number)
            text = remove_member(text, "hooks", event, matcher, *inside)
            if "event" in added_here and not json.loads(text)["hooks"][event]:
                text = remove_member(text, "hooks", event)
            added |= added_here
        if "hooks" in added and not json.loads(text)["hooks"]:
            text = remove_member(text, "hooks")
        is_empty = not json.loads(text)
        if is_empty and "file" in added:
            remove_file(self._path())
        else:
            write_text(self._path(), "" if is_empty and "object" in added else text)

    def _path(self) -> Any:
        return claude_folder() / "settings.json"

    def _settings(self) -> dict[str, Any]:
        """Return the settings, checked as far as hooks are concerned."""
        try:
            settings = json.loads(read_text(self._path()) or "{}")
        except ValueError as error:
            raise UsageError(f"{self.place()}: it is not JSON: {error}") from error
        hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
        if not isinstance(hooks, dict) or not all(isinstance(hooks.get(event, []), list) for event in EVENTS):
            raise UsageError(f"{self.place()}: its hooks are not an object of lists, as Claude Code has them")
        return dict(settings)


def _find_hooks(settings: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Return event, matcher and number of each hook that starts a collection, in the order of the file."""
    hooks = settings.get("hooks", {})
    return [
        (event, place, number)
        for event, matchers in hooks.items()
        if isinstance(matchers, list)
        for place, matcher in enumerate(matchers)
        if isinstance(matcher, dict) and isinstance(matcher.get("hooks"), list)
        for number, hook in enumerate(matcher["hooks"])
        if isinstance(hook, dict) and parse_mark(str(hook.get("command"))) is not None
    ]


class Codex(Trigger):
    """The program in Codex's config.toml that it notifies after each turn."""

    name = "codex"

    def place(self) -> str:
        """Return the file that holds it."""
        return str(codex_folder() / "config.toml")

    def is_installed(self) -> bool:
        """Return whether it is there."""
        return any(is_ours(line) for line in read_text(codex_folder() / "config.toml").split("\n"))

    def add(self, archive: str | None) -> None:
        """Add it."""
        path = codex_folder() / "config.toml"
        text = read_text(path)
        try:
            settings = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{path}: invalid TOML: {error}") from error
        if "notify" in settings:
            raise UsageError(
                f"{path}: it has a notify already, and Codex notifies one program only",
                hint=f"let that program start: {shlex.join(collect_command(archive))}",
            )
        # Codex adds an argument, which the shell ignores. A string of JSON is one of TOML.
        words = json.dumps(["sh", "-c", shell_line(archive), "karl-fast"])
        added = [] if path.exists() else ["file"]
        # Behind the first table a key would belong to it.
        write_text(path, f"notify = {words} {mark(added)}\n{text}")

    def remove(self) -> None:
        """Remove it."""
        path = codex_folder() / "config.toml"
        text = read_text(path)
        ours = [line for line in text.split("\n") if is_ours(line)]
        is_own_file = any("file" in (parse_mark(line) or ()) for line in ours)
        rest = drop_marked_lines(text)
        if is_own_file and not rest:
            remove_file(path)
        else:
            write_text(path, rest)


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


def parse_members(text: str, start: int) -> list[Member]:
    """Return the members of the object or array at an offset of a valid text."""
    members: list[Member] = []
    is_object, offset = text[start] == "{", _skip_space(text, start + 1)
    while text[offset] not in "}]":
        key: str | int = len(members)
        first = value = offset
        if is_object:
            key, end = scanstring(text, offset + 1)
            value = _skip_space(text, _skip_space(text, end) + 1)
        _, end = DECODER.raw_decode(text, value)
        members.append(Member(key, first, value, end))
        offset = _skip_space(text, end)
        offset = _skip_space(text, offset + 1) if text[offset] == "," else offset
    return members


def _skip_space(text: str, offset: int) -> int:
    match = SPACE.match(text, offset)
    return match.end() if match else offset


def find_value(text: str, *keys: str | int) -> int | None:
    """Return the offset of the value at a path; None if there is none."""
    offset = _skip_space(text, 0)
    for key in keys:
        values = [member for member in parse_members(text, offset) if member.key == key] if text[offset] in "{[" else []
        if not values:
            return None
        offset = values[-1].value
    return offset


def add_member(text: str, value: Any, *path: str, key: str | None = None) -> str:
    """Add a member behind the others of the object or array at a path."""
    offset = find_value(text, *path)
    assert offset is not None, path
    members = parse_members(text, offset)
    line, indent = _detect_style(text)
    inner = line + indent * (len(path) + 1)
    dumped = json.dumps(value, indent=indent, ensure_ascii=False).replace("\n", inner)
    added = inner + (f"{json.dumps(key)}: " if key is not None else "") + dumped
    if members:
        return text[: members[-1].end] + "," + added + text[members[-1].end :]
    return text[: offset + 1] + added + line + indent * len(path) + text[offset + 1 :]


def remove_member(text: str, *path: str | int) -> str:
    """Remove the member at a path, as if `add_member` had never added it."""
    *outer, key = path
    offset = find_value(text, *outer)
    assert offset is not None, path
    members = parse_members(text, offset)
    number = [member.key for member in members].index(key)
    if number:
        return text[: members[number - 1].end] + text[members[number].end :]
    if len(members) > 1:
        return text[: members[0].start] + text[members[1].start :]
    # The indent of the member tells what was added behind it: around it nothing else may be indented.
    depth = len(outer) + 1
    indent = re.fullmatch(r"(\r?\n)([ \t]*)", text[offset + 1 : members[0].start])
    end = indent[1] + indent[2][: len(indent[2]) // depth * (depth - 1)] if indent else ""
    return text[: offset + 1] + text[members[0].end :].removeprefix(end)


def _detect_style(text: str) -> tuple[str, str]:
    """Return the line break and the indent of a text."""
    first = re.search(r"\n([ \t]+)\S", text)
    return "\r\n" if "\r\n" in text else "\n", first[1] if first else "  "
