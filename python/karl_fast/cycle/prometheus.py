"""Results of the last run as a Prometheus text file, for the textfile collector of node_exporter."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from karl_fast import _atomic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METRIC_PREFIX = "karl_fast_cycle_"

GAUGES = {
    "rows_read": "Rows of the log that the last run sampled from.",
    "rows_drawn": "Rows of its data set, copies included.",
    "reward_logged": "Mean reward of the log.",
    "reward_drawn": "Mean reward of the data set.",
    "held_out_before": "Adapter in use on held-out data: mean reward, or nats a token.",
    "held_out_after": "New adapter on held-out data.",
    "promoted": "1 if the last decision promoted the new adapter, 0 if it refused it.",
}


def write_prometheus(path: Path, run: dict[str, Any]) -> None:
    """Write the file in one step, as the collector wants it.

    Raises:
        FileError: it cannot be written.
    """
    with _atomic.refused(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    _atomic.write(path, lambda file: file.write("\n".join([*_metric_lines(run), ""]).encode()))


def _metric_lines(run: dict[str, Any]) -> Iterator[str]:
    ended = datetime.fromisoformat(run["ended"]).timestamp()
    yield from _gauge("last_run_timestamp_seconds", "End of the last run.", ended)
    failed = run["state"] not in ("done", "unchanged")
    yield from _gauge("last_run_failed", "1 if the last run failed or was stopped.", int(failed))
    yield from _gauge("last_run_seconds", "Duration of the last run.", run["seconds"])
    for name, help in GAUGES.items():
        if run.get(name) is not None:
            yield from _gauge(name, help, run[name])
    steps = {name: one["seconds"] for name, one in run["steps"].items() if "seconds" in one}
    if steps:
        yield from _metric_head("step_seconds", "Duration of each step that ran.")
        yield from (f'{METRIC_PREFIX}step_seconds{{step="{name}"}} {seconds:g}' for name, seconds in steps.items())


def _gauge(name: str, help: str, value: float) -> Iterator[str]:
    yield from _metric_head(name, help)
    yield f"{METRIC_PREFIX}{name} {float(value):.10g}"


def _metric_head(name: str, help: str) -> Iterator[str]:
    yield f"# HELP {METRIC_PREFIX}{name} {help}"
    yield f"# TYPE {METRIC_PREFIX}{name} gauge"
