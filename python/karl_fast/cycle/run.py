"""A run of a cycle: each step is skipped or executed, and recorded when it has finished.

`run` executes the steps whose inputs have changed, each as a command in a process of its own (`execute`), and writes
the results for Prometheus; `plan_run` says what a run would do. An adapter is judged once: its decision is looked up,
and never made again.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from karl_fast import _atomic
from karl_fast._extras import require_mlx
from karl_fast._signals import Stopped
from karl_fast.cycle.checks import check, check_look
from karl_fast.cycle.config import STEPS
from karl_fast.cycle.records import CycleRecords
from karl_fast.cycle.tasks import LINK, make_task
from karl_fast.errors import KarlError, UsageError
from karl_fast.train.config import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from karl_fast.cycle.config import CycleConfig
    from karl_fast.cycle.tasks import Task

    OnLine = Callable[[str], object]
    OnEvent = Callable[[dict[str, Any]], object]


def steps_until(config: CycleConfig, last: str | None) -> tuple[str, ...]:
    """Return the steps of a run, up to one of them.

    Raises:
        UsageError: the cycle has no such step.
    """
    if last is None:
        return config.steps
    if last not in config.steps:
        known = "" if last not in STEPS else f": the file has no table [{last}]"
        raise UsageError(f"until is {last!r}, wanted one of {', '.join(config.steps)}{known}", "until")
    return config.steps[: config.steps.index(last) + 1]


def run(
    config: CycleConfig, last: str | None = None, *, on_line: OnLine = str, on_event: OnEvent = dict
) -> dict[str, Any]:
    """Run the steps of a cycle whose inputs have changed, up to one of them; return the record of the run.

    Args:
        config: the cycle.
        last: last step to run; all by default.
        on_line: called with each line that a command reports.
        on_event: called with the record of a step as it begins and as it ends, and with that of the run.

    Raises:
        OutputExistsError: another run holds the working folder.
        UsageError: no such step.
        MissingExtraError: a step needs MLX, and it is not installed.
        FileError: a record cannot be written, or an input cannot be read.
        KarlError: as `checks.check`, before the first step.
    """
    steps = steps_until(config, last)
    if not {"train", "eval", "promote"}.isdisjoint(steps):
        require_mlx()
    with _atomic.name_file_errors(config.folder):
        config.folder.mkdir(parents=True, exist_ok=True)
    with _atomic.lock_folder(config.folder) as lock:
        return CycleRun(config, lock.fileno(), on_line, on_event).run_steps(steps)


class CycleRun:
    """A run that holds the lock of its working folder."""

    def __init__(self, config: CycleConfig, lock: int, on_line: OnLine, on_event: OnEvent) -> None:
        self.config, self.lock, self.on_line, self.on_event = config, lock, on_line, on_event
        self.records = CycleRecords(config.folder)
        self.outputs: dict[str, Path] = {}
        self.results: dict[str, dict[str, Any]] = {}
        self.record: dict[str, Any] = {
            "run": self.records.next_run(),
            "state": "running",
            "started": _timestamp(),
            "file": str(config.file),
            "steps": {},
        }

    def run_steps(self, steps: tuple[str, ...]) -> dict[str, Any]:
        """Run the steps in order until one fails."""
        began = time.monotonic()
        self.records.remove_unfinished()
        self.records.write_run(self.record)
        try:
            check(self.config, steps)
            for step in steps:
                if not self.run_step(step):
                    break
            else:
                self.records.remove_intermediate([*self.outputs.values()])
                states = {values["state"] for name, values in self.record["steps"].items() if name != "collect"}
                self.record["state"] = "unchanged" if states == {"unchanged"} else "done"
        except Stopped:
            self.record["state"] = "stopped"
            raise
        except KarlError as error:
            self.record |= {"state": "failed", "error": str(error)}
            raise
        finally:
            self.record |= summarize_results(self.results) | {
                "seconds": round(time.monotonic() - began, 3),
                "ended": _timestamp(),
            }
            self.records.write_run(self.record)
            write_prometheus(self.config.metrics, self.record)
            self.on_event({"event": "run", **self.record})
        return self.record

    def run_step(self, step: str) -> bool:
        """Skip or execute a step; return False if it failed."""
        if step == "eval" and (decision := find_decision(self.config, self.outputs, self.records)):
            self._skip(step, decision["evaluation"])
            return True
        task = make_task(self.config, step, self.outputs)
        record = find_finished(task, self.records)
        if record is not None:
            self._skip(step, record["result"], task)
            return True
        return self._execute(task)

    def _skip(self, step: str, result: dict[str, Any], task: Task | None = None) -> None:
        self._keep_result(step, result, task)
        self._set_state(step, {"state": "unchanged"})

    def _execute(self, task: Task) -> bool:
        """Run the command of a step, and record how it ended."""
        if task.step == "train":
            check_look(self.config, self.outputs["sample"])
        self._set_state(task.step, {"state": "running", "arguments": task.arguments})
        if task.output is not None:
            with _atomic.name_file_errors(task.output):
                task.output.parent.mkdir(parents=True, exist_ok=True)
        decision = adopt_decision(self.config, task, self.records)
        if decision is not None:
            self._finish(task, decision, {"seconds": 0.0})
            return True
        child = execute(task.arguments, self.config.file.parent, self.lock, self.on_line)
        cost = {"seconds": child.seconds, "peak_bytes": child.peak_bytes}
        if child.code and not is_step_complete(task, child.result):
            self._set_state(task.step, cost | {"state": "failed", "error": child.error})
            self.record |= {"state": "failed", "error": f"{task.step}: {child.error}", "code": max(child.code, 1)}
            return False
        self._finish(task, select_figures(task.step, child.result), cost)
        return True

    def _finish(self, task: Task, result: dict[str, Any], cost: dict[str, Any]) -> None:
        if task.step == "promote":
            result["evaluation"] = self.results["eval"]
        inputs = {name: vars(content) for name, content in task.inputs.items()}
        record = {"inputs": inputs, "arguments": task.arguments, "output": task.output_digest(), "result": result}
        self.records.write_step(task.step, task.key, record | cost)
        self._keep_result(task.step, result, task)
        self._set_state(task.step, cost | {"state": "done"})

    def _keep_result(self, step: str, result: dict[str, Any], task: Task | None) -> None:
        self.results[step] = result
        if task is not None and task.output is not None:
            self.outputs[step] = task.output

    def _set_state(self, step: str, values: dict[str, Any]) -> None:
        """Write the state of a step into the record of the run, and pass it on."""
        self.record["steps"][step] = {**self.record["steps"].get(step, {}), **values}
        self.records.write_run(self.record)
        self.on_event({"event": "step", "run": self.record["run"], "step": step, **self.record["steps"][step]})


def find_finished(task: Task, records: CycleRecords) -> dict[str, Any] | None:
    """Return the record of a step whose inputs and output are as they were when it finished; None for any other."""
    record = records.read_step(task.step, task.key)
    if task.step == "collect" or not record or "result" not in record:  # a collection reads what no key has
        return None
    return record if record["output"] == task.output_digest() else None


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


COMMAND = [sys.executable, "-P", "-m", "karl_fast"]
"""This installation; without the working directory in the path, whose files could have the names of modules."""

LINES_KEPT = 40
"""Last lines of the report that are kept for the message of a failure."""

KILOBYTES = 1 if sys.platform == "darwin" else 1024
"""Bytes in the unit of a process's peak memory."""


