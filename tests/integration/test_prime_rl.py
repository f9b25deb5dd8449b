"""prime-rl: rollouts with the trainer's own advantage beside them, an oracle for `centre`.

The trainer subtracts in f32, so on groups whose rewards are all equal it logs noise of about 1e-7 and not 0.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

import karl_fast
from tests import rows
from tests.tolerances import LOGGED

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


class Rollouts(NamedTuple):
    rewards: NDArray[np.float64]
    logged: NDArray[np.float64]
    groups: NDArray[np.int64]
    full: NDArray[np.bool_]


@pytest.fixture(scope="module")
def rollouts(shared_data: Path) -> Rollouts:
    rewards, logged, names, sizes = [], [], [], []
    for results in sorted((shared_data / "prime-rl-security-verifiers").glob("*/*/results.jsonl")):
        size = json.loads((results.parent / "run_manifest.json").read_text("utf-8"))["rollouts_per_example"]
        for line in results.read_text("utf-8").splitlines():
            row = json.loads(line)
            rewards.append(float(row["reward"]))
            logged.append(float(row["advantage"]))
            # The same problem can come twice in a step: its rollouts are then two groups.
            names.append((row["run_id"], row["step"], row["problem_id"], row["sample_id"] // size))
            sizes.append(size)
    number = {name: at for at, name in enumerate(sorted(set(names)))}
    counts = Counter(names)
    full = [counts[name] == size for name, size in zip(names, sizes, strict=True)]
    groups = np.array([number[name] for name in names], dtype=np.int64)
    return Rollouts(np.array(rewards), np.array(logged), groups, np.array(full))


def test_centre_equals_the_advantage_that_the_trainer_logged(rollouts: Rollouts) -> None:
    found = karl_fast.centre(rollouts.rewards, rollouts.groups)
    assert rollouts.full.sum() == 15 * 8
    assert np.abs(found - rollouts.logged)[rollouts.full].max() <= LOGGED


def test_a_wrong_group_is_seen(rollouts: Rollouts) -> None:
    """The oracle can fail: one group for everything does not match."""
    found = karl_fast.centre(rollouts.rewards, np.zeros_like(rollouts.groups))
    assert np.abs(found - rollouts.logged)[rollouts.full].max() > 0.1


def test_constant_groups_are_zero_despite_float_noise(rollouts: Rollouts) -> None:
    centred = karl_fast.centre(rollouts.rewards, rollouts.groups)
    scaled = karl_fast.zscore(rollouts.rewards, rollouts.groups)
    noisy = constant = 0
    for group in np.unique(rollouts.groups):
        members = rollouts.groups == group
        if not rollouts.full[members].all() or np.ptp(rollouts.rewards[members]) > 0:
            continue
        constant += 1
        noisy += bool(np.any(rollouts.logged[members] != 0))
        assert np.all(centred[members] == 0.0)
        assert np.all(scaled[members] == 0.0)
    assert constant == 5
    assert noisy > 0


def test_scores_of_the_log_equal_the_trainers(shared_data: Path, tmp_path: Path) -> None:
    """From the files to the rows of a data set, with the number of rollouts from the file beside each."""
    logs = sorted((shared_data / "prime-rl-security-verifiers").glob("*/*/results.jsonl"))
    logged, sizes = {}, Counter[str]()
    for row in (json.loads(line) for log in logs for line in log.read_text("utf-8").splitlines()):
        logged[f"{row['run_id']}/{row['step']}/{row['sample_id']}"] = row
    manifest = karl_fast.sample(logs, tmp_path / "out", score="centre", sampler="all").manifest
    assert {file["format"] for file in manifest["inputs"]} == {"prime-rl"}
    assert {file["beside"]["number"] for file in manifest["inputs"]} == {8}
    assert manifest["draw"]["failed"] == {}
    written = {row["karl_fast"]["id"]: row for row in rows.lines(tmp_path / "out")}
    assert written.keys() == logged.keys()
    sizes.update(row["karl_fast"]["group"] for row in written.values())
    full = {name: row for name, row in written.items() if sizes[row["karl_fast"]["group"]] == 8}
    assert len(full) == 15 * 8
    assert all(abs(row["karl_fast"]["score"] - logged[name]["advantage"]) <= LOGGED for name, row in full.items())
    for group in sizes:
        members = [row["karl_fast"] for row in written.values() if row["karl_fast"]["group"] == group]
        if len({member["reward"] for member in members}) == 1:
            assert all(member["score"] == 0.0 for member in members)


def test_every_model_turn_is_in_its_row(shared_data: Path, tmp_path: Path) -> None:
    logs = sorted((shared_data / "prime-rl-security-verifiers").glob("*/*/results.jsonl"))
    records = [json.loads(line) for log in logs for line in log.read_text("utf-8").splitlines()]
    by_id = {f"{row['run_id']}/{row['step']}/{row['sample_id']}": row for row in records}
    karl_fast.sample(logs, tmp_path / "out", sampler="all", allow_secrets=True)
    calls = 0
    for row in rows.lines(tmp_path / "out"):
        record = by_id[row["karl_fast"]["id"]]
        logged = json.loads(record["prompt"]) + json.loads(record["completion"])
        assert [message["role"] for message in row["messages"]] == [message["role"] for message in logged]
        for ours, theirs in zip(row["messages"], logged, strict=True):
            words = theirs["reasoning_content"] if theirs["content"] is None else theirs["content"]
            assert ours["content"] == words
            for ours_call, text in zip(ours.get("tool_calls") or [], theirs.get("tool_calls") or [], strict=True):
                call = json.loads(text)
                assert ours_call["id"] == call["id"]
                assert ours_call["function"] == {"name": call["name"], "arguments": json.loads(call["arguments"])}
                calls += 1
    assert calls == 78
