"""A run of a cycle: each step is skipped or executed, and recorded when it has finished."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from karl_fast import _atomic
from karl_fast._extras import require_mlx
from karl_fast._signals import Stopped
from karl_fast.cycle import checks
from karl_fast.cycle.prometheus import write_prometheus
from karl_fast.cycle.decisions import adopt_decision, find_decision, is_step_complete
from karl_fast.cycle.child import execute
from karl_fast.cycle.config import STEPS
from karl_fast.cycle.records import CycleRecords
from karl_fast.cycle.run_summary import summarize_results, select_figures
from karl_fast.cycle.tasks import task
from karl_fast.errors import KarlError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
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
            self.record |= summarize_results(self.results) | {"seconds": round(time.monotonic() - began, 3), "ended": _now()}
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