@dataclass(frozen=True)
class ChildResult:
    """End of a command.

    Attributes:
        code: its exit code; below 0 the number of the signal that ended it.
        result: object that it printed; None if it printed none.
        error: its message, for a code other than 0.
        seconds: time that it took.
        peak_bytes: its peak memory.
    """

    code: int
    result: dict[str, Any] | None
    error: str
    seconds: float
    peak_bytes: int


def execute(arguments: list[str], folder: Path, lock: int, on_line: OnLine) -> ChildResult:
    """Run a command with `--json` to its end, and pass on the lines of its report.

    The command holds the lock of the cycle too: if the cycle is killed, no other one begins while the command still
    writes. It has a session of its own, so that Ctrl-C reaches it once, from here.

    Args:
        arguments: of `karl-fast`.
        folder: its working directory.
        lock: descriptor of the lock.
        on_line: called with each line of the report.
    """
    began, lines = time.monotonic(), list[str]()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [*COMMAND, *arguments, "--json"],
            cwd=folder,
            # Without settings of karl-fast: those of a cycle are in its file.
            env={name: value for name, value in os.environ.items() if not name.startswith("KARL_FAST_")},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            pass_fds=(lock,),
            start_new_session=True,
        )
        assert process.stderr is not None
        try:
            with process.stderr as report:
                for line in report:
                    lines = [*lines, line.decode("utf-8", "replace").rstrip("\n")][-LINES_KEPT:]
                    on_line(lines[-1])
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException as stop:
            _stop_child(process, stop)
            raise
        process.returncode = code = os.waitstatus_to_exitcode(status)
        out.seek(0)
        result = _parse_result(out.read())
    seconds = time.monotonic() - began
    return ChildResult(code, result, _failure_message(code, lines), round(seconds, 3), usage.ru_maxrss * KILOBYTES)


def _stop_child(process: subprocess.Popen[bytes], stop: BaseException) -> None:
    """Pass a signal on to a command, and wait until it has cleaned up."""
    number = stop.number if isinstance(stop, Stopped) else signal.SIGTERM
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    with contextlib.suppress(ChildProcessError):
        process.wait()


