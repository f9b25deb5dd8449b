"""An index beside a log gives the draw that reading the log gives, whatever happened to either since."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import karl_fast
from karl_fast import errors
from karl_fast.log import index
from tests import rows
from tests.properties.test_any_split import PACKERS, result_of
from tests.properties.test_reproducible import HOW, awkward

if TYPE_CHECKING:
    from collections.abc import Callable


def draw(log: Path, name: str, *, with_index: bool, **how: Any) -> tuple[dict[str, bytes], dict[str, Any]]:
    out = log.parent / name
    shutil.rmtree(out, ignore_errors=True)
    karl_fast.sample(log, out, index=with_index, **(how or HOW))
    return result_of(out)


def spoil(text: bytes, at: int) -> bytes:
    at %= len(text)
    return text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]


CHANGES: dict[str, Callable[[Path, Path, int], object]] = {
    "append": lambda log, _, at: log.write_bytes(
        log.read_bytes() + json.dumps(rows.record(at, "g1", 1)).encode() + b"\n"
    ),
    "append torn": lambda log, _, at: log.write_bytes(log.read_bytes() + b'{"id": "r1", "rew'),
    "finish torn": lambda log, _, at: log.write_bytes(log.read_bytes() + b'ard": 1}\n'),
    "rewrite": lambda log, _, at: log.write_bytes(b"\n".join(reversed(log.read_bytes().split(b"\n")))),
    "edit": lambda log, _, at: log.write_bytes(log.read_bytes().replace(b'"reward": 0.2', b'"reward": 0.4')),
    "cut": lambda log, _, at: log.write_bytes(log.read_bytes()[: -1 - at % 500]),
    "touch": lambda log, _, at: os.utime(log, ns=(at, at)),
    "tear index": lambda _, place, at: place.write_bytes(place.read_bytes()[: at % 5000]),
    "spoil index": lambda _, place, at: place.write_bytes(spoil(place.read_bytes(), at)),
    "foreign index": lambda _, place, at: place.write_text(json.dumps({"at": at})),
    "lose index": lambda _, place, at: place.unlink(),
}


@settings(max_examples=25)
@given(changes=st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(0, 1 << 20)), min_size=1, max_size=4))
def test_the_draw_is_that_of_the_log(tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, int]]) -> None:
    folder = tmp_path_factory.mktemp("index")
    log = folder / "log.jsonl"
    log.write_bytes(b"\n".join(awkward()) + b"\n")
    place = Path(f"{log}{index.SUFFIX}")
    try:
        draw(log, "first", with_index=True)
        for name, at in changes:
            if place.exists():
                CHANGES[name](log, place, at)
            assert draw(log, "with", with_index=True) == draw(log, "without", with_index=False)
    finally:
        shutil.rmtree(folder)


def test_only_appended_bytes_are_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.jsonl"
    rows.write(log, rows.records(500))
    scanned: list[tuple[int, int]] = []
    scan = index._scan

    def note(*arguments: Any) -> Any:
        scanned.append(arguments[5])
        return scan(*arguments)

    monkeypatch.setattr(index, "_scan", note)
    draw(log, "one", with_index=True, k=40)
    size = log.stat().st_size
    draw(log, "two", with_index=True, k=60, score="zscore", dedup=True)
    with log.open("a") as file:
        file.write(rows.dumps([rows.record(900, "g1", 1)]))
    assert draw(log, "with", with_index=True, k=70) == draw(log, "without", with_index=False, k=70)
    assert scanned == [(0, size), (size, log.stat().st_size)]
    draw(log, "three", with_index=True, k=40, reward={"reward": 1.0})  # other settings of reading
    assert scanned[2:] == [(0, log.stat().st_size)]


@pytest.mark.parametrize("end", sorted(PACKERS))
def test_every_kind_of_file_has_an_index(tmp_path: Path, end: str) -> None:
    log = tmp_path / f"log{end}"
    log.write_bytes(PACKERS[end](b"".join(line + b"\n" for line in awkward())))
    without = draw(log, "without", with_index=False)
    assert draw(log, "first", with_index=True) == without
    assert Path(f"{log}{index.SUFFIX}").exists()
    assert draw(log, "second", with_index=True) == without
    log.write_bytes(PACKERS[end](b"".join(line + b"\n" for line in awkward()[5:])))
    assert draw(log, "third", with_index=True) == draw(log, "without", with_index=False)


def test_an_index_is_not_a_log_and_a_folder_of_logs_has_one_for_each(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for at in range(3):
        rows.write(tmp_path / "logs" / f"{at}.jsonl", rows.records(90, seed=at)[at * 30 : at * 30 + 30])
    (tmp_path / "logs" / "notes.json").write_text('{"settings": {}}')
    for name in ("first", "second"):
        karl_fast.sample(tmp_path / "logs", tmp_path / name, k=30, index=True)
    karl_fast.sample(tmp_path / "logs", tmp_path / "without", k=30)
    assert result_of(tmp_path / "first") == result_of(tmp_path / "second") == result_of(tmp_path / "without")
    assert len([*(tmp_path / "logs").glob(f"*{index.SUFFIX}")]) == 3


def test_a_place_that_takes_no_index_is_named(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(9))
    Path(f"{log}{index.SUFFIX}").mkdir()
    with pytest.raises(errors.OutputTakenError, match="karl-index is not a regular file"):
        karl_fast.sample(log, tmp_path / "out", k=3, index=True)


def test_the_command_keeps_an_index(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(90))
    package = str(Path(karl_fast.__file__).parents[1])
    for name in ("one", "two"):
        command = [
            sys.executable,
            "-m",
            "karl_fast",
            "sample",
            str(log),
            "-o",
            str(tmp_path / name),
            "-k",
            "9",
            "--index",
        ]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PYTHONPATH": package})
    assert result_of(tmp_path / "one") == result_of(tmp_path / "two")
    assert Path(f"{log}{index.SUFFIX}").exists()
