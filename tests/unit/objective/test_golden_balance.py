"""Balances equal FlowRL as it was executed, with the gradient by log Z, and the regressions that are balances too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from karl_fast.objective import Batch, recipe
from karl_fast.objective.axes.balance import (
    GeometricWeight,
    InverseTemperature,
    NoAnchor,
    ReferencePolicy,
    RewardUnits,
    Unweighted,
)
from karl_fast.objective.axes.log_z import GroupOptimum, NoLogZ, SoftValue
from tests.tolerances import GOLDEN, VERL_LENGTHS
from tests.unit.objective.batch_cases import loss_of
from tests.unit.objective.golden import cases, column, one_token, read

FLOWRL, RULES = read("flowrl"), cases(read("update_rules"))
CASES, INPUTS = cases(FLOWRL), FLOWRL["inputs"]
BATCH = Batch(
    mask=np.array(INPUTS["mask"]) > 0,
    rewards=np.array(INPUTS["rewards"]),
    group_ids=np.zeros(4, dtype=np.int64),
    logp_old=np.array(INPUTS["old_logp"]),
    logp_ref=np.array(INPUTS["ref_logp"]),
)
NEW, LOG_Z = np.array(INPUTS["new_logp"]), np.full(4, INPUTS["logZ"])

PAPER = recipe("flowrl").objective
OBJECTIVES = {
    "released_unclipped_weight": recipe("flowrl-released").objective,
    "paper_clipped_weight_0.8_1.2": PAPER,
    "paper_clipped_geometric_mean_weight": replace(PAPER, weight=GeometricWeight(0.8, 1.2)),
    "cispo_clip_v0.5.0.dev_c577a0c": recipe("flowrl-cispo").objective,
    "max10_clamp_upstream_verl_PR4397_6ea5d18": recipe("flowrl-upstream").objective,
    "original_tb_beta1_no_IS": replace(PAPER, scale=InverseTemperature(1.0), weight=Unweighted()),
}


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradients_equal_those_of_flowrl(name: str) -> None:
    objective, wanted = OBJECTIVES[name], CASES[name]["outputs"]
    found = objective(NEW, objective.score(BATCH), log_z=LOG_Z)
    assert found.loss == pytest.approx(wanted["loss"], rel=VERL_LENGTHS)
    np.testing.assert_allclose(found.coefficients, wanted["grad_wrt_logp"], rtol=VERL_LENGTHS, atol=1e-12)
    np.testing.assert_allclose(found.log_z_coefficients, wanted["grad_wrt_logZ"], rtol=VERL_LENGTHS, atol=1e-12)


def test_flowrl_variants_differ_only_above_ten() -> None:
    losses = {name: loss_of(objective, BATCH, NEW, log_z=LOG_Z)[0] for name, objective in OBJECTIVES.items()}
    assert losses.pop("max10_clamp_upstream_verl_PR4397_6ea5d18") == losses["released_unclipped_weight"]
    assert len({round(loss, 6) for loss in losses.values()}) == len(losses)


def test_vargrad_is_residual_variance_at_golden_optimum() -> None:
    objective = replace(recipe("flowrl-vargrad").objective, weight=Unweighted())
    loss, gradient = loss_of(objective, BATCH, NEW)
    assert loss == pytest.approx(FLOWRL["log_partition_variance_loss(no logZ)"], rel=GOLDEN)
    learned = replace(objective, log_z=PAPER.log_z)
    best = FLOWRL["group_optimal_logZ_unweighted"]
    wanted = loss_of(learned, BATCH, NEW, log_z=np.full(4, best))
    assert loss == pytest.approx(wanted[0], rel=GOLDEN)
    np.testing.assert_allclose(gradient, wanted[1], rtol=GOLDEN, atol=1e-12)
    for off in (-0.01, 0.01):
        assert loss_of(learned, BATCH, NEW, log_z=np.full(4, best + off))[0] > loss


def test_weighted_optimum_minimises_the_weighted_loss() -> None:
    objective = recipe("flowrl-vargrad").objective
    loss = loss_of(objective, BATCH, NEW)[0]
    learned = replace(objective, log_z=PAPER.log_z)
    near = min(loss_of(learned, BATCH, NEW, log_z=np.full(4, z))[0] for z in np.linspace(-8, 8, 321))
    assert loss <= near <= loss * (1 + 1e-5)


def regression(name: str, old: str, **points: Any) -> tuple[float, Any]:
    inputs = RULES[name]["inputs"]
    rewards = next(np.array(value) for key, value in inputs.items() if key.startswith("rewards"))
    batch = one_token(rewards, rewards=rewards, logp_old=column(inputs[old]), logp_ref=column(inputs[old]))
    loss, gradient = loss_of(replace(recipe("oapl").objective, **points), batch, column(inputs["seq_logp"]))
    return loss, gradient[:, 0]


@pytest.mark.parametrize("beta", [0.05, 1.0])
def test_oapl_equals_its_regression(beta: float) -> None:
    points = {"scale": RewardUnits(beta), "log_z": SoftValue(beta)}
    loss, gradient = regression(f"oapl_loss_beta{beta}", "seq_logp_inference_policy", **points)
    wanted = RULES[f"oapl_loss_beta{beta}"]["outputs"]
    assert loss == pytest.approx(wanted["loss"], rel=GOLDEN)
    np.testing.assert_allclose(gradient, wanted["grad_wrt_seq_logp"], rtol=GOLDEN)


def test_a_star_po_equals_its_regression() -> None:
    wanted = RULES["astarpo_b1_0.5_b2_1e-3"]["outputs"]
    axes = recipe("a*po").objective.axes()
    loss, gradient = regression("astarpo_b1_0.5_b2_1e-3", "seq_logp_ref", **axes)
    assert loss == pytest.approx(wanted["loss"], rel=GOLDEN)
    np.testing.assert_allclose(gradient, wanted["grad"], rtol=GOLDEN)
    assert axes["anchor"] == ReferencePolicy()


def test_pmd_mean_is_oapl_with_the_mean_reward() -> None:
    inputs, wanted = RULES["pmdmean"]["inputs"], RULES["pmdmean"]["outputs"]
    rewards = np.array(inputs["rewards"])
    objective = replace(recipe("pmd-mean").objective, scale=RewardUnits(inputs["tau"]))
    batch = one_token(rewards, rewards=rewards, logp_old=np.zeros((4, 1)))
    loss, gradient = loss_of(objective, batch, column(inputs["sum_log_ratio"]))
    assert loss == pytest.approx(wanted["loss"], rel=GOLDEN)
    np.testing.assert_allclose(gradient[:, 0], wanted["grad_wrt_seq_logp"], rtol=GOLDEN)
    oapl = replace(objective, log_z=SoftValue(inputs["tau"]))
    assert loss_of(oapl, batch, column(inputs["sum_log_ratio"]))[0] != pytest.approx(wanted["loss"], rel=1e-3)


def residuals(objective: Any, **more: Any) -> Any:
    """The residual of each of the four rollouts, by the gradient of its square."""
    found = objective(NEW, objective.score(BATCH), **more)
    tokens = 1 if objective.length.mean else BATCH.mask.sum(1)
    return found.coefficients.sum(1) * len(NEW) / 2 / tokens


@pytest.mark.parametrize("units", [recipe("paced").objective.scale, InverseTemperature(20.0)])
def test_paced_temperature_divides_and_flowrl_multiplies(units: Any) -> None:
    """0.05 and 20 are one number, in either word."""
    objective = replace(recipe("paced").objective, scale=units)
    found = residuals(objective, log_z=LOG_Z)
    drift = ((NEW - BATCH.logp_old) * BATCH.mask).sum(1)
    np.testing.assert_allclose(found, LOG_Z + drift - BATCH.rewards / 0.05, rtol=1e-12)


def test_residual_without_anchor_is_the_policys() -> None:
    objective = replace(PAPER, anchor=NoAnchor(), log_z=NoLogZ(), weight=Unweighted())
    found = residuals(objective)
    mean = (NEW * BATCH.mask).sum(1) / BATCH.mask.sum(1)
    np.testing.assert_allclose(found, mean - 15 * np.array(FLOWRL["derived"]["adv"]), rtol=GOLDEN)


def test_optimum_of_one_has_no_gradient() -> None:
    """With one rollout a prompt log Z is not identified."""
    objective = replace(recipe("flowrl-vargrad").objective, log_z=GroupOptimum())
    batch = replace(BATCH, group_ids=np.arange(4))
    loss, gradient = loss_of(objective, batch, NEW)
    assert loss == 0
    assert np.all(gradient == 0)
