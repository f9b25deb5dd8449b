"""Neighbours coincide where the axis in which they differ cannot matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from karl_fast.objective import Batch, PolicyGradient, WeightedLikelihood, recipe
from karl_fast.objective.axes.advantage import Centre, Given, LeaveOneOut, MeanScaled, Raw, ZScore
from karl_fast.objective.axes.aggregate import ConstantLength, SequenceMean, SequenceSum, TokenMean
from karl_fast.objective.axes.clip import (
    Cap,
    Clip,
    DualClip,
    GeometricClip,
    NoClip,
    SoftGate,
    TwoSided,
    VariancePenalty,
)
from karl_fast.objective.axes.filter import DropConstantGroups, KeepAll
from karl_fast.objective.axes.kl import K3, NoKL
from karl_fast.objective.axes.kondo_gate import Gated
from karl_fast.objective.axes.likelihood import Boltzmann, Drawn, Uniform
from karl_fast.objective.axes.ratio import (
    OnPolicy,
    SequenceProduct,
    SequenceRatio,
    SequenceTokenRatio,
    TokenRatio,
    TurnRatio,
)
from karl_fast.objective.batch import FIELDS
from karl_fast.objective.recipes import RECIPES
from tests.tolerances import MLX_EXP
from tests.unit.objective.batch_cases import BATCH, MASK, NEW, OLD, loss_of, same, same_slopes

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


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=repr)
@pytest.mark.parametrize("clip", CLIPS, ids=repr)
def test_on_policy_clips_equal_reinforce(clip: Any, aggregate: Any) -> None:
    plain = replace(PLAIN, ratio=OnPolicy(), aggregate=aggregate)
    clipped = replace(PLAIN, clip=clip, aggregate=aggregate)
    same_slopes(loss_of(clipped, BATCH, OLD), loss_of(plain, BATCH, OLD), tolerance=MLX_EXP)


@pytest.mark.parametrize("ratio", RATIOS, ids=repr)
def test_on_policy_levels_sum_to_reinforce(ratio: Any) -> None:
    """A shared ratio gives a rollout's tokens the mean of what they have alone: equal where advantages are."""
    plain = loss_of(replace(PLAIN, ratio=OnPolicy()), BATCH, OLD)
    same_slopes(loss_of(replace(PLAIN, ratio=ratio), BATCH, OLD), plain, tolerance=MLX_EXP)


def short(tokens: int) -> Batch:
    """Every rollout of one length."""
    wide = [name for name, (dimensions, _) in FIELDS.items() if dimensions.startswith("BT")]
    columns = {name: getattr(BATCH, name)[:, :tokens] for name in wide if name not in ("mask", "turns")}
    mask = np.ones((len(NEW), tokens), dtype=np.bool_)
    return replace(BATCH, mask=mask, turns=np.zeros(mask.shape, dtype=np.int64), **columns)


@pytest.mark.parametrize("aggregate", [SequenceMean(), ConstantLength(4)], ids=repr)
@pytest.mark.parametrize("name", ["grpo", "gspo", "dapo", "cispo", "sapo", "gmpo"])
def test_length_aggregates_agree_at_one_length(name: str, aggregate: Any) -> None:
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


def test_gmpo_at_one_token_and_unbounded() -> None:
    wide = replace(PLAIN, clip=GeometricClip(1e9, 1e9))
    same(loss_of(wide), loss_of(replace(PLAIN, ratio=SequenceRatio())))


def test_half_right_zscore_is_twice_the_centred() -> None:
    batch = replace(BATCH, rewards=np.resize([1.0, 0.0], len(NEW)))
    zscore, centre = replace(PLAIN, advantage=ZScore(0, 0.0)), replace(PLAIN, advantage=Centre())
    same(loss_of(zscore, batch), loss_of(centre, batch), factor=2.0)
    scaled = replace(PLAIN, advantage=MeanScaled(0.0))
    same(loss_of(scaled, batch), loss_of(centre, batch), factor=2.0)


def test_leave_one_out_is_scaled_centred() -> None:
    leave, centre = replace(PLAIN, advantage=LeaveOneOut()), replace(PLAIN, advantage=Centre())
    same(loss_of(leave), loss_of(centre), factor=4 / 3)


def test_dropping_constant_groups_changes_only_the_denominator() -> None:
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


def test_zscore_without_eps_is_affine_invariant() -> None:
    point = replace(PLAIN, advantage=ZScore(1, 0.0))
    moved = replace(BATCH, rewards=3 * BATCH.rewards + 5)
    same(loss_of(point, moved), loss_of(point), tolerance=1e-9)


def test_zero_inverse_temperature_is_sft() -> None:
    sft = recipe("sft").objective
    same(loss_of(replace(sft, target=Boltzmann(0.0))), loss_of(sft))


def test_sft_is_the_mean_negative_log_likelihood() -> None:
    loss, gradient = loss_of(recipe("sft").objective)
    assert loss == pytest.approx(-NEW[MASK].mean(), rel=1e-12)
    np.testing.assert_allclose(gradient, -1.0 * MASK / MASK.sum(), rtol=1e-12)


def test_mean_one_weights_and_parts_sum_to_whole() -> None:
    whole = recipe("boltzmann").objective
    weights = whole.weights(BATCH)
    assert weights.mean() == pytest.approx(1, rel=1e-12)
    assert isinstance(whole, WeightedLikelihood)
    parts = whole.weighed().score(replace(BATCH, weights=weights, rewards=None))
    same(
        (whole(NEW, parts).loss, np.zeros(1)),
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


RESTING = [
    name
    for name, held in RECIPES.items()
    if isinstance(held.objective, PolicyGradient)
    and not isinstance(held.objective.advantage, Given | Raw)
    and held.objective.kl == NoKL()
    and name not in ("VPO", "DG_TOKEN", "SELF_DISTILL_DG", "R2VPO")  # other rewards, and another force
    and name not in ("SCOPE_LITE", "DG_EXPECTED")  # right tokens, and another baseline
]


@pytest.mark.parametrize("name", RESTING)
def test_equal_rewards_give_no_gradient_with_group_baseline(name: str) -> None:
    objective = RECIPES[name].objective
    loss, gradient = loss_of(replace(objective, filter=KeepAll()), replace(BATCH, rewards=np.full(len(NEW), 0.3)))
    assert loss == 0
    assert np.all(gradient == 0)
