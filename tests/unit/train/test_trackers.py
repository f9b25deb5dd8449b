"""What a run says of itself arrives in the files of the trackers' own libraries; nothing is sent anywhere."""

from __future__ import annotations

import json
import sqlite3
import struct
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.train.conftest import quiet
from tests.unit.train.test_command import karl
from tests.unit.train.test_mlx_lm_defects import chat, lines, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FLAGS = ("--iters", 2, "--steps-per-report", 1, "--max-seq-length", 64, "--project-name", "the-project")
HEADER = 7
"""Bytes: of a file of wandb, and of each record in it."""


def run(library: str, model: Path, folder: Path) -> dict[int, dict[str, Any]]:
    """A run of two steps that a tracker is told; what its own file of metrics says of each."""
    some = [chat(f"question {n}", f"answer {n}") for n in range(8)]
    data, adapter = write(folder / "data", some, some[:2]), folder / "adapter"
    places = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(folder), "TRACKIO_DIR": str(folder)}
    words = ("train", data, "--model", model, "--adapter-path", adapter, "--report-to", library, *FLAGS)
    done = karl(*words, env=quiet() | places)
    assert done.returncode == 0, done.stderr
    said = by_step((line.pop("step"), line) for line in lines(adapter))
    assert list(said) == [0, 1, 2]
    assert {"loss", "val_loss", "grad_norm", "tokens_per_second"} <= set(said[2])
    return said


def by_step(found: Any) -> dict[int, dict[str, Any]]:
    whole: dict[int, dict[str, Any]] = {}
    for step, values in found:
        whole.setdefault(step, {}).update(values)
    return whole


def records(path: Path, kind: Any) -> Iterator[Any]:
    """The records of a file that is less than a block, so that each is in one piece."""
    content, at = path.read_bytes(), HEADER
    assert len(content) < 1 << 15
    while at < len(content):
        size, piece = struct.unpack_from("<4xHB", content, at)
        assert piece == 1
        yield kind.FromString(content[at + HEADER : at + HEADER + size])
        at += HEADER + size


def test_wandb_has_each_step(tiny_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    said = run("wandb", tiny_model, tmp_path)
    [path] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    found = list(records(path, Record))
    told = [
        {(item.key or item.nested_key[0]): json.loads(item.value_json) for item in record.history.item}
        for record in found
        if record.HasField("history")
    ]
    own = (
        (values["_step"], {name: one for name, one in values.items() if not name.startswith("_")}) for values in told
    )
    assert by_step(own) == said
    [start] = [record.run for record in found if record.HasField("run")]
    assert (start.project, start.display_name) == ("the-project", "adapter")
    config = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in start.config.update}
    assert (config["iters"], config["max_seq_length"]) == (2, 64)


def test_trackio_has_each_step(tiny_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("trackio")
    said = run("trackio", tiny_model, tmp_path)
    base = sqlite3.connect(tmp_path / "the-project.db")
    told = base.execute("select run_name, step, metrics from metrics order by id").fetchall()
    [(settings,)] = base.execute("select config from configs").fetchall()
    base.close()
    assert {name for name, *_ in told} == {"adapter"}
    assert by_step((step, json.loads(values)) for _, step, values in told) == said
    config = json.loads(settings)
    assert (config["iters"], config["max_seq_length"]) == (2, 64)
