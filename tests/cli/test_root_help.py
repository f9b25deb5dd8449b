"""`karl-fast --help` without typer: the same text, and no import that it could do without."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from karl_fast.cli.app import app
from karl_fast.cli.dispatch import _load
from karl_fast.cli.root_help import COMMANDS, text
from tests.cli.run import karl


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 200])
def test_the_help_is_that_of_typer(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _load([])
    # Other tests of this process may have imported some commands before, in another order.
    order = [f"karl_fast.cli.commands.{name}" for name in COMMANDS]
    commands = sorted(app.registered_commands, key=lambda one: order.index(one.callback.__module__))
    monkeypatch.setattr(app, "registered_commands", commands)
    monkeypatch.setenv("COLUMNS", str(columns))
    command = typer.main.get_command(app)
    wanted = command.get_help(command.make_context("karl-fast", [], resilient_parsing=True))
    assert text() == text(columns) == wanted + "\n"


def test_the_help_imports_neither_typer_nor_numpy() -> None:
    program = (
        "import sys; sys.argv = ['karl-fast', '--help']\n"
        "from karl_fast.cli import main\n"
        "try:\n    main()\nfinally:\n    print(sorted({'typer', 'numpy', 'rich', 'inspect'} & {*sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == text(80) + "[]\n"


def test_h_is_help_of_every_command() -> None:
    assert karl("-h").stdout == karl("--help").stdout != ""
    for command in COMMANDS:
        short, long = karl(command, "-h"), karl(command, "--help")
        assert (short.returncode, short.stdout) == (0, long.stdout), command
