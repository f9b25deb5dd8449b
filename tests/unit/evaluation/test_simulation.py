"""Repeated looks at one held-out set, simulated: false promotions, and what another rule would do."""

from __future__ import annotations

import numpy as np
import pytest

from karl_fast.evaluation.gate import alpha_at
from karl_fast.resampling import sign_flip

RUNS, LOOKS, PROMPTS, ATTEMPTS, ALPHA = 10_000, 20, 20, 4, 0.05


def simulated(seed: int, gain: float = 0.0) -> np.ndarray:
    """p-values of the looks of each run: each prompt has a rate, and the new policy's is higher by the gain."""
    random = np.random.default_rng(seed)
    rates = random.random((RUNS, 1, PROMPTS))
    old = random.binomial(ATTEMPTS, rates, (RUNS, LOOKS, PROMPTS))
    new = random.binomial(ATTEMPTS, np.clip(rates + gain, 0, 1), (RUNS, LOOKS, PROMPTS))
    offsets = np.arange(RUNS * LOOKS + 1, dtype=np.int64) * PROMPTS
    return sign_flip(((new - old) / ATTEMPTS).ravel(), offsets).reshape(RUNS, LOOKS)


@pytest.fixture(scope="module")
def equal() -> np.ndarray:
    return simulated(1)


def test_false_promotions_of_20_looks_stay_below_alpha(equal: np.ndarray) -> None:
    """10,000 runs, fixed seed, one-sided at three standard errors: a right gate fails with probability 0.0013."""
    levels = np.array([alpha_at(look, ALPHA) for look in range(1, LOOKS + 1)])
    false = (equal <= levels).any(1).mean()
    assert false <= ALPHA + 3 * (ALPHA * (1 - ALPHA) / RUNS) ** 0.5
    assert false > ALPHA / 4, "the gate is not so strict that it never promotes"


def test_without_alpha_spending_most_runs_promote_falsely(equal: np.ndarray) -> None:
    assert (equal <= ALPHA).any(1).mean() > 0.35
    assert (equal[:, 0] <= ALPHA).mean() <= ALPHA + 3 * (ALPHA * (1 - ALPHA) / RUNS) ** 0.5


def test_a_gain_of_30_points_is_promoted() -> None:
    assert (simulated(2, 0.3)[:, 0] <= alpha_at(1, ALPHA)).mean() > 0.8
