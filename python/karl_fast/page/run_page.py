"""The page of a run of `train` or `rl`: whether it learns and is healthy, from its metrics and held-out prompts.

```text
metrics.jsonl, held_out.jsonl, checkpoints/*/state.json -> curves, alarms, settings
```

A run that goes on may be writing: the last line of a file counts only where it is whole.
"""

from __future__ import annotations

import fcntl
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from karl_fast._atomic import LOCK
from karl_fast._plots import Curve, Mark, Plot, lines, number, table, text
from karl_fast._safe_text import counted, in_bytes, in_time
from karl_fast.errors import AlarmError, DataSetError, FileError, KarlError
from karl_fast.modeling.checkpoint import FOLDER, METRICS_FILE, STATE
from karl_fast.page.document import Fact, Page, Section, definitions, folded
from karl_fast.rl import held_out
from karl_fast.rl.metrics import AlarmMonitor
from karl_fast.rl.rollout import ROLLOUTS_FILE
from karl_fast.rl.settings import Alarms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Line = dict[str, Any]

Points = list[tuple[float, float]]

FEW_ROUNDS = 10
"""Part of a run, one in so many rounds, whose mean is its begin or its end."""

LEARNING = {
    "outcome": "Outcome",
    "outcome_std": "Spread of the outcome",
    "groups_mixed": "Groups that differ in outcome",
    "groups_at_top": "Groups at the top",
    "entropy": "Entropy, nats a token",
    "unique": "Different rollouts in a group",
    "self_bleu": "Self-BLEU of rollouts",
    "tokens": "Tokens of a rollout",
    "ended_length": "Cut at the limit of tokens",
    "turns": "Turns of a rollout",
}
"""Metrics of rollouts, with their titles, in order."""

STEPS = {
    "loss": "Loss",
    "grad_norm": "Norm of the gradient",
    "kl": "KL to the reference, nats a token",
    "kl_old": "KL of the round's steps, nats a token",
    "ratio_ess": "Effective share of ratios",
    "clip_low": "Clipped below",
    "clip_high": "Clipped above",
    "mismatch": "Mismatch of generation and training",
    "log_z": "log Z",
    "learning_rate": "Learning rate",
    "skipped": "Skipped steps",
    "tokens_per_second": "Tokens a second",
    "seconds": "Seconds",
}
"""Metrics of the steps of training."""


@dataclass
class RunFiles:
    """The files of a run.

    Attributes:
        folder: the path.
        metrics: a line a round, or a step.
        curve: a line an evaluation of held-out prompts.
        settings: of the newest checkpoint; empty without one.
        going_on: True while a process writes to it.
    """

    folder: Path
    metrics: list[Line]
    curve: list[Line] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    going_on: bool = False

    @property
    def online(self) -> bool:
        """True for a run of `rl`, whose lines are rounds."""
        return any("round" in line for line in self.metrics)

    def points(self, name: str) -> Points:
        """Return a metric as x and y: the round or step from 1 up, and the value, where it is a finite number."""
        at = "round" if self.online else "step"
        return [
            (float(line.get(at, place)) + self.online, float(line[name]))
            for place, line in enumerate(self.metrics)
            if isinstance(line.get(name), int | float) and math.isfinite(line[name])
        ]


def is_run(path: Path) -> bool:
    """Return whether a path is the folder of a run of `train` or `rl`."""
    return (path / METRICS_FILE).is_file()


def read_run(folder: Path) -> RunFiles:
    """Read the files of a run.

    Raises:
        FileError: one of them cannot be read.
        DataSetError: a line is not a JSON object.
    """
    curve = folder / held_out.FILE
    return RunFiles(
        folder,
        _read_lines(folder / METRICS_FILE),
        _read_lines(curve) if curve.is_file() else [],
        _read_settings(folder),
        is_going_on(folder),
    )


def _read_lines(path: Path) -> list[Line]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", error.errno, str(path)) from error
    lines = content.split(b"\n")
    # What stands after the last line end is still being written.
    return [_parse(path, place, line) for place, line in enumerate(lines[:-1], 1) if line.strip()]


def _parse(path: Path, place: int, line: bytes) -> Line:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataSetError(
            f"{path}, line {place:,}: it is not JSON, wanted the metrics of a round or a step"
        ) from error
    if not isinstance(value, dict):
        raise DataSetError(f"{path}, line {place:,}: it is not a JSON object, wanted the metrics of a round or a step")
    return value


