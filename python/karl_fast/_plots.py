"""Plots as SVG, and tables as HTML, for the pages of `report` and for notebooks.

```text
histogram, lines, ranges, dots, cloud -> Plot -> SVG of a given width, its numbers as rows of a table
```

Colours and type come from ``_plots.css``: the same drawing is read in light and dark, on a page and in a notebook. Text
from a log is escaped here, whatever it is.
"""

from __future__ import annotations

import html
import json
import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from karl_fast._safe_text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from karl_fast._core import Tempered

    Row = Sequence[Any]

WIDE, NARROW, SMALL = 580, 340, 320
"""Widths in pixels: of a plot on a desk, of the same on a phone, and of one in a row of small ones."""

LETTER = 6.6
"""Pixels that a letter of 12 px takes, on average."""

LABEL_HEIGHT = 14
"""Pixels between the lines of labels."""

LABELS = 170
"""Maximum pixels of a row's name."""

FEW_VALUES = 6
"""Different values up to which the points of a cloud are spread a little, so that they do not hide each other."""

MOST_POINTS = 300
"""Points of a curve that are drawn: of longer ones the smallest and the largest of each stretch."""

SMOOTH_FROM = 40
"""Points from which on a curve is drawn with its moving mean."""


@dataclass(frozen=True)
class Plot:
    """A plot and the numbers in it.

    Attributes:
        title: what it shows.
        note: a sentence beside it; empty for none.
        body: returns the elements of the drawing at a width, and its height.
        columns: names of the columns of its numbers.
        rows: its numbers.
        small: True for one of a row of plots, which has one width.
    """

    title: str
    note: str
    body: Callable[[float], tuple[str, float]]
    columns: Sequence[str] = ()
    rows: Iterable[Row] = ()
    small: bool = False

    def svg(self, width: float, kind: str = "") -> str:
        """Return the drawing at a width in pixels."""
        body, height = self.body(width)
        return (
            f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img">'
            f"<title>{text(self.title)}</title><desc>{text(self.note or self.title)}</desc>{body}</svg>"
        )

    def html(self) -> str:
        """Return the plot as a figure: title, note, drawing, and its numbers behind a button."""
        drawings = (
            self.svg(SMALL) if self.small else self.svg(WIDE, "wide-drawing") + self.svg(NARROW, "narrow-drawing")
        )
        numbers = (
            f"<details class=numbers><summary>Numbers</summary>{table(self.columns, self.rows)}</details>"
            if self.rows
            else ""
        )
        note = f"<p>{text(self.note)}</p>" if self.note else ""
        kind = "plot small" if self.small else "plot"
        caption = f"<figcaption><h3>{text(self.title)}</h3>{note}</figcaption>"
        return f'<figure class="{kind}">{caption}{drawings}{numbers}</figure>'


def text(value: object) -> str:
    """Return text of any origin for HTML: secrets, control characters and markup made harmless."""
    return html.escape(clean(str(value)))


