"""Display of an online run: a live table at a terminal, a line a round elsewhere."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from karl_fast._safe_text import clean, clean_one_to_one, counted, decimal
from karl_fast.cli.signals import handle_signals
from karl_fast.filter import differ
from karl_fast.modeling.checkpoint import METRICS_FILE
from karl_fast.rl.metrics import describe_dropped, filter_hint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from karl_fast.rl.rollout import Rollout
    from karl_fast.rl.run import RunResult
    from karl_fast.rl.setup import OnlineRun

SEEN = 400
"""Characters of a rollout that are shown."""

SHOWN = (
    *("outcome", "outcome_std", "entropy", "kl", "groups_mixed", "tokens", "ended_length", "grad_norm"),
    *("ratio", "clip_low", "clip_high", "ratio_ess", "mismatch"),
)
"""The numbers of the table."""


class Silent:
    """Viewer without output, which knows the current run."""

    run: OnlineRun | None = None

    def on_start(self, run: OnlineRun) -> None:
        """Remember it."""
        self.run = run

    def on_round(self, metrics: dict[str, Any], rollouts: Sequence[Rollout], failures: Sequence[str]) -> None:
        """Do nothing."""

    def on_evaluation(self, line: dict[str, Any], failures: Sequence[str]) -> None:
        """Do nothing."""

    def on_message(self, remark: str) -> None:
        """Do nothing."""

    def describe_stop(self, word: str) -> str:
        """Return the line for a run that a signal ended, with how to resume it."""
        if self.run is None:
            return f"{word} before the first round"
        at = min(self.run.progress.round + 1, self.run.settings.rounds)
        saved = self.run.checkpoints.folders()
        left = f"--resume goes on from round {int(saved[-1].name) + 1}" if saved else "nothing saved yet"
        return f"{word} in round {at}; {left}"


class RoundLines(Silent):
    """A line on stderr a round."""

    def __init__(self) -> None:
        self.rounds = 0

    def print_line(self, line: str) -> None:
        """Print a line."""
        sys.stderr.write(line + "\n")

    def on_start(self, run: OnlineRun) -> None:
        """Print the model, data and settings of the run."""
        super().on_start(run)
        self.rounds = run.settings.rounds
        for line in describe_start(run):
            self.print_line(line)

    def on_round(self, metrics: dict[str, Any], rollouts: Sequence[Rollout], failures: Sequence[str]) -> None:
        """Print a round."""
        self.print_line(describe_round(metrics))
        self._print_remarks(metrics, rollouts, failures)

    def on_evaluation(self, line: dict[str, Any], failures: Sequence[str]) -> None:
        """Print an evaluation of held-out prompts."""
        for sentence in describe_failures(failures):
            self.print_line(sentence)
        self.print_line(describe_held_out(line))

    def on_message(self, remark: str) -> None:
        """Print a remark."""
        self.print_line(f"warning   {remark}")

    def _print_remarks(self, metrics: dict[str, Any], rollouts: Sequence[Rollout], failures: Sequence[str]) -> None:
        """Print the remarks on a round beside its numbers."""
        for sentence in describe_failures(failures):
            self.print_line(sentence)
        if metrics["round"] == 0 and (note := describe_equal_rewards(rollouts)):
            self.print_line(note)
        if not metrics["learned"]:
            self.print_line(f"note      {describe_no_step(metrics)}")


class Table(RoundLines):
    """A table of the numbers of all rounds, as wide as the terminal, and some rollouts of the newest one."""

    def __init__(self, live: Any, show: int) -> None:
        super().__init__()
        self.live, self.show = live, show
        self.history: list[dict[str, Any]] = []

    def print_line(self, line: str) -> None:
        """Print a line above the table."""
        self.live.console.print(line, highlight=False, markup=False)

    def on_start(self, run: OnlineRun) -> None:
        """Take the rounds before the one that the run goes on from."""
        super().on_start(run)
        with (run.out / METRICS_FILE).open(encoding="utf-8") as lines:
            self.history = [json.loads(line) for line in lines]

    def on_round(self, metrics: dict[str, Any], rollouts: Sequence[Rollout], failures: Sequence[str]) -> None:
        """Redraw the table; failures stay above it."""
        self._print_remarks(metrics, rollouts, failures)
        self.history.append(metrics)
        self.live.update(self._draw_table(metrics, rollouts))

    def _draw_table(self, metrics: dict[str, Any], rollouts: Sequence[Rollout]) -> Any:
        from rich.console import Group
        from rich.table import Column
        from rich.table import Table as Grid
        from rich.text import Text

        head = f"round {metrics['round'] + 1} of {self.rounds}, step {metrics['step']}, {metrics['seconds']:.1f} s"
        rounds = Column(counted(len(self.history), "round"), ratio=1)
        grid = Grid("", "now", "least", "most", rounds, expand=True)
        names = [name for name in [*SHOWN, *sorted(describe_components(metrics))] if name in metrics]
        # What the names, the numbers and the lines of the grid leave of the width.
        width = max(8, self.live.console.width - max(map(len, map(clean, names)), default=0) - 3 * 10 - 16)
        for name in names:
            values = [metrics_of_round[name] for metrics_of_round in self.history if name in metrics_of_round]
            numbers = (f"{value:.4g}" for value in (metrics[name], min(values), max(values)))
            grid.add_row(clean(name), *numbers, draw_curve(values, width))
        if missing := sum(metrics["missing"].values()):
            grid.add_row("missing", f"{missing} of {metrics['rollouts']}")
        return Group(Text(head), grid, *(Text(describe_sample_rollout(rollout)) for rollout in rollouts[: self.show]))


BARS = "▁▂▃▄▅▆▇█"


def draw_curve(values: Sequence[float], width: int) -> str:
    """Return numbers as a row of bars from the least to the most; of more than fit, the mean of each part."""
    parts = min(width, len(values))
    bounds = [len(values) * part // parts for part in range(parts + 1)]
    means = [sum(values[low:high]) / (high - low) for low, high in pairwise(bounds)]
    low, high = min(means), max(means)
    if not 0 < high - low < math.inf:
        return BARS[0] * parts
    return "".join(BARS[round((mean - low) / (high - low) * (len(BARS) - 1))] for mean in means)


@contextlib.contextmanager
def watch_rounds(show: int, quiet: bool) -> Iterator[Silent]:
    """Yield the viewer: silent, lines, or a table at a terminal; a signal that ends the run prints how far it got."""
    with _open_viewer(show, quiet) as viewer:
        handle_signals(viewer.describe_stop)
        yield viewer


@contextlib.contextmanager
def _open_viewer(show: int, quiet: bool) -> Iterator[Silent]:
    if quiet or not sys.stderr.isatty():
        yield Silent() if quiet else RoundLines()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4) as live:
        yield Table(live, show)


def describe_start(run: OnlineRun) -> Iterator[str]:
    """Yield the lines printed before the first round."""
    settings = run.settings
    left_out = f", {counted(run.prompt_set.too_long, 'prompt')} too long" if run.prompt_set.too_long else ""
    yield f"prompts   {counted(len(run.prompt_set.prompts), 'prompt')}{left_out}; {settings.curriculum}"
    each = f"{settings.prompts_per_round} groups of {settings.group_size} a round"
    steps = counted(settings.epochs * settings.minibatches, "step")
    yield f"rollouts  {each}, {steps} on them, temperature {settings.temperature:g}"
    from karl_fast.modeling.memory import describe_plan  # with MLX, which reports of evaluations do not need

    yield f"memory    {describe_plan(run.need, settings.training)}"
    for remark in run.remarks:
        yield f"warning   {remark}"
    if settings.adapter:
        yield f"adapter   {clean(settings.adapter)}; reference: {settings.reference}"
    going_on = f", from round {run.progress.round + 1}" if run.progress.round else ""
    finished = f", {counted(len(run.finished.rollouts), 'finished rollout')} kept" if run.finished.rollouts else ""
    yield f"training  {run.recipe.name}, {counted(settings.rounds, 'round')}{going_on}{finished}"


def describe_round(metrics: dict[str, Any]) -> str:
    """Format a round in a line."""
    parts = [
        f"round {metrics['round'] + 1:>5}",
        f"outcome {decimal(metrics['outcome'])}" if "outcome" in metrics else "outcome missing",
    ]
    parts += [f"{clean(name[7:])} {decimal(metrics[name], 3)}" for name in sorted(describe_components(metrics))]
    parts += [f"mixed {metrics['groups_mixed']:.0%}", f"tokens {metrics['tokens']:.1f}"]
    parts += [f"entropy {metrics['entropy']:.3f}"] if "entropy" in metrics else []
    parts += [f"kl {decimal(metrics['kl'])}"] if "kl" in metrics else []
    parts += [f"missing {sum(metrics['missing'].values())}"] if metrics["missing"] else []
    return "  ".join([*parts, f"{metrics['seconds']:.2f} s"])


def describe_held_out(line: dict[str, Any]) -> str:
    """Format an evaluation of held-out prompts in a line."""
    if "reward" not in line:
        return f"held out  after {counted(line['round'], 'round')}: every reward is missing"
    ends = [line["reward.low"], line["reward.high"]]
    between = "" if None in ends else f" (95% from {decimal(ends[0])} to {decimal(ends[1])})"
    solved = f", solved {line['solved']:.1%}, at least once {line['solved_once']:.1%}"
    return f"held out  after {counted(line['round'], 'round')}: reward {decimal(line['reward'])}{between}{solved}"


def describe_components(metrics: dict[str, Any]) -> list[str]:
    """Return the names of rewards by component, if there are several."""
    names = [name for name in metrics if name.startswith("reward.")]
    return names if len(names) > 1 else []


def describe_failures(failures: Sequence[str]) -> Iterator[str]:
    """Yield each failure once, with its count."""
    for sentence in dict.fromkeys(failures):
        times = failures.count(sentence)
        yield f"missing   {clean(sentence)}" + (f" ({times} times)" if times > 1 else "")


def describe_missing(missing: Mapping[str, int]) -> str:
    """Format the counts of missing rewards by why."""
    return ", ".join(f"{clean(why)} {count:,}" for why, count in missing.items())


def describe_no_step(metrics: dict[str, Any]) -> str:
    """Return why no step of a round had a rollout in its loss."""
    if sum(metrics["missing"].values()) == metrics["rollouts"]:
        return "every reward of this round is missing: no step was made"
    if metrics["skipped"]:
        return "no gradient of this round is finite: no step was made"
    return f"no step was made: {describe_dropped(metrics['dropped'], metrics['rollouts'])}"


FEW_STEPS = 0.25
"""Share of rounds without a step from which the report of a run warns of them."""


def describe_idle(result: RunResult) -> tuple[str, str] | None:
    """Return a sentence on the rounds of a run that made no step, and what to change; None where they are few."""
    if not result.idle_rounds or result.idle_rounds < FEW_STEPS * result.rounds:
        return None
    of = f"{result.idle_rounds:,} of {counted(result.rounds, 'round')} made no step"
    names = sorted(result.dropped, key=lambda name: -result.dropped[name])
    why = ", ".join(f"{name} dropped {counted(result.dropped[name], 'rollout')} of them" for name in names)
    return f"{of}: {why}" if why else of, filter_hint(result.dropped)


def describe_equal_rewards(rollouts: Sequence[Rollout]) -> str | None:
    """Return a note if all rewards of a round are equal, which may be intended: a task may be too hard at first."""
    rewards = [rollout.outcome for rollout in rollouts if not math.isnan(rollout.outcome)]
    if len(rewards) < 2 or differ(min(rewards), max(rewards)):
        return None
    sentence = (
        f"all {len(rewards):,} rewards of this round are {rewards[0]:.4g}, and nothing is learned where none differ"
    )
    return f"note      {sentence}: rollouts.jsonl has what was said, and what each reward function gave"


def describe_sample_rollout(rollout: Rollout) -> str:
    """Return a rollout as text without control characters."""
    text = " | ".join(f"{message['role']}: {message.get('content') or ''}" for message in rollout.messages)
    reward = "missing" if math.isnan(rollout.outcome) else f"{rollout.outcome:.3g}"
    return f"{clean(rollout.prompt.id)} [{reward}] {clean_one_to_one(text)[:SEEN]}"
