"""Neighbours coincide where the axis in which they differ cannot matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from karl_fast.objective import Batch, PolicyGradient, WeightedLikelihood, recipe
from karl_fast.objective.advantage import Centre, Given, LeaveOneOut, MeanScaled, Raw, ZScore
from karl_fast.objective.aggregate import ConstantLength, SequenceMean, SequenceSum, TokenMean
from karl_fast.objective.balance import (
    BehaviourPolicy,
    Huber,
    InverseTemperature,
    RewardUnits,
    Squared,
    Temperature,
)
from karl_fast.objective.clip import Cap, Clip, DualClip, GeometricClip, NoClip, SoftGate, TwoSided, VariancePenalty
from karl_fast.objective.filter import DropConstantGroups, KeepAll
from karl_fast.objective.gate import Gated
from karl_fast.objective.kl import K3, NoKL
from karl_fast.objective.likelihood import Boltzmann, Drawn, Uniform
from karl_fast.objective.log_z import GroupOptimum, Learned, SoftValue
from karl_fast.objective.ratio import (
    OnPolicy,
    SequenceProduct,
    SequenceRatio,
    SequenceTokenRatio,
    TokenRatio,
    TurnRatio,
)
from karl_fast.objective.recipes import RECIPES
from tests.objective.cases import BATCH, MASK, NEW, OLD, as_float64, f64, loss_of
from tests.tolerances import MLX_EXP

PLAIN = PolicyGradient(KeepAll(), Given(), TokenRatio(), NoClip(), NoKL(), SequenceMean())
RATIOS = [TokenRatio(), TurnRatio(), SequenceRatio(), SequenceTokenRatio(), OnPolicy()]
CLIPS = [
    Clip(0.2, 0.28),
    DualClip(0.2, 0.2, 3.0),
    TwoSided(0.2, 0.2, 3.0),
    Cap(5.0),
    NoClip(),
    VariancePenalty(0.3),
    SoftGate(1.0, 1.05),
    GeometricClip(0.4, 0.4),
]
AGGREGATES = [SequenceMean(), TokenMean(), ConstantLength(9), SequenceSum()]


def same(one: Any, other: Any, factor: float = 1.0, tolerance: float = 1e-12) -> None:
    assert one[0] == pytest.approx(factor * other[0], rel=tolerance, abs=tolerance)
    same_slopes(one, other, factor, tolerance)


def same_slopes(
    one: tuple[float, Any], other: tuple[float, Any], factor: float = 1.0, tolerance: float = 1e-12
) -> None:
    np.testing.assert_allclose(one[1], factor * other[1], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=repr)
@pytest.mark.parametrize("clip", CLIPS, ids=repr)
def test_on_policy_every_clip_has_the_gradient_of_reinforce(clip: Any, aggregate: Any) -> None:
    plain = replace(PLAIN, ratio=OnPolicy(), aggregate=aggregate)
    clipped = replace(PLAIN, clip=clip, aggregate=aggregate)
    same_slopes(loss_of(clipped, BATCH, OLD), loss_of(plain, BATCH, OLD), tolerance=MLX_EXP)


@pytest.mark.parametrize("ratio", RATIOS, ids=repr)
def test_on_policy_every_level_has_the_gradient_of_reinforce_in_sum(ratio: Any) -> None:
    """A shared ratio gives a rollout's tokens the mean of what they have alone: equal where advantages are."""
    plain = loss_of(replace(PLAIN, ratio=OnPolicy()), BATCH, OLD)
    same_slopes(loss_of(replace(PLAIN, ratio=ratio), BATCH, OLD), plain, tolerance=MLX_EXP)


def short(tokens: int) -> Batch:
    """Every rollout of one length."""
    columns = {name: getattr(BATCH, name)[:, :tokens] for name in ("logp_old", "logp_ref", "token_rewards")}
    mask = np.ones((len(NEW), tokens), dtype=np.bool_)
    return replace(BATCH, mask=mask, turns=np.zeros(mask.shape, dtype=np.int64), **columns)


@pytest.mark.parametrize("aggregate", [SequenceMean(), ConstantLength(4)], ids=repr)
@pytest.mark.parametrize("name", ["grpo", "gspo", "dapo", "cispo", "sapo", "gmpo"])
def test_at_one_length_aggregates_that_divide_by_it_are_one(name: str, aggregate: Any) -> None:
    objective = replace(recipe(name).objective, filter=KeepAll())
    found = loss_of(replace(objective, aggregate=aggregate), short(4), NEW[:, :4])
    same(found, loss_of(replace(objective, aggregate=TokenMean()), short(4), NEW[:, :4]))


def test_at_different_lengths_they_are_not() -> None:
    objective = recipe("grpo").objective
    losses = [loss_of(replace(objective, aggregate=aggregate))[0] for aggregate in AGGREGATES]
    assert len({round(loss, 6) for loss in losses}) == len(AGGREGATES)


