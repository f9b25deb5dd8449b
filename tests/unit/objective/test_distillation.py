"""Distillation: each signal is the divergence that its name says, and a sampled one has the gradient of the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from karl_fast.errors import ArgumentError, IncoherentObjectiveError, UsageError
from karl_fast.objective import (
    Batch,
    Delight,
    KeepAll,
    NoClip,
    NoReward,
    OnPolicy,
    TeacherForward,
    TeacherReverse,
    TeacherSampled,
    TeacherTopK,
    TokenMean,
    recipe,
)
from karl_fast.objective.families.distillation import Distillation
from tests.unit.objective.batch_cases import BATCH, MASK, NEW, OLD, TAUGHT, loss_of

OPD: Any = recipe("opd").objective
TOKENS = 9


def softmax(logits: Any) -> Any:
    chances = np.exp(logits - logits.max(-1, keepdims=True))
    return chances / chances.sum(-1, keepdims=True)


def logits(seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=TOKENS) * 1.5


def test_sampled_tokens_have_the_gradient_of_the_reverse_divergence() -> None:
    """Each token of the vocabulary is a rollout, and counts as often as the policy draws it."""
    student, teacher = logits(0), logits(1)
    p, q = softmax(student), softmax(teacher)
    batch = Batch(
        np.ones((TOKENS, 1), dtype=np.bool_),
        group_ids=np.zeros(TOKENS, dtype=np.int64),
        logp_old=np.log(p)[:, None],
        logp_teacher=np.log(q)[:, None],
    )
    slopes = TOKENS * loss_of(OPD, batch, np.log(p)[:, None])[1][:, 0]  # of each token's own logp
    found = p * slopes @ (np.eye(TOKENS) - p)
    divergence = (p * np.log(p / q)).sum()
    np.testing.assert_allclose(found, p * (np.log(p / q) - divergence), atol=1e-12)
    forward = p - q
    assert np.abs(found - forward).max() > 0.05


def test_sampled_signal_is_bounded_by_its_limit() -> None:
    far = (TAUGHT - OLD)[MASK]
    assert np.abs(far).max() > 0.4
    for limit in (0.4, np.inf):
        scored = replace(OPD, divergence=TeacherSampled(2.0, limit)).score(BATCH)
        np.testing.assert_allclose(scored.advantages[MASK], 2 * np.clip(far, -limit, limit), atol=1e-15)


def test_reward_is_added_to_the_signal_of_tokens() -> None:
    scored, alone = (recipe(name).objective.score(BATCH) for name in ("opd-grpo", "opd"))
    advantages = recipe("grpo").objective.score(BATCH).advantages
    np.testing.assert_allclose(scored.advantages[MASK], (alone.advantages + advantages)[MASK], atol=1e-12)


def test_without_a_reward_every_rollout_counts() -> None:
    missing = replace(BATCH, rewards=np.full(len(MASK), np.nan))
    np.testing.assert_array_equal(OPD.score(missing).mask, MASK)
    assert not recipe("opd-grpo").objective.score(missing).mask.any()


def test_divergence_in_the_loss_is_the_mean_over_tokens_beside_the_advantages() -> None:
    objective: Any = replace(OPD, divergence=TeacherReverse(0.3))
    values = np.random.default_rng(3).uniform(size=MASK.shape)
    found = objective(NEW, objective.score(BATCH), divergence=values)
    assert found.loss == pytest.approx(0.3 * values[MASK].mean(), abs=1e-12)
    np.testing.assert_array_equal(found.coefficients, 0)
    np.testing.assert_allclose(found.divergence_coefficients, np.where(MASK, 0.3 / MASK.sum(), 0), atol=1e-15)
    assert found.statistics["divergence"] == pytest.approx(values[MASK].mean())


@pytest.mark.parametrize("point", [TeacherReverse(), TeacherForward(), TeacherTopK(k=2)], ids=repr)
def test_divergence_has_to_be_given(point: Any) -> None:
    objective = replace(OPD, divergence=point)
    with pytest.raises(UsageError, match=f"^{type(point).__name__}.* needs divergence of each token$"):
        objective(NEW, objective.score(BATCH))
    with pytest.raises(UsageError, match="has no use for divergence"):
        OPD(NEW, OPD.score(BATCH), divergence=NEW)


def test_missing_teacher_is_named() -> None:
    with pytest.raises(ArgumentError, match="the batch has no logp_teacher, which this objective needs"):
        OPD.score(replace(BATCH, logp_teacher=None))


def test_clips_that_are_not_proportional_to_the_advantage_are_refused() -> None:
    with pytest.raises(IncoherentObjectiveError, match="Delight is not proportional to the advantage"):
        Distillation(KeepAll(), TeacherSampled(), NoReward(), OnPolicy(), Delight(), TokenMean())
    assert Distillation(KeepAll(), TeacherSampled(), NoReward(), OnPolicy(), NoClip(), TokenMean())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TeacherTopK(k=0), r"^k is 0, wanted a number in \[1, inf\]"),
        (lambda: TeacherTopK(k=2.5), r"^k is 2.5, wanted a whole number"),
        (lambda: TeacherTopK(support="both"), "^support is 'both', wanted one of teacher, student, intersection"),
        (lambda: TeacherTopK(direction="left"), "^direction is 'left', wanted one of reverse, forward"),
        (lambda: TeacherReverse(0.0), "^coef is 0"),
        (lambda: TeacherSampled(limit=-1.0), "^limit is -1"),
    ],
)
def test_numbers_out_of_range_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()
