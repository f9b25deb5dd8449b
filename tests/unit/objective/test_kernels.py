"""Objectives equal the kernels: the coefficients of `karl_fast.ratio` on random ragged batches, and its weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from karl_fast import kl as divergence
from karl_fast import ratio as kernels
from karl_fast.objective import Batch, PolicyGradient
from karl_fast.objective.axes.advantage import Given
from karl_fast.objective.axes.aggregate import ConstantLength, SequenceMean, SequenceSum, TokenMean
from karl_fast.objective.axes.clip import Cap, Clip, DualClip, NoClip, TwoSided
from karl_fast.objective.axes.filter import KeepAll
from karl_fast.objective.axes.kl import K2, K3, NoKL
from karl_fast.objective.axes.ratio import SequenceProduct, SequenceRatio, SequenceTokenRatio, TokenRatio, TurnRatio
from tests.tolerances import MLX_EXP
from tests.unit.objective.batch_cases import loss_of

RATIOS = [TokenRatio(), TurnRatio(), SequenceRatio(), SequenceProduct(), SequenceTokenRatio()]
CLIPS = [Clip(0.2, 0.28), DualClip(0.2, 0.2, 2.0), TwoSided(0.1, 0.2, 1.5), Cap(1.5, 0.3), NoClip()]
AGGREGATES = [SequenceMean(), TokenMean(), ConstantLength(9), SequenceSum()]


def random_batch(seed: int, per: str = "sequence") -> tuple[Batch, Any]:
    """Rollouts of 0 to 8 tokens with holes, some with advantage 0."""
    draw = np.random.default_rng(seed)
    rows, width = int(draw.integers(1, 9)), 8
    mask = (np.arange(width) < draw.integers(0, width + 1, size=rows)[:, None]) & (draw.random((rows, width)) < 0.8)
    old = -draw.exponential(size=(rows, width))
    advantages = (
        draw.normal(size=rows if per == "sequence" else (rows, width))
        * (draw.random(rows) < 0.8)[:, *([None] if per == "token" else [])]
    )
    turns = np.minimum(np.arange(width) // draw.integers(1, 5), 5) * np.ones((rows, 1), dtype=np.int64)
    reference = old + 0.3 * draw.normal(size=old.shape)
    batch = Batch(mask, logp_old=old, logp_ref=reference, advantages=advantages, turns=turns.astype(np.int64))
    return batch, old + 0.4 * draw.normal(size=old.shape)


def of_the_kernel(objective: PolicyGradient, batch: Batch, logp: Any) -> tuple[float, Any]:
    rows, width = batch.mask.shape
    cuts = np.flatnonzero(np.diff(batch.turns[0])) + 1
    starts = np.concatenate([np.concatenate([[0], cuts]) + row * width for row in range(rows)] + [[rows * width]])
    found = kernels.policy_loss(
        logp.ravel(),
        batch.logp_old.ravel(),
        batch.advantages.ravel(),
        np.arange(0, rows * width + 1, width),
        mask=batch.mask.ravel(),
        turn_offsets=starts.astype(np.int64) if objective.ratio.level == "turn" else None,
        level=objective.ratio.level,
        per="sequence" if batch.advantages.ndim == 1 else "token",
        clip=objective.clip,
        aggregate=objective.aggregate,
    )
    return found.loss, found.coefficient.reshape(rows, width)


@pytest.mark.parametrize("per", ["sequence", "token"])
@pytest.mark.parametrize("aggregate", AGGREGATES, ids=repr)
@pytest.mark.parametrize("clip", CLIPS, ids=repr)
@pytest.mark.parametrize("ratio", RATIOS, ids=repr)
def test_loss_and_gradient_equal_those_of_the_kernel(ratio: Any, clip: Any, aggregate: Any, per: str) -> None:
    objective = PolicyGradient(KeepAll(), Given(), ratio, clip, NoKL(), aggregate)
    for seed in range(8):
        batch, logp = random_batch(seed, per)
        loss, gradient = loss_of(objective, batch, logp)
        wanted, coefficient = of_the_kernel(objective, batch, logp)
        size = max(1.0, float(np.abs(coefficient).max()))
        assert loss == pytest.approx(wanted, rel=MLX_EXP, abs=MLX_EXP * 10), seed
        np.testing.assert_allclose(gradient, coefficient, rtol=MLX_EXP, atol=MLX_EXP * size)


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=repr)
def test_weights_of_tokens_equal_those_of_the_kernel(aggregate: Any) -> None:
    """An advantage of -1 at the behaviour policy leaves nothing but the weight."""
    objective = PolicyGradient(KeepAll(), Given(), TokenRatio(), NoClip(), NoKL(), aggregate)
    for seed in range(8):
        batch, _ = random_batch(seed)
        batch = replace(batch, advantages=-np.ones(len(batch.mask)))
        offsets = np.arange(0, batch.mask.size + 1, 8)
        wanted = kernels.token_weights(offsets, mask=batch.mask.ravel(), aggregate=aggregate)
        gradient = loss_of(objective, batch, batch.logp_old)[1]
        np.testing.assert_allclose(gradient.ravel(), wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=repr)
@pytest.mark.parametrize(("point", "estimator"), [(K2(0.3), "k2"), (K3(0.3), "k3"), (K3(0.3, True), "k3")])
def test_a_penalty_equals_that_of_the_kernel(point: Any, estimator: Any, aggregate: Any) -> None:
    objective = PolicyGradient(KeepAll(), Given(), TokenRatio(), NoClip(), point, aggregate)
    for seed in range(8):
        batch, logp = random_batch(seed)
        batch = replace(batch, advantages=np.zeros(len(batch.mask)))
        keep, old = batch.mask.ravel(), batch.logp_old.ravel() if point.by_ratio else None
        columns = (logp.ravel(), batch.logp_ref.ravel())
        offsets = np.arange(0, batch.mask.size + 1, 8)
        weights = 0.3 * kernels.token_weights(offsets, mask=keep, aggregate=aggregate)
        how: Any = {"estimator": estimator, "mask": keep, "logp_old": old}
        loss, gradient = loss_of(objective, batch, logp)
        assert loss == pytest.approx(weights @ divergence.estimate(*columns, **how), rel=1e-6, abs=1e-7)
        slopes = divergence.gradient(*columns, through_ratio=point.by_ratio, **how)
        np.testing.assert_allclose(gradient.ravel(), weights * slopes, rtol=1e-6, atol=1e-7)
