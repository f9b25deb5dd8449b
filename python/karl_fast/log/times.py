"""ISO 8601 text of dates, times, timestamps and durations of Arrow and of orders, for any number of ticks."""

from __future__ import annotations

from datetime import date
from functools import lru_cache

EPOCH, CYCLE = date(1970, 1, 1).toordinal(), 146_097
"""The ordinal of day 0, and the days of 400 years, after which the calendar repeats itself."""

SECONDS_A_DAY = 86_400


@lru_cache(4096)
def day(days: int) -> str:
    """Return the ISO 8601 date so many days after 1970-01-01; years outside 0 to 9999 carry a sign."""
    cycles, day_of_cycle = divmod(days + EPOCH - 1, CYCLE)
    calendar_day = date.fromordinal(day_of_cycle + 1)
    year = calendar_day.year + 400 * cycles
    text = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{text}-{calendar_day.month:02}-{calendar_day.day:02}"


def clock(ticks: int, per_second: int) -> str:
    """Return the time of day after so many ticks: no fraction where it is zero, else six digits, or nine.

    Raises:
        ValueError: the ticks are not within a day.
    """
    if not 0 <= ticks < SECONDS_A_DAY * per_second:
        raise ValueError(f"the time {ticks / per_second:g} s is outside a day")
    seconds, rest = divmod(ticks, per_second)
    nanoseconds = rest * (10**9 // per_second)
    fraction = f".{nanoseconds:09}".removesuffix("000") if nanoseconds else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def moment(ticks: int, per_second: int, zone: str) -> str:
    """Return the ISO 8601 timestamp so many ticks after the epoch, followed by its zone."""
    days, rest = divmod(ticks, SECONDS_A_DAY * per_second)
    return f"{day(days)}T{clock(rest, per_second)}{zone}"


def seconds(ticks: int, per_second: int) -> str:
    """Return a duration as a decimal number of seconds: every digit, and at least one after the point."""
    whole, rest = divmod(abs(ticks), per_second)
    fraction = f"{rest * (10**9 // per_second):09}".rstrip("0") or "0"
    return f"{'-' if ticks < 0 else ''}{whole}.{fraction}"
