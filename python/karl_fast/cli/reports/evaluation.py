"""Report of an evaluation by rollouts."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from karl_fast._safe_text import clean, counted, decimal, in_time
from karl_fast.cli.reports.rl import describe_failures, describe_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.evaluation import RolloutEvaluation
    from karl_fast.resampling import Measure, PairedDifference


EVERY_SECONDS = 10
"""Seconds between lines of progress; shorter estimates are not worth one."""


class Estimate:
    """Estimate of the time that is left, from the share that is done."""

    def __init__(self) -> None:
        self.began, self.before = time.monotonic(), 0

    def begin(self, done: int) -> None:
        """Begin to measure, with what was done before."""
        self.began, self.before = time.monotonic(), done

    def left(self, done: int, all: int) -> str:
        """Return the time left in words; empty where it is short, or nothing is done yet."""
        if done <= self.before:
            return ""
        seconds = (time.monotonic() - self.began) / (done - self.before) * (all - done)
        return f", about {in_time(seconds)} left" if seconds >= EVERY_SECONDS else ""


class Chunks:
    """Printer of a line on stderr for each chunk of prompts."""

    def __init__(self) -> None:
        self.estimate, self.log = Estimate(), ""
        self.printed = self.began = time.monotonic()

    def __call__(self, log: str, done: int, prompts: int, failures: list[str]) -> None:
        """Print the progress, and each failure once."""
        for sentence in describe_failures(failures):
            sys.stderr.write(sentence + "\n")
        if log != self.log:
            self.log = log
            self.estimate.begin(done)
        line = f"attempted {done:,} of {counted(prompts, 'prompt')} ({log})"
        sys.stderr.write(line + self.estimate.left(done, prompts) + "\n")
        self.printed = self.began = time.monotonic()

    def on_tokens(self, finished: int, attempts: int, tokens: int) -> None:
        """Print how far the attempts of a chunk are, if a line is due: a chunk may take minutes."""
        now = time.monotonic()
        if now - self.printed < EVERY_SECONDS:
            return
        self.printed = now
        speed = f"{tokens / (now - self.began):,.0f} tokens/s"
        sys.stderr.write(
            f"          {finished:,} of {counted(attempts, 'attempt')} finished, {tokens:,} tokens, {speed}\n"
        )

    def on_remark(self, remark: str) -> None:
        """Print a remark on an adapter."""
        sys.stderr.write(f"warning   {clean(remark)}\n")


class Rows:
    """Printer of lines on stderr while the rows of a log are measured."""

    def __init__(self) -> None:
        self.estimate, self.printed = Estimate(), 0.0

    def __call__(self, done: int, rows: int) -> None:
        """Print the progress, if a line is due."""
        now = time.monotonic()
        if not self.printed:
            self.estimate.begin(done)
            before = f", {done:,} measured before" if done else ""
            sys.stderr.write(f"measuring {counted(rows, 'row')}{before}\n")
            self.printed = now
        left = self.estimate.left(done, rows)
        if left and now - self.printed >= EVERY_SECONDS:
            self.printed = now
            sys.stderr.write(f"measured  {done:,} of {counted(rows, 'row')}{left}\n")

    def on_remark(self, remark: str) -> None:
        """Print a remark."""
        sys.stderr.write(f"warning   {clean(remark)}\n")


class Tokens:
    """Printer of lines on stderr while tokens are judged: how many before the first, then an estimate."""

    def __init__(self) -> None:
        self.estimate, self.printed = Estimate(), 0.0

    def __call__(self, done: int, all: int) -> None:
        """Print the progress, if a line is due."""
        now = time.monotonic()
        if done == 0:
            self.estimate.begin(0)
            sys.stderr.write(f"judging {counted(all, 'token')}\n")
        left = self.estimate.left(done, all)
        if left and now - self.printed >= EVERY_SECONDS:
            self.printed = now
            sys.stderr.write(f"judged {done:,} of {counted(all, 'token')}{left}\n")


def describe_evaluation(evaluation: RolloutEvaluation) -> str:
    """Return the measures as a table, one a line."""
    return "\n".join(_describe_measures(evaluation))


def _describe_measures(evaluation: RolloutEvaluation) -> Iterator[str]:
    left = f", {counted(evaluation.too_long, 'prompt')} too long" if evaluation.too_long else ""
    yield f"prompts   {counted(evaluation.prompts, 'prompt')}, {counted(evaluation.attempts, 'attempt')} each{left}"
    if evaluation.missing:
        yield f"missing   {sum(evaluation.missing.values()):,}: {describe_missing(evaluation.missing)}"
    if evaluation.truncated:
        yield f"truncated {counted(evaluation.truncated, 'attempt')}"
    head = f"{'':12}{'value':>10}{'interval':>22}"
    if evaluation.against is not None:
        head += f"{'against':>10}{'difference':>12}{'interval':>22}{'p':>9}"
    yield head
    for name, measure in evaluation.measures.items():
        other = None if evaluation.against is None else evaluation.against.get(name)
        difference = None if evaluation.differences is None else evaluation.differences.get(name)
        yield _describe_measure(name, measure, other, difference)


def _describe_measure(name: str, measure: Measure, other: Measure | None, difference: PairedDifference | None) -> str:
    interval = _describe_interval(measure.low, measure.high)
    if measure.low is None and measure.prompts > 1:
        interval = "all values are equal"
    line = f"{name:12}{decimal(measure.value):>10}{interval:>22}"
    if other is None or difference is None:
        return line
    columns = f"{decimal(difference.value, sign='+'):>12}{_describe_interval(difference.low, difference.high, '+'):>22}"
    return f"{line}{decimal(other.value):>10}{columns}{difference.p:>9.2g}"


def _describe_interval(low: float | None, high: float | None, sign: str = "") -> str:
    if low is None and high is None:
        return "too few prompts"
    ends = ("-inf" if low is None else decimal(low, sign=sign), "inf" if high is None else decimal(high, sign=sign))
    return f"{ends[0]} to {ends[1]}"
