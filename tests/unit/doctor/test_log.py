"""The log of the doctor: the same bytes and the same draw everywhere."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from karl_fast.doctor import QUICK, Job
from karl_fast.doctor import log as part
from karl_fast.errors import KarlError

if TYPE_CHECKING:
    from pathlib import Path


def test_the_log_has_the_bytes_that_the_draw_is_pinned_for(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert part.write_log(path, 100_000) == 48
    assert hashlib.sha256(path.read_bytes()).hexdigest()[:16] == "cd4400691315ea95"


def test_a_log_is_read_drawn_from_and_removed(tmp_path: Path) -> None:
    saved: list[dict[str, object]] = []
    result = part.check_log(Job(str(tmp_path), None, QUICK, 60), lambda result: saved.append(dict(result)))
    assert result["draw"] == part.DRAWS[QUICK.log_bytes]
    assert result["bytes"] >= QUICK.log_bytes
    assert {"write", "inspect", "sample", "convert"} < result.keys()
    assert saved[0].keys() == {"bytes", "rows", "write"}
    assert not [*tmp_path.iterdir()]


def test_another_draw_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(part.DRAWS, QUICK.log_bytes, "0" * 32)
    with pytest.raises(KarlError, match="the draw has hash"):
        part.check_log(Job(str(tmp_path), None, QUICK, 60), lambda _: None)


def test_a_full_disk_is_said_before_the_log_is_written(tmp_path: Path) -> None:
    sizes = replace(QUICK, log_bytes=1 << 60)
    with pytest.raises(KarlError, match="are free on the disk, and the log needs"):
        part.check_log(Job(str(tmp_path), None, sizes, 60), lambda _: None)


def test_a_size_without_a_pinned_draw_is_no_failure(tmp_path: Path) -> None:
    result = part.check_log(Job(str(tmp_path), None, replace(QUICK, log_bytes=3000), 60), lambda _: None)
    assert result["draw_expected"] is None
