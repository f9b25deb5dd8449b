"""Tree of thought: 100 puzzles with 100 samples each (right or wrong), 100 texts with 10 samples each (1 to 10)."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from tests.tolerances import LOG

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

GAME24 = "tot-gpt4/logs/game24/gpt-4_0.7_naive_{}_sample_100_start900_end1000.json"
TEXT = "tot-gpt4/logs/text/gpt-4_1.0_naive_{}_sample_10_start0_end100.json"


def grades(task: dict[str, Any]) -> list[float]:
    """The file of plain samples is older: it has `accs`, truth values, in place of `infos`."""
    return [float(info["r"]) for info in task["infos"]] if "infos" in task else [float(r) for r in task["accs"]]


def columns(file: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    tasks = json.loads(file.read_text("utf-8"))
    pairs = [(reward, at) for at, task in enumerate(tasks) for reward in grades(task)]
    rewards, groups = zip(*pairs, strict=True)
    return np.array(rewards), np.array(groups, dtype=np.int64)


def as_log(file: Path, out: Path) -> Path:
    """The same samples as a log that `read` knows."""
    tasks = json.loads(file.read_text("utf-8"))
    with out.open("w", encoding="utf-8") as log:
        for at, task in enumerate(tasks):
            for n, (text, reward) in enumerate(zip(task["ys"], grades(task), strict=True)):
                row = {"id": f"{at}/{n}", "group": at, "reward": reward, "prompt": f"task {at}"}
                log.write(json.dumps(row | {"completion": text}) + "\n")
    return out


@pytest.mark.parametrize(("kind", "constant", "mean"), [("cot", 51, 0.040), ("standard", 67, 0.073)])
def test_game24_has_so_many_constant_groups(
    shared_data: Path, tmp_path: Path, kind: str, constant: int, mean: float
) -> None:
    log = as_log(shared_data / GAME24.format(kind), tmp_path / "log.jsonl")
    report = karl_fast.inspect(log).report
    assert (report["groups"]["count"], report["groups"]["constant"]) == (100, constant)
    assert report["groups"]["constant_by"]["at_bottom"] == constant
    assert report["reward"]["before"]["count"] == 10_000
    assert abs(report["reward"]["before"]["mean"] - mean) < 5e-4


@pytest.mark.parametrize("kind", ["cot", "standard"])
def test_constant_groups_of_game24_have_zero_advantage(shared_data: Path, kind: str) -> None:
    rewards, groups = columns(shared_data / GAME24.format(kind))
    for score in (karl_fast.centre, karl_fast.zscore, karl_fast.leave_one_out):
        found = score(rewards, groups).reshape(100, 100)
        constant = np.ptp(rewards.reshape(100, 100), axis=1) == 0
        assert np.all(found[constant] == 0.0)
        assert np.all(np.any(found[~constant] != 0.0, axis=1))


@pytest.mark.parametrize("kind", ["cot", "standard"])
def test_high_inverse_temperature_does_not_overflow(shared_data: Path, kind: str) -> None:
    rewards, groups = columns(shared_data / TEXT.format(kind))
    for scopes in (None, groups):
        target = karl_fast.boltzmann(rewards, scopes, inverse_temperature=15.0)
        assert np.all(np.isfinite(target.log_weights))
        assert np.all(np.isfinite(target.log_z))
        names = [np.ones(len(rewards), dtype=bool)] if scopes is None else [groups == g for g in range(100)]
        for members, log_z in zip(names, target.log_z, strict=True):
            exponents = 15.0 * rewards[members]
            top = exponents.max()
            exact = top + math.log(math.fsum(math.exp(value - top) for value in exponents))
            assert abs(log_z - exact) <= LOG * abs(exact)
            assert abs(np.exp(target.log_weights[members]).sum() - 1.0) <= 1000 * LOG


def test_duplicates_inside_a_group_can_be_dropped(shared_data: Path, tmp_path: Path) -> None:
    log = as_log(shared_data / GAME24.format("standard"), tmp_path / "log.jsonl")
    dropped = karl_fast.inspect(log, dedup=True).report["accounting"]["dropped"]
    assert dropped == {"duplicate": 8_668}
