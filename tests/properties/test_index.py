"""An index beside a log gives the draw that reading the log gives, whatever happened to either since."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import karl_fast
from karl_fast import _atomic, errors
from karl_fast.audit.audit import audit
from karl_fast.log import index
from karl_fast.page.report import report
from karl_fast.pipeline.show import show
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


def note_scans(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object] = lambda: None) -> list[tuple[int, int]]:
    """Return a list to which each scanned range will be added; `then` is called after each."""
    scanned: list[tuple[int, int]] = []
    parts = index._Scan.parts

    def note(scan: index._Scan, start: int, end: int) -> list[bytes] | None:
        scanned.append((start, end))
        part = parts(scan, start, end)
        then()
        return part

    monkeypatch.setattr(index._Scan, "parts", note)
    return scanned


def test_only_appended_bytes_are_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.jsonl"
    rows.write(log, rows.records(500))
    scanned = note_scans(monkeypatch)
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


def test_names_of_the_folder_are_those_of_the_folder_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    rows.write(tmp_path / "a" / "log.jsonl", rows.records(50))

    def groups(folder: str, field: str) -> set[str]:
        log = tmp_path / folder / "log.jsonl"
        draw(log, "out", with_index=True, k=5, group=field)
        lines = (log.parent / "out" / "train.jsonl").read_text("utf-8").splitlines()
        return {json.loads(line)["karl_fast"]["group"] for line in lines}

    assert groups("a", "file.parent") == {"a"}
    (tmp_path / "a").rename(tmp_path / "b")
    scanned = note_scans(monkeypatch)
    assert (groups("b", "file.parent"), len(scanned)) == ({"b"}, 1)
    groups("b", "file.name")
    (tmp_path / "b").rename(tmp_path / "c")
    assert (groups("c", "file.name"), len(scanned)) == ({"log"}, 2)  # its names are the same: no new index


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


def test_every_reading_command_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(200))
    without = karl_fast.inspect(log, exact=True).report
    shown, audited = show(log), audit(log)
    assert not Path(f"{log}{index.SUFFIX}").exists()
    (indexed,) = index.write_indexes(log, karl_fast.Settings())
    assert (indexed.index, indexed.bytes_read, indexed.state) == (f"{log}{index.SUFFIX}", log.stat().st_size, "written")
    scanned = note_scans(monkeypatch)
    with_index = karl_fast.inspect(log, index=True).report
    assert {**with_index, "run": None} == {**without, "run": None}
    assert show(log, index=True) == shown
    assert audit(log, index=True).to_dict() == audited.to_dict()
    assert report(log, tmp_path / "page.html", index=True).kind == "Log"
    (indexed,) = index.write_indexes(log, karl_fast.Settings())
    assert (indexed.bytes_read, indexed.state) == (0, "current")
    assert scanned == []


def test_a_data_set_gets_no_index(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(60))
    karl_fast.sample(log, tmp_path / "data", k=30)
    before = sorted((tmp_path / "data").iterdir())
    karl_fast.inspect(tmp_path / "data", index=True)
    karl_fast.sample(log, tmp_path / "data", k=30, force=True)
    assert sorted((tmp_path / "data").iterdir()) == before


def test_lines_appended_while_it_is_read_are_of_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(90))
    without = draw(log, "without", with_index=False, k=30)
    more = log.read_bytes() + rows.dumps([rows.record(900, "g1", 1)]).encode()
    with monkeypatch.context() as patch:
        note_scans(patch, lambda: log.write_bytes(more))
        assert draw(log, "first", with_index=True, k=30)[0] == without[0]
    scanned = note_scans(monkeypatch)
    assert draw(log, "with", with_index=True, k=30) == draw(log, "without", with_index=False, k=30)
    assert scanned == [(len(more) - len(more.splitlines()[-1]) - 1, len(more))]


def test_a_log_rewritten_while_it_is_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(90))
    other = log.read_bytes().replace(b'"reward": 0', b'"reward": 1') + b"\n"
    note_scans(monkeypatch, lambda: log.write_bytes(other))
    with pytest.raises(errors.LogChangedError, match="changed while it was read"):
        draw(log, "first", with_index=True, k=30)
    assert not Path(f"{log}{index.SUFFIX}").exists()


def test_of_two_writers_the_second_leaves_the_index_to_the_first(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(90))
    place = Path(f"{log}{index.SUFFIX}")
    with _atomic._open_locked(place.with_name(_atomic.UNFINISHED + place.name)):
        assert draw(log, "with", with_index=True, k=30) == draw(log, "without", with_index=False, k=30)
        assert not place.exists()
        assert index.write_indexes(log, karl_fast.Settings())[0].state == "busy"
    [indexed] = index.write_indexes(log, karl_fast.Settings())
    assert indexed.state == "written"  # a draft that a killed process left is no obstacle
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(_atomic.UNFINISHED)] == []


def test_many_writers_leave_one_whole_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(400))
    with ThreadPoolExecutor(6) as pool:
        for _ in range(5):
            states = list(pool.map(lambda _: index.write_indexes(log, karl_fast.Settings())[0].state, range(6)))
            assert "written" in states
            Path(f"{log}{index.SUFFIX}").unlink()
        list(pool.map(lambda _: index.write_indexes(log, karl_fast.Settings()), range(6)))
    scanned = note_scans(monkeypatch)
    assert draw(log, "with", with_index=True, k=30) == draw(log, "without", with_index=False, k=30)
    assert scanned == []


@pytest.mark.parametrize("name", ["-", "s3://bucket/log.jsonl", "log.parquet"])
def test_what_can_have_no_index_is_named(name: str) -> None:
    with pytest.raises(errors.UsageError, match="can have no index"):
        index.write_indexes(name, karl_fast.Settings())


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