def number(value: object) -> str:
    """Format a number for people, with three digits; a dash where it is missing."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "\u2013"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    if isinstance(value, int) or (abs(value) >= 1000 and abs(value) < 1e15):
        return f"{value:,.0f}"
    return f"{value:.3g}".replace("-", "\u2212", 1)


def table(columns: Sequence[str], rows: Iterable[Row]) -> str:
    """Return numbers as a table in HTML; text stands left, numbers right."""
    rows = list(rows)
    numeric = [bool(rows) and not any(isinstance(row[at], str) for row in rows) for at in range(len(columns))]
    heads = zip(columns, numeric, strict=True)
    head = "".join(f'<th scope="col"{" class=n" if right else ""}>{text(name)}</th>' for name, right in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def counts_table(facts: Mapping[str, object]) -> str:
    """Return names and numbers as a table of two columns."""
    return table(("", "number"), facts.items())


def row_of_plots(plots: Iterable[Plot]) -> str:
    """Return small plots in a row."""
    return f'<div class="multiples">{"".join(plot.html() for plot in plots)}</div>'


def _cell(value: object) -> str:
    kind = "" if isinstance(value, str) else " class=n"
    return f"<td{kind}>{text(number(value))}</td>"


@cache
def style() -> str:
    """Return the style sheet of plots and tables."""
    return Path(__file__).with_suffix(".css").read_text("utf-8")


def fragment(*parts: str) -> str:
    """Return parts of HTML with their style, for the output of a cell of a notebook."""
    return f'<div class="karl-fast"><style>{style()}</style>{"".join(parts)}</div>'


@dataclass(frozen=True)
class Scale:
    """Values to pixels.

    Attributes:
        low, high: the values at its ends.
        start, stop: the pixels of these.
        kind: linear; log, from 1 up or with fractions; or rung, linear near 0 and like a logarithm beyond `unit`.
        unit: of a rung scale.
    """

    low: float
    high: float
    start: float
    stop: float
    kind: Literal["linear", "log", "rung"] = "linear"
    unit: float = 1.0

    def _plain(self, value: float) -> float:
        if self.kind == "log":
            return math.log10(max(value, 1e-300))
        return math.log1p(value / self.unit) if self.kind == "rung" else value

    def __call__(self, value: float) -> float:
        low, high = self._plain(self.low), self._plain(self.high)
        share = (self._plain(value) - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.stop - self.start)

    def ticks(self, count: int) -> list[float]:
        """Return at most about so many round values within the scale."""
        if self.kind == "log":
            return self._log_ticks(count)
        if not self.high > self.low:
            return [self.low]
        step = _round_step((self.high - self.low) / max(1, count))
        first = math.ceil(self.low / step - 1e-9)
        return [round(at * step, 12) for at in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def _log_ticks(self, count: int) -> list[float]:
        exponents = range(math.floor(self._plain(self.low)), math.ceil(self._plain(self.high)) + 1)
        every = [10.0**at * digit for at in exponents for digit in ((1,) if len(exponents) > 3 else (1, 2, 5))]
        inside = [tick for tick in every if self.low * 0.999 <= tick <= self.high * 1.001]
        return inside[:: max(1, math.ceil(len(inside) / max(1, count)))]


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * digit for digit in (1, 2, 2.5, 5, 10) if power * digit >= step * 0.999)


def tick_label(value: float) -> str:
    """Format the value of a tick: 0.25, 40, 20 k, 3 M."""
    for unit, word in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= unit * (10 if word == " k" else 1):
            return f"{value / unit:g}{word}"
    return f"{value:.4g}"


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _words(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text(words)}</text>'


def _dot(x: float, y: float, kind: str, size: float = 3) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{size:g}"/>'


def _bar(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}"/>'


def _x_axis(scale: Scale, y: float, name: str = "", whole: bool = False) -> str:
    ticks = scale.ticks(max(2, round(abs(scale.stop - scale.start) / 70)))
    if whole:  # rounds, steps, groups
        ticks = [tick for tick in ticks if tick == int(tick)]
    marks = [_words(scale(tick), y + 16, tick_label(tick), "tick", "middle") for tick in ticks]
    right = max(scale.start, scale.stop)
    label = [_words(right, y + 32, name, "tick", "end")] if name else []
    return _line(min(scale.start, scale.stop), y, right, y, "axis") + "".join(marks + label)


def _y_axis(scale: Scale, left: float, right: float, show: Callable[[float], str] = tick_label) -> str:
    count = max(2, round(abs(scale.stop - scale.start) / 36))
    return "".join(
        _line(left, scale(tick), right, scale(tick), "grid")
        + _words(left - 6, scale(tick) + 4, show(tick), "tick", "end")
        for tick in scale.ticks(count)
    )


def _shorten(words: str, pixels: float) -> str:
    most = max(4, int(pixels / LETTER))
    words = clean(words)
    if len(words) <= most:
        return words
    # Names of one kind often begin alike.
    return f"{words[: most // 3]}\u2026{words[1 + most // 3 - most :]}"


@dataclass(frozen=True)
class Series:
    """Counts of a histogram, under a name; ``mean`` is marked where it is known."""

    name: str
    counts: Sequence[float]
    mean: float | None = None


def histogram(
    title: str, edges: Sequence[float], series: Sequence[Series], *, note: str = "", axis: str = "", log: bool = False
) -> Plot:
    """Draw one histogram, or two as shares of their rows: the first grey, the second in the accent inside of it."""
    totals = [sum(one.counts) or 1 for one in series]
    shares = len(series) > 1
    heights = [
        [count / total if shares else count for count in one.counts] for one, total in zip(series, totals, strict=True)
    ]
    most = max((max(values, default=0) for values in heights), default=0) or 1

    def body(width: float) -> tuple[str, float]:
        left, top, bottom = 44.0, 10.0 + 17 * len(series), 190.0
        x = Scale(edges[0], edges[-1], left, width - 12, "log" if log else "linear")
        y = Scale(0, most, bottom, top)
        parts = [_y_axis(y, left, width - 12, lambda value: f"{value:.0%}" if shares else tick_label(value))]
        for place, values in enumerate(heights):
            kind = "fill" if place == len(series) - 1 else "fill-other"
            for low, high, value in zip(edges, edges[1:], values, strict=False):
                room = (x(high) - x(low)) * (0.25 if place else 0)
                if value:
                    parts.append(
                        _bar(x(low) + 0.5 + room, y(value), x(high) - x(low) - 1 - 2 * room, bottom - y(value), kind)
                    )
        parts += _series_labels(series, x, width, bottom)
        return "".join(parts) + _x_axis(x, bottom, axis), bottom + (38 if axis else 24)

    names = [one.name for one in series]
    rows = [
        (low, high, *counts)
        for low, high, *counts in zip(edges, edges[1:], *(one.counts for one in series), strict=False)
    ]
    return Plot(title, note, body, ("from", "to", *names), rows)


def _series_labels(series: Sequence[Series], x: Scale, width: float, bottom: float) -> list[str]:
    """Name each series in its colour, and mark its mean."""
    parts = []
    for place, line in enumerate(series):
        kind = "accent" if place == len(series) - 1 else "other"
        mean = "" if line.mean is None else f", mean {number(line.mean)}"
        if line.name:
            parts.append(_words(width - 12, 12 + 17 * place, line.name + mean, f"label {kind}", "end"))
        if line.mean is not None:
            parts.append(f'<path class="fill-{kind}" d="M{x(line.mean):.1f} {bottom:.1f}l-4 7h8z"/>')
    return parts


@dataclass(frozen=True)
class Item:
    """A row of `dots`: its value, the value before where there are two, an interval, and a remark at its end."""

    name: str
    value: float | None
    before: float | None = None
    low: float | None = None
    high: float | None = None
    remark: str = ""


def dots(title: str, items: Sequence[Item], *, note: str = "", axis: str = "", columns: Sequence[str] = ()) -> Plot:
    """Draw a row for each item: a dot, the dot before in grey, an interval as a line, a remark at the end."""
    values = [
        number for item in items for number in (item.value, item.before, item.low, item.high) if number is not None
    ]
    low, high = _padded(values)

    def body(width: float) -> tuple[str, float]:
        names = min(LABELS if width >= WIDE else 110, 10 + LETTER * max((len(item.name) for item in items), default=4))
        remarks = 8 + LETTER * max((len(item.remark) for item in items), default=0)
        x = Scale(low, high, names + 10, width - remarks - 10)
        bottom = 8 + 22 * len(items)
        grid = [_line(x(tick), 4, x(tick), bottom, "grid") for tick in x.ticks(max(2, round((x.stop - x.start) / 70)))]
        rows = [_item(item, x, 18 + 22 * place, names, width) for place, item in enumerate(items)]
        return "".join(grid + rows) + _x_axis(x, bottom, axis), bottom + (38 if axis else 24)

    rows = [(item.name, item.before, item.value, item.low, item.high, item.remark) for item in items]
    shown = [at for at in range(6) if any(row[at] not in (None, "") for row in rows)]
    heads = columns or ("name", "before", "value", "low", "high", "rows")
    return Plot(title, note, body, [heads[at] for at in shown], [[row[at] for at in shown] for row in rows])


def _item(item: Item, x: Scale, y: float, names: float, width: float) -> str:
    parts = [_words(names, y + 4, _shorten(item.name, names - 4), "label", "end")]
    if item.low is not None and item.high is not None:
        parts.append(_line(x(item.low), y, x(item.high), y, "interval"))
    if item.before is not None:
        if item.value is not None:
            parts.append(_line(x(item.before), y, x(item.value), y, "move"))
        parts.append(_dot(x(item.before), y, "fill-other", 3.5))
    if item.value is not None:
        parts.append(_dot(x(item.value), y, "fill-accent", 4))
    if item.remark:
        parts.append(_words(width - 4, y + 4, item.remark, "tick", "end"))
    return "".join(parts)


def _padded(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of values with some room; from 0 where they are near it."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    if 0 <= low <= 0.5 * high:
        low = 0.0
    room = 0.06 * (high - low or abs(high) or 1)
    return (low if low == 0 else low - room), high + room


def ranges(title: str, spans: Sequence[tuple[float, float, float]], *, note: str = "", axis: str = "") -> Plot:
    """Draw the range and the mean of each group as an upright line with a dot, in the given order; equal ones grey.

    Args:
        title, note: above the drawing.
        spans: smallest value, mean and largest value of each group.
        axis: name of the upright axis.
    """
    low, high = _padded([value for span in spans for value in span])

    def body(width: float) -> tuple[str, float]:
        left, top, bottom = 44.0, 12.0, 190.0
        y = Scale(low, high, bottom, top)
        step = (width - 20 - left) / max(1, len(spans))
        size = min(3.0, max(1.0, step / 2.4))
        parts = [_y_axis(y, left, width - 12)]
        for place, (least, mean, most) in enumerate(spans):
            x, constant = left + (place + 0.5) * step, least == most
            if not constant:
                parts.append(_line(x, y(least), x, y(most), "interval"))
            parts.append(_dot(x, y(mean), "fill-other" if constant else "fill-accent", size))
        return "".join(parts) + _line(left, bottom, width - 12, bottom, "axis") + _words(
            left, bottom + 17, axis, "tick"
        ), bottom + 24

    rows = [(place + 1, *span) for place, span in enumerate(spans)]
    return Plot(title, note, body, ("place", "smallest", "mean", "largest"), rows)


def cloud(
    title: str,
    points: Sequence[tuple[float, float]],
    *,
    note: str = "",
    across: str = "",
    up: str = "",
    log: bool = True,
) -> Plot:
    """Draw points; across a logarithmic axis where the values are far apart."""
    xs = [x for x, _ in points]
    few = len({y for _, y in points}) <= FEW_VALUES
    log = log and min(xs, default=0) > 0 and max(xs) > 20 * min(xs)
    low, high = _padded([y for _, y in points])

    def body(width: float) -> tuple[str, float]:
        left, bottom = 44.0, 190.0
        ends = (min(xs) * 0.9, max(xs) * 1.1) if log else _padded(xs)
        x, y = Scale(*ends, left, width - 12, "log" if log else "linear"), Scale(low, high, bottom, 22)
        parts = [_y_axis(y, left, width - 12), _words(left - 40, 11, up, "tick")]
        parts += [
            _dot(x(across), y(value) + (place % 5 - 2) * 2.5 * few, "fill-accent faint", 2.5)
            for place, (across, value) in enumerate(points)
        ]
        return "".join(parts) + _x_axis(x, bottom, across), bottom + 38

    return Plot(title, note, body, (across, up), points)


@dataclass(frozen=True)
class Mark:
    """A place of a curve with a name: a chosen point, the best round, an alarm."""

    x: float
    name: str
    kind: Literal["chosen", "alarm"] = "chosen"


@dataclass(frozen=True)
class Curve:
    """Points of a curve, with their intervals where there are some.

    Attributes:
        points: x and y of each, by rising x.
        name: at its end; empty for none.
        intervals: low and high at each point; empty for none.
        kind: of its colour: ``accent`` or ``other``.
        dotted: True to draw a dot at each point.
    """

    points: Sequence[tuple[float, float]]
    name: str = ""
    intervals: Sequence[tuple[float, float]] = ()
    kind: str = "accent"
    dotted: bool = False


def lines(
    title: str,
    curves: Sequence[Curve],
    *,
    note: str = "",
    axis: str = "",
    marks: Sequence[Mark] = (),
    rungs: bool = False,
    small: bool = True,
    share: bool = False,
    ends: tuple[float, float] | None = None,
) -> Plot:
    """Draw curves over one axis.

    Args:
        title, note: above the drawing.
        curves: what is drawn; the last one is read off by the pointer.
        axis: name of the axis across.
        marks: places with a name.
        rungs: True for an axis of inverse temperatures: 0, and rungs that grow by factors.
        small: True for one of a row of plots.
        share: True where values are shares of 1.
        ends: the values at the ends of the upright axis; by default those of the curves, with room.
    """
    every = [point for curve in curves for point in curve.points]
    ys = [y for _, y in every] + [end for curve in curves for pair in curve.intervals for end in pair]
    bottom_value, top_value = ends or _padded(ys)

    def body(width: float) -> tuple[str, float]:
        left, top, bottom = 44.0, 24.0 if marks else 10.0, 130.0 if small else 200.0
        right = width - 14 - LETTER * max((len(curve.name) for curve in curves), default=0)
        x = _axis_of([x for x, _ in every], left + 4, right, rungs)
        y = Scale(bottom_value, top_value, bottom, top)
        show = (lambda value: f"{value:.0%}") if share else tick_label
        parts = [_y_axis(y, left, right, show)]
        parts += [_draw_mark(mark, x, top, bottom, width) for mark in marks]
        parts += [_draw_curve(curve, x, y) for curve in curves]
        parts += _end_labels(curves, x, y)
        ticks = (
            _rung_axis(every, x, bottom) if rungs else _x_axis(x, bottom, whole=all(at == int(at) for at, _ in every))
        )
        name = _words(right, bottom + 32, axis, "tick", "end") if axis else ""
        return "".join(parts) + ticks + name + _pointer(curves[-1], x, y) if curves else "", bottom + (
            38 if axis else 24
        )

    names = [curve.name or title for curve in curves]
    return Plot(title, note, body, (axis or "x", *names), _joined_points(curves), small)


def _end_labels(curves: Sequence[Curve], x: Scale, y: Scale) -> list[str]:
    """Return the names of curves at their ends, moved apart where they would overlap."""
    named = sorted((curve for curve in curves if curve.name and curve.points), key=lambda curve: y(curve.points[-1][1]))
    labels, last = [], -math.inf
    for curve in named:
        last = max(last + LABEL_HEIGHT, y(curve.points[-1][1]) + 4)
        labels.append(_words(x(curve.points[-1][0]) + 6, last, curve.name, f"label {curve.kind}"))
    return labels


def _axis_of(xs: Sequence[float], start: float, stop: float, rungs: bool) -> Scale:
    if not rungs:
        return Scale(min(xs, default=0), max(xs, default=1), start, stop)
    unit = min((x for x in xs if x > 0), default=1.0)
    return Scale(0, max(xs, default=1), start, stop, "rung", unit)


def _rung_axis(points: Iterable[tuple[float, float]], x: Scale, y: float) -> str:
    """Label the rungs that have room, from the left."""
    parts, last = [_line(x.start, y, x.stop, y, "axis")], -math.inf
    for value in sorted({at for at, _ in points}):
        words = tick_label(float(f"{value:.2g}"))
        if x(value) - last > 12 + LETTER * len(words) * 0.6 and value == float(f"{value:.2g}"):
            parts.append(_words(x(value), y + 16, words, "tick", "middle"))
            last = x(value) + LETTER * len(words) / 2
    return "".join(parts)


def _draw_mark(mark: Mark, x: Scale, top: float, bottom: float, width: float) -> str:
    at = x(mark.x)
    anchor = "end" if at > width / 2 else "start"
    words = _words(at + (-4 if anchor == "end" else 4), top - 10, mark.name, f"label {mark.kind}", anchor)
    return _line(at, top - 18, at, bottom, f"mark {mark.kind}") + words


def _draw_curve(curve: Curve, x: Scale, y: Scale) -> str:
    points = [(at, value) for at, value in curve.points if math.isfinite(value)]
    if not points:
        return ""
    parts = [
        _line(x(at), y(low), x(at), y(high), f"interval {curve.kind}")
        for (at, _), (low, high) in zip(curve.points, curve.intervals, strict=False)
    ]
    smooth = len(points) >= SMOOTH_FROM and not curve.intervals
    parts.append(_path(thin(points), x, y, f"line {curve.kind}{' faint' if smooth else ''}"))
    if smooth:
        parts.append(_path(thin(moving_mean(points)), x, y, f"line {curve.kind}"))
    if curve.dotted or len(points) == 1:
        parts += [_dot(x(at), y(value), f"fill-{curve.kind}") for at, value in points]
    return "".join(parts)


def _path(points: Sequence[tuple[float, float]], x: Scale, y: Scale, kind: str) -> str:
    places = "L".join(f"{x(at):.1f} {y(value):.1f}" for at, value in points)
    return f'<path class="{kind}" d="M{places}"/>'


def thin(points: Sequence[tuple[float, float]], most: int = MOST_POINTS) -> Sequence[tuple[float, float]]:
    """Return few points of a long curve: the smallest and the largest of each stretch, so that no peak is lost."""
    if len(points) <= most:
        return points
    size = math.ceil(2 * len(points) / most)
    points_drawn = []
    for start in range(0, len(points), size):
        part = points[start : start + size]
        points_drawn += sorted({min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])})
    return points_drawn


def moving_mean(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the mean of the twentieth of a curve around each point; at its ends the part that is there."""
    half = max(1, len(points) // 40)
    sums = [0.0]
    for _, value in points:
        sums.append(sums[-1] + value)
    smooth = []
    for place, (at, _) in enumerate(points):
        reach = min(half, place, len(points) - 1 - place)
        smooth.append((at, (sums[place + reach + 1] - sums[place - reach]) / (2 * reach + 1)))
    return smooth


def _pointer(curve: Curve, x: Scale, y: Scale) -> str:
    """Return what the page reads to show the values under the pointer: positions and values of points."""
    points = [
        [round(x(at), 1), round(y(value), 1), at, float(f"{value:.5g}")]
        for at, value in thin(curve.points)
        if math.isfinite(value)
    ]
    return f'<g class="pointer" data-points="{html.escape(json.dumps(points, separators=(",", ":")))}"></g>'


def _joined_points(curves: Sequence[Curve]) -> list[tuple[Any, ...]]:
    """Return a row for each x, with the y of each curve there."""
    by_x: dict[float, list[float | None]] = {}
    for place, curve in enumerate(curves):
        for at, value in thin(curve.points):
            by_x.setdefault(at, [None] * len(curves))[place] = value
    return [(at, *values) for at, values in sorted(by_x.items())]


@dataclass
class Shares:
    """Values in equal steps, for a histogram of numbers that a page computes itself.

    Attributes:
        values: finite numbers.
        count: number of steps.
        log: True for steps that grow by a factor.
    """

    values: Sequence[float]
    count: int = 20
    log: bool = False
    edges: list[float] = field(init=False)
    counts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        low, high = min(self.values, default=0.0), max(self.values, default=1.0)
        self.log = self.log and low > 0 and high > 8 * low
        if low == high:
            low, high = low - 0.5, high + 0.5
        scale = Scale(low, high, 0, self.count, "log" if self.log else "linear")
        step = (high / low) ** (1 / self.count) if self.log else (high - low) / self.count
        self.edges = [low * step**at if self.log else low + step * at for at in range(self.count + 1)]
        self.counts = [0] * self.count
        for value in self.values:
            self.counts[min(self.count - 1, max(0, int(scale(value))))] += 1


def ladder_plots(ladder: Sequence[Tempered], chosen: float) -> list[Plot]:
    """Return what each inverse temperature costs in effective rows, and what it brings in reward."""
    if not ladder:
        return []
    at = next((rung for rung in ladder if rung["inverse_temperature"] == chosen), ladder[0])

    def points(name: str) -> list[tuple[float, float]]:
        return [(rung["inverse_temperature"], float(rung[name])) for rung in ladder]  # type: ignore[literal-required]

    ess = Mark(chosen, f"chosen: {at['ess']:,.0f} rows, {at['share']:.0%}")
    reward = Mark(chosen, f"chosen: {number(at['expected_reward'])}")
    axis = "inverse temperature"
    return [
        lines(
            "Effective sample size",
            [Curve(points("share"), dotted=True)],
            axis=axis,
            marks=[ess],
            rungs=True,
            share=True,
            ends=(0, 1.02),
        ),
        lines(
            "Expected reward of a drawn row",
            [Curve(points("expected_reward"), dotted=True)],
            axis=axis,
            marks=[reward],
            rungs=True,
        ),
        lines(
            "Weight of the largest row",
            [Curve(points("top_share"), dotted=True, kind="other")],
            axis=axis,
            rungs=True,
        ),
    ]


def metric_plots(file: Path, names: Mapping[str, str]) -> list[Plot]:
    """Return small plots of the metrics of a run that vary, over its rounds or steps.

    Args:
        file: its ``metrics.jsonl``; the last line counts where it is whole.
        names: metrics with their titles.
    """
    try:
        whole = [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1] if line.strip()]
    except (OSError, ValueError):  # it was moved, or damaged: the table alone is shown
        return []
    axis = "round" if any("round" in line for line in whole) else "step"
    plots = []
    for name, title in names.items():
        points = [
            (float(line.get(axis, place)) + (axis == "round"), float(line[name]))
            for place, line in enumerate(whole)
            if isinstance(line.get(name), int | float) and math.isfinite(line[name])
        ]
        if len({value for _, value in points}) > 1:
            plots.append(lines(title, [Curve(points)], axis=axis))
    return plots


def reward_plots(reward: Mapping[str, Any]) -> list[Plot]:
    """Return the rewards before and after a draw, of that part of a manifest; none where one of them is unknown."""
    before, after = reward.get("kept") or reward.get("before"), reward.get("after")
    if not before or not after or not before["histogram"] or not after["histogram"]:
        return []
    if before["histogram"]["edges"] != after["histogram"]["edges"]:
        return [
            histogram(
                f"Rewards {name}",
                part["histogram"]["edges"],
                [Series("", part["histogram"]["counts"], part["mean"])],
                axis="reward",
            )
            for name, part in (("before the draw", before), ("drawn", after))
        ]
    series = [
        Series("before", before["histogram"]["counts"], before["mean"]),
        Series("drawn", after["histogram"]["counts"], after["mean"]),
    ]
    return [
        histogram(
            "Rewards before and after the draw",
            before["histogram"]["edges"],
            series,
            note="share of the rows; the triangles are the means",
            axis="reward",
        )
    ]
