"""A run of a cycle: each step is skipped or executed, and recorded when it has finished."""

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
from karl_fast.cycle import checks
from karl_fast.cycle.checks import check
from karl_fast.cycle.config import STEPS
from karl_fast.cycle.records import CycleRecords
from karl_fast.cycle.tasks import LINK, task
from karl_fast.errors import KarlError, UsageError
from karl_fast.train.config import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from karl_fast.cycle.config import CycleConfig
    from karl_fast.cycle.tasks import Task

    Say = Callable[[str], object]
    Tell = Callable[[dict[str, Any]], object]


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


def run(config: CycleConfig, last: str | None = None, *, say: Say = str, tell: Tell = dict) -> dict[str, Any]:
    """Run the steps of a cycle whose inputs have changed, up to one of them; return the record of the run.

    Args:
        config: the cycle.
        last: last step to run; all by default.
        say: receiver of the lines that commands report.
        tell: receiver of an event: the record of a step as it begins and as it ends, and that of the run.

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
    with _atomic.refused(config.folder):
        config.folder.mkdir(parents=True, exist_ok=True)
    with _atomic.alone(config.folder) as lock:
        return CycleRun(config, lock.fileno(), say, tell).all(steps)


class CycleRun:
    """A run that holds the lock of its working folder."""

    def __init__(self, config: CycleConfig, lock: int, say: Say, tell: Tell) -> None:
        self.config, self.lock, self.say, self.tell = config, lock, say, tell
        self.records = CycleRecords(config.folder)
        self.outputs: dict[str, Path] = {}
        self.results: dict[str, dict[str, Any]] = {}
        self.record: dict[str, Any] = {
            "run": self.records.next_run(),
            "state": "running",
            "started": _now(),
            "file": str(config.file),
            "steps": {},
        }

    def all(self, steps: tuple[str, ...]) -> dict[str, Any]:
        """Run the steps in order until one fails."""
        began = time.monotonic()
        self.records.sweep_killed()
        self.records.write_run(self.record)
        try:
            checks.check(self.config, steps)
            for step in steps:
                if not self.step(step):
                    break
            else:
                self.records.sweep([*self.outputs.values()])
                ran = {one["state"] for name, one in self.record["steps"].items() if name != "collect"}
                self.record["state"] = "unchanged" if ran == {"unchanged"} else "done"
        except Stopped:
            self.record["state"] = "stopped"
            raise
        except KarlError as error:
            self.record |= {"state": "failed", "error": str(error)}
            raise
        finally:
            self.record |= summarize_results(self.results) | {
                "seconds": round(time.monotonic() - began, 3),
                "ended": _now(),
            }
            self.records.write_run(self.record)
            write_prometheus(self.config.metrics, self.record)
            self.tell({"event": "run", **self.record})
        return self.record

    def step(self, step: str) -> bool:
        """Skip or execute a step; return False if it failed."""
        if step == "eval" and (decided := find_decision(self.config, self.outputs, self.records)):
            self._skipped(step, decided["evaluation"])
            return True
        now = task(self.config, step, self.outputs)
        found = self.records.done(step, now.key)
        if step != "collect" and found and "result" in found and found["output"] == now.output_digest():
            self._skipped(step, found["result"], now)
            return True
        return self._execute(now)

    def _skipped(self, step: str, result: dict[str, Any], now: Task | None = None) -> None:
        self._made(step, result, now)
        self._note(step, {"state": "unchanged"})

    def _execute(self, now: Task) -> bool:
        """Run the command of a step, and record how it ended."""
        if now.step == "train":
            checks.check_look(self.config, self.outputs["sample"])
        self._note(now.step, {"state": "running", "arguments": now.arguments})
        if now.output is not None:
            with _atomic.refused(now.output):
                now.output.parent.mkdir(parents=True, exist_ok=True)
        adopted = adopt_decision(self.config, now, self.records)
        if adopted is not None:
            self._finished(now, adopted, {"seconds": 0.0})
            return True
        ended = execute(now.arguments, self.config.file.parent, self.lock, self.say)
        cost = {"seconds": ended.seconds, "peak_bytes": ended.peak_bytes}
        if ended.code and not is_step_complete(now, ended.result):
            self._note(now.step, cost | {"state": "failed", "error": ended.error})
            self.record |= {"state": "failed", "error": f"{now.step}: {ended.error}", "code": max(ended.code, 1)}
            return False
        self._finished(now, select_figures(now.step, ended.result), cost)
        return True

    def _finished(self, now: Task, result: dict[str, Any], cost: dict[str, Any]) -> None:
        if now.step == "promote":
            result["evaluation"] = self.results["eval"]
        inputs = {name: vars(content) for name, content in now.inputs.items()}
        record = {"inputs": inputs, "arguments": now.arguments, "output": now.output_digest(), "result": result}
        self.records.finish(now.step, now.key, record | cost)
        self._made(now.step, result, now)
        self._note(now.step, cost | {"state": "done"})

    def _made(self, step: str, result: dict[str, Any], now: Task | None) -> None:
        self.results[step] = result
        if now is not None and now.output is not None:
            self.outputs[step] = now.output

    def _note(self, step: str, values: dict[str, Any]) -> None:
        """Write the state of a step into the record of the run, and tell it."""
        self.record["steps"][step] = {**self.record["steps"].get(step, {}), **values}
        self.records.write_run(self.record)
        self.tell({"event": "step", "run": self.record["run"], "step": step, **self.record["steps"][step]})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# A command of karl-fast in a process of its own.


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


def execute(arguments: list[str], folder: Path, lock: int, say: Callable[[str], object]) -> ChildResult:
    """Run a command with `--json` to its end, and pass on the lines of its report.

    The command holds the lock of the cycle too: if the cycle is killed, no other one begins while the command still
    writes. It has a session of its own, so that Ctrl-C reaches it once, from here.

    Args:
        arguments: of `karl-fast`.
        folder: its working directory.
        lock: descriptor of the lock.
        say: receiver of each line of the report.
    """
    began, lines = time.monotonic(), list[str]()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [*COMMAND, *arguments, "--json"],
            cwd=folder,
            env=_child_environment(),
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
                    say(lines[-1])
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException as stop:
            _stop_child(process, stop)
            raise
        process.returncode = code = os.waitstatus_to_exitcode(status)
        out.seek(0)
        result = _parse_result(out.read())
    seconds = time.monotonic() - began
    return ChildResult(code, result, _failure_message(code, lines), round(seconds, 3), usage.ru_maxrss * KILOBYTES)


def _child_environment() -> dict[str, str]:
    """Return the environment without settings of karl-fast: those of a cycle are in its file."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KARL_FAST_")}


