"""What a run says of itself: a file that survives a crash, and trackers by their own libraries."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from karl_fast.errors import CheckpointError, MissingExtraError
from karl_fast.modeling.checkpoint import JsonLines, open_trackers
from karl_fast.train import Training

if TYPE_CHECKING:
    from pathlib import Path


def test_each_line_is_flushed_before_the_next_step(tmp_path: Path) -> None:
    file = JsonLines(tmp_path / "metrics.jsonl", 0)
    for step in range(3):
        file.log({"step": step})
        assert len((tmp_path / "metrics.jsonl").read_text("utf-8").splitlines()) == step + 1
    file.finish()


def test_a_number_that_is_not_finite_is_null(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "val_loss": NaN}\n', "utf-8")
    file = JsonLines(path, 1)
    file.log({"step": 2, "loss": float("inf"), "rate": 1e30})
    file.finish()
    assert path.read_text("utf-8") == '{"step": 1, "val_loss": null}\n{"step": 2, "loss": null, "rate": 1e+30}\n'


def test_metrics_after_the_checkpoint_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": step}) + "\n" for step in range(5)) + '{"step": 5, "lo', "utf-8")
    JsonLines(path, 3).finish()
    assert [json.loads(line)["step"] for line in path.read_text("utf-8").splitlines()] == [0, 1, 2, 3]
    path.write_text("[]\n", "utf-8")
    with pytest.raises(CheckpointError, match="is not a file of metrics"):
        JsonLines(path, 3)


@pytest.mark.parametrize("library", ["wandb", "trackio"])
def test_a_tracker_is_told_what_the_file_is(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    fake = ModuleType(library)
    fake.init = lambda **how: told.append(how)  # type: ignore[attr-defined]
    fake.log = lambda values, step: told.append((step, values))  # type: ignore[attr-defined]
    fake.finish = lambda: told.append("finished")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, library, fake)
    settings = Training(report_to=(library,), project_name="p")  # type: ignore[arg-type]
    for tracker in (found := open_trackers(settings, tmp_path, 0)):
        tracker.log({"step": 1, "loss": 2.0})
    for tracker in found:
        tracker.finish()
    assert told == [
        {"project": "p", "name": tmp_path.name, "config": settings.to_dict()},
        (1, {"loss": 2.0}),
        "finished",
    ]
    assert (tmp_path / "metrics.jsonl").read_text("utf-8") == '{"step": 1, "loss": 2.0}\n'


def test_a_tracker_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match="--report-to wandb needs wandb, which is not installed") as error:
        open_trackers(Training(report_to=("wandb",)), tmp_path, 0)
    assert error.value.hint.endswith("install wandb")
