"""`karl-fast ablate`."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karl_fast._safe_text import clean, decimal, in_time
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.signals import describe_nothing, handle_signals
from karl_fast.cli.usage_errors import only_options
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.settings.validation import refuse_empty

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Files = Annotated[list[str], typer.Argument(metavar="FILE...", help="Experiments, TOML files.", show_default=False)]
Out = Annotated[
    str, typer.Option("--out", help="Folder to write, with a folder for each experiment; runs in it are continued.")
]
Seeds = Annotated[str | None, typer.Option("--seeds", help="Seeds, separated by commas. [default: those of the file]")]
Rounds = Annotated[
    int | None, typer.Option("--rounds", min=1, help="Rounds of every run. [default: those of the file]")
]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Runs at a time. [default: one for every two cores]")]
Minutes = Annotated[
    float | None, typer.Option("--minutes", min=0, help="Minutes after which no run is started. [default: no limit]")
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace runs whose settings or files changed, and unfinished ones.")
]


@add_command("ablate", epilog="Example: karl-fast ablate examples/lab/dapo.toml --jobs 2")
def command(
    *,
    files: Files,
    out: Out = "ablations",
    seeds: Seeds = None,
    rounds: Rounds = None,
    jobs: Jobs = None,
    minutes: Minutes = None,
    force: Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run experiments: arms that differ in settings, recipes or axes, on several seeds, and verdicts on predictions."""
    from karl_fast._extras import require_mlx

    require_mlx()
    from karl_fast.ablation import ablate, describe_record, load, write_page

    with only_options("out", "seeds", "rounds"):
        refuse_empty(out=out)
        chosen = None if seeds is None else _parse_seeds(seeds)
        experiments = [load(file, seeds=chosen, rounds=rounds) for file in files]
    if twice := {
        experiment.name for experiment in experiments if [*map(_name, experiments)].count(experiment.name) > 1
    }:
        raise UsageError(f"two files are named {min(twice)}.toml, and each needs a folder of its own")
    at_a_time = jobs or max(1, (os.cpu_count() or 1) // 2)
    start = time.monotonic()
    records = []
    for file, experiment in zip(files, experiments, strict=True):
        folder = Path(out, experiment.name)
        handle_signals(partial(_describe_stop, folder))
        left = None if minutes is None else max(0.0, minutes - (time.monotonic() - start) / 60)
        with _watch(experiment.name, quiet) as viewer:
            record = ablate(experiment, folder, jobs=at_a_time, minutes=left, force=force, viewer=viewer)
        page = write_page(record, folder, f"karl-fast ablate {shlex.quote(file)}")
        records.append(record)
        if not json:
            print(describe_record(record), end="" if len(files) == 1 else "\n")
        if not quiet:
            if len(record["seeds"]) < len(experiment.seeds):
                done = f"{len(record['seeds'])} of {len(experiment.seeds)} seeds are done"
                sys.stderr.write(f"note      {done}; the same command goes on with the others\n")
            sys.stderr.write(f"written   {clean(str(page))}, {clean(str(folder / 'record.json'))}\n")
    if json:
        print(dumps({record["name"]: record for record in records}, plain=True))


def _name(experiment: Any) -> str:
    return str(experiment.name)


def _parse_seeds(text: str) -> tuple[int, ...]:
    from karl_fast.ablation.experiment import check_seeds

    try:
        return check_seeds([int(seed) for seed in text.split(",")])
    except ValueError as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"seeds is {text!r}, wanted whole numbers with commas", "seeds") from error


def _describe_stop(folder: Path, word: str) -> str:
    if not folder.exists():
        return describe_nothing(word)
    return f"{word}; the same command goes on with the runs in {clean(str(folder))}"


class Lines:
    """A line on stderr for each run that is done."""

    def print_line(self, line: str) -> None:
        """Print a line."""
        sys.stderr.write(line + "\n")

    def on_start(self, runs: int, done: int) -> None:
        """Report what is left."""
        self.print_line(f"runs      {runs - done} of {runs} to make")

    def on_progress(self, rounds: int, total: int, running: list[str]) -> None:
        """Do nothing."""

    def on_run(self, arm: str, seed: int, measures: Mapping[str, float]) -> None:
        """Print its first measure."""
        name, value = next(iter(measures.items()))
        self.print_line(f"done      {clean(arm)}, seed {seed}: {clean(name)} {decimal(value)}")


class Bar(Lines):
    """A bar of all rounds, with what runs now and the time that is left, under the lines."""

    def __init__(self, bar: Any, task: Any) -> None:
        self.bar, self.task = bar, task
        self.begun: tuple[float, int] | None = None

    def print_line(self, line: str) -> None:
        """Print a line above the bar."""
        self.bar.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def on_progress(self, rounds: int, total: int, running: list[str]) -> None:
        """Move the bar."""
        now = time.monotonic()
        self.begun = self.begun or (now, rounds)
        seconds, new_rounds = now - self.begun[0], rounds - self.begun[1]
        left = f"{in_time(seconds / new_rounds * (total - rounds))} left" if new_rounds else ""
        words = clean("; ".join(running))
        self.bar.update(self.task, completed=rounds, total=total, left=left, running=words)


@contextlib.contextmanager
def _watch(name: str, quiet: bool) -> Iterator[Any]:
    """Yield the viewer: a bar at a terminal, lines elsewhere, nothing where it is quiet."""
    from karl_fast.ablation.run import SilentViewer

    if quiet or not sys.stderr.isatty():
        yield SilentViewer() if quiet else Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.table import Column

    columns = (
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[running]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as bar:
        yield Bar(bar, bar.add_task(clean(name), total=None, left="", running=""))
