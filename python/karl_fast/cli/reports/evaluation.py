"""Report of an evaluation by rollouts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from karl_fast._safe_text import counted, decimal
from karl_fast.cli.reports.rl import reasons, summed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.evaluation import RolloutEvaluation
    from karl_fast.resampling import Measure, PairedDifference


class Chunks:
    """Printer of a line on stderr for each chunk of prompts."""

    def __call__(self, log: str, done: int, prompts: int, failures: list[str]) -> None:
        """Print the progress, and each failure once."""
        for sentence in summed(failures):
            sys.stderr.write(sentence + "\n")
        sys.stderr.write(f"attempted {done:,} of {counted(prompts, 'prompt')} ({log})\n")


def table(found: RolloutEvaluation) -> str:
    """Return the measures as a table, one a line."""
    return "\n".join(_lines(found))


def _lines(found: RolloutEvaluation) -> Iterator[str]:
    left = f", {counted(found.too_long, 'prompt')} too long" if found.too_long else ""
    yield f"prompts   {counted(found.prompts, 'prompt')}, {counted(found.attempts, 'attempt')} each{left}"
    if found.missing:
        yield f"missing   {sum(found.missing.values()):,}: {reasons(found.missing)}"
    if found.truncated:
        yield f"truncated {counted(found.truncated, 'attempt')}"
    head = f"{'':12}{'value':>10}{'interval':>22}"
    if found.against is not None:
        head += f"{'against':>10}{'difference':>12}{'interval':>22}{'p':>9}"
    yield head
    for name, one in found.measures.items():
        other = None if found.against is None else found.against.get(name)
        difference = None if found.differences is None else found.differences.get(name)
        yield _line(name, one, other, difference)


def _line(name: str, one: Measure, other: Measure | None, difference: PairedDifference | None) -> str:
    line = f"{name:12}{decimal(one.value):>10}{_between(one.low, one.high):>22}"
    if other is None or difference is None:
        return line
    apart = f"{decimal(difference.value, sign='+'):>12}{_between(difference.low, difference.high, '+'):>22}"
    return f"{line}{decimal(other.value):>10}{apart}{difference.p:>9.2g}"


def _between(low: float | None, high: float | None, sign: str = "") -> str:
    if low is None and high is None:
        return "too few prompts"
    ends = ("-inf" if low is None else decimal(low, sign=sign), "inf" if high is None else decimal(high, sign=sign))
    return f"{ends[0]} to {ends[1]}"
