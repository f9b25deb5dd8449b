"""Progress of a training run: lines on stderr, or a bar at a terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from karl_fast.cli.reports.sample import page
from karl_fast.cli.reports.train import describe_metrics, describe_start
from karl_fast.cli.signals import listen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from karl_fast.train import Training
    from karl_fast.train.setup import OfflineRun


class Silent:
    """Only remembers the run, to say where it was if a signal ends it."""

    run: OfflineRun | None = None

    def say(self, line: str) -> None:
        """Print a line, broken where it is long."""
        sys.stderr.write(page([line]) + "\n")

    def started(self, run: OfflineRun) -> None:
        """Remember it."""
        self.run = run

    def said(self, values: dict[str, Any]) -> None:
        """Do nothing."""

    def saved(self, place: Path) -> None:
        """Print nothing for a checkpoint."""

    def noted(self, remark: str) -> None:
        """Do nothing."""

    def stopped(self, word: str) -> str:
        """Return the line for a run that a signal ended, with how to resume it."""
        if self.run is None:
            return f"{word} before the first step"
        found = self.run.checkpoints.found()
        left = f"--resume goes on from step {int(found[-1].name)}" if found else "nothing saved yet"
        return f"{word} at step {self.run.state.step}; {left}"


class StepLines(Silent):
    """A line on stderr every few steps."""

    def __init__(self, every: int) -> None:
        self.every, self.steps = every, 0

    def started(self, run: OfflineRun) -> None:
        """Print the data of the run and the memory it will need."""
        super().started(run)
        self.steps = run.steps
        for line in describe_start(run):
            self.say(line)

    def said(self, values: dict[str, Any]) -> None:
        """Print a validation, or a step that is due for a report."""
        step = values["step"]
        if "val_loss" in values:
            loss = values["val_loss"]
            self.say(f"step {step:>6}  held-out loss {'not finite' if loss is None else format(loss, '.4f')}")
        elif values["skipped"]:
            self.say(f"step {step:>6}  skipped: its gradient is not finite")
        elif step % self.every == 0 or step == self.steps:
            self.say(describe_metrics(values))

    def noted(self, remark: str) -> None:
        """Print a remark."""
        self.say(f"warning   {remark}")


class Bar(StepLines):
    """The same lines at a terminal, above a bar that moves with each step."""

    def __init__(self, every: int, bar: Any) -> None:
        super().__init__(every)
        self.bar, self.task = bar, bar.add_task("training", total=None, now="")

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.bar.console.print(page([line]), highlight=False, markup=False)

    def started(self, run: OfflineRun) -> None:
        """Print the same, and set the length of the bar."""
        super().started(run)
        self.bar.update(self.task, total=run.steps, completed=run.state.step)

    def said(self, values: dict[str, Any]) -> None:
        """Move."""
        super().said(values)
        if values.get("loss") is not None:
            now = f"loss {values['loss']:.3f}  {values['tokens_per_second']:,.0f} tokens/s"
            self.bar.update(self.task, completed=values["step"], now=now)


@contextlib.contextmanager
def watch_training(settings: Training, quiet: bool) -> Iterator[Silent]:
    """Yield the viewer; a signal that ends the run prints how far it got."""
    with _looking(settings, quiet) as viewer:
        listen(viewer.stopped)
        yield viewer


@contextlib.contextmanager
def _looking(settings: Training, quiet: bool) -> Iterator[Silent]:
    """Yield a viewer: silent, lines, or a bar at a terminal."""
    if quiet or not sys.stderr.isatty():
        yield Silent() if quiet else StepLines(settings.steps_per_report)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[now]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Bar(settings.steps_per_report, bar)
