"""Words of people and programs, made harmless: nothing of a log or of foreign code reaches a terminal as it came."""

from __future__ import annotations

from karl_fast import _core

LONGEST = 200
"""Maximum characters of the message of an exception."""


def clean(text: str) -> str:
    """Return text without secrets and without control characters, which are escaped."""
    spelled = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return _core.redacted(spelled)


CONTROLS = {code: 0x2400 + code for code in range(32)} | {127: 0x2421} | dict.fromkeys(range(128, 160), 0xB7)
"""A sign for each control character: its picture, or a middle dot for those that have none."""


def clean_one_to_one(text: str) -> str:
    """Return model output as `clean` does, but with one character in place of each control character."""
    return clean(text.translate(CONTROLS))


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: `1 row`, `2 rows`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def in_bytes(size: float) -> str:
    """Format a size in the unit with up to three digits before the point."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def in_gigabytes(size: float) -> str:
    """Return a size of memory in GB, as in settings, or in smaller units below a tenth of one."""
    return in_bytes(size) if size < 1e8 else f"{size / 1e9:,.{1 if size >= 1e10 else 2}f} GB"


def in_time(seconds: float) -> str:
    """Return a duration in the unit that fits: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 100:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"


def decimal(value: float, places: int = 4, sign: str = "") -> str:
    """Format a number with so many decimal places; a large one with six digits and an exponent."""
    return f"{value:{sign}.{places}f}" if abs(value) < 1e6 else f"{value:{sign}.6g}"


def describe_exception(error: BaseException) -> str:
    """Return the text of an exception in one line without control characters."""
    try:
        description = f"{type(error).__name__}: {error}"
    except Exception:  # of a class of the caller's
        description = f"{type(error).__name__}, which has no text"
    return clean(description.replace("\n", " "))[:LONGEST]
