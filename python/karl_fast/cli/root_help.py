"""Help of `karl-fast` itself, without typer, which takes most of the time of a start to import."""

from __future__ import annotations

import os

DESCRIPTION = "Agent logs to training sets, drawn in proportion to reward."

COMMANDS = {
    "ablate": "Five ablations, each one axis away from the first, over several seeds.",
    "collect": "Copy what agents wrote into an archive, before they delete it.",
    "compare": "Two data sets side by side.",
    "convert": "Make trajectories of the transcripts that agents leave behind.",
    "cycle": "Run the steps of a project whose inputs have changed, from transcripts to the adapter in use.",
    "eval": "The held-out loss of a model or an adapter, or the rewards of its rollouts.",
    "inspect": "Look at logs before sampling.",
    "outcomes": "Find out what the work in trajectories earned, from evidence.",
    "pairs": "Write the preference pairs that a user made in transcripts.",
    "promote": "Move the link current to an adapter, if it is better on held-out data.",
    "rl": "Train on what rollouts are worth, with MLX.",
    "rollback": "Move the link current back to the adapter before the last promotion.",
    "sample": "Draw a training set from trajectory logs.",
    "skills": "Weight, mean reward, trend and corrections of each skill or domain of a log.",
    "train": "Train an adapter on a data set, with MLX.",
    "version": "The version, how it was built, and the versions of packages that it uses.",
}
"""Summary of each command."""

OPTIONS = {
    "--version": "Print the version in one line.",
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Show completion for the current shell, to copy it or customize the installation.",
    "-h, --help": "Show this message and exit.",
}

WIDEST = 120
"""Maximum columns of a help text."""


def text(columns: int | None = None) -> str:
    """Return the help as typer prints it, for a terminal of so many columns; by default, for this one."""
    width = max(min(columns or _columns(), WIDEST) - 2, 50)
    lines = ["Usage: karl-fast [OPTIONS] COMMAND [ARGS]...", "", *_wrapped(DESCRIPTION, width, "  ")]
    for title, rows in (("Options", OPTIONS), ("Commands", COMMANDS)):
        lines += ["", f"{title}:", *_listed(rows, width)]
    return "\n".join(lines) + "\n"


def _columns() -> int:
    """Return the columns of the terminal, as `shutil.get_terminal_size`, which takes 5 ms to import."""
    try:
        return int(os.environ.get("COLUMNS", "")) or os.get_terminal_size(1).columns
    except (ValueError, OSError):
        try:
            return os.get_terminal_size(1).columns
        except OSError:
            return 80


def _listed(rows: dict[str, str], width: int) -> list[str]:
    indent = 2 + max(map(len, rows)) + 2
    lines: list[str] = []
    for name, help in rows.items():
        first, *rest = _wrapped(help, width, " " * indent)
        lines += [f"  {name}".ljust(indent) + first.lstrip(), *rest]
    return lines


def _wrapped(words: str, width: int, indent: str) -> list[str]:
    """Break a text into lines of a width, each with an indent."""
    lines = [indent.rstrip("\n")]
    for word in words.split():
        if len(lines[-1]) + len(word) + (lines[-1] != indent) > width and lines[-1] != indent:
            lines.append(indent)
        lines[-1] += word if lines[-1] == indent else f" {word}"
    return lines
