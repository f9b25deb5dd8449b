"""Help of the program and of each command: its sections, its height, its colour."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from importlib import import_module
from unittest.mock import patch

import pytest

from karl_fast.cli.app import COMMANDS, app
from karl_fast.cli.colour import paint, paint_label
from tests.cli.run import ENVIRONMENT, karl


def test_the_help_names_all_commands_and_imports_none() -> None:
    program = (
        "import sys; sys.argv = ['karl-fast', '--help']\n"
        "from karl_fast.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    print([name for name in sys.modules if 'commands.' in name or name == 'numpy'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith("[]\n")
    assert re.findall(r"^  (\w+) +[A-Z]", done.stdout.partition("Transcripts:\n")[2], re.M) == [*COMMANDS]


def test_h_is_help_of_every_command() -> None:
    assert karl("-h").stdout == karl("--help").stdout != ""
    for command in COMMANDS:
        short, long = karl(command, "-h"), karl(command, "--help")
        assert (short.returncode, short.stdout) == (0, long.stdout), command


SCREEN = 45
"""Lines of 80 columns that a help may take."""


def narrow(*words: str) -> list[str]:
    with patch.dict(ENVIRONMENT, COLUMNS="80"):
        return karl(*words).stdout.splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_each_section_of_it_fit_a_screen(command: str) -> None:
    common, every = narrow(command, "--help"), narrow(command, "--help", "all")
    assert len(common) <= SCREEN
    sections = re.findall(r"section: ([\w, -]+)\.", " ".join(" ".join(common).split()))
    for word in sections[0].split(", ") if sections else ():
        section = narrow(command, "--help", word)
        assert 0 < len(section) <= SCREEN
        body = section[: section.index("")]
        assert body[0].lower().startswith(word)
        assert "\n".join(body) in "\n".join(every)
    assert len(every) > len(common) if sections else every == common


def test_every_option_stands_in_the_help_of_all() -> None:
    import typer

    for name in COMMANDS:
        import_module(f"karl_fast.cli.commands.{name}")
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name in COMMANDS:
        text = "\n".join(narrow(name, "--help", "all"))
        options = {word for param in commands[name].params if param.param_type_name == "option" for word in param.opts}
        assert {word for word in options if not re.search(rf"(^|[ ,]){re.escape(word)}\b", text, re.M)} == set(), name


def test_a_word_that_names_no_section_is_help_like_none() -> None:
    assert karl("sample", "--help", "tiny.jsonl").stdout == karl("sample", "--help").stdout
    assert karl("sample", "--", "--help", "all").returncode != 0


def test_colour_is_for_terminals_without_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert paint("x", "bold", terminal) == "\x1b[1mx\x1b[0m"
    assert paint("x", "bold", io.StringIO()) == "x"
    assert paint_label("warning   one", terminal) == "\x1b[33mwarning\x1b[0m   one"
    assert paint_label("  12  one", terminal) == "  12  one"
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as context:
            context.setenv(name, value)
            assert paint("x", "bold", terminal) == "x"