def _stop_child(process: subprocess.Popen[bytes], stop: BaseException) -> None:
    """Pass a signal on to a command, and wait until it has cleaned up."""
    number = stop.number if isinstance(stop, Stopped) else signal.SIGTERM
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    with contextlib.suppress(ChildProcessError):
        process.wait()


def _parse_result(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _failure_message(code: int, lines: list[str]) -> str:
    """Return the message of a failed command: from its last `error:` on, or its last line."""
    if code == 0:
        return ""
    if code < 0:
        return f"ended by signal {-code} ({signal.Signals(-code).name})"
    starts = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    said = lines[starts[-1] :] if starts else lines[-1:]
    return "\n".join(said).removeprefix("error: ") or f"exit code {code}"


# What a run comes to: rows, rewards before and after, and the decision.


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
    found: dict[str, Any] = {}
    if "sample" in results:
        sampled = results["sample"]
        found["rows_read"], found["rows_drawn"] = sampled["accounting"]["rows_read"], sampled["draw"]["rows"]
        found["reward_logged"] = sampled["reward"]["before"]["mean"]
        found["reward_drawn"] = sampled["reward"]["after"]["mean"]
    if "eval" in results:
        found |= _held_out_figures(results["eval"])
    if "promote" in results:
        found |= _decision_figures(results["promote"])
    return found


def _held_out_figures(judged: dict[str, Any]) -> dict[str, Any]:
    if "measures" in judged:
        before, after = (judged[side].get("reward", {}).get("value") for side in ("against", "measures"))
        return {"held_out_before": before, "held_out_after": after, "unit": "reward"}
    whole = judged["whole"]
    return {"held_out_before": whole["against"], "held_out_after": whole["loss"], "unit": "nats a token"}


def _decision_figures(decided: dict[str, Any]) -> dict[str, Any]:
    test = f"p {decided['p']:.3g} at look {decided['look']}, wanted at most {decided['alpha']:.3g}"
    better = "surely better" if decided["promoted"] else "not surely better"
    return {"promoted": decided["promoted"], "why": f"{better}: {test}"}


# Results of the last run as a Prometheus text file, for the textfile collector of node_exporter.


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


# Decisions on adapters: each adapter is judged once, and a decision is never made twice.


DECIDED = {"promoted": True, "refused": False}
"""States of a look at held-out data that end it, and whether they promote."""

DECISION_FIGURES = ("value", "limit", "p", "alpha", "look", "units", "unit")


def find_decision(config: CycleConfig, outputs: dict[str, Path], records: CycleRecords) -> dict[str, Any] | None:
    """Return the result of `promote` for an adapter that is already decided on; None for a new one.

    A decision does not depend on the adapter in use: without this, a promoted adapter would be compared with itself.
    """
    if "promote" not in config.steps:
        return None
    found = records.done("promote", task(config, "promote", outputs).key)
    return found["result"] if found and "result" in found else None


def is_step_complete(now: Task, result: dict[str, Any] | None) -> bool:
    """Return whether a command that exits with 1 has done its work.

    It refused to promote, or it collected all files but those that cannot be read: these are in its report and its
    record, and the next collection tries them again.
    """
    if result is None:
        return False
    return (now.step == "promote" and result.get("promoted") is False) or (now.step == "collect" and "failed" in result)


def adopt_decision(config: CycleConfig, now: Task, records: CycleRecords) -> dict[str, Any] | None:
    """Return the decision of a `promote` that was killed after it decided; None if there is none.

    The beginning is recorded here, so that only looks since then count.
    """
    if now.step != "promote":
        return None
    # Loads NumPy, which the other steps do without.
    from karl_fast.evaluation.promotions import PromotionRecords
    from karl_fast.evaluation.rollouts import adapter_hash

    begun = records.done("promote", now.key)
    if begun is None:
        records.finish("promote", now.key, {"begun": datetime.now(UTC).isoformat(timespec="seconds")})
        return None
    looks, digest = PromotionRecords(config.folder / "adapters" / LINK), adapter_hash(now.arguments[1])
    with looks.locked():  # which finishes a promotion that was killed
        for _, record in looks.looks():
            same = record["new"]["sha256"] == digest and record["time"] >= begun["begun"]
            if same and record["state"] in DECIDED:
                figures = {name: record[name] for name in DECISION_FIGURES}
                return json.loads(json.dumps({"promoted": DECIDED[record["state"]]} | figures))  # type: ignore[no-any-return]
    return None


# The plan of a run: which steps it would skip or execute, with the size of their inputs and their memory.


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
    records, known = CycleRecords(config.folder), True
    for step in steps_until(config, last):
        entry = _plan_step(config, step, outputs, records) if known else {"step": step, "state": "waits"}
        known = entry["state"] == "unchanged"
        before = records.last(step) or {}
        entry |= {name: before[name] for name in ("seconds", "peak_bytes") if name in before}
        if step == "train" and not known:
            entry |= _plan_training(config)
        entries.append(entry)
    return entries


def _plan_step(config: CycleConfig, step: str, outputs: dict[str, Path], records: CycleRecords) -> dict[str, Any]:
    """Return the entry of a step with known inputs, and keep its output."""
    if step == "eval" and find_decision(config, outputs, records):
        return {"step": step, "state": "unchanged"}
    now = task(config, step, outputs)
    found = records.done(step, now.key)
    unchanged = bool(step != "collect" and found and "result" in found and found["output"] == now.output_digest())
    if now.output is not None:
        outputs[step] = now.output
    files, size = (sum(getattr(one, name) for one in now.inputs.values()) for name in ("files", "size_bytes"))
    state = "unchanged" if unchanged else "runs"
    return {"step": step, "state": state, "files": files, "size_bytes": size, "arguments": now.arguments}


def _plan_training(config: CycleConfig) -> dict[str, int]:
    """Return the memory of the largest batch that the settings allow, and the limit; nothing without MLX."""
    if importlib.util.find_spec("mlx_lm") is None:
        return {}
    from karl_fast.settings.schema import build  # these load MLX, which only a plan with training needs
    from karl_fast.train.memory import estimate_memory
    from karl_fast.train.settings import Training

    file = load(config.file)
    return estimate_memory(config.model, build(Training, file.settings))