def _read_settings(folder: Path) -> dict[str, Any]:
    """Return the settings that the newest checkpoint was written under; empty where none can be read."""
    for place in sorted((folder / FOLDER).glob("[0-9]*"), reverse=True):
        try:
            settings = json.loads((place / STATE).read_text("utf-8"))["settings"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(settings, dict):
            return settings
    return {}


def is_going_on(folder: Path) -> bool:
    """Return whether a process holds the lock of a run: a file of `train`, the rollouts of `rl`."""
    return any(_is_locked(folder / name) for name in (LOCK, ROLLOUTS_FILE))


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True)
class Alarm:
    """An alarm of a run: its round from 1 up, and its sentence."""

    round: int
    sentence: str


def find_alarms(run: RunFiles) -> list[Alarm]:
    """Return the alarms of a run by its own thresholds, or the default ones; of rounds in a row the first."""
    try:
        monitor = AlarmMonitor(Alarms(**run.settings.get("alarms", {})))
    except (KarlError, TypeError):  # of another version
        monitor = AlarmMonitor(Alarms())
    alarms, last = [], -2
    for line in run.metrics if run.online else ():
        try:
            monitor.check(line)
        except AlarmError as alarm:
            if line["round"] > last + 1:
                alarms.append(Alarm(line["round"] + 1, str(alarm).partition(": ")[2]))
            last = line["round"]
        except (KeyError, TypeError):  # a metric that this version knows, and that one did not
            continue
    return alarms


def run_page(run: RunFiles) -> Page:
    """Return the page of a run, without its rollouts."""
    alarms = find_alarms(run)
    marks = [Mark(alarm.round, "alarm", "alarm") for alarm in alarms]
    sections = [Section("Does it learn", _lead_plots(run, marks))]
    if run.online:
        sections.append(Section("Rollouts", list(_multiples(run, LEARNING, marks, skip=("outcome",)))))
    sections.append(Section("Steps", list(_multiples(run, STEPS, marks, skip=() if run.online else ("loss",)))))
    if alarms:
        rows = [(alarm.round, alarm.sentence) for alarm in alarms]
        sections.insert(
            1,
            Section(
                "Alarms",
                [table(("round", "alarm"), rows)],
                "The first of rounds in a row, by the thresholds of the run.",
            ),
        )
    return Page(
        "Run",
        str(run.folder),
        _sentence(run, alarms),
        list(_facts(run, alarms)),
        [section for section in sections if section.parts],
        how=_how(run),
        going_on=run.going_on,
    )