@pytest.mark.parametrize("ratio", [SequenceRatio(), SequenceProduct(), SequenceTokenRatio(), TurnRatio()], ids=repr)
@pytest.mark.parametrize("clip", CLIPS[:-1], ids=repr)
def test_rollouts_of_one_token_have_one_ratio(ratio: Any, clip: Any) -> None:
    point = replace(PLAIN, clip=clip)
    wanted = loss_of(point, short(1), NEW[:, :1])
    same(loss_of(replace(point, ratio=ratio), short(1), NEW[:, :1]), wanted)


def test_gmpo_at_one_token_is_a_clip_of_the_log_ratio_and_unbounded_is_the_sequence_ratio() -> None:
    wide = replace(PLAIN, clip=GeometricClip(1e9, 1e9))
    same(loss_of(wide), loss_of(replace(PLAIN, ratio=SequenceRatio())))


def test_binary_rewards_half_right_have_a_zscore_of_twice_the_centred_one() -> None:
    batch = replace(BATCH, rewards=np.resize([1.0, 0.0], len(NEW)))
    zscore, centre = replace(PLAIN, advantage=ZScore(0, 0.0)), replace(PLAIN, advantage=Centre())
    same(loss_of(zscore, batch), loss_of(centre, batch), factor=2.0)
    scaled = replace(PLAIN, advantage=MeanScaled(0.0))
    same(loss_of(scaled, batch), loss_of(centre, batch), factor=2.0)


def test_leave_one_out_is_the_centred_one_times_g_over_g_minus_one() -> None:
    leave, centre = replace(PLAIN, advantage=LeaveOneOut()), replace(PLAIN, advantage=Centre())
    same(loss_of(leave), loss_of(centre), factor=4 / 3)


def test_dropping_constant_groups_changes_a_centred_gradient_by_its_denominator_alone() -> None:
    centre = replace(PLAIN, advantage=Centre())
    batch = replace(BATCH, outcomes=None)  # judged by the reward: the third group is constant
    dropped = replace(centre, filter=DropConstantGroups())
    same(loss_of(dropped, batch), loss_of(centre, batch), factor=16 / 12)


def test_dual_clip_and_two_sided_are_one_function() -> None:
    same(loss_of(replace(PLAIN, clip=DualClip(0.2, 0.2, 1.7))), loss_of(replace(PLAIN, clip=TwoSided(0.2, 0.2, 1.7))))


def test_a_clip_that_nothing_reaches_is_none() -> None:
    none = loss_of(PLAIN)
    for clip in (Clip(1.0, 1e9), DualClip(1.0, 1e9, 2e9), VariancePenalty(0.0)):
        same(loss_of(replace(PLAIN, clip=clip)), none)
    same_slopes(loss_of(replace(PLAIN, clip=Cap(1e9))), none, tolerance=MLX_EXP)


def test_a_gate_that_keeps_everything_keeps_everything() -> None:
    open_gate = replace(PLAIN, advantage=Gated(Centre(), keep=1.0))
    same(loss_of(open_gate), loss_of(replace(PLAIN, advantage=Centre())))


def test_a_coefficient_of_zero_is_no_penalty() -> None:
    same(loss_of(replace(PLAIN, kl=K3(0.0))), loss_of(PLAIN))


def test_a_zscore_without_eps_does_not_change_under_a_scale_and_a_shift() -> None:
    point = replace(PLAIN, advantage=ZScore(1, 0.0))
    moved = replace(BATCH, rewards=3 * BATCH.rewards + 5)
    same(loss_of(point, moved), loss_of(point), tolerance=1e-9)


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
def test_a_balance_is_zero_at_the_boltzmann_target_and_there_alone(regression: Any, scale: Any, inverse: float) -> None:
    target, log_z = boltzmann(ARMS, REFERENCE, inverse)
    batch, logp = bandit(target)
    objective = balance(scale=scale, regression=regression)
    at = {"log_z": f64(np.full(4, log_z * scale.drift))}  # Delta = b r - log Z, in the units of the residual
    loss, gradient = loss_of(objective, batch, logp, **at)
    assert abs(loss) < 1e-28
    assert np.abs(gradient).max() < 1e-13
    for other in (REFERENCE, target + np.array([0.01, 0, 0, 0]), boltzmann(ARMS, REFERENCE, inverse * 1.1)[0]):
        assert loss_of(objective, batch, other[:, None], **at)[0] > 1e-7
    off = {"log_z": at["log_z"] + 0.01}
    assert loss_of(objective, batch, logp, **off)[0] > 1e-7


def test_vargrad_is_zero_at_the_target_without_being_told_log_z() -> None:
    target, _ = boltzmann(ARMS, REFERENCE, 3.0)
    batch, logp = bandit(target)
    loss, gradient = loss_of(balance(log_z=GroupOptimum()), batch, logp)
    assert abs(loss) < 1e-28
    assert np.abs(gradient).max() < 1e-13


def test_vargrad_does_not_change_when_rewards_shift() -> None:
    objective = balance(log_z=GroupOptimum())
    same(loss_of(objective, replace(BATCH, rewards=BATCH.rewards + 3)), loss_of(objective), tolerance=1e-10)


