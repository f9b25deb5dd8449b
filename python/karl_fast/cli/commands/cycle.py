"""`karl-fast cycle`."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karl_fast._safe_text import clean, counted, in_bytes, in_gigabytes
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.signals import handle_signals
from karl_fast.cycle.config import STEPS, CycleConfig, load
from karl_fast.cycle.records import CycleRecords
from karl_fast.cycle.run import plan_run, run
from karl_fast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[status] FILE", help="The file of the cycle; status shows its last runs.", show_default=False
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", help=f"The last step to run: {', '.join(STEPS)}.", autocompletion=lambda: list(STEPS)),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan, with sizes and memory, and run nothing.")]
Last = Annotated[int, typer.Option("--last", help="Number of runs that status shows.", min=1)]
Json = Annotated[
    bool, typer.Option("--json", help="Print a JSON object a line: each step as it begins and ends, and the run.")
]


@add_command(
    "cycle",
    epilog="Exit code 0 also where the new adapter is refused; that of the failed command where a step fails.\n\n"
    "Example: karl-fast cycle cycle.toml --dry-run\n\nExample: karl-fast cycle status cycle.toml",
)
def command(
    *,
    words: Words = None,
    until: Until = None,
    dry_run: DryRun = False,
    last: Last = 10,
    json: Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run the steps of a project whose inputs have changed, from transcripts to the adapter in use."""
    status, file = _parse_words(words or [])
    config = load(file)
    if status:
        _print_status(config, last, json)
    elif dry_run:
        entries = plan_run(config, until)
        print(_to_json_lines(entries) if json else describe_plan(config, entries))
    else:
        _run_cycle(config, until, json, quiet)


def _parse_words(words: list[str]) -> tuple[bool, str]:
    """Return whether the status is wanted, and the file."""
    status = words[:1] == ["status"]
    files = words[1:] if status else words
    if len(files) != 1:
        came = f"{len(files)} files are named" if files else "no file is named"
        raise UsageError(f"{came}, wanted the .toml file of one cycle")
    return status, files[0]


def _to_json_lines(objects: list[dict[str, Any]]) -> str:
    """Return objects as JSON, one a line, in ASCII."""
    return "\n".join(map(dumps, objects))


def _print_status(config: CycleConfig, last: int, json: bool) -> None:
    runs = CycleRecords(config.folder).read_runs()[-last:]
    print(_to_json_lines(runs) if json else describe_runs(runs))


def _run_cycle(config: CycleConfig, until: str | None, json: bool, quiet: bool) -> None:
    handle_signals(lambda word: f"{word}; the next run goes on from the last finished step")

    def on_event(event: dict[str, Any]) -> None:
        if json:
            print(_to_json_lines([event]), flush=True)
        elif not quiet and (line := describe_event(event)):
            sys.stderr.write(line + "\n")

    def on_line(line: str) -> None:
        if not (quiet or json):
            sys.stderr.write(f"  {clean(line)}\n")

    record = run(config, until, on_line=on_line, on_event=on_event)
    if record["state"] == "failed":
        sys.stderr.write(f"error: {clean(record['error'].splitlines()[0])}\n")
        raise typer.Exit(record.get("code", 1))


WIDTH = 9
"""Columns of the name of a step."""

NONE = "-"

STATES = {"runs": "runs", "waits": "runs if the steps before it change its inputs", "unchanged": "unchanged: skipped"}
"""Words of a plan for the state of a step."""


def describe_plan(config: CycleConfig, entries: list[dict[str, Any]]) -> str:
    """Return the plan: a step a line, with sizes, memory, and the command of a step whose inputs are known."""
    lines = [f"folder    {clean(str(config.folder))}"]
    for entry in entries:
        lines.append("; ".join([f"{entry['step']:<{WIDTH}} {STATES[entry['state']]}", *_describe_costs(entry)]))
        if entry["state"] == "runs":
            lines.append(f"          karl-fast {clean(shlex.join(entry['arguments']))}")
    return "\n".join(lines)


def _describe_costs(entry: dict[str, Any]) -> Iterator[str]:
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
        return _describe_end(event)
    name = f"{event['step']:<{WIDTH}}"
    if event["state"] == "running":
        return f"{name} karl-fast {clean(shlex.join(event['arguments']))}"
    if event["state"] == "done":
        return f"{name} done in {event['seconds']:,.1f} s"
    return f"{name} {event['state']}"


def _describe_end(run: dict[str, Any]) -> str:
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
    rows = [HEADS, *map(_cells, runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _cells(run: dict[str, Any]) -> tuple[str, ...]:
    started = datetime.fromisoformat(run["started"]).strftime("%Y-%m-%d %H:%M")
    rows = _describe_pair(run, "rows_read", "rows_drawn", "{:,}")
    reward = _describe_pair(run, "reward_logged", "reward_drawn", "{:.3f}")
    held_out = _describe_pair(run, "held_out_before", "held_out_after", "{:.3f}")
    unit = " nats" if run.get("unit") == "nats a token" else ""
    return (str(run["run"]), started, run["state"], rows, reward, held_out + unit, _describe_decision(run))


def _describe_pair(run: dict[str, Any], before: str, after: str, form: str) -> str:
    if before not in run:
        return NONE
    values = (run[before], run[after])
    return " -> ".join(NONE if value is None else form.format(value) for value in values)


def _describe_decision(run: dict[str, Any]) -> str:
    """Return the decision with its reason, the error of a failed step, or the step that was cut short."""
    if "error" in run:
        return clean(run["error"].splitlines()[0])
    running = [name for name, step in run["steps"].items() if step["state"] == "running"]
    if running:
        return f"in {running[0]}"
    if "promoted" not in run:
        return NONE
    return f"{'promoted' if run['promoted'] else 'refused'}, {run['why']}"
