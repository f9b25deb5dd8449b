"""Run the arms and seeds of an experiment side by side, and write its record.

    OUT/ARM/SEED/rl.toml        settings of the run, which `karl-fast rl --config` takes too
                 recipe.toml    its recipe, where the arm changes axes
                 run/           the run, as `karl-fast rl` writes it
                 identity.txt   its settings and the content of its files, by which a change is noticed
                 log.txt        what its process printed
                 result.json    written when it is done
    OUT/record.json             the experiment: settings, measures, curves, intervals, verdicts

Each run is a process. A run that was stopped continues from its last checkpoint; one that is done is not repeated.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from karl_fast import _atomic
from karl_fast._core import VERSION
from karl_fast._safe_text import counted
from karl_fast.ablation.analysis import compare, evaluate_measure
from karl_fast.ablation.worker import RESULT_FILE, RUN_FILE, RUN_FOLDER
from karl_fast.errors import RunFailedError, UsageError
from karl_fast.export.manifest import finite
from karl_fast.modeling.checkpoint import METRICS_FILE
from karl_fast.objective import to_toml
from karl_fast.rl import held_out
from karl_fast.rl.run_folder import adapter_weights, hash_file
from karl_fast.rl.settings import Online, list_settings, resolve_paths
from karl_fast.settings.schema import schema
from karl_fast.settings.toml_text import dump_value, relative_path
from karl_fast.settings.validation import refuse_empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karl_fast.ablation.analysis import Values
    from karl_fast.ablation.experiment import Arm, Experiment

RECORD_FILE, RECIPE_FILE, LOG_FILE, IDENTITY_FILE = "record.json", "recipe.toml", "log.txt", "identity.txt"

POLL_SECONDS = 0.1

MOST_POINTS = 100
"""Maximum points of a curve in the record; longer ones are means over stretches of rounds."""


class ExperimentViewer(Protocol):
    """Receiver of the progress of an experiment."""

    def on_start(self, runs: int, done: int) -> None:
        """Report the number of runs, and of those that were done before."""

    def on_progress(self, rounds: int, total: int, running: list[str]) -> None:
        """Report the rounds made, of all runs, and the runs that go on now."""

    def on_run(self, arm: str, seed: int, measures: Mapping[str, float]) -> None:
        """Report the measures of a run that is done."""


class SilentViewer:
    """Viewer that ignores the progress."""

    def on_start(self, runs: int, done: int) -> None:
        """Do nothing."""

    def on_progress(self, rounds: int, total: int, running: list[str]) -> None:
        """Do nothing."""

    def on_run(self, arm: str, seed: int, measures: Mapping[str, float]) -> None:
        """Do nothing."""


@dataclass(frozen=True, eq=False)
class Run:
    """An arm with a seed, and its folder."""

    arm: Arm
    seed: int
    folder: Path

    @property
    def label(self) -> str:
        """Arm and seed."""
        return f"{self.arm.name}, seed {self.seed}"

    def is_done(self) -> bool:
        """Return whether it has a result."""
        return (self.folder / RESULT_FILE).is_file()

    def rounds(self) -> list[dict[str, Any]]:
        """Read the lines of metrics; empty before the first round."""
        return _read_lines(self.folder / RUN_FOLDER / METRICS_FILE)

    def held_out(self) -> list[dict[str, Any]]:
        """Read the evaluations of held-out prompts; empty without any."""
        return _read_lines(self.folder / RUN_FOLDER / held_out.FILE)

    def measures(self, experiment: Experiment) -> dict[str, float]:
        """Compute the measures of the rounds that it has made."""
        rounds, evaluations = self.rounds(), self.held_out()
        num_rounds = self.arm.settings.rounds
        return {
            name: evaluate_measure(measure, rounds, evaluations, num_rounds=num_rounds)
            for name, measure in experiment.measures.items()
        }

    def files(self) -> dict[str, str]:
        """Return the text of its settings and of its recipe, by file."""
        places = {"out": RUN_FOLDER, "seed": self.seed}
        if not self.arm.changes.get("axes"):
            return {RUN_FILE: dump_run(self.arm.settings, self.folder, places)}
        return {
            RUN_FILE: dump_run(self.arm.settings, self.folder, places | {"recipe": RECIPE_FILE}),
            RECIPE_FILE: to_toml(self.arm.recipe),
        }


def dump_run(settings: Online, folder: Path, more: dict[str, Any]) -> str:
    """Return the settings of a run that differ from the defaults as TOML, with paths relative to a folder."""

    def relative(value: Any) -> Any:
        return relative_path(folder, value) if isinstance(value, str) and Path(value).is_absolute() else value

    defaults = list_settings(Online())
    chosen = {name: value for name, value in list_settings(settings).items() if value != defaults[name]}
    values = {name: relative(value) for name, value in resolve_paths(chosen, Path.cwd()).items()} | more
    rewards = values.pop("rewards", {})
    lines = [f"{schema(Online)[name].key} = {dump_value(value)}" for name, value in values.items()]
    lines += ["", "[rewards]", *(f"{dump_value(relative(name))} = {weight!r}" for name, weight in rewards.items())]
    return "\n".join(lines) + "\n"


def ablate(
    experiment: Experiment,
    out: str | Path,
    *,
    jobs: int = 1,
    minutes: float | None = None,
    force: bool = False,
    viewer: ExperimentViewer | None = None,
) -> dict[str, Any]:
    """Run every arm of an experiment on every seed, compare them, and write the record.

    Args:
        experiment: of `karl_fast.ablation.load`.
        out: a folder with one folder a run. Runs that are done are not repeated; others are continued.
        jobs: number of runs at a time, each in a process of its own.
        minutes: time after which no run is started; the record then has the seeds that all arms have done.
        force: remove runs that were made with other settings or files, and begin unfinished ones anew.
        viewer: called with the progress.

    Returns:
        The record, as in ``record.json``.

    Raises:
        UsageError: an empty path, or runs with other settings or files without ``force``.
        FileError: a file that the settings name cannot be read.
        OutputForeignError: the path is a file.
        RunFailedError: a run ended with an error; the others are done.
    """
    refuse_empty(out=out)
    _atomic.refuse_file(Path(out))
    viewer, start = viewer or SilentViewer(), time.monotonic()
    runs = [
        Run(arm, seed, Path(out, name, str(seed))) for seed in experiment.seeds for name, arm in experiment.arms.items()
    ]
    _prepare(runs, force)
    pending = deque(run for run in runs if not run.is_done())
    viewer.on_start(len(runs), len(runs) - len(pending))
    deadline = math.inf if minutes is None else start + 60 * minutes
    failed = _run_all(experiment, runs, pending, jobs, deadline, viewer)
    if failed:
        logs = ", ".join(str(run.folder / LOG_FILE) for run in failed[:3])
        raise RunFailedError(
            f"{counted(len(failed), 'run')} of {len(runs)} ended with an error: {_last_line(failed[0])}",
            hint=f"the whole output is in {logs}; the same command repeats these runs alone",
        )
    record = make_record(experiment, runs)
    text = json.dumps(record, indent=1) + "\n"
    _atomic.write_file(Path(out, RECORD_FILE), lambda file: file.write(text.encode()))
    return record


def _prepare(runs: list[Run], force: bool) -> None:
    """Write the settings of all runs, after each is known to be of the settings and files that it was before.

    Raises:
        UsageError: a run was made with other settings, or with files that have changed.
        FileError: a file that the settings name cannot be read.
    """
    digests: dict[Path, str] = {}
    identities = {run: _identity(run, digests) for run in runs}
    for run, identity in identities.items():
        if not run.folder.is_dir():
            continue
        place = run.folder / IDENTITY_FILE
        before = place.read_text("utf-8") if place.is_file() else ""
        if force and (before != identity or not run.is_done()):
            shutil.rmtree(run.folder)
        elif before != identity:
            changed = sorted({*before.splitlines()} ^ {*identity.splitlines()}, key=len)[0] if before else "no settings"
            raise UsageError(
                f"{run.folder} was made with other settings or files: {changed}",
                hint="--force replaces the runs that it concerns; --out with another folder keeps them",
            )
    for run, identity in identities.items():
        with _atomic.name_file_errors(run.folder):
            run.folder.mkdir(parents=True, exist_ok=True)
            for name, text in (run.files() | {IDENTITY_FILE: identity}).items():
                (run.folder / name).write_text(text, encoding="utf-8")


def _identity(run: Run, digests: dict[Path, str]) -> str:
    """Return what a run depends on, a fact a line: its settings, and its files by name and content.

    Without their folders, so that a checkout or a folder of runs may be moved; a model is where it is.
    """
    settings = run.arm.settings
    lines = {name: re.sub(r'"[^"\n]*/([^"/\n]+)"', r'"\1"', text) for name, text in run.files().items()}
    facts = [f"model: {Path(settings.model).resolve()}"] if Path(settings.model).is_dir() else []
    for path in sorted(input_files(settings), key=lambda path: path.name):
        digests[path] = digests.get(path) or hash_file(path)
        facts.append(f"{path.name}: {digests[path]}")
    return "\n".join([*lines.values(), *facts]) + "\n"


def input_files(settings: Online) -> set[Path]:
    """Return the files that a run reads: those with functions, prompts, a recipe, the weights that it starts from."""
    names = [settings.model, settings.environment or "", settings.prompts, settings.eval_prompts, *settings.rewards]
    names += [settings.token_rewards, settings.labels, settings.baseline]
    functions = {Path(name.rpartition(":")[0]) for name in names if ".py:" in name}
    data = {Path(name) for name in (settings.prompts, settings.eval_prompts) if name and ".py:" not in name}
    recipe = {Path(settings.recipe)} if settings.recipe.endswith(".toml") else set()
    return functions | data | recipe | ({adapter_weights(settings.adapter)} if settings.adapter else set())


def _run_all(
    experiment: Experiment,
    runs: list[Run],
    pending: deque[Run],
    jobs: int,
    deadline: float,
    viewer: ExperimentViewer,
) -> list[Run]:
    """Make the pending runs, a few at a time, and return those that failed."""
    running: dict[Run, subprocess.Popen[bytes]] = {}
    failed: list[Run] = []
    finished = {run: run.arm.settings.rounds for run in runs if run.is_done()}
    total = sum(run.arm.settings.rounds for run in runs)
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: [_end(process) for process in running.values()])
        while running or (pending and time.monotonic() < deadline):
            while pending and len(running) < jobs and time.monotonic() < deadline:
                run = pending.popleft()
                running[run] = _start(run)
            for run in [run for run, process in running.items() if process.poll() is not None]:
                if _end(running.pop(run)) or not run.is_done():
                    failed.append(run)
                else:
                    finished[run] = run.arm.settings.rounds
                    viewer.on_run(run.arm.name, run.seed, run.measures(experiment))
            made = sum(finished.values()) + sum(_count_rounds(run) for run in running)
            viewer.on_progress(made, total, [run.label for run in running])
            time.sleep(POLL_SECONDS)
    return failed


def _start(run: Run) -> subprocess.Popen[bytes]:
    """Start the process of a run; it ends when its standard input is closed."""
    with (run.folder / LOG_FILE).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "karl_fast.ablation.worker", str(run.folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )


def _end(process: subprocess.Popen[bytes]) -> int:
    """End a process that may go on, and return its exit code."""
    with process:  # closes its standard input
        process.kill()
    return process.returncode


def _count_rounds(run: Run) -> int:
    """Return the number of rounds that a run has made; 0 before its first."""
    try:
        return (run.folder / RUN_FOLDER / METRICS_FILE).read_bytes().count(b"\n")
    except OSError:
        return 0


def _last_line(run: Run) -> str:
    """Return the last line that a run printed, with its name."""
    lines = (run.folder / LOG_FILE).read_text("utf-8", "replace").strip().splitlines()
    return f"{run.label}: {lines[-1][:200] if lines else 'it printed nothing'}"


def _read_lines(place: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in place.read_text("utf-8").splitlines()]
    except OSError:
        return []


def make_record(experiment: Experiment, runs: list[Run]) -> dict[str, Any]:
    """Return the record of an experiment, over the seeds that every arm has done.

    Raises:
        RunFailedError: there is no such seed.
    """
    done = {run for run in runs if run.is_done()}
    seeds = [seed for seed in experiment.seeds if all(run in done for run in runs if run.seed == seed)]
    if not seeds:
        raise RunFailedError("no seed is done in every arm", hint="the same command continues the runs")
    table = {name: {run.seed: run for run in runs if run.arm.name == name} for name in experiment.arms}
    measured = {name: [by_seed[seed].measures(experiment) for seed in seeds] for name, by_seed in table.items()}
    values: Values = {
        name: {title: [seed[title] for seed in by_seed] for title in experiment.measures}
        for name, by_seed in measured.items()
    }
    results = {
        name: {seed: json.loads((by_seed[seed].folder / RESULT_FILE).read_text("utf-8")) for seed in seeds}
        for name, by_seed in table.items()
    }
    record: dict[str, Any] = _plain(
        {
            "name": experiment.name,
            "question": experiment.question,
            "setting": experiment.setting,
            "version": VERSION,
            "baseline": experiment.baseline,
            "seeds": seeds,
            "seeds_asked": list(experiment.seeds),
            "run": dict(experiment.run),
            "arms": {name: dict(arm.changes) for name, arm in experiment.arms.items()},
            "measures": {name: asdict(measure) for name, measure in experiment.measures.items()},
            "values": values,
            **compare(experiment, values),
            "stopped": {name: alarms for name, by_seed in results.items() if (alarms := _alarms(by_seed))},
            "minutes": _sum_minutes(results, "seconds"),
            "cpu_minutes": _sum_minutes(results, "cpu_seconds"),
            "curves": _curves(experiment, table, seeds),
        }
    )
    return record


def _sum_minutes(results: dict[str, dict[int, Any]], name: str) -> float | None:
    """Return the minutes of all runs; None where one was made by an earlier version, which did not note them."""
    seconds = [result.get(name) for by_seed in results.values() for result in by_seed.values()]
    return None if None in seconds else round(sum(seconds) / 60, 1)


def _alarms(results: dict[int, Any]) -> dict[int, str]:
    return {seed: result["alarm"] for seed, result in results.items() if result["alarm"]}


def _curves(experiment: Experiment, table: dict[str, dict[int, Run]], seeds: list[int]) -> dict[str, Any]:
    """Return the metrics of the measures round by round, by metric and arm, a list for each seed."""
    names = {measure.metric for measure in experiment.measures.values()}
    metrics = {name for name in names if not name.startswith("held_out.")}
    return {
        metric: {
            name: [_thin([line.get(metric) for line in by_seed[seed].rounds()]) for seed in seeds]
            for name, by_seed in table.items()
        }
        for metric in sorted(metrics)
    }


def _thin(values: list[float | None]) -> list[float]:
    """Return a curve with at most so many points, each the mean of a stretch of rounds."""
    numbers = np.array([math.nan if value is None else value for value in values], dtype=float)
    stretches = np.array_split(numbers, min(len(numbers), MOST_POINTS))
    return [round(float(np.nanmean(part)), 4) if np.isfinite(part).any() else math.nan for part in stretches]


def _plain(value: Any) -> Any:
    """Return a value for JSON: numbers to six digits, null for those that are not finite."""
    if hasattr(value, "__dataclass_fields__"):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return finite(float(f"{value:.6g}")) if isinstance(value, float) else value
