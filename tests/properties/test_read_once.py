"""Long raw rows are read once, and judged as they are written: what comes out is as if each were judged before."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast import errors
from karl_fast.export.write import UNPARSABLE, export_plan
from karl_fast.pipeline import sample
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path

    from karl_fast.settings.sample import Settings

ONCE: dict[str, Any] = {"shape": "raw", "allow_secrets": True}
SPLITS = ("train", "valid", "test")


def log_of(folder: Path, bad: int) -> Path:
    """Forty rows, of which two thirds are long; so many of those are not JSON, where nobody looks for a field."""
    made = [
        rows.record(n, f"g{n % 4}", n / 40, domain=f"d{n % 3}", padding="x" * (5000 if n % 3 else 1)) for n in range(40)
    ]
    lines = [json.dumps(row) for row in made]
    long = [n for n in range(40) if n % 3]
    for n in long[:bad]:
        lines[n] = lines[n].replace("xx", r"\q", 1)
    (folder / "log.jsonl").write_text("\n".join(lines))
    return folder / "log.jsonl"


def comparable(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest without what only a written data set has: times, and digests of its files."""
    export = {name: value for name, value in manifest["export"].items() if name != "files"}
    return {**manifest, "run": manifest["run"]["failed_rows"], "export": export}


@pytest.mark.parametrize("bad", [0, 6])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"sampler": "systematic"},
        {"sampler": "multinomial"},
        {"max_per_group": 6, "k": 20},
        {"per": {"domain": "equal"}, "k": 20},
        {"split": (0.5, 0.25, 0.25)},
    ],
)
def test_the_rows_are_those_that_are_judged_before(tmp_path: Path, more: dict[str, Any], bad: int) -> None:
    log, how = log_of(tmp_path, bad), {"k": 30, **ONCE, **more}
    held = karl_fast.sample(log, None, **how)
    for force in (False, True):
        written = karl_fast.sample(log, tmp_path / "out", force=force, **how)
        files = [tmp_path / "out" / f"{split}.jsonl" for split in SPLITS]
        exported = [line for file in files if file.exists() for line in file.read_text().splitlines()]
        assert exported == list(held.lines()) == list(written.lines())
        assert len([json.loads(line) for line in exported]) == sum(written.manifest["export"]["splits"].values())
        assert comparable(held.manifest) == comparable(written.manifest)
        assert more or bool(held.manifest["draw"]["failed"]) == bool(bad)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "out"]


def test_they_are_left_unread_where_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared_as: list[str] = []

    def record_plan(settings: Settings, prepared: Any, row_judge: Any) -> Any:
        prepared_as.append(prepared)
        return export_plan(settings, prepared, row_judge)

    monkeypatch.setattr(sample, "export_plan", record_plan)
    for out in (tmp_path / "out", None):
        karl_fast.sample(log_of(tmp_path, 0), out, k=30, **ONCE)
    assert prepared_as == ["unread", "held"]


@pytest.mark.parametrize("export", [False, True])
def test_a_log_deleted_before_the_draw_has_changed(tmp_path: Path, export: bool) -> None:
    log = karl_fast.read(log_of(tmp_path, 0), k=30, **ONCE)
    (tmp_path / "log.jsonl").unlink()
    draw = partial(karl_fast.export, log, np.arange(2)) if export else partial(karl_fast.sample, log)
    with pytest.raises(errors.LogChangedError, match=r"log\.jsonl"):
        draw(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_export_leaves_out_broken_rows(tmp_path: Path) -> None:
    log = karl_fast.read(log_of(tmp_path, 6), **ONCE)
    manifest = karl_fast.export(log, np.arange(40), tmp_path / "out")
    assert manifest["draw"]["failed"] == {"unparsable": 6}
    assert len(rows.lines(tmp_path / "out")) == sum(manifest["export"]["splits"].values()) == 34


def test_first_of_all_broken_rows_is_named(tmp_path: Path) -> None:
    log = log_of(tmp_path, 26)
    kept = [line for line in log.read_text().splitlines() if r"\q" in line]
    log.write_text("\n".join(kept))
    said = r"unparsable 26; the first at byte 0 of .*log\.jsonl"
    with pytest.raises(errors.NothingToSampleError, match=said) as told:
        karl_fast.sample(log, tmp_path / "out", k=26, **ONCE)
    assert told.value.hint == UNPARSABLE
