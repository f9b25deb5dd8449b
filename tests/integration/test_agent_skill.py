"""The agent skill: its commands run, in order, on the examples in place of the user's own files."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import environment
from tests.unit.train.conftest import SERVER

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "integrations" / "skills" / "karl-fast" / "SKILL.md"
OWN = {"~/.claude/projects": "claude-code", "cycle.toml": "cycle/cycle.toml"}
"""Files of the user, and the example in the place of each."""

LEARN = ("train", "eval", "cycle")


def commands() -> list[list[str]]:
    text = SKILL.read_text("utf-8")
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    found = [shlex.split(line)[1:] for line in blocks.splitlines()]
    inline = [shlex.split(one)[1:] for one in re.findall(r"`(karl-fast skills [^`]+)`", text)]
    return found[:4] + inline + found[4:]


def test_its_commands_run(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "claude-code", tmp_path / "claude-code")
    shutil.copytree(ROOT / "examples" / "cycle", tmp_path / "cycle")
    (tmp_path / "cycle" / "cycle.toml").write_text(
        (ROOT / "examples" / "cycle" / "cycle.toml").read_text().replace("../../tiny-model", "../tiny-model")
    )
    there = importlib.util.find_spec("mlx_lm") is not None
    if there:
        maker = [sys.executable, str(ROOT / "examples" / "make_tiny_model.py"), "tiny-model"]
        subprocess.run(maker, cwd=tmp_path, env=environment(), capture_output=True, check=True)
    assert len(commands()) == 9
    for command in commands():
        if command[0] in LEARN and not there:
            continue
        words = [OWN.get(word, word) for word in command]
        done = SERVER.run(words, tmp_path, environment(), 180, None)
        assert done.returncode == 0, f"{words}: {done.stderr}"


@pytest.mark.parametrize("word", [".jsonl", "~/.claude/projects", "rewards", "LoRA"])
def test_description_names_what_a_user_wants(word: str) -> None:
    head = SKILL.read_text("utf-8").split("---")[1]
    [description] = re.findall(r"^description: (.*)$", head, re.MULTILINE)
    assert word in description
    assert len(description) <= 1024, "the limit of the format"
    assert re.search(r"^name: [a-z-]{1,64}$", head, re.MULTILINE)