def _ends(points: Points) -> tuple[float, float] | None:
    """Return the mean of the first and of the last tenth of a curve."""
    if not points:
        return None
    size = max(1, len(points) // FEW_ROUNDS)
    values = [value for _, value in points]
    return math.fsum(values[:size]) / size, math.fsum(values[-size:]) / size


def _change(points: Points) -> str:
    ends = _ends(points)
    return "unknown" if ends is None else f"{number(ends[0])} \u2192 {number(ends[1])}"


def run_sentence(run: RunFiles) -> str:
    """Return whether a run learns and is healthy, in one sentence."""
    return _sentence(run, find_alarms(run))


def _sentence(run: RunFiles, alarms: Sequence[Alarm]) -> str:
    if not run.metrics:
        return "The run has no finished round yet."
    if not run.online:
        return _training_sentence(run)
    rounds = counted(len(run.points("outcome")) or len(run.metrics), "round")
    rewards = [line for line in run.curve if "reward" in line]
    if rewards:
        first, last = rewards[0], rewards[-1]
        held = f"Held-out {number(first['reward'])} \u2192 {number(last['reward'])}{_interval(last)} in {rounds}"
    else:
        held = f"Outcome {_change(run.points('outcome'))} in {rounds}, held-out unknown"
    entropy = f"entropy {_change(run.points('entropy'))}"
    alarm = f"{counted(len(alarms), 'alarm')}, the first in round {alarms[0].round:,}" if alarms else "no alarm"
    return f"{held}; {entropy}; {alarm}."


def _interval(line: Line) -> str:
    low, high = line.get("reward.low"), line.get("reward.high")
    return "" if low is None or high is None else f" ({number(low)} to {number(high)})"


def _training_sentence(run: RunFiles) -> str:
    steps = run.points("loss")
    validation = _change(run.points("val_loss")) if run.points("val_loss") else "unknown"
    skipped = sum(bool(line.get("skipped")) for line in run.metrics)
    loss = f"Loss {_change(steps)} in {counted(len(steps), 'step')}"
    return f"{loss}; validation loss {validation}; {counted(skipped, 'step')} skipped."


def _facts(run: RunFiles, alarms: Sequence[Alarm]) -> Iterator[Fact]:
    name = "outcome" if run.online else "loss"
    yield Fact("rounds" if run.online else "steps", len(run.points(name)), remark="going on" if run.going_on else "")
    if ends := _ends(run.points(name)):
        yield Fact(name, ends[1], ends[0], "mean of the first and last tenth")
    if run.curve and "reward" in run.curve[-1]:
        best = max((line for line in run.curve if "reward" in line), key=lambda line: line["reward"])
        yield Fact("best held-out", best["reward"], remark=f"after round {best['round']:,}{_interval(best)}")
    if (points := run.points("val_loss")) and (ends := _ends(points)):
        yield Fact("validation loss", ends[1], ends[0])
    if ends := _ends(run.points("entropy")):
        yield Fact("entropy", ends[1], ends[0], "nats a token")
    if run.online:
        yield Fact("alarms", len(alarms))
    yield Fact("time", in_time(sum(value for _, value in run.points("seconds"))))


def _lead_plots(run: RunFiles, marks: list[Mark]) -> list[Plot]:
    """Return the curve that answers whether the run learns, with held-out intervals, the best round and alarms."""
    name, title, axis = ("outcome", "Outcome of rollouts", "round") if run.online else ("loss", "Loss", "step")
    curves = [Curve(run.points(name), "rollouts" if run.online else "train")]
    judged = [line for line in run.curve if "reward" in line]
    if judged:
        points = [(float(line["round"]), float(line["reward"])) for line in judged]
        intervals = [
            (line.get("reward.low", value), line.get("reward.high", value))
            for line, (_, value) in zip(judged, points, strict=True)
        ]
        curves = [Curve(curves[0].points, "rollouts", kind="other"), Curve(points, "held out", intervals, dotted=True)]
        best = max(points, key=lambda point: point[1])
        marks = [*marks, Mark(best[0], f"best: {number(best[1])}")]
    if points := run.points("val_loss"):
        curves = [Curve(curves[0].points, "train", kind="other"), Curve(points, "validation", dotted=True)]
        lowest = min(points, key=lambda point: point[1])
        marks = [*marks, Mark(lowest[0], f"lowest: {number(lowest[1])}")]
    if not any(curve.points for curve in curves):
        return []
    note = "thin: each round; thick: moving mean" if len(curves) == 1 and len(curves[0].points) >= 40 else ""
    return [lines(title, curves, note=note, axis=axis, marks=marks, small=False)]


def _multiples(run: RunFiles, names: dict[str, str], marks: list[Mark], skip: Sequence[str] = ()) -> Iterator[Plot]:
    """Yield a small plot of each metric that varies."""
    for name, title in list_metrics(run, names).items():
        points = run.points(name)
        if name in skip or len({value for _, value in points}) < 2:
            continue
        quiet = [Mark(mark.x, "", mark.kind) for mark in marks]
        yield lines(title, [Curve(points)], marks=quiet, axis="round" if run.online else "step")


def list_metrics(run: RunFiles, names: dict[str, str]) -> dict[str, str]:
    """Return metrics with their titles; where they are of rollouts, the components of the reward come first."""
    parts = sorted({name for line in run.metrics for name in line if name.startswith("reward.")})
    if len(parts) < 2 or "outcome" not in names:
        return names
    return {name: f"Reward: {name.removeprefix('reward.')}" for name in parts} | names


def _how(run: RunFiles) -> list[Section]:
    simple = {
        name: value for name, value in run.settings.items() if name != "axes" and value not in (None, "", False, {}, [])
    }
    rows = [(name, _setting_text(value)) for name, value in sorted(simple.items())]
    files = [
        (str(path.relative_to(run.folder)), in_bytes(path.stat().st_size))
        for path in sorted(run.folder.iterdir())
        if path.is_file() and not path.name.startswith(".")
    ]
    parts = [
        definitions(
            [
                (name, run.settings[name])
                for name in ("model", "data", "prompts", "recipe", "seed")
                if name in run.settings
            ]
        )
    ]
    if isinstance(axes := run.settings.get("axes"), str):
        parts.append(folded("Objective", f"<pre>{'<br>'.join(map(text, axes.splitlines()))}</pre>"))
    parts += [folded("Settings", table(("setting", "value"), rows))] if rows else []
    parts.append(folded(counted(len(files), "file"), table(("file", "size"), files)))
    return [Section("How it was made", parts)]


def _setting_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
