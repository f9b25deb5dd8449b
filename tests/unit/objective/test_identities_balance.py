"""Balances and target policies rest at their targets, and there alone; their neighbours coincide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from karl_fast.objective import Batch, recipe
from karl_fast.objective.axes.advantage import Raw
from karl_fast.objective.axes.balance import (
    BehaviourPolicy,
    Huber,
    InverseTemperature,
    NoAnchor,
    RewardUnits,
    Squared,
    Temperature,
    Unweighted,
)
from karl_fast.objective.axes.log_z import GroupOptimum, Learned, NoLogZ, SoftValue
from tests.unit.objective.batch_cases import BATCH, MASK, NEW, loss_of, same


def boltzmann(rewards: Any, reference: Any, inverse: float) -> tuple[Any, float]:
    """The target over arms, and its log Z."""
    log_weights = reference + inverse * rewards
    log_z = float(np.log(np.exp(log_weights).sum()))
    return log_weights - log_z, log_z


ARMS = np.array([1.0, 1.0, 0.2, 0.0])
REFERENCE = np.log([0.4, 0.1, 0.3, 0.2])


def bandit(logp: Any) -> tuple[Batch, Any]:
    return (
        Batch(
            np.ones((4, 1), dtype=np.bool_),
            ARMS,
            np.zeros(4, dtype=np.int64),
            logp_old=REFERENCE[:, None],
            logp_ref=REFERENCE[:, None],
        ),
        logp[:, None],
    )


def balance(**points: Any) -> Any:
    plain = {"reward": Raw(), "scale": InverseTemperature(3.0), "weight": recipe("paced").objective.weight}
    return replace(recipe("flowrl").objective, **{**plain, **points})


@pytest.mark.parametrize("regression", [Squared(), Huber(0.3)], ids=repr)
@pytest.mark.parametrize(
    ("scale", "inverse"),
    [(InverseTemperature(3.0), 3.0), (Temperature(0.4), 2.5), (RewardUnits(0.4), 2.5)],
    ids=repr,
)
def test_balance_is_zero_only_at_the_target(regression: Any, scale: Any, inverse: float) -> None:
    target, log_z = boltzmann(ARMS, REFERENCE, inverse)
    batch, logp = bandit(target)
    objective = balance(scale=scale, regression=regression)
    at = {"log_z": np.full(4, log_z * scale.drift)}  # Delta = b r - log Z, in the units of the residual
    loss, gradient = loss_of(objective, batch, logp, **at)
    assert abs(loss) < 1e-28
    assert np.abs(gradient).max() < 1e-13
    for other in (REFERENCE, target + np.array([0.01, 0, 0, 0]), boltzmann(ARMS, REFERENCE, inverse * 1.1)[0]):
        assert loss_of(objective, batch, other[:, None], **at)[0] > 1e-7
    off = {"log_z": at["log_z"] + 0.01}
    assert loss_of(objective, batch, logp, **off)[0] > 1e-7


def test_vargrad_is_zero_at_target_without_log_z() -> None:
    target, _ = boltzmann(ARMS, REFERENCE, 3.0)
    batch, logp = bandit(target)
    loss, gradient = loss_of(balance(log_z=GroupOptimum()), batch, logp)
    assert abs(loss) < 1e-28
    assert np.abs(gradient).max() < 1e-13


def test_vargrad_does_not_change_when_rewards_shift() -> None:
    objective = balance(log_z=GroupOptimum())
    same(loss_of(objective, replace(BATCH, rewards=BATCH.rewards + 3)), loss_of(objective), tolerance=1e-10)


def test_soft_value_limits_are_mean_and_maximum() -> None:
    for temperature, value in ((float("inf"), ARMS.mean()), (0.0, 1.0)):
        objective = replace(recipe("oapl").objective, log_z=SoftValue(temperature), anchor=BehaviourPolicy())
        batch, _ = bandit(REFERENCE)
        np.testing.assert_allclose(objective.score(batch).rewards, ARMS - value, atol=1e-12)


def test_nat_and_reward_units_give_one_balance() -> None:
    """(t D - (r - V))^2 = t^2 (D + V / t - r / t)^2."""
    nats = replace(recipe("oapl").objective, scale=Temperature(0.3), log_z=SoftValue(0.3))
    same(loss_of(replace(nats, scale=RewardUnits(0.3))), loss_of(nats), factor=0.09, tolerance=1e-10)


def test_wide_huber_is_a_square() -> None:
    same(loss_of(balance(regression=Huber(1e6))), loss_of(balance()))


@pytest.mark.parametrize("regression", [Squared(), Huber(0.7)], ids=repr)
def test_a_regression_obeys_its_three_laws(regression: Any) -> None:
    values = np.linspace(-3, 3, 601)
    plain = {"anchor": NoAnchor(), "reward": Raw(), "log_z": NoLogZ(), "weight": Unweighted(), "regression": regression}
    objective = replace(recipe("flowrl").objective, **plain)

    def of(value: float) -> tuple[float, Any]:
        batch = Batch(np.ones((1, 1), dtype=np.bool_), rewards=np.zeros(1))
        return loss_of(objective, batch, np.full((1, 1), value))

    found = [of(value) for value in values]
    cost, slope = np.array([loss for loss, _ in found]), np.array([slopes[0, 0] for _, slopes in found])
    assert cost[300] == 0
    np.testing.assert_allclose(cost, cost[::-1], rtol=1e-12)
    assert np.all(np.sign(slope) == np.sign(np.round(values, 9)))
    assert np.all(np.diff(slope) >= -1e-12)


def test_target_policy_rests_at_its_target() -> None:
    objective = recipe("tpo").objective
    scored = objective.score(bandit(REFERENCE)[0])
    at = np.log(scored.targets)
    assert np.abs(loss_of(objective, bandit(REFERENCE)[0], at[:, None])[1]).max() < 1e-6


def test_log_z_at_group_optimum_is_vargrad() -> None:
    objective = balance(log_z=GroupOptimum())
    learned = replace(objective, log_z=Learned())
    mean = ((NEW - BATCH.logp_ref) * MASK).sum(1) / MASK.sum(1)
    residual = mean - 3.0 * BATCH.rewards
    best = -np.repeat(residual.reshape(4, 4).mean(1), 4)
    same(loss_of(learned, log_z=best), loss_of(objective), tolerance=1e-10)
