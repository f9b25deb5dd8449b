"""Logs of Inspect packed as zip: names and JSON as inspect_ai 0.3 writes them (`_recorders/eval.py`, `zip_write`)."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import karl_fast
from karl_fast import errors
from karl_fast.log.inspect_eval import samples
from tests.unit.formats.test_presets import INSPECT

REWARD = "grade(scores.match.value)"


def write(path: Path, *names: str, compression: int = zipfile.ZIP_DEFLATED, **more: Any) -> Path:
    """Write a log with a header, and the sample under each name; its answers differ."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("_journal/start.json", json.dumps({"version": 2, "eval": {}, "plan": {}}, indent=2))
        for at, name in enumerate(names):
            sample = INSPECT | {"id": f"s{at}", "epoch": 1} | more
            archive.writestr(name, json.dumps(sample, indent=2))
        archive.writestr("summaries.json", json.dumps([{"id": "s0", "epoch": 1, "input": "2+2?", "target": "4"}]))
        archive.writestr("header.json", json.dumps({"version": 2, "status": "success"}))
    return path


NAMES = ("samples/s0_epoch_1.json", "samples/s1_epoch_1.json", "samples/s2_epoch_1.json")


def test_samples_of_a_packed_log_are_drawn(tmp_path: Path) -> None:
    path = write(tmp_path / "2026-01-01_sums.eval", *NAMES)
    log = karl_fast.read(path, reward={REWARD: 1.0})
    assert list(log.rewards) == [1.0] * 3
    assert [file["path"] for file in log.inputs] == [str(path)]
    karl_fast.sample(log, tmp_path / "data", k=2, split=(1, 0, 0))
    rows = [json.loads(line) for line in (tmp_path / "data" / "train.jsonl").read_text("utf-8").splitlines()]
    assert {row["karl_fast"]["group"] for row in rows} <= {"s0", "s1", "s2"}
    assert [one["content"] for one in rows[0]["messages"]] == ["2+2?", "4"]


def test_a_packed_log_in_a_folder_is_read_and_converted(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    write(tmp_path / "logs" / "sums.eval", *NAMES)
    assert karl_fast.read(tmp_path / "logs", reward={REWARD: 1.0}).rewards.size == 3
    account = karl_fast.convert(tmp_path / "logs", tmp_path / "out.jsonl")
    assert account.trajectories == 3


def test_samples_of_any_id_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.eval", *NAMES, "samples/repo/issue-7_epoch_1.json", "samples/a/b/c_epoch_2.json")
    assert karl_fast.read(path, reward={REWARD: 1.0}).rewards.size == 5


def test_a_text_keeps_its_line_breaks(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "a\nb\r\n"}, {"role": "assistant", "content": "c\n\nd"}]
    with samples(str(write(tmp_path / "a.eval", NAMES[0], messages=messages))) as copy:
        lines = Path(copy).read_text("utf-8").splitlines()
    assert [json.loads(line)["messages"] for line in lines] == [messages]


def test_samples_in_chunks_are_named_with_what_to_do(tmp_path: Path) -> None:
    path = write(tmp_path / "a.eval", NAMES[1], "samples/s0_epoch_1/sample.json", "samples/s0_epoch_1/messages/0.json")
    with pytest.raises(errors.LogError, match="samples in chunks") as caught:
        karl_fast.read(path)
    assert caught.value.hint == f"inspect log convert --to json --output-dir json {path} writes a log that is read"


def test_a_compression_that_python_lacks_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.eval", NAMES[0], compression=zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    for begin, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # method 94 in every header
        place = data.find(begin)
        while place >= 0:
            data[place + at] = 94
            place = data.find(begin, place + 1)
    path.write_bytes(data)
    with pytest.raises(errors.LogError, match="cannot be unpacked") as caught:
        karl_fast.read(path)
    assert "inspect log convert" in str(caught.value.hint)


@pytest.mark.parametrize("cut", [4, 60, -30])
def test_a_damaged_archive_is_an_error_by_name(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "a.eval", *NAMES)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(errors.LogError, match=r"a\.eval: it is a damaged log of Inspect"):
        karl_fast.read(path)


def test_changed_bytes_of_a_sample_are_found(tmp_path: Path) -> None:
    path = write(tmp_path / "a.eval", *NAMES, compression=zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"2+2?", b"3+3?"))
    with pytest.raises(errors.LogError, match="damaged"):
        karl_fast.read(path)


def test_json_under_that_name_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    path.write_text(json.dumps(INSPECT) + "\n", "utf-8")
    assert karl_fast.read(path, reward={REWARD: 1.0}).rewards.size == 1