def _parse_result(text: bytes) -> dict[str, Any] | None:
    try:
        result = json.loads(text)
    except ValueError:
        return None
    return result if isinstance(result, dict) else None


def _failure_message(code: int, lines: list[str]) -> str:
    """Return the message of a failed command: from its last `error:` on, or its last line."""
    if code == 0:
        return ""
    if code < 0:
        return f"ended by signal {-code} ({signal.Signals(-code).name})"
    starts = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    message = lines[starts[-1] :] if starts else lines[-1:]
    return "\n".join(message).removeprefix("error: ") or f"exit code {code}"


FIGURES_KEPT = {
    "collect": ("agents", "files", "grown", "reread", "lines", "size_bytes", "written_bytes", "failed"),
    "convert": ("trajectories", "rewarded", "lines_read", "size_bytes", "written_bytes", "secrets"),
    "outcomes": ("written", "known", "components", "commits", "dropped", "written_bytes"),
    "sample": ("accounting", "reward", "draw", "secrets"),
    "train": ("steps", "learned_tokens", "best", "peak_bytes", "max_seq_length"),
    "eval": ("prompts", "attempts", "missing", "measures", "against", "differences", "whole", "difference"),
    "promote": ("promoted", "value", "limit", "p", "alpha", "look", "units", "unit"),
}
"""Parts of each command's result that its record keeps; the rest is in the output itself."""


def select_figures(step: str, result: dict[str, Any] | None) -> dict[str, Any]:
    """Return the parts of a result that the record keeps."""
    return {name: result[name] for name in FIGURES_KEPT[step] if name in result} if result else {}


