"""Report of a training run: before the first step, at each step and at the end."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from karl_fast._safe_text import clean, counted, decimal, in_gigabytes
from karl_fast.cli.reports.text import join_lines
from karl_fast.cli.signals import handle_signals

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from karl_fast.train import Trained, Training
    from karl_fast.train.memory import LengthBudget
    from karl_fast.train.setup import OfflineRun


def describe_start(run: OfflineRun) -> Iterator[str]:
    """Yield the lines printed before the first step."""
    for split, account in run.accounts.items():
        if account.rows:
            yield f"{split:<9} {_describe_account(account)}"
    for split, account in run.accounts.items():
        yield from (f"warning   {remark}" for remark in account.remarks(split))
    longest = max(run.order.lengths)
    yield from _describe_budget(run.budget)
    yield from _describe_left_out(run)
    batches = counted(len(run.order.batches(0)), "batch", "batches")
    yield f"lengths   longest row {longest:,} tokens of {run.settings.limit_tokens:,}; an epoch is {batches}"
    if (length := run.settings.segment_tokens) and length < longest:
        yield f"segments  {length:,} tokens of a row at a time, with the gradient of whole rows"
    from karl_fast.modeling.memory import describe_plan

    yield f"memory    {describe_plan(run.need, run.settings)}"
    yield from (f"warning   {remark}" for remark in run.remarks)
    going_on = f", from step {run.state.step}" if run.state.step else ""
    yield f"training  {run.settings.recipe}, {counted(run.steps, 'step')}{going_on}"


def _describe_budget(budget: LengthBudget | None) -> Iterator[str]:
    """Yield the reason for a length limit that was chosen automatically, where it is below the longest row."""
    if budget is None or budget.beyond is None:
        return
    longer, need = budget.beyond
    why = f"{counted(budget.rows, 'row')} of {longer:,} would need about {in_gigabytes(need.total)}"
    yield f"budget    {counted(budget.tokens, 'token')} a row: {why}"


def _describe_left_out(run: OfflineRun) -> Iterator[str]:
    """Yield what to change so that no token of a row is left out."""
    if not any(account.left_out for account in run.accounts.values()):
        return
    what = "--max-seq-length auto trains on whole rows where they fit in memory"
    if run.budget is not None:
        less = f"--batch-size {run.settings.batch_size // 2}, " if run.settings.batch_size > 1 else ""
        what = f"{less}a model of fewer layers or a larger --memory-limit leaves room for longer rows"
    yield f"hint      rows beyond {run.settings.limit_tokens:,} tokens are not whole: {what}"


def _describe_account(account: Any) -> str:
    dropped = "".join(f", {name.replace('_', ' ')} {count:,}" for name, count in sorted(account.dropped.items()))
    cut_rows = f"cut to their tail ({account.cut / max(1, account.rows):.0%})"
    notes = {cut_rows: account.cut, "more windows": account.windows, "with turns apart": account.unrolled}
    noted = "".join(f", {count:,} {name}" for name, count in notes.items() if count)
    text = f"{counted(account.rows, 'row')}, {account.kept:,} kept{noted}"
    text += f"; dropped: {dropped[2:]}" if dropped else ""
    share = f"{account.left_out / max(1, account.tokens):.0%} of {account.tokens:,} tokens"
    return text + (f"; too long: {share}" if account.left_out else "")


def describe_metrics(values: dict[str, Any]) -> str:
    """Format a step in a line."""
    return (
        f"step {values['step']:>6}  loss {decimal(values['loss'])}{_describe_preference(values)}"
        f"  grad norm {values['grad_norm']:.3g}"
        f"  {values['tokens_per_second']:,.0f} tokens/s  peak {in_gigabytes(values['peak_bytes'])}"
    )


def _describe_preference(values: dict[str, Any], prefix: str = "") -> str:
    """Return margin and accuracy, where a recipe of preferences has them."""
    averages = {name: values.get(prefix + name) for name in ("margin", "accuracy")}
    return "".join(f"  {name} {value:.3f}" for name, value in averages.items() if value is not None)


def describe_training(result: Trained) -> str:
    """Return the lines printed at the end of a run."""
    steps, wanted = result.steps
    early_end = f" of {wanted:,}, for nothing got better" if steps < wanted else ""
    best = f"; least held-out loss {decimal(result.best[0])} at step {result.best[1]:,}" if result.best else ""
    adapter_step = _describe_adapter_step(result) if early_end else ""
    return (
        f"trained   {counted(steps, 'step')}{early_end}, {counted(result.learned_tokens, 'token')} learned"
        f"{best}{adapter_step}\n"
        f"written   {clean(str(result.adapter_path))}"
    )


def _describe_adapter_step(result: Trained) -> str:
    """Return a phrase with the step of the adapter's weights, after an early end."""
    left, best = result.adapter_step, result.best
    why = f", for step {best[1]:,} has no checkpoint" if best and best[1] != left else ""
    return f"; the adapter is that of step {left:,}{why}"


