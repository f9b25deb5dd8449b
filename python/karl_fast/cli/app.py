"""The commands as typer knows them, each imported only where it is named.

The help of all of them is typer's own: 0.10 s of CPU time with summaries alone, 0.50 s with every command imported.
"""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import typer

from karl_fast._core import VERSION, build_facts
from karl_fast.cli.help import SectionedGroup, with_common
from karl_fast.cli.signals import handle_signals
from karl_fast.cli.usage_errors import TyperUsageError, print_usage_error

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

NAME = "karl-fast"

SECTIONS = {
    "Transcripts": {
        "collect": "Copy what agents wrote into an archive, before they delete it.",
        "convert": "Convert transcripts of agents to trajectories.",
        "outcomes": "Find the outcome of the work in trajectories, from evidence.",
        "pairs": "Write the preference pairs that a user made in transcripts.",
        "skills": "Show weight, mean reward, trend and corrections of each skill.",
    },
    "Look": {
        "show": "Show the best rows of a log, a data set or a run, and why.",
        "report": "Write a page of a log, a data set or a run: plots and rows.",
        "inspect": "Look at logs before sampling.",
        "audit": "Check a dump of RL rollouts: what can be learned, what is wrong.",
        "compare": "Compare two data sets side by side.",
        "index": "Keep the columns of logs beside them, to read only what is appended.",
    },
    "Train": {
        "sample": "Draw a training set from trajectory logs.",
        "train": "Train an adapter on a data set, with MLX.",
        "rl": "Train a model by reinforcement learning on its rollouts, with MLX.",
        "pretrain": "Pre-train a small discrete flow or masked diffusion model, with MLX.",
        "export": "Write an adapter for mlx-lm, PEFT, llama.cpp or Ollama.",
        "push": "Upload a data set to the Hugging Face hub, private by default.",
    },
    "Judge": {
        "surprisal": "Measure how far a model is from writing each row itself.",
        "eval": "Evaluate a model or an adapter: held-out loss, or rewards.",
        "promote": "Put an adapter in use (the link current), if it is better.",
        "rollback": "Put the adapter before the last promotion in use again.",
        "ablate": "Run experiments: variants of a run of rl over several seeds.",
    },
    "Project": {
        "cycle": "Run the steps of a project whose inputs have changed.",
        "doctor": "Check karl-fast on this machine: speeds, memory, failures.",
        "version": "Print the version, how it was built, and its packages.",
    },
}
"""Each command with its summary, by what it is for."""

COMMANDS = {name: summary for commands in SECTIONS.values() for name, summary in commands.items()}


class _Group(SectionedGroup):
    command_sections: ClassVar = {title: tuple(commands) for title, commands in SECTIONS.items()}


app = typer.Typer(
    name=NAME,
    cls=_Group,
    help="Agent logs to training sets, drawn in proportion to reward.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120, "help_option_names": ["-h", "--help"]},
)


def add_command(name: str, *, epilog: str = "", common: str = "") -> Callable[[F], F]:
    """Return the decorator that adds a command.

    Args:
        name: one of `COMMANDS`.
        epilog: the end of its help: an example.
        common: the options that ``--help`` shows, with spaces between; all of them where none is given.
    """
    return app.command(name, cls=with_common(*common.split()), short_help=COMMANDS[name], epilog=epilog)


def run() -> int | None:
    """Run the command that the arguments name; return the exit code, if it is not 0."""
    # A shell that asks for completions passes the line in a variable.
    words = [*sys.argv[1:], *(word for name in COMPLETED_LINE for word in os.environ.get(name, "").split())]
    command = [word for word in words if word in COMMANDS][:1]
    known = {info.name for info in app.registered_commands}
    for name, summary in COMMANDS.items():
        if name in command:
            import_module(f"karl_fast.cli.commands.{name}")
        elif name not in known:
            app.command(name, short_help=summary)(lambda: None)
    handle_signals()
    try:
        code: int | None = app(prog_name=NAME, standalone_mode=False)
    except TyperUsageError as error:
        return print_usage_error(error, " ".join([NAME, *command]))
    return code


COMPLETED_LINE = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Variables with the line that bash, and zsh or fish, complete."""


def _print_version(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        built = build_facts()
        what = f"{built['target']}, {built['profile']}, rustc {built['rustc']}, {built['abi']}"
        typer.echo(f"{NAME} {VERSION} ({what}, Python {platform.python_version()})")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version in one line."),
    ] = False,
) -> None:
    """Agent logs to training sets, drawn in proportion to reward."""
