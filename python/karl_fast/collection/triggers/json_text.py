"""Changes of a JSON text that keep every other byte of it."""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

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
