"""Options of a training run, made of the fields of `Training`, and its viewers."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from karl_fast.cli.precedence import Layer, flag, resolved, typed, variable
from karl_fast.cli.reports.sample import page
from karl_fast.cli.reports.train import line_of, opening
from karl_fast.cli.signals import listen
from karl_fast.cli.train_help import HELP
from karl_fast.settings.validation import refuse_empty
from karl_fast.train.config import TrainConfig, load
from karl_fast.train.settings import DEFAULTS, TEMPERED, Training

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from karl_fast.train.setup import Run

KINDS = get_type_hints(Training)

File = Annotated[
    str | None,
    typer.Option(
        "--config",
        help="Options from the table [train] of a TOML file, or from the adapter of a run to make it again.",
        envvar=variable("--config"),
        show_envvar=False,
    ),
]


def takes_training(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each field of `Training` to a command, and pass them as one `settings`.

    A flag counts over a variable, a variable over the file of ``--config``, which is handed on as `config`.
    """

    @functools.wraps(command)
    def parsed(ctx: typer.Context, config: str | None, **given: Any) -> None:
        chosen = {name: given.pop(name) for name in DEFAULTS}
        chosen |= {name: _parts(chosen[name]) for name in DEFAULTS if _is_list(name)}
        refuse_empty(config=config)
        file = load(config) if config else TrainConfig("")
        layer = Layer("file", file.settings, dict.fromkeys(file.settings, file.path))
        words = {str(option.name): option.opts[0] for option in ctx.command.params}
        command(settings=resolved([layer, *typed(ctx, chosen, words)], Training, _beaten), config=file, **given)

    own = inspect.signature(command, eval_str=True).parameters.values()
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    file = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=File)
    parameters = [context, *(one for one in own if one.name not in ("settings", "config")), file]
    parameters += map(_parameter, fields(Training))
    parsed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    parsed.__annotations__ = {one.name: one.annotation for one in parameters}
    return parsed


def _beaten(values: dict[str, Any]) -> set[str]:
    """Return the settings that these override in weaker places: the other measure of length, and those without use."""
    rivals = {"iters", "epochs"} if values.keys() & {"iters", "epochs"} else set()
    recipe = values.get("recipe")
    return rivals | {name for name, recipes in TEMPERED.items() if recipe and recipe not in recipes}


def _is_list(name: str) -> bool:
    return any(getattr(kind, "__origin__", None) is tuple for kind in (KINDS[name], *get_args(KINDS[name])))


def _parts(text: str | None) -> tuple[str, ...] | None:
    return tuple(part.strip() for part in text.split(",")) if text else None


def _length(text: str) -> int | str:
    """Parse a number; other text is left for `Training` to check."""
    try:
        return int(text)
    except ValueError:
        return text


PARSED: dict[str, dict[str, Any]] = {"max_seq_length": {"parser": _length, "metavar": "<int|auto>"}}
"""Options that take more than one kind of value."""


def _parameter(field: Any) -> inspect.Parameter:
    name = field.name
    kind: Any = str | None if _is_list(name) else str if name in PARSED else KINDS[name]
    shown = kind is not bool and field.default is not None
    how: dict[str, Any] = {"envvar": variable(flag(name)), "show_envvar": False, "show_default": shown} | PARSED.get(
        name, {}
    )
    option = typer.Option(flag(name), help=HELP[name], **how)
    annotation: Any = Annotated[kind, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation)


class Quiet:
    """Only remembers the run, to say where it was if a signal ends it."""

    run: Run | None = None

    def say(self, line: str) -> None:
        """Print a line, broken where it is long."""
        sys.stderr.write(page([line]) + "\n")

    def started(self, run: Run) -> None:
        """Remember it."""
        self.run = run

    def said(self, values: dict[str, Any]) -> None:
        """Do nothing."""

    def saved(self, place: Path) -> None:
        """Print nothing for a checkpoint."""

    def stopped(self, word: str) -> str:
        """Return the line for a run that a signal ended, with how to resume it."""
        if self.run is None:
            return f"{word} before the first step"
        found = self.run.checkpoints.found()
        left = f"--resume goes on from step {int(found[-1].name)}" if found else "nothing saved yet"
        return f"{word} at step {self.run.state.step}; {left}"


class Lines(Quiet):
    """A line on stderr every few steps."""

    def __init__(self, every: int) -> None:
        self.every, self.steps = every, 0

    def started(self, run: Run) -> None:
        """Print the data of the run and the memory it will need."""
        super().started(run)
        self.steps = run.steps
        for line in opening(run):
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
            self.say(line_of(values))


class Bar(Lines):
    """The same lines at a terminal, above a bar that moves with each step."""

    def __init__(self, every: int, bar: Any) -> None:
        super().__init__(every)
        self.bar, self.task = bar, bar.add_task("training", total=None, now="")

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.bar.console.print(page([line]), highlight=False, markup=False)

    def started(self, run: Run) -> None:
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
def watching(settings: Training, quiet: bool) -> Iterator[Quiet]:
    """Yield the viewer; a signal that ends the run prints how far it got."""
    with _looking(settings, quiet) as viewer:
        listen(viewer.stopped)
        yield viewer


@contextlib.contextmanager
def _looking(settings: Training, quiet: bool) -> Iterator[Quiet]:
    """Yield a viewer: silent, lines, or a bar at a terminal."""
    if quiet or not sys.stderr.isatty():
        yield Quiet() if quiet else Lines(settings.steps_per_report)
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