def test_a_soft_value_of_infinite_temperature_is_the_mean_and_of_zero_the_largest() -> None:
    for temperature, value in ((float("inf"), ARMS.mean()), (0.0, 1.0)):
        objective = replace(recipe("oapl").objective, log_z=SoftValue(temperature), anchor=BehaviourPolicy())
        batch, _ = bandit(REFERENCE)
        np.testing.assert_allclose(np.array(objective.score(batch).rewards), ARMS - value, atol=1e-12)


def test_units_of_nats_and_of_reward_are_one_balance() -> None:
    """(t D - (r - V))^2 = t^2 (D + V / t - r / t)^2."""
    nats = replace(recipe("oapl").objective, scale=Temperature(0.3), log_z=SoftValue(0.3))
    same(loss_of(replace(nats, scale=RewardUnits(0.3))), loss_of(nats), factor=0.09, tolerance=1e-10)


def test_a_huber_wider_than_every_residual_is_a_square() -> None:
    same(loss_of(balance(regression=Huber(1e6))), loss_of(balance()))


@pytest.mark.parametrize("regression", [Squared(), Huber(0.7)], ids=repr)
def test_a_regression_obeys_its_three_laws(regression: Any) -> None:
    values = f64(np.linspace(-3, 3, 601))
    cost = np.array(regression(values))
    slope = np.array(mx.grad(lambda x: regression(x).sum())(values))
    assert cost[300] == 0
    np.testing.assert_allclose(cost, cost[::-1], rtol=1e-12)
    assert np.all(np.sign(slope) == np.sign(np.round(np.array(values), 9)))
    assert np.all(np.diff(slope) >= -1e-12)


def test_a_weighted_likelihood_of_inverse_temperature_zero_is_sft() -> None:
    sft = recipe("sft").objective
    same(loss_of(replace(sft, target=Boltzmann(0.0))), loss_of(sft))


def test_sft_is_the_mean_negative_log_likelihood() -> None:
    loss, gradient = loss_of(recipe("sft").objective)
    assert loss == pytest.approx(-NEW[MASK].mean(), rel=1e-12)
    np.testing.assert_allclose(gradient, -1.0 * MASK / MASK.sum(), rtol=1e-12)


def test_weights_have_mean_one_and_the_parts_of_a_data_set_its_gradient() -> None:
    whole = recipe("boltzmann").objective
    weights = whole.weights(BATCH)
    assert weights.mean() == pytest.approx(1, rel=1e-12)
    assert isinstance(whole, WeightedLikelihood)
    parts = whole.weighed().score(replace(BATCH, weights=weights, rewards=None))
    same(
        (float(np.asarray(whole(f64(NEW), as_float64(parts)))), np.zeros(1)),
        (loss_of(whole)[0], np.zeros(1)),
    )


def test_drawing_and_weighing_have_one_gradient_on_average() -> None:
    """Rows drawn at their weights, each of weight 1: 4,000 draws of 16, within 4 standard errors."""
    weighed = recipe("boltzmann").objective
    drawn = replace(weighed, sampler=Drawn(), aggregate=SequenceSum())
    each = (NEW * MASK).sum(1)
    weights = weighed.weights(BATCH)
    rows = np.random.default_rng(0).choice(16, size=(4000, 16), p=weights / weights.sum())
    losses = -each[rows].mean(1)
    wanted = loss_of(replace(weighed, aggregate=SequenceSum()))[0]
    assert abs(losses.mean() - wanted) < 4 * losses.std() / np.sqrt(len(losses))
    bare = replace(BATCH, weights=None)
    same(loss_of(drawn, bare), loss_of(replace(drawn, target=Uniform()), bare))


def test_a_target_policy_has_no_gradient_where_it_is_its_target() -> None:
    objective = recipe("tpo").objective
    scored = objective.score(bandit(REFERENCE)[0])
    at = np.log(np.array(scored.targets))
    assert np.abs(loss_of(objective, bandit(REFERENCE)[0], at[:, None])[1]).max() < 1e-6


RESTING = [
    name
    for name, held in RECIPES.items()
    if isinstance(held.objective, PolicyGradient)
    and not isinstance(held.objective.advantage, Given | Raw)
    and held.objective.kl == NoKL()
    and name not in ("VPO", "R2VPO")  # another reward, and another force
]


@pytest.mark.parametrize("name", RESTING)
def test_at_equal_rewards_a_recipe_with_a_group_baseline_and_no_penalty_rests(name: str) -> None:
    objective = RECIPES[name].objective
    loss, gradient = loss_of(replace(objective, filter=KeepAll()), replace(BATCH, rewards=np.full(len(NEW), 0.3)))
    assert loss == 0
    assert np.all(gradient == 0)


def test_learned_log_z_at_the_optimum_of_each_group_is_vargrad() -> None:
    objective = balance(log_z=GroupOptimum())
    learned = replace(objective, log_z=Learned())
    residual = np.array(learned.residual(f64(NEW), objective.score(BATCH), f64(np.zeros(16))))
    best = -np.repeat(residual.reshape(4, 4).mean(1), 4)
    same(loss_of(learned, log_z=f64(best)), loss_of(objective), tolerance=1e-10)
