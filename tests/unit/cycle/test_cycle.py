"""Runs of a cycle: what is skipped, what changes what, the record, and the plan."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.run import COMMAND, karl
from tests.unit.cycle.made import project, session
from tests.unit.train.conftest import quiet

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mlx

LIKELIHOOD = """
[cycle]
metrics = "node/karl.prom"

[convert]
sources = ["sessions"]
rate = "karl-v2"

[outcomes]

[sample]
k = 24
split = "0.5,0,0.5"

[train]
model = "tiny-model"
iters = 4
batch_size = 2
max_seq_length = 64
learning_rate = 1e-2
save_every = 2

[eval]
by = "likelihood"

[promote]
"""

STEPS = ("convert", "outcomes", "sample", "train", "eval", "promote")


@pytest.fixture
def cycle(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a cycle by likelihood."""
    for name, value in quiet().items():
        monkeypatch.setenv(name, value)
    file = project(tmp_path, tiny_model, sessions=30)
    file.write_text(LIKELIHOOD)
    return file


def events(file: Path, *more: str, code: int = 0) -> list[dict[str, Any]]:
    done = karl("cycle", file, "--json", *more, timeout=300)
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def states(file: Path, *more: str) -> dict[str, str]:
    return {name: one["state"] for name, one in events(file, *more)[-1]["steps"].items()}


def test_from_sessions_to_a_decision_and_nothing_twice(cycle: Path) -> None:
    first = events(cycle)[-1]
    assert first["state"] == "done"
    assert {name: one["state"] for name, one in first["steps"].items()} == dict.fromkeys(STEPS, "done")
    assert (first["rows_read"], first["rows_drawn"], first["unit"]) == (30, 24, "nats a token")
    assert first["held_out_after"] < first["held_out_before"]
    assert first["promoted"] == (cycle.parent / "cycle" / "adapters" / "current").is_symlink()
    assert states(cycle) == dict.fromkeys(STEPS, "unchanged")
    again = events(cycle)[-1]
    assert again["state"] == "unchanged"
    assert {name: again[name] for name in ("promoted", "why", "rows_drawn")} == {
        name: first[name] for name in ("promoted", "why", "rows_drawn")
    }
    looks = list((cycle.parent / "cycle" / "adapters" / "promotions").glob("0*"))
    assert len(looks) == 1
    metrics = (cycle.parent / "node" / "karl.prom").read_text()
    assert f"karl_fast_cycle_promoted {int(first['promoted'])}\n" in metrics
    assert "karl_fast_cycle_rows_read 30\n" in metrics


def test_change_runs_only_dependent_steps(cycle: Path) -> None:
    assert states(cycle, "--until", "sample") == dict.fromkeys(STEPS[:3], "done")
    changed = cycle.read_text().replace("iters = 4", "iters = 2\nsteps_per_report = 1")
    cycle.write_text(changed)
    skipped = dict.fromkeys(STEPS[:3], "unchanged")
    assert states(cycle, "--until", "train") == skipped | {"train": "done"}
    cycle.write_text(changed.replace("steps_per_report = 1", "steps_per_report = 2"))
    assert states(cycle, "--until", "train") == skipped | {"train": "unchanged"}, "reports change no adapter"
    session(cycle.parent, 99, "booking")
    assert states(cycle, "--until", "sample") == dict.fromkeys(STEPS[:3], "done")
    assert len(list((cycle.parent / "cycle" / "trajectories").iterdir())) == 1, "only those of the last run are kept"
    assert len(list((cycle.parent / "cycle" / "data").iterdir())) == 2


def test_file_without_new_rows_changes_nothing(cycle: Path) -> None:
    states(cycle, "--until", "sample")
    first = next((cycle.parent / "sessions" / "-home-dev-shop").iterdir())
    first.with_name("copy.jsonl").write_bytes(first.read_bytes())
    found = states(cycle, "--until", "sample")
    assert found["convert"] == "done"
    assert found["sample"] in ("done", "unchanged")


def test_edited_output_is_remade_or_refused(cycle: Path) -> None:
    states(cycle, "--until", "sample")
    [made] = (cycle.parent / "cycle" / "trajectories").iterdir()
    before = made.read_bytes()
    made.write_bytes(before.replace(b"airline", b"booking"))
    found = states(cycle, "--until", "sample")
    assert found == {"convert": "done", "outcomes": "unchanged", "sample": "unchanged"}
    assert made.read_bytes() == before
    rows = next((cycle.parent / "cycle" / "data").glob("*/train.jsonl"))
    rows.write_bytes(rows.read_bytes().replace(b"airline", b"booking"))
    refused = events(cycle, "--until", "sample", code=5)[-1]
    assert "train.jsonl in it is not as karl-fast wrote it" in refused["error"]


