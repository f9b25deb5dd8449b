"""The manifest's threshold is what weights an estimate over drawn rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import karl_fast
from karl_fast import _core
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path


def test_the_threshold_is_the_next_key(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(50))
    drawn = karl_fast.sample(log, None, k=20, seed=3, inverse_temperature=2.0).manifest["draw"]
    columns = karl_fast.read(log)
    target = karl_fast.boltzmann(columns.rewards, inverse_temperature=2.0)
    keys = np.sort(_core.gumbel_keys(target.log_weights, seed=3, keys=columns.keys))
    assert drawn["threshold"] == keys[-21]


def test_full_or_capped_draws_have_no_threshold(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(50))
    assert karl_fast.sample(log, None, k=50).manifest["draw"]["threshold"] is None
    assert karl_fast.sample(log, None, k=5, max_per_group=1).manifest["draw"]["threshold"] is None


def test_threshold_weights_estimate_without_bias(tmp_path: Path) -> None:
    """The mean over seeds of sum f_i / q_i is the sum of f over the log, within 4 standard errors (alpha 6e-5)."""
    log = karl_fast.read(rows.write(tmp_path / "log.jsonl", rows.records(30)))
    target = karl_fast.boltzmann(log.rewards, inverse_temperature=1.5)
    estimates = []
    for seed in range(2000):
        keys = _core.gumbel_keys(target.log_weights, seed=seed, keys=log.keys)
        order = np.argsort(-keys)
        chosen, threshold = order[:8], keys[order[8]]
        inclusion = -np.expm1(-np.exp(target.log_weights[chosen] - threshold))
        estimates.append((log.rewards[chosen] / inclusion).sum())
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - log.rewards.sum()) < 4 * error