def summarize_results(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of a run from the results of its steps; a step that has none adds none.

    ``rows_read``, ``rows_drawn``; ``reward_logged`` and ``reward_drawn``: mean rewards of the log and of the data set;
    ``held_out_before``, ``held_out_after`` and ``unit``: the adapter in use and the new one on held-out data;
    ``promoted`` and ``why``.
    """
    figures: dict[str, Any] = {}
    if "sample" in results:
        sampled = results["sample"]
        figures["rows_read"], figures["rows_drawn"] = sampled["accounting"]["rows_read"], sampled["draw"]["rows"]
        figures["reward_logged"] = sampled["reward"]["before"]["mean"]
        figures["reward_drawn"] = sampled["reward"]["after"]["mean"]
    if "eval" in results:
        figures |= _held_out_figures(results["eval"])
    if "promote" in results:
        figures |= _decision_figures(results["promote"])
    return figures


def _held_out_figures(evaluation: dict[str, Any]) -> dict[str, Any]:
    if "measures" in evaluation:
        before, after = (evaluation[side].get("reward", {}).get("value") for side in ("against", "measures"))
        return {"held_out_before": before, "held_out_after": after, "unit": "reward"}
    whole = evaluation["whole"]
    return {"held_out_before": whole["against"], "held_out_after": whole["loss"], "unit": "nats a token"}


def _decision_figures(decision: dict[str, Any]) -> dict[str, Any]:
    test = f"p {decision['p']:.3g} at look {decision['look']}, wanted at most {decision['alpha']:.3g}"
    better = "surely better" if decision["promoted"] else "not surely better"
    return {"promoted": decision["promoted"], "why": f"{better}: {test}"}


DECIDED = {"promoted": True, "refused": False}
"""States of a look at held-out data that end it, and whether they promote."""

DECISION_FIGURES = ("value", "limit", "p", "alpha", "look", "units", "unit")


def find_decision(config: CycleConfig, outputs: dict[str, Path], records: CycleRecords) -> dict[str, Any] | None:
    """Return the result of `promote` for an adapter that is already decided on; None for a new one.

    A decision does not depend on the adapter in use: without this, a promoted adapter would be compared with itself.
    """
    if "promote" not in config.steps:
        return None
    record = records.read_step("promote", make_task(config, "promote", outputs).key)
    return record["result"] if record and "result" in record else None


def is_step_complete(task: Task, result: dict[str, Any] | None) -> bool:
    """Return whether a command that exits with 1 has done its work.

    It refused to promote, or it collected all files but those that cannot be read: these are in its report and its
    record, and the next collection tries them again.
    """
    if result is None:
        return False
    return (task.step == "promote" and result.get("promoted") is False) or (
        task.step == "collect" and "failed" in result
    )


def adopt_decision(config: CycleConfig, task: Task, records: CycleRecords) -> dict[str, Any] | None:
    """Return the decision of a `promote` that was killed after it decided; None if there is none.

    The beginning is recorded here, so that only looks since then count.
    """
    if task.step != "promote":
        return None
    # Loads NumPy, which the other steps do without.
    from karl_fast.evaluation.promotions import PromotionRecords
    from karl_fast.evaluation.rollouts import adapter_hash

    start = records.read_step("promote", task.key)
    if start is None:
        records.write_step("promote", task.key, {"begun": _timestamp()})
        return None
    looks, digest = PromotionRecords(config.folder / "adapters" / LINK), adapter_hash(task.arguments[1])
    with looks.locked():  # which finishes a promotion that was killed
        for _, record in looks.looks():
            is_this = record["new"]["sha256"] == digest and record["time"] >= start["begun"]
            if is_this and record["state"] in DECIDED:
                figures = {name: record[name] for name in DECISION_FIGURES}
                return json.loads(json.dumps({"promoted": DECIDED[record["state"]]} | figures))  # type: ignore[no-any-return]
    return None


def plan_run(config: CycleConfig, last: str | None = None) -> list[dict[str, Any]]:
    """Return an entry for each step of a run, without running any.

    ``state`` is ``unchanged``, ``runs``, or ``waits``: its inputs are known once the steps before it have run, and it
    is skipped if they come out as they did. ``seconds`` and ``peak_bytes`` are those of the last time it ran;
    ``memory_bytes`` is the estimate of training, at most, and ``memory_limit_bytes`` what there is.

    Raises:
        UsageError: no such step.
        FileError: an input cannot be read.
        KarlError: as `checks.check`; or the model cannot be loaded.
    """
    check(config, steps_until(config, last))
    outputs: dict[str, Path] = {}
    entries: list[dict[str, Any]] = []
    records, is_known = CycleRecords(config.folder), True
    for step in steps_until(config, last):
        entry = _plan_step(config, step, outputs, records) if is_known else {"step": step, "state": "waits"}
        is_known = entry["state"] == "unchanged"
        last_time = records.read_last(step) or {}
        entry |= {name: last_time[name] for name in ("seconds", "peak_bytes") if name in last_time}
        if step == "train" and not is_known:
            entry |= _plan_training(config)
        entries.append(entry)
    return entries


def _plan_step(config: CycleConfig, step: str, outputs: dict[str, Path], records: CycleRecords) -> dict[str, Any]:
    """Return the entry of a step with known inputs, and keep its output."""
    if step == "eval" and find_decision(config, outputs, records):
        return {"step": step, "state": "unchanged"}
    task = make_task(config, step, outputs)
    if task.output is not None:
        outputs[step] = task.output
    state = "runs" if find_finished(task, records) is None else "unchanged"
    files = sum(content.files for content in task.inputs.values())
    size = sum(content.size_bytes for content in task.inputs.values())
    return {"step": step, "state": state, "files": files, "size_bytes": size, "arguments": task.arguments}


def _plan_training(config: CycleConfig) -> dict[str, int]:
    """Return the memory of the largest batch that the settings allow, and the limit; nothing without MLX."""
    if importlib.util.find_spec("mlx_lm") is None:
        return {}
    from karl_fast.settings.schema import build  # these load MLX, which only a plan with training needs
    from karl_fast.train.memory import estimate_memory
    from karl_fast.train.settings import Training

    file = load(config.file)
    return estimate_memory(config.model, build(Training, file.settings))


METRIC_PREFIX = "karl_fast_cycle_"
"""Prefix of the metrics, which are written as the textfile collector of node_exporter reads them.

The format is two lines of comment and one of value for each gauge: twelve lines here, and no package for them.
"""

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
    with _atomic.name_file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    _atomic.write_file(path, lambda file: file.write("\n".join([*_format_metrics(run), ""]).encode()))


def _format_metrics(run: dict[str, Any]) -> Iterator[str]:
    ended = datetime.fromisoformat(run["ended"]).timestamp()
    yield from _format_gauge("last_run_timestamp_seconds", "End of the last run.", ended)
    failed = run["state"] not in ("done", "unchanged")
    yield from _format_gauge("last_run_failed", "1 if the last run failed or was stopped.", int(failed))
    yield from _format_gauge("last_run_seconds", "Duration of the last run.", run["seconds"])
    for name, help in GAUGES.items():
        if run.get(name) is not None:
            yield from _format_gauge(name, help, run[name])
    steps = {name: step["seconds"] for name, step in run["steps"].items() if "seconds" in step}
    if steps:
        yield from _format_head("step_seconds", "Duration of each step that ran.")
        yield from (f'{METRIC_PREFIX}step_seconds{{step="{name}"}} {seconds:g}' for name, seconds in steps.items())


def _format_gauge(name: str, help: str, value: float) -> Iterator[str]:
    yield from _format_head(name, help)
    yield f"{METRIC_PREFIX}{name} {float(value):.10g}"


def _format_head(name: str, help: str) -> Iterator[str]:
    yield f"# HELP {METRIC_PREFIX}{name} {help}"
    yield f"# TYPE {METRIC_PREFIX}{name} gauge"