def test_failed_step_ends_the_run(cycle: Path) -> None:
    cycle.write_text(cycle.read_text().replace("k = 24", "k = 24\nmin_reward = 9"))
    done = karl("cycle", cycle, timeout=120)
    assert done.returncode == 4
    assert "error: sample: " in done.stderr
    status = karl("cycle", "status", cycle)
    assert "failed" in status.stdout
    assert "sample: " in status.stdout


def test_plan_has_sizes_and_memory(cycle: Path) -> None:
    plan = events(cycle, "--dry-run")
    assert [one["state"] for one in plan] == ["runs", *["waits"] * 5]
    assert plan[0]["files"] == 30
    assert plan[0]["size_bytes"] == sum(one.stat().st_size for one in cycle.parent.glob("sessions/*/*"))
    assert 0 < plan[3]["memory_bytes"] < plan[3]["memory_limit_bytes"]
    assert not (cycle.parent / "cycle").exists(), "a plan writes nothing"
    states(cycle, "--until", "sample")
    plan = events(cycle, "--dry-run")
    assert [one["state"] for one in plan] == [*["unchanged"] * 3, "runs", "waits", "waits"]
    text = karl("cycle", cycle, "--dry-run", timeout=120).stdout
    assert "train     runs; reads " in text
    assert "; memory at most " in text
    assert f"\n          karl-fast train {cycle.parent}/cycle/data/" in text


def test_a_second_run_in_one_folder_is_refused(cycle: Path) -> None:
    first = subprocess.Popen([*COMMAND, "cycle", cycle, "--json"], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    first.stdout.readline()
    second = karl("cycle", cycle)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (128 + signal.SIGTERM, 5)
    assert f"another run writes to {cycle.parent}/cycle at this moment" in second.stderr
    assert "stopped" in karl("cycle", "status", cycle).stdout


def test_environment_settings_do_not_reach_steps(cycle: Path) -> None:
    more = {"KARL_FAST_MIN_REWARD": "9"}
    done = subprocess.run(
        [*COMMAND, "cycle", cycle, "--until", "sample", "-q"], env=os.environ | more, check=False, timeout=120
    )
    assert done.returncode == 0


def test_usage_errors(cycle: Path) -> None:
    assert "no file is named, wanted the .toml file of one cycle" in karl("cycle").stderr
    found = karl("cycle", cycle, "--until", "collect")
    assert found.returncode == 2
    assert "--until is 'collect', wanted one of convert, outcomes" in found.stderr
    assert karl("cycle", "status", cycle).stdout == "no run yet\n"


def test_collect_runs_each_time_and_is_converted(cycle: Path) -> None:
    cycle.write_text(
        LIKELIHOOD.replace('[convert]\nsources = ["sessions"]', '[collect]\nfrom = ["sessions"]\n[convert]')
    )
    assert states(cycle, "--until", "convert") == {"collect": "done", "convert": "done"}
    again = events(cycle, "--until", "convert")[-1]
    assert {name: one["state"] for name, one in again["steps"].items()} == {"collect": "done", "convert": "unchanged"}
    assert again["state"] == "unchanged"
    session(cycle.parent, 99, "booking")
    assert states(cycle, "--until", "convert") == {"collect": "done", "convert": "done"}
    assert (cycle.parent / "cycle" / "archive").is_dir()


def test_uncollectable_file_does_not_end_a_cycle(cycle: Path) -> None:
    cycle.write_text(
        LIKELIHOOD.replace('[convert]\nsources = ["sessions"]', '[collect]\nfrom = ["sessions"]\n[convert]')
    )
    damaged = cycle.parent / "sessions" / "damaged.jsonl.zst"
    damaged.write_bytes(b"\x28\xb5\x2f\xfd damaged")
    run = events(cycle, "--until", "convert")[-1]
    assert {name: one["state"] for name, one in run["steps"].items()} == {"collect": "done", "convert": "done"}
    records = [record.read_text() for record in (cycle.parent / "cycle").rglob("*.json")]
    assert any('"failed"' in record and str(damaged) in record for record in records)
