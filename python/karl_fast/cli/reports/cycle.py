"""The plan, the progress and the runs of a cycle as plain text."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import TYPE_CHECKING, Any

from karl_fast._safe_text import clean, counted, in_bytes, in_gigabytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.cycle.config import CycleConfig

WIDTH = 9
"""Columns of the name of a step."""

NONE = "-"

STATES = {"runs": "runs", "waits": "runs if the steps before it change its inputs", "unchanged": "unchanged: skipped"}
"""Words of a plan for the state of a step."""


def describe_plan(config: CycleConfig, entries: list[dict[str, Any]]) -> str:
    """Return the plan: a step a line, with sizes, memory, and the command of a step whose inputs are known."""
    lines = [f"folder    {clean(str(config.folder))}"]
    for entry in entries:
        lines.append("; ".join([f"{entry['step']:<{WIDTH}} {STATES[entry['state']]}", *_costs(entry)]))
        if entry["state"] == "runs":
            lines.append(f"          karl-fast {clean(shlex.join(entry['arguments']))}")
    return "\n".join(lines)


def _costs(entry: dict[str, Any]) -> Iterator[str]:
    if entry.get("files"):
        yield f"reads {counted(entry['files'], 'file')}, {in_bytes(entry['size_bytes'])}"
    if "memory_bytes" in entry:
        limit = in_gigabytes(entry["memory_limit_bytes"])
        yield f"memory at most {in_gigabytes(entry['memory_bytes'])} of {limit}"
    if "peak_bytes" in entry:
        yield f"last time {entry['seconds']:,.1f} s, {in_gigabytes(entry['peak_bytes'])}"


def describe_event(event: dict[str, Any]) -> str:
    """Return the line of an event as it happens; empty if it has none."""
    if event["event"] == "run":
        return _end(event)
    name = f"{event['step']:<{WIDTH}}"
    if event["state"] == "running":
        return f"{name} karl-fast {clean(shlex.join(event['arguments']))}"
    if event["state"] == "done":
        return f"{name} done in {event['seconds']:,.1f} s"
    return f"{name} {event['state']}"


def _end(run: dict[str, Any]) -> str:
    parts = [f"run {run['run']:<5} {run['state']} in {run['seconds']:,.1f} s"]
    if run["state"] in ("done", "unchanged") and "promoted" in run:
        parts.append(f"{'promoted' if run['promoted'] else 'refused'}, {run['why']}")
    return ": ".join(parts)


HEADS = ("run", "started", "state", "rows", "reward", "held out", "decision")


def describe_runs(runs: list[dict[str, Any]]) -> str:
    """Return the runs as a table: rows of the log and of the data set, mean rewards of both, the adapter in use and the
    new one on held-out data, and what became of the new one.
    """
    if not runs:
        return "no run yet"
    rows = [HEADS, *map(_row, runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(run: dict[str, Any]) -> tuple[str, ...]:
    started = datetime.fromisoformat(run["started"]).strftime("%Y-%m-%d %H:%M")
    rows = _pair(run, "rows_read", "rows_drawn", "{:,}")
    reward = _pair(run, "reward_logged", "reward_drawn", "{:.3f}")
    held_out = _pair(run, "held_out_before", "held_out_after", "{:.3f}")
    unit = " nats" if run.get("unit") == "nats a token" else ""
    return (str(run["run"]), started, run["state"], rows, reward, held_out + unit, _decision(run))


def _pair(run: dict[str, Any], before: str, after: str, form: str) -> str:
    if before not in run:
        return NONE
    values = (run[before], run[after])
    return " -> ".join(NONE if value is None else form.format(value) for value in values)


def _decision(run: dict[str, Any]) -> str:
    """Return the decision with its reason, the error of a failed step, or the step that was cut short."""
    if "error" in run:
        return clean(run["error"].splitlines()[0])
    cut = [name for name, one in run["steps"].items() if one["state"] == "running"]
    if cut:
        return f"in {cut[0]}"
    if "promoted" not in run:
        return NONE
    return f"{'promoted' if run['promoted'] else 'refused'}, {run['why']}"
