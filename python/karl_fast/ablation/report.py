"""The record of an experiment for people: a table for a terminal, a page in Markdown, and a figure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast._extras import missing_extra
from karl_fast._safe_text import clean, counted, decimal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Record = dict[str, Any]

MOST_COLUMNS = 3
"""Panels of a figure side by side: more would be too small to read on a page."""

FEW_ARMS = 3
"""Maximum number of arms of which each seed is drawn beside the mean: more lines hide one another."""

COLOURS = (
    *("#1b6ca8", "#d1495b", "#c98a1b", "#5b8a45", "#6d597a", "#3a8f8f"),
    *("#8d6346", "#667085", "#000000", "#e377c2", "#94c11f", "#17a2d6"),
)


def describe_record(record: Record) -> str:
    """Describe a record for a terminal: a table for each measure, then the predictions with their verdicts.

    Args:
        record: of `ablate`.

    Returns:
        The text.

    Raises: nothing.
    """
    return "\n".join(_describe(record)) + "\n"


def _describe(record: Record) -> Iterator[str]:
    if record["question"]:
        yield clean(record["question"])
    yield f"{counted(len(record['seeds']), 'seed')}; intervals of 95 % over seeds; differences seed by seed"
    wide = max(len(name) for names in (record["arms"], record["measures"]) for name in names)
    for measure in record["measures"]:
        yield ""
        yield f"{clean(measure):<{wide}} {'mean':>8} {'95 % interval':>17} {'difference':>10} {'95 % interval':>17}"
        for arm in record["intervals"]:
            row = f"{clean(arm):<{wide}} {_numbers(record['intervals'][arm][measure])}"
            if arm in record["differences"]:
                row += f" {_numbers(record['differences'][arm][measure], sign='+', wide=10)}"
            yield row.rstrip()
    for arm, seeds in record["stopped"].items():
        yield from (f"  {clean(arm)}, seed {seed}, stopped: {clean(reason)}" for seed, reason in seeds.items())
    if record["predictions"]:
        yield ""
    for prediction in record["predictions"]:
        yield f"{prediction['verdict']:<10} {clean(prediction['claim'])}"
        yield f"{'':<10} {describe_verdict(prediction)}"


def _numbers(interval: Mapping[str, Any], sign: Any = "", wide: int = 8) -> str:
    low, high = interval["low"], interval["high"]
    both = "" if low is None or high is None else f"{decimal(low)} .. {decimal(high)}"
    mean = "" if interval["mean"] is None else decimal(interval["mean"], sign=sign)
    return f"{mean:>{wide}} {both:>17}"


def describe_verdict(prediction: Mapping[str, Any]) -> str:
    """Return the difference that a verdict rests on, and the seeds that would decide."""
    difference = prediction["difference"]
    if difference["mean"] is None:
        return "no number"
    text = decimal(difference["mean"], sign="+")
    if difference["low"] is None:
        return f"{text}; one seed decides nothing"
    text += f", {decimal(difference['low'], sign='+')} to {decimal(difference['high'], sign='+')}"
    if prediction["verdict"] != "undecided":
        return text
    seeds = prediction["seeds_needed"]
    return text + (f"; about {counted(seeds, 'seed')} would decide" if seeds else "; more seeds would hardly decide")


def write_page(record: Record, folder: Path, command: str) -> Path:
    """Write the page of an experiment, and its figure beside it where matplotlib is installed.

    Args:
        record: of `ablate`.
        folder: of the page.
        command: that repeats the experiment.

    Returns:
        The path of the page.

    Raises:
        OSError: a file cannot be written.
    """
    name = record["name"]
    try:
        draw_figure(record, folder / f"{name}.svg", folder / f"{name}.png")
        figure = f"![{', '.join(record['measures'])} of each arm, seed by seed]({name}.svg)\n\n"
    except ImportError:
        figure = ""
    page = folder / f"{name}.md"
    page.write_text(describe_page(record, figure, command), encoding="utf-8")
    return page


def describe_page(record: Record, figure: str, command: str) -> str:
    """Return a page in Markdown: question, setting, verdicts, figure, arms, numbers, command."""
    question = record["question"] or record["name"]
    parts = [f"# {question}\n"]
    if record.get("setting"):  # records of earlier versions have none
        parts.append(f"{record['setting']}\n")
    if record["predictions"]:
        rows = [
            f"| {prediction['claim']} | **{prediction['verdict']}** | {describe_verdict(prediction)} |"
            for prediction in record["predictions"]
        ]
        parts.append("\n".join(["| prediction | verdict | difference, 95 % interval |", "|---|---|---|", *rows]) + "\n")
    parts.append(figure + _describe_arms(record))
    parts += [_markdown_table(record, measure) for measure in record["measures"]]
    stopped = [
        f"- {arm}, seed {seed}: {reason}" for arm, seeds in record["stopped"].items() for seed, reason in seeds.items()
    ]
    if stopped:
        parts.append("Stopped by an alarm, judged by the rounds before it:\n\n" + "\n".join(stopped) + "\n")
    parts.append(
        f"{counted(len(record['seeds']), 'seed')}; intervals are 95 %, Student's t over seeds; a difference is taken "
        f"seed by seed. Each verdict is at 95 % by itself. {_describe_minutes(record)}\n\n"
        f"```text\n{command}\n```\n"
    )
    return "\n".join(parts)


def _describe_minutes(record: Record) -> str:
    cpu = record.get("cpu_minutes")
    return f"{record['minutes']:g} minutes of runs in all{'' if cpu is None else f', {cpu:g} of CPU'}."


def _describe_arms(record: Record) -> str:
    shared = {name: value for name, value in record["run"].items() if name != "rewards"}
    lines = [f"Every run: {_inline(shared)}.\n", "| arm | differs in |", "|---|---|"]
    lines += [f"| {arm} | {_inline(changes) or 'nothing'} |" for arm, changes in record["arms"].items()]
    return "\n".join(lines) + "\n"


def _inline(values: Mapping[str, Any], prefix: str = "") -> str:
    """Return settings as inline code, those of tables with the table in front."""
    parts = []
    for name, value in values.items():
        if isinstance(value, dict) and name != "rewards" and not {"point"} & value.keys():
            parts.append(_inline(value, f"{prefix}{name}."))
        else:
            parts.append(f"`{prefix}{name} = {json.dumps(value, ensure_ascii=False)}`")
    return ", ".join(parts)


def _markdown_table(record: Record, measure: str) -> str:
    lines = [f"| {measure} | mean, 95 % interval | minus {record['baseline']} |", "|---|---|---|"]
    for arm in record["intervals"]:
        difference = record["differences"].get(arm, {}).get(measure)
        lines.append(
            f"| {arm} | {_markdown_numbers(record['intervals'][arm][measure])} | "
            f"{'' if difference is None else _markdown_numbers(difference, '+')} |"
        )
    return "\n".join(lines) + "\n"


def _markdown_numbers(interval: Mapping[str, Any], sign: Any = "") -> str:
    if interval["mean"] is None:
        return "no number"
    text = decimal(interval["mean"], sign=sign)
    if interval["low"] is None:
        return text
    return f"{text} ({decimal(interval['low'], sign=sign)} to {decimal(interval['high'], sign=sign)})"


def draw_figure(record: Record, *places: Path) -> None:
    """Draw curves of the first measure with a value in every round, and a panel for each measure with its intervals.

    Args:
        record: of `ablate`.
        places: files to write, of the kind that their suffix names.

    Returns:
        Nothing.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise missing_extra("a figure needs matplotlib, which is not installed", "plot") from error
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    measures = list(record["measures"])
    metrics = [record["measures"][measure]["metric"] for measure in measures]
    metric = next((name for name in metrics if name in record["curves"]), metrics[0])
    curves = record["curves"].get(metric)
    panels = len(measures) + (curves is not None)
    rows = -(-panels // MOST_COLUMNS)
    columns = -(-panels // rows)
    height = rows * (0.5 + max(2.2, 0.3 * len(record["intervals"])))
    with mpl.rc_context({"svg.hashsalt": record["name"], "font.size": 9, "svg.fonttype": "none"}):
        figure = Figure(figsize=(max(6.5, 3.3 * columns), height + 0.4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
        for axis in axes.flat:
            axis.spines[["top", "right"]].set_visible(False)
        for axis in axes.flat[panels:]:
            axis.set_visible(False)
        if curves is not None:
            _draw_curves(axes.flat[0], metric, curves)
        first = panels - len(measures)
        for panel, measure in enumerate(measures, start=first):
            _draw_intervals(axes.flat[panel], measure, record, labelled=panel == first or panel % columns == 0)
        for place in places:
            figure.savefig(place, **({"metadata": {"Date": None}} if place.suffix == ".svg" else {"dpi": 150}))


def _draw_curves(axis: Any, metric: str, curves: Mapping[str, Sequence[Sequence[float | None]]]) -> None:
    for colour, seeds in zip(_colours(), curves.values(), strict=False):
        shortest = min(map(len, seeds))
        values = np.array([seed[:shortest] for seed in seeds], dtype=float)
        if shortest == 1:  # an arm that does not learn
            axis.axhline(float(np.nanmean(values)), color=colour, linewidth=1.2, linestyle="--")
            continue
        share = np.linspace(0, 1, shortest)
        for seed in values if len(curves) <= FEW_ARMS else ():
            axis.plot(share, seed, color=colour, linewidth=0.5, alpha=0.3)
        axis.plot(share, np.nanmean(values, axis=0), color=colour, linewidth=1.6)
    axis.set_title(f"{metric} over the rounds", loc="left", fontsize=9)
    axis.set_xlabel("share of the rounds")


def _draw_intervals(axis: Any, measure: str, record: Record, *, labelled: bool) -> None:
    arms = list(record["intervals"])
    for place, (colour, arm) in enumerate(zip(_colours(), arms, strict=False)):
        values = [value for value in record["values"][arm][measure] if value is not None]
        interval = record["intervals"][arm][measure]
        axis.plot(values, [place] * len(values), "o", color=colour, markersize=3.5, alpha=0.5)
        if interval["low"] is not None:
            axis.plot([interval["low"], interval["high"]], [place, place], color=colour, linewidth=1.4)
        if interval["mean"] is not None:
            axis.plot([interval["mean"]], [place], "|", color=colour, markersize=12)
    axis.set_yticks(range(len(arms)), arms if labelled else [""] * len(arms))
    for colour, label in zip(_colours(), axis.get_yticklabels(), strict=False):
        label.set_color(colour)  # which is the legend of the curves
    axis.invert_yaxis()
    axis.set_title(measure, loc="left", fontsize=9)


def _colours() -> Iterator[str]:
    while True:
        yield from COLOURS
