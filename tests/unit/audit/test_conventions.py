"""The convention of logged advantages, told from formulas that are written here once more, row by row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast.audit.conventions import BY_NAME
from karl_fast.errors import OutputExistsError, UsageError
from tests import rows
from tests.tolerances import LOGGED
from tests.unit.audit import dumps

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    Formula = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def graded(**shape: Any) -> list[dict[str, Any]]:
    """Return a dump whose rewards have many values, so that conventions differ on every row."""
    records, rng = dumps.honest(dumps.Shape(**shape)), np.random.default_rng(5)
    for record in records:
        record["reward"] = float(np.float32(record["reward"] + rng.uniform(0, 0.3)))
    return records


def z(ddof: int, eps: float) -> Formula:
    return lambda rewards: (rewards - rewards.mean()) / (rewards.std(ddof=ddof) + eps)


FORMULAS: dict[str, tuple[Formula, str, dict[str, Any]]] = {
    "Dr. GRPO": (lambda r: r - r.mean(), "group", {"form": "centre"}),
    "TRL": (z(1, 1e-4), "group", {"form": "zscore", "ddof": 1, "eps": 1e-4}),
    "verl": (z(1, 1e-6), "group", {"form": "zscore", "ddof": 1}),
    "mlx-lm-lora": (z(0, 1e-4), "group", {"form": "zscore", "ddof": 0, "eps": 1e-4}),
    "RLOO": (lambda r: r - (r.sum() - r) / (len(r) - 1), "group", {"form": "leave-one-out"}),
    "z-score of the step": (z(0, 1e-8), "step", {"form": "zscore", "scope": "step", "ddof": 0}),
    "no baseline": (lambda r: r, "group", {"form": "raw"}),
    "clipped": (lambda r: np.clip(z(1, 1e-4)(r), -1, 1), "group", {"form": "zscore", "ddof": 1, "clip": 1.0}),
    "wrong sign": (lambda r: r.mean() - r, "group", {"form": "centre", "factor": -1.0}),
    "halved": (lambda r: (r - r.mean()) / 2, "group", {"form": "centre", "factor": 0.5}),
    "MaxRL": (lambda r: (r - r.mean()) / (r.mean() + 1e-6), "group", {"form": "maxrl"}),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_convention_is_told(name: str, tmp_path: Path) -> None:
    formula, key, wanted = FORMULAS[name]
    records = graded()
    dumps.by_key(records, key, formula)
    found = dumps.audit(tmp_path, records).advantages
    assert found is not None
    assert found.reproduced
    assert found.best.largest <= found.tolerance
    convention = found.best.convention
    assert {field: getattr(convention, field) for field in wanted} == wanted
    assert found.compared == len(records)


def test_scale_of_the_step_with_the_mean_of_the_group(tmp_path: Path) -> None:
    """TRL's scale_rewards=batch."""
    records = graded()
    dumps.by_key(records, "step", lambda rewards: np.full(len(rewards), rewards.std(ddof=1) + 1e-4))
    scales = [record["advantage"] for record in records]
    dumps.by_group(records, lambda rewards: rewards - rewards.mean())
    for record, scale in zip(records, scales, strict=True):
        record["advantage"] /= scale
    found = dumps.audit(tmp_path, records).advantages
    assert found is not None
    assert found.reproduced
    assert (found.best.convention.form, found.best.convention.eps) == ("batch-std", 1e-4)


def test_baseline_weighted_by_length(tmp_path: Path) -> None:
    """OPO."""
    records = graded()
    for group in {record["group"] for record in records}:
        own = [record for record in records if record["group"] == group]
        lengths = np.array([record["completion_tokens"] for record in own])
        rewards = np.array([record["reward"] for record in own])
        for record in own:
            record["advantage"] = float(record["reward"] - (lengths @ rewards) / lengths.sum())
    found = dumps.audit(tmp_path, records).advantages
    assert found is not None
    assert found.reproduced
    assert found.best.convention.form == "length-weighted"


def test_advantages_divided_by_length(tmp_path: Path) -> None:
    records = graded()
    dumps.by_group(records, lambda rewards: rewards - rewards.mean())
    for record in records:
        record["advantage"] /= record["completion_tokens"]
    found = dumps.audit(tmp_path, records).advantages
    assert found is not None
    assert found.reproduced
    assert found.best.convention.by_length


def test_advantages_of_tokens_and_of_float32(tmp_path: Path) -> None:
    """A list of equal numbers is one advantage; a mask leaves prompt and padding out."""
    records = graded()
    dumps.by_group(records, lambda rewards: (rewards - rewards.mean()).astype(np.float32))
    for record in records:
        record["advantages"] = [0.0, *[record.pop("advantage")] * 3]
        record["response_mask"] = [0, 1, 1, 1]
        record["rollout_log_probs"] = record["old_log_probs"] = [-1.0] * 4
    found = dumps.audit(tmp_path, records)
    assert found.advantages is not None
    assert found.advantages.reproduced
    assert found.advantages.best.convention == BY_NAME["dr-grpo"]
    assert found.mismatch is not None
    assert found.mismatch["tokens"] == 3 * len(records)


