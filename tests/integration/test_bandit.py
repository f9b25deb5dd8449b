"""A bandit whose answer is known: a balance learns it on every seed, GRPO does not."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

SCRIPT = Path(__file__).parents[2] / "examples" / "bandit.py"
SEEDS = range(5)


@pytest.fixture(scope="module")
def bandit() -> Any:
    mx.set_default_device(mx.cpu)
    found = importlib.util.spec_from_file_location("bandit", SCRIPT)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def ends(bandit: Any) -> dict[str, Any]:
    """What each objective ends with on each seed. [seeds, arms]"""
    return {
        name: np.array([bandit.train(objective, seed)[-1] for seed in SEEDS])
        for name, objective in bandit.OBJECTIVES.items()
    }


def test_trajectory_balance_reaches_the_boltzmann_target(bandit: Any, ends: Any) -> None:
    np.testing.assert_allclose(bandit.TARGET, [0.46695, 0.46695, 0.04236, 0.02325], atol=5e-4)
    np.testing.assert_allclose(ends["trajectory balance"], np.tile(bandit.TARGET, (5, 1)), atol=1e-3)


def test_grpo_loses_the_lesser_arms_on_every_seed(bandit: Any, ends: Any) -> None:
    for name in ("GRPO", "GRPO without its penalty"):
        assert np.all(ends[name][:, 2:] < bandit.TARGET[2:] / 5), name


def test_grpo_without_its_penalty_splits_equal_arms_arbitrarily(ends: Any) -> None:
    """Not one seed is near one half, and seeds differ in which arm is ahead."""
    first = ends["GRPO without its penalty"][:, 0]
    assert np.all(np.abs(first - 0.5) > 0.05)
    assert np.ptp(first) > 0.2


def test_learned_log_z_reaches_target_and_normaliser(bandit: Any) -> None:
    """One number for the one prompt, learned beside the logits: log sum of exp(3 r) over four equal arms."""
    objective = replace(bandit.BALANCE, log_z=type(bandit.recipe("flowrl").objective.log_z)())
    draw, model = np.random.default_rng(0), {"logits": mx.zeros(4), "log_z": mx.zeros(1)}
    optimizer = bandit.optimizers.Adam(bandit.optimizers.cosine_decay(0.1, 600), bias_correction=True)
    for _ in range(600):
        arms, batch = bandit.rollouts(bandit.log_softmax(model["logits"]), draw)
        logp = np.array(bandit.log_softmax(model["logits"])[arms])[:, None]
        log_z = np.full(bandit.GROUP, model["log_z"].item())
        found = objective(logp, objective.score(batch), log_z=log_z)
        held = mx.array(found.coefficients[:, 0])

        def loss(now: Any, found: Any = found, held: Any = held, arms: Any = arms) -> Any:
            by_logp = (held * bandit.log_softmax(now["logits"])[arms]).sum()
            return by_logp + now["log_z"].sum() * float(found.log_z_coefficients.sum())

        model = optimizer.apply_gradients(mx.grad(loss)(model), model)
    np.testing.assert_allclose(np.exp(np.array(bandit.log_softmax(model["logits"]))), bandit.TARGET, atol=1e-3)
    assert float(model["log_z"].item()) == pytest.approx(np.log(np.exp(3 * bandit.REWARDS).mean()), abs=1e-3)
