"""Logs for the command."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from tests import rows

if TYPE_CHECKING:
    from collections.abc import Iterable

TINY = Path(__file__).parent / "tiny.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with `tiny.jsonl` in it."""
    shutil.copy(TINY, tmp_path / "tiny.jsonl")
    return tmp_path


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 160 MB: long enough to be interrupted anywhere."""

    def many() -> Iterable[dict[str, Any]]:
        text = "a long answer, " * 500
        for number in range(20_000):
            turns = [{"role": "user", "content": f"q{number}"}, {"role": "assistant", "content": text}]
            yield rows.record(number, f"g{number % 500}", number % 7 / 7, messages=turns)

    path = tmp_path_factory.mktemp("large") / "large.jsonl"
    return rows.write(path, many())


@pytest.fixture
def pair(folder: Path) -> tuple[Path, Path]:
    """Two draws of one log: other scores, other seeds, other sizes."""
    log = folder / "tiny.jsonl"
    karl_fast.sample(log, folder / "a", k=12, domain="kind", split=(0.5, 0.5, 0.0))
    karl_fast.sample(log, folder / "b", k=20, domain="kind", score="zscore", seed=4, drop_constant_groups=True)
    return folder / "a", folder / "b"
