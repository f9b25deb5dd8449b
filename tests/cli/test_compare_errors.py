"""What is not a data set, and what is a damaged one: refused with the place of the damage."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast.errors import DataSetError, FileError, UsageError
from tests.cli.run import karl
from tests.cli.test_exits import refused

if TYPE_CHECKING:
    from pathlib import Path


def change(folder: Path, part: str, value: Any) -> None:
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    *path, last = part.split(".")
    inner = manifest
    for key in path:
        inner = inner[key]
    inner[last] = value
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("export.splits", {"train": 3}),
        ("export.splits.train", "3"),
        ("accounting.dropped", [1]),
        ("accounting.rows_read", None),
        ("draw.failed", {"x": "y"}),
        ("secrets", 3),
        ("domains", {"a": 3}),
        ("inputs", [{}]),
        ("inputs", {}),
        ("settings", []),
        ("target", {"ess_rows": [1]}),
        ("target.log_z", 3),
        ("target.log_z.value", [1]),
        ("reward.after", 3),
        ("reward", 3),
        ("draw", 3),
        ("export.shape", None),
    ],
)
def test_1_where_a_manifest_is_damaged(pair: tuple[Path, Path], folder: Path, part: str, value: Any) -> None:
    change(folder / "b", part, value)
    sentence = refused(karl("compare", "a", "b", folder=folder), 1)
    assert sentence.startswith("b/manifest.json is damaged: ")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"schema": NaN, "karl_fast": "0"}', "\x80"])
def test_1_where_a_manifest_is_no_json(pair: tuple[Path, Path], folder: Path, text: str) -> None:
    (folder / "b" / "manifest.json").write_text(text, encoding="latin-1")
    assert refused(karl("compare", "a", "b", folder=folder), 1) == "b/manifest.json is damaged: it is not JSON"


def test_1_manifest_of_another_form(pair: tuple[Path, Path], folder: Path) -> None:
    change(folder / "b", "schema", 99)
    assert "reads forms up to" in refused(karl("compare", "a", "b", folder=folder), 1)
    (folder / "b" / "manifest.json").write_text('{"name": "an app"}')
    assert refused(karl("compare", "a", "b", folder=folder), 1) == "b/manifest.json is not a manifest of karl-fast"


BAD_ROWS = {
    '{"messages": [': "the row is not JSON",
    "": "the row is not JSON",
    "[1]": "the row is not a JSON object",
    "{}": "the row has no object karl_fast with its id, group and reward",
    '{"karl_fast": 3}': "the row has no object",
    '{"karl_fast": {"id": 3, "group": null, "reward": 1}}': "the row has no object",
    '{"karl_fast": {"id": "a", "group": [], "reward": 1}}': "the row has no object",
    '{"karl_fast": {"id": "a", "group": "g", "reward": "1"}}': "the row has no object",
    '{"karl_fast": {"id": "a", "group": "g", "reward": 1e999}}': "the row has no object",
    '{"karl_fast": {"id": "a", "group": "g", "reward": NaN}}': "the row has no object",
    '{"karl_fast": {"id": "\\ud800", "group": "g", "reward": 1}}': "the row is not JSON",
}


@pytest.mark.parametrize("line", BAD_ROWS)
def test_1_damaged_row_names_file_and_line(pair: tuple[Path, Path], folder: Path, line: str) -> None:
    lines = (folder / "b" / "train.jsonl").read_text("utf-8").splitlines(keepends=True)
    lines[2] = f"{line}\n"
    (folder / "b" / "train.jsonl").write_text("".join(lines))
    sentence = refused(karl("compare", "a", "b", folder=folder), 1)
    assert sentence.startswith(f"b/train.jsonl, line 3: {BAD_ROWS[line]}")


def test_1_where_rows_are_missing(pair: tuple[Path, Path], folder: Path) -> None:
    lines = (folder / "b" / "train.jsonl").read_text("utf-8").splitlines(keepends=True)
    (folder / "b" / "train.jsonl").write_text("".join(lines[:-1]))
    wanted = f"b/train.jsonl has {len(lines) - 1} rows, and its manifest says {len(lines)}"
    assert refused(karl("compare", "a", "b", folder=folder), 1) == wanted
    (folder / "b" / "train.jsonl").unlink()
    assert "cannot open b/train.jsonl" in refused(karl("compare", "a", "b", folder=folder), 1)


def test_2_where_a_name_is_empty(folder: Path) -> None:
    assert refused(karl("compare", "", "tiny.jsonl", folder=folder), 2) == "a is empty, wanted a data set"
    with pytest.raises(UsageError, match="b is empty"):
        karl_fast.compare(folder, "")


def test_1_where_there_is_no_data_set(folder: Path) -> None:
    (folder / "empty").mkdir()
    sentence = refused(karl("compare", "empty", "empty", folder=folder), 1)
    assert sentence == "empty is not a data set of karl-fast: it has no manifest.json"
    assert "no such file or folder" in refused(karl("compare", "nowhere", "empty", folder=folder), 1)
    sentence = refused(karl("compare", "tiny.jsonl", "tiny.jsonl", folder=folder), 1)
    what = "line 1: the row has no object karl_fast with its id, group and reward"
    assert sentence == f"tiny.jsonl is not a data set of karl-fast: {what}"
    with pytest.raises(DataSetError):
        karl_fast.compare(folder / "empty", folder / "empty")
    with pytest.raises(FileError):
        karl_fast.compare(folder / "nowhere", folder / "empty")


@pytest.mark.parametrize("other", ["tiny.jsonl", "logs", "odd.jsonl", "tiny.jsonl.gz"])
def test_log_instead_of_data_set_hint(pair: tuple[Path, Path], folder: Path, other: str) -> None:
    (folder / "logs").mkdir()
    (folder / "logs" / "log.jsonl").touch()
    (folder / "odd.jsonl").write_text("{\n")
    (folder / "tiny.jsonl.gz").write_bytes(gzip.compress((folder / "tiny.jsonl").read_bytes()))
    unpack = "unpack it if it is packed; " if other.endswith(".gz") else ""
    for sides in (("a", other), (other, "a"), ("a/train.jsonl", other)):
        done = karl("compare", *sides, folder=folder)
        assert refused(done, 1).startswith(f"{other} is not a data set of karl-fast: ")
        assert (
            done.stderr.splitlines()[1] == f"hint: {unpack}karl-fast sample {other} -o data -k 512 makes one of a log"
        )


WANTED = "give a folder that karl-fast sample wrote, or one .jsonl file out of it"


@pytest.mark.parametrize(
    ("other", "why", "hint"),
    [
        ("b", "it has no manifest.json", "give a file of its rows: b/train.jsonl"),
        ("a/manifest.json", "it is the manifest of one", "give its folder: a"),
        ("none.jsonl", "it holds no rows", WANTED),
        ("empty", "it has no manifest.json", WANTED),
    ],
)
def test_other_folder_instead_of_data_set_hint(
    pair: tuple[Path, Path], folder: Path, other: str, why: str, hint: str
) -> None:
    (folder / "b" / "manifest.json").unlink()
    (folder / "none.jsonl").touch()
    (folder / "empty").mkdir()
    for sides in (("a", other), (other, "a")):
        done = karl("compare", *sides, folder=folder)
        assert refused(done, 1) == f"{other} is not a data set of karl-fast: {why}"
        assert done.stderr.splitlines()[1] == f"hint: {hint}"


def test_strange_bytes_do_not_break_it(folder: Path) -> None:
    row = {"karl_fast": {"id": "", "group": "\u0000", "reward": None}, "messages": [3, {"role": ["x"]}]}
    (folder / "odd.jsonl").write_text(json.dumps(row))
    found = karl_fast.compare(folder / "odd.jsonl", folder / "odd.jsonl")
    assert (found["b"]["rows"], found["b"]["reward"], found["b"]["messages"]["max"]) == (1, None, 2)
    assert karl("compare", "odd.jsonl", "odd.jsonl", folder=folder).returncode == 0
