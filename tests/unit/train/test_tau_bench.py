"""The lines of docs/guides/train.md from a published log to an adapter that was judged, and what they print."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.integration.test_docs import FETCHED, README, Block, commands, pairs
from tests.unit.train.conftest import made
from tests.unit.train.test_command import karl

if TYPE_CHECKING:
    from pathlib import Path

PAGE = README.parent / "docs" / "guides" / "train.md"

NUMBER = re.compile(r"[+-]?\d[\d,]*(\.\d+)?")
"""In what differs between machines: losses by the BLAS, speeds by the load."""


@pytest.fixture(scope="module")
def shown() -> tuple[Block, Block]:
    """The commands, and what stands below them."""
    [found] = [pair for pair in pairs(PAGE) if pair[0].language == "sh" and FETCHED in pair[0].text]
    return found


def plain(line: str) -> str:
    """A line, without the numbers of a machine."""
    varies = line.startswith(("step ", "loss ", "differs "))
    return " ".join((NUMBER.sub("#", line) if varies else line).split())


@pytest.mark.slow
def test_page_lines_print_what_it_says(shown: tuple[Block, Block], tau_bench: Path, tmp_path: Path) -> None:
    shutil.copy(tau_bench, tmp_path / FETCHED)
    made(tmp_path / "tiny-model")
    said = ""
    for command in commands(shown[0]):
        done = karl(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        said += done.stderr + done.stdout
    printed = {plain(line) for line in said.splitlines()}
    assert [line for line in shown[1].text.splitlines() if plain(line) not in printed] == []
