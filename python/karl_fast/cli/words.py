"""Words and numbers as reports print them. Whatever comes from a log is made harmless first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karl_fast.export.manifest import Manifest


def clean(text: str) -> str:
    """Text that cannot steer a terminal: what does not print (controls, escapes, bidi marks) is spelled out."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 row`, `2 rows`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def scores(target: Manifest) -> str:
    """`raw scores`, and of what, where it is not the reward as it is."""
    shaping = target.get("shaping")
    if shaping is None:
        return f"{target['score']} scores"
    numbers = ", ".join(f"{name} {shaping[name]:g}" for name in ("up", "down", "centre"))
    return f"{target['score']} scores of shaped rewards ({numbers})"
