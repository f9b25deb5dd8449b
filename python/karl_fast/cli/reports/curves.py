"""Curves of a run as text: one plot that says whether it learns, and a line for each metric."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from karl_fast._plots import number
from karl_fast._safe_text import clean
from karl_fast.page.run_page import LEARNING, STEPS, find_alarms, list_metrics, run_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karl_fast.page.run_page import Alarm, Points, RunFiles

HEIGHT = 8
"""Lines of the plot."""

NARROWEST, WIDEST = 20, 120
"""Columns of a curve."""

BLOCKS, LETTERS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588", " .:-=+*#@"
"""Levels of a column of text: in eighths of a line, and for a terminal that has no such characters."""


def describe_curves(run: RunFiles, width: int, *, plain: bool = False) -> Iterator[str]:
    """Yield the lines of the curves of a run.

    Args:
        run: its files.
        width: columns of the terminal.
        plain: True for a terminal that shows ASCII alone.
    """
    levels, alarms = LETTERS if plain else BLOCKS, find_alarms(run)
    arrow = "to" if plain else "\u2192"
    sentence = run_sentence(run)
    head = f"run       {clean(str(run.folder))}: {sentence}"
    yield textwrap.fill(head.replace("\u2192", arrow), min(WIDEST, width), subsequent_indent=" " * 10)
    lead, title = ("outcome", "Outcome of rollouts") if run.online else ("loss", "Loss")
    if points := run.points(lead):
        yield ""
        yield from draw_plot(title, points, alarms, width, levels)
    held_out = [(float(line["round"]), float(line["reward"])) for line in run.curve if "reward" in line]
    rows = [("Held-out reward", held_out)] if held_out else []
    rows += [(title, run.points(name)) for name, title in list_metrics(run, LEARNING | STEPS).items() if name != lead]
    rows = [(title, points) for title, points in rows if len({value for _, value in points}) > 1]
    if rows:
        yield ""
        yield from _list_curves(rows, width, levels, arrow)
    for alarm in alarms:
        yield f"alarm     round {alarm.round:,}: {clean(alarm.sentence)}"


def _list_curves(rows: Sequence[tuple[str, Points]], width: int, levels: str, arrow: str) -> Iterator[str]:
    """Yield a line for each curve: its name, the curve, the values at its ends, and where there is room their range."""
    names = max(len(title) for title, _ in rows)
    ends = [f"{_text(points[0][1])} {arrow} {_text(points[-1][1])}" for _, points in rows]
    spans = [f"{_text(min(y for _, y in points))} to {_text(max(y for _, y in points))}" for _, points in rows]
    end_width, span_width = max(map(len, ends)), max(map(len, spans)) + 4
    has_spans = width - names - end_width - span_width - 4 >= NARROWEST
    room = max(NARROWEST, min(WIDEST, width - names - end_width - span_width * has_spans - 4))
    for (title, points), end, span in zip(rows, ends, spans, strict=True):
        line = f"{title:<{names}}  {sparkline(points, room, levels):<{room}}  {end:<{end_width}}"
        yield (f"{line}  ({span})" if has_spans else line).rstrip()


def _text(value: float) -> str:
    return number(value).replace("\u2212", "-")


def average_columns(points: Points, columns: int) -> list[float]:
    """Return the mean of the points of each column, in equal steps of x; one column a point, where they are few."""
    if len(points) <= columns:
        return [y for _, y in points]
    low, high = points[0][0], points[-1][0]
    parts: list[list[float]] = [[] for _ in range(columns)]
    for x, y in points:
        parts[min(columns - 1, int((x - low) / (high - low) * columns))].append(y)
    means, last = [], points[0][1]
    for part in parts:
        last = math.fsum(part) / len(part) if part else last
        means.append(last)
    return means


def sparkline(points: Points, columns: int, levels: str) -> str:
    """Return a curve as one line: a character a column, by where its value is between the smallest and the largest."""
    values = average_columns(points, columns)
    low, high = min(values), max(values)
    steps = len(levels) - 2  # the lowest level shows, unlike a space
    return "".join(levels[1 + round((value - low) / ((high - low) or 1) * steps)] for value in values)


def draw_plot(title: str, points: Points, alarms: Sequence[Alarm], width: int, levels: str) -> Iterator[str]:
    """Yield a curve as columns of text with its scale, and the rounds of alarms marked below."""
    low, high = min(0.0, min(y for _, y in points)), max(y for _, y in points)
    labels = [_text(high), _text(low)]
    margin = max(map(len, labels)) + 2
    columns = average_columns(points, max(NARROWEST, min(WIDEST, width - margin)))
    columns = [value for value in columns for _ in range(max(1, min(4, (width - margin) // len(columns))))]
    steps = len(levels) - 1
    heights = [round((value - low) / ((high - low) or 1) * HEIGHT * steps) for value in columns]
    yield title
    for line in reversed(range(HEIGHT)):
        label = labels[0] if line == HEIGHT - 1 else labels[1] if line == 0 else ""
        cells = "".join(levels[max(0, min(steps, height - line * steps))] for height in heights)
        yield f"{label:>{margin - 2}}  {cells.rstrip()}"
    first, last = points[0][0], points[-1][0]
    marks = {round((alarm.round - first) / ((last - first) or 1) * (len(columns) - 1)) for alarm in alarms}
    if marks:
        yield " " * margin + "".join("!" if at in marks else " " for at in range(len(columns))).rstrip() + " alarm"
    ends = f"{first:g}", f"{last:g}"
    yield " " * margin + ends[0] + ends[1].rjust(len(columns) - len(ends[0])) if len(columns) > 8 else ""


def curves_json(run: RunFiles) -> dict[str, Any]:
    """Return the curves of a run by the names of their metrics, for JSON."""
    names = dict.fromkeys(name for line in run.metrics for name in line)
    return {
        "folder": str(run.folder),
        "sentence": run_sentence(run),
        "curves": {name: points for name in names if (points := run.points(name))},
        "held_out": run.curve,
        "alarms": [{"round": alarm.round, "sentence": alarm.sentence} for alarm in find_alarms(run)],
    }