class Silent:
    """Only remembers the run, to say where it was if a signal ends it."""

    run: OfflineRun | None = None

    def print_line(self, line: str) -> None:
        """Print a line, broken where it is long."""
        sys.stderr.write(join_lines([line]) + "\n")

    def on_start(self, run: OfflineRun) -> None:
        """Remember it."""
        self.run = run

    def on_metrics(self, values: dict[str, Any]) -> None:
        """Do nothing."""

    def on_checkpoint(self, place: Path) -> None:
        """Print nothing for a checkpoint."""

    def on_message(self, remark: str) -> None:
        """Do nothing."""

    def describe_stop(self, word: str) -> str:
        """Return the line for a run that a signal ended, with how to resume it."""
        if self.run is None:
            return f"{word} before the first step"
        checkpoints = self.run.checkpoints.folders()
        left = f"--resume goes on from step {int(checkpoints[-1].name)}" if checkpoints else "nothing saved yet"
        return f"{word} at step {self.run.state.step}; {left}"


class StepLines(Silent):
    """A line on stderr every few steps."""

    def __init__(self, every: int) -> None:
        self.every, self.steps = every, 0

    def on_start(self, run: OfflineRun) -> None:
        """Print the data of the run and the memory it will need."""
        super().on_start(run)
        self.steps = run.steps
        for line in describe_start(run):
            self.print_line(line)

    def on_metrics(self, values: dict[str, Any]) -> None:
        """Print a validation, or a step that is due for a report."""
        step = values["step"]
        if "val_loss" in values:
            loss = values["val_loss"]
            text = "not finite" if loss is None else format(loss, ".4f")
            self.print_line(f"step {step:>6}  held-out loss {text}{_describe_preference(values, 'val_')}")
        elif values["skipped"]:
            self.print_line(f"step {step:>6}  skipped: its gradient is not finite")
        elif step % self.every == 0 or step == self.steps:
            self.print_line(describe_metrics(values))

    def on_message(self, remark: str) -> None:
        """Print a remark."""
        self.print_line(f"warning   {remark}")


class Bar(StepLines):
    """The same lines at a terminal, above a bar that moves with each step."""

    def __init__(self, every: int, bar: Any) -> None:
        super().__init__(every)
        self.bar, self.task = bar, bar.add_task("training", total=None, now="")

    def print_line(self, line: str) -> None:
        """Print a line above the bar."""
        self.bar.console.print(join_lines([line]), highlight=False, markup=False)

    def on_start(self, run: OfflineRun) -> None:
        """Print the same, and set the length of the bar."""
        super().on_start(run)
        self.bar.update(self.task, total=run.steps, completed=run.state.step)

    def on_metrics(self, values: dict[str, Any]) -> None:
        """Move."""
        super().on_metrics(values)
        if values.get("loss") is not None:
            now = f"loss {values['loss']:.3f}  {values['tokens_per_second']:,.0f} tokens/s"
            self.bar.update(self.task, completed=values["step"], now=now)


@contextlib.contextmanager
def watch_training(settings: Training, quiet: bool) -> Iterator[Silent]:
    """Yield the viewer; a signal that ends the run prints how far it got."""
    with _open_viewer(settings, quiet) as viewer:
        handle_signals(viewer.describe_stop)
        yield viewer


@contextlib.contextmanager
def _open_viewer(settings: Training, quiet: bool) -> Iterator[Silent]:
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
