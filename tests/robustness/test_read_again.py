"""Long rows that are written as they came are not held: they are read again, and have to be what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import karl_fast
from karl_fast.errors import LogError
from karl_fast.pipeline.sample import draw_rows
from karl_fast.settings.sample import Settings
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path

RAW = {"k": 20, "seed": 3, "shape": "raw", "split": (1.0, 0.0, 0.0)}


def log(folder: Path) -> Path:
    """Records of which every other one is long."""
    return rows.write(
        folder / "log.jsonl", (row | {"more": "x" * 8192 * (n % 2)} for n, row in enumerate(rows.records(60)))
    )


def test_a_data_set_yields_the_draws_lines(tmp_path: Path) -> None:
    held = karl_fast.sample(log(tmp_path), None, **RAW)
    written = karl_fast.sample(log(tmp_path), tmp_path / "out", **RAW)
    lines = list(held.lines())
    assert {len(line) > 8192 for line in lines} == {True, False}
    assert lines == list(written.lines()) == (tmp_path / "out" / "train.jsonl").read_text().splitlines()


def test_changed_rows_are_an_error_unless_held(tmp_path: Path) -> None:
    held = karl_fast.sample(log(tmp_path), None, **RAW)
    written = karl_fast.sample(log(tmp_path), tmp_path / "out", **RAW)
    text = log(tmp_path).read_text()
    log(tmp_path).write_text(text.replace("xxx", "xyx"))
    assert len(list(held.lines())) == 20
    with pytest.raises(LogError, match=r"log\.jsonl"):
        list(written.lines())


@pytest.mark.parametrize("part_bytes", [1, 12_000, 1 << 20])
def test_printed_rows_are_those_that_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    """They are read again, a part at a time."""
    held = karl_fast.sample(log(tmp_path), None, **RAW)
    monkeypatch.setattr("karl_fast.pipeline.sample.PART_BYTES", part_bytes)
    assert list(draw_rows(log(tmp_path), Settings(**RAW)).lines()) == list(held.lines())
