"""What the shells ask for when a person presses TAB: names, choices, and nothing where a path belongs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.run import COMMAND, environment

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = ("bash", "zsh", "fish")


def ask(instruction: str, folder: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the command as a shell does for completion: by variables, without arguments."""
    given = {"_KARL_FAST_COMPLETE": instruction, **variables}
    return subprocess.run(
        COMMAND, env=environment() | given, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def bash(line: str, folder: Path | None = None) -> list[str]:
    words = line.split(" ")
    done = ask("complete_bash", folder, COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


COMMANDS = [
    "ablate",
    "audit",
    "collect",
    "compare",
    "convert",
    "cycle",
    "doctor",
    "eval",
    "export",
    "index",
    "inspect",
    "outcomes",
    "pairs",
    "pretrain",
    "promote",
    "push",
    "report",
    "rl",
    "rollback",
    "sample",
    "show",
    "skills",
    "surprisal",
    "train",
    "version",
]

WANTED = {
    "karl-fast ": COMMANDS,
    "karl-fast sa": ["sample"],
    "karl-fast --ver": ["--version"],
    "karl-fast --version ": COMMANDS,
    "karl-fast sample --sc": ["--score"],
    "karl-fast sample --no-de": ["--no-dedup"],
    "karl-fast sample --score ": ["raw", "centre", "zscore", "leave-one-out", "advantage"],
    "karl-fast sample --score z": ["zscore"],
    "karl-fast sample --as p": ["preference", "prime-rl", "prompt-completion", "prompt-completion-text"],
    "karl-fast sample --sampler ga": [],
    "karl-fast sample --sampler gu": ["gumbel"],
    "karl-fast inspect --format t": ["tau-bench", "tau2", "tinker", "trajectory", "trl"],
    "karl-fast convert --format c": ["claude-code", "codex", "copilot-cli", "cursor"],
    "karl-fast convert --rate karl": ["karl-v1", "karl-v2"],
    "karl-fast inspect --partition-by ": ["global", "group"],
    # Where nothing is offered, the shell offers files.
    "karl-fast sample ": [],
    "karl-fast sample log.jsonl --config ": [],
    "karl-fast sample log.jsonl -o ": [],
    "karl-fast compare da": [],
}


@pytest.mark.parametrize("line", WANTED)
def test_bash_is_told_names_and_choices(line: str) -> None:
    assert sorted(bash(line)) == sorted(WANTED[line])


def test_zsh_and_fish_complete_with_help() -> None:
    zsh = ask("complete_zsh", _TYPER_COMPLETE_ARGS="karl-fast sample --score z")
    assert zsh.stdout.strip() == "_arguments '*: :((\"zscore\"))'"
    assert ask("complete_zsh", _TYPER_COMPLETE_ARGS="karl-fast sample lo").stdout.strip() == "_files"
    asked = {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_ARGS": "karl-fast in"}
    assert ask("complete_fish", **asked).stdout == (
        "inspect\tLook at logs before sampling.\n"
        "index\tKeep the columns of logs beside them, to read only what is appended.\n"
    )


def test_a_log_is_never_read_for_it(folder: Path) -> None:
    """zsh runs what it is told as a program: text of a log must not be in it."""
    (folder / "tiny.jsonl").write_text('{"$(touch owned)": 1, "reward": 1}\n')
    for line in ("karl-fast sample tiny.jsonl --reward ", "karl-fast sample tiny.jsonl --partition-by "):
        assert set(bash(line, folder)) <= {"global", "group"}
        said = ask("complete_zsh", folder, _TYPER_COMPLETE_ARGS=line).stdout
        assert "owned" not in said
    assert sorted(path.name for path in folder.iterdir()) == ["tiny.jsonl"]


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_script_of_each_shell(shell: str) -> None:
    done = ask(f"source_{shell}")
    assert done.returncode == 0
    assert "karl-fast" in done.stdout
    assert f"_KARL_FAST_COMPLETE=complete_{shell}" in done.stdout


def test_completion_loads_no_numpy() -> None:
    told = "import atexit, sys; atexit.register(lambda: print('numpy' in sys.modules))"
    code = f"{told}; from karl_fast.cli import main; main()"
    variables = {"_KARL_FAST_COMPLETE": "complete_bash", "COMP_WORDS": "karl-fast sample --", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert "--score" in done.stdout.split()
    assert done.stdout.split()[-1] == "False"