def test_advantages_that_differ_by_token_are_counted(tmp_path: Path) -> None:
    records = graded()
    dumps.by_group(records, lambda rewards: rewards - rewards.mean())
    records[0]["advantage"] = [0.1, 0.2]
    found = dumps.audit(tmp_path, records).advantages
    assert found is not None
    assert (found.per_token, found.logged) == (1, len(records) - 1)


def test_an_unknown_convention_is_said_to_be_one(tmp_path: Path) -> None:
    records = graded()
    dumps.by_group(records, lambda rewards: np.sin(7 * rewards))
    found = dumps.audit(tmp_path, records)
    assert found.advantages is not None
    assert not found.advantages.reproduced
    assert found.findings[0].kind == "unknown_convention"
    assert found.findings[0].where


def test_one_altered_row_is_named(tmp_path: Path) -> None:
    records = graded()
    dumps.by_group(records, z(1, 1e-4))
    records[17]["advantage"] += 0.5
    found = dumps.audit(tmp_path, records)
    assert found.advantages is not None
    assert found.advantages.best.convention == BY_NAME["trl"]
    assert [finding.where for finding in found.findings if finding.kind == "unknown_convention"] == [["0-2-1"]]


def test_a_group_that_the_file_has_in_part_is_not_compared(tmp_path: Path) -> None:
    records = graded()
    dumps.by_group(records, z(1, 1e-4))
    found = dumps.audit(tmp_path, records[:-3]).advantages
    assert found is not None
    assert found.reproduced
    assert found.compared == len(records) - 8


def test_noise_of_equal_rewards_is_found(tmp_path: Path) -> None:
    """Eight rewards of 0.3 have an advantage of 0.0289 in verl's float32."""
    records = graded()
    for record in records[:8]:
        record["reward"] = 0.3
    dumps.by_group(records, z(1, 1e-6))
    float32 = np.full(8, 0.3, dtype=np.float32)
    noise = karl_fast.advantage.by_convention("verl", float32, np.zeros(8, dtype=np.int64))
    assert abs(noise[0]) > 0.01
    for record in records[:8]:
        record["advantage"] = float(noise[0])
    found = dumps.audit(tmp_path, records)
    assert "noise" in dumps.wrong(found)


def test_the_wrong_scope_is_a_finding(tmp_path: Path) -> None:
    records = graded()
    dumps.by_key(records, "step", z(1, 1e-6))
    found = dumps.audit(tmp_path, records)
    assert dumps.wrong(found) == ["wrong_scope"]
    assert "over the step, not the group" in found.headline


def test_prime_rl_is_reproduced(shared_data: Path, tmp_path: Path) -> None:
    """The advantages that a hosted trainer logged, and their log with advantages computed anew."""
    logs = sorted((shared_data / "prime-rl-security-verifiers").glob("*/*/results.jsonl"))
    found = karl_fast.audit(logs, write=tmp_path / "anew.jsonl")
    assert found.advantages is not None
    assert found.advantages.reproduced
    assert found.advantages.best.convention == BY_NAME["prime-rl"]
    assert found.advantages.best.largest <= LOGGED
    assert (found.advantages.compared, found.advantages.groups) == (120, 15)
    records = [json.loads(line) for log in logs for line in log.read_text("utf-8").splitlines()]
    written = [json.loads(line) for line in (tmp_path / "anew.jsonl").read_text("utf-8").splitlines()]
    assert len(written) == len(records)
    whole = 0
    for old, new in zip(records, written, strict=True):
        assert new.pop("advantage_logged") == old["advantage"]
        whole += abs(new.pop("advantage") - old.pop("advantage")) <= LOGGED
        assert new == old
    assert whole >= 120


def test_advantages_are_written(tmp_path: Path) -> None:
    records = graded()
    dumps.by_key(records, "step", z(1, 1e-6))
    records[3]["note"] = "key sk-proj-" + "a1B2" * 12
    rows.write(tmp_path / "dump.jsonl", records)
    out = tmp_path / "anew.jsonl"
    found = karl_fast.audit(tmp_path / "dump.jsonl", write=out, convention="trl")
    assert found.written == {
        "path": str(out), "convention": "z-score over the group, ddof 1, eps 0.0001", "rows": len(records),
    }  # fmt: skip
    written = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [record["id"] for record in written] == [record["id"] for record in records]
    assert "a1B2a1B2" not in out.read_text("utf-8")
    dumps.by_group(records, z(1, 1e-4))
    assert [record["advantage"] for record in written] == pytest.approx([record["advantage"] for record in records])
    again = karl_fast.audit(out).advantages
    assert again is not None
    assert again.best.convention == BY_NAME["trl"]
    with pytest.raises(OutputExistsError):
        karl_fast.audit(tmp_path / "dump.jsonl", write=out, convention="trl")
    with pytest.raises(OutputExistsError):
        karl_fast.audit(tmp_path / "dump.jsonl", write=tmp_path / "dump.jsonl", convention="trl", force=True)


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    rows.write(tmp_path / "dump.jsonl", graded())
    with pytest.raises(UsageError, match="no advantage is logged"):
        karl_fast.audit(tmp_path / "dump.jsonl", write=tmp_path / "out.jsonl")
    with pytest.raises(UsageError, match="there is no convention tlr") as error:
        karl_fast.audit(tmp_path / "dump.jsonl", write=tmp_path / "out.jsonl", convention="tlr")
    assert "trl" in str(error.value.hint)
    assert not (tmp_path / "out.jsonl").exists()
