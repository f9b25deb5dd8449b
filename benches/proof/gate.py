"""The gate's error rate on attempts of a real model: each adapter of the experiments against itself.

    python benches/proof/gate.py runs/proof

The eight attempts at each held-out question are dealt to two sides of four at random, many times, so that nothing
differs but chance; then the share of splits that the gate would promote is the rate of false promotions. Needs NumPy.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
import record
from karl_fast.evaluation.gate import alpha_at
from karl_fast.resampling import sign_flip

EXPERIMENTS = ("draws", "draws-quarter", "online")
"""Their adapters are compared with themselves; some start from the same data, and are one."""

SPLITS = 50

SIGNS = 999
"""Sign patterns drawn for each p-value."""


def read_rewards(log: Path) -> np.ndarray:
    """Read the rewards of each question; a missing one counts 0, as in the proof. [questions, attempts]"""
    by_question: dict[str, list[float]] = defaultdict(list)
    for line in log.read_text("utf-8").splitlines():
        row = json.loads(line)
        by_question[row["group"]].append(row["reward"] or 0.0)
    return np.array(list(by_question.values()))


def p_values(rewards: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """p-value of one half of the attempts over the other, for each split. [splits]"""
    dealt = random.permuted(np.broadcast_to(rewards, (SPLITS, *rewards.shape)), axis=2)
    half = rewards.shape[1] // 2
    differences = dealt[:, :, :half].mean(axis=2) - dealt[:, :, half : 2 * half].mean(axis=2)
    offsets = np.arange(SPLITS + 1, dtype=np.int64) * len(rewards)
    return sign_flip(np.ascontiguousarray(differences.ravel()), offsets, draws=SIGNS)


def main() -> None:
    logs = [log for name in EXPERIMENTS for log in sorted(Path(sys.argv[1], name).glob("*/evaluation/rollouts.jsonl"))]
    distinct = {rewards.tobytes(): rewards for rewards in map(read_rewards, logs) if rewards.any()}
    random = np.random.default_rng(7)
    found = np.array([p_values(rewards, random) for rewards in distinct.values()])
    print(f"{len(found)} adapters that solve something, {SPLITS:,} splits each; a promotion is an error")
    looks = {}
    for name, alpha in (
        ("first look", alpha_at(1, 0.05)),
        ("second look", alpha_at(2, 0.05)),
        ("one look of 0.05", 0.05),
    ):
        rates = (found <= alpha).mean(axis=1)
        rate, error = rates.mean(), rates.std(ddof=1) / len(rates) ** 0.5  # splits of one adapter are not independent
        looks[name] = {"level": alpha, "promoted": round(float(rate), 5), "standard_error": round(float(error), 5)}
        print(f"{name}: level {alpha:.4f}, promoted {rate:.4f} of splits, standard error {error:.4f}")
    kept = {"machine": record.facts(), "adapters": len(found), "splits": SPLITS, "looks": looks}
    (record.RECORD / "gate.json").write_text(record.dumps(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
