"""Outputs that a user changed, or that a run reads: they are never replaced."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import karl_fast
from karl_fast.errors import OutputExistsError
from tests import rows
from tests.cli.run import karl
from tests.cli.test_exits import refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOW = ("-k", 8, "-q", "--split", "0.5,0.5,0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows.write(tmp_path / "log.jsonl", rows.records(20))
    assert karl("sample", "log.jsonl", "-o", "out", *HOW, folder=tmp_path).returncode == 0
    return tmp_path


def texts(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _swap(path: Path) -> None:
    """Change one letter, and no size."""
    text = path.read_bytes()
    path.write_bytes(text[:40] + bytes([text[40] ^ 1]) + text[41:])


def _without_hashes(path: Path) -> None:
    """Add a row to a data set of a version that wrote no hashes."""
    manifest = json.loads((path.parent / "manifest.json").read_text("utf-8"))
    del manifest["export"]["files"]
    (path.parent / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    path.write_bytes(path.read_bytes() + b"{}\n")


EDITS: dict[str, Callable[[Path], object]] = {
    "a row more": lambda path: path.write_bytes(path.read_bytes() + b"{}\n"),
    "a row less": lambda path: path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:])),
    "one letter": _swap,
    "emptied": lambda path: path.write_bytes(b""),
    "of an older version": _without_hashes,
}


@pytest.mark.parametrize("split", ["train", "valid"])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_data_set_is_not_replaced(folder: Path, edit: str, split: str) -> None:
    EDITS[edit](folder / "out" / f"{split}.jsonl")
    before = texts(folder)
    for force in ([], ["--force"]):
        done = karl("sample", "log.jsonl", "-o", "out", *HOW, *force, folder=folder)
        why = f"out: it exists and {split}.jsonl in it is not as karl-fast wrote it"
        assert refused(done, 5).startswith(f"{why}; move the folder to keep it, or remove it")
        assert texts(folder) == before


def test_a_foreign_split_file_is_not_replaced(folder: Path) -> None:
    (folder / "out" / "test.jsonl").write_text("{}\n", "utf-8")
    done = karl("sample", "log.jsonl", "-o", "out", "--force", *HOW, folder=folder)
    assert "test.jsonl in it is not" in refused(done, 5)


def test_an_incomplete_or_copied_data_set_is_replaced(folder: Path) -> None:
    (folder / "out" / "valid.jsonl").unlink()
    wanted = (folder / "out" / "train.jsonl").read_bytes()
    (folder / "out" / "train.jsonl").unlink()
    (folder / "out" / "train.jsonl").write_bytes(wanted)
    assert karl("sample", "log.jsonl", "-o", "out", "--force", *HOW, folder=folder).returncode == 0
    assert karl("sample", "log.jsonl", "-o", "out", "--force", *HOW, folder=folder).returncode == 0


def test_the_manifest_tells_the_hash_of_each_file(folder: Path) -> None:
    made = karl_fast.sample(str(folder / "log.jsonl"), folder / "more", k=8)
    manifest = json.loads((folder / "more" / "manifest.json").read_text("utf-8"))
    assert manifest["export"]["files"] == made.manifest["export"]["files"]
    assert manifest["export"]["files"].keys() == {"train.jsonl", "README.md"}
    assert manifest["export"]["files"]["train.jsonl"]["size_bytes"] == (folder / "more" / "train.jsonl").stat().st_size


@pytest.mark.parametrize("log", ["out/train.jsonl", "link.jsonl", "out/../out/train.jsonl"])
def test_a_log_inside_of_the_output_is_refused(folder: Path, log: str) -> None:
    (folder / "link.jsonl").symlink_to("out/train.jsonl")
    before = texts(folder)
    done = karl("sample", log, "log.jsonl", "-o", "out", "--force", *HOW, folder=folder)
    assert refused(done, 5).startswith(f"out: this run reads {log}, which the output would replace")
    assert texts(folder) == before


def test_a_conversion_into_its_own_log_is_refused(folder: Path) -> None:
    assert karl("convert", "log.jsonl", "-o", "made.jsonl", folder=folder).returncode == 0
    before = texts(folder)
    for log in ("made.jsonl", "."):
        done = karl("convert", log, "-o", "made.jsonl", "--format", "generic", "--force", folder=folder)
        assert "made.jsonl: this run reads " in refused(done, 5)
        assert texts(folder) == before
    assert karl("convert", ".", "-o", "made.jsonl", "--force", folder=folder).returncode == 0


def test_columns_are_not_written_over_their_own_log(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows.records(20)), tmp_path / "log.parquet")
    with karl_fast.read(tmp_path / "log.parquet") as log, pytest.raises(OutputExistsError, match="this run reads"):
        log.to_parquet(tmp_path / "log.parquet", force=True)
