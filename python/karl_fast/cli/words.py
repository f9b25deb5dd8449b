"""Words and numbers as reports print them. Whatever comes from a log is made harmless first."""

from __future__ import annotations


def clean(text: str) -> str:
    """Text that cannot steer a terminal: what does not print (controls, escapes, bidi marks) is spelled out."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 row`, `2 rows`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
