"""Divergences equal verl's a token, and have the expected gradients on a distribution that can be enumerated."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from karl_fast.errors import IncoherentObjectiveError
from karl_fast.objective import Batch, Scored, recipe
from karl_fast.objective.axes.kl import K1, K2, K3, K1InReward
from tests.tolerances import MLX_EXP
from tests.unit.objective.cases import f64
from tests.unit.objective.golden import read

HELD = read("kl_estimators")
EXACT = HELD["exact_categorical"]
LOGITS, REF, BEHAVIOUR = (np.array(EXACT[name]) for name in ("logits", "ref_logits", "behaviour_logits"))


@pytest.mark.parametrize(("name", "point"), [("k2", K2(1.0)), ("k3", K3(1.0))])
def test_value_and_slope_of_a_token_are_those_of_verl(name: str, point: Any) -> None:
    tokens, wanted = HELD["per_sample"], HELD["per_sample"]["estimators"][name]
    scored = Scored(mx.ones((1, 5)) > 0, logp_ref=f64([tokens["ref_logp"]]))
    value, slope = mx.value_and_grad(lambda logp: point(logp, scored).sum())(f64([tokens["logp"]]))
    assert np.asarray(value) == pytest.approx(sum(wanted["value"]), rel=MLX_EXP)
    np.testing.assert_allclose(np.array(slope)[0], wanted["grad_wrt_logp"], rtol=MLX_EXP, atol=1e-7)


def log_softmax(logits: Any) -> mx.array:
    return logits - mx.logsumexp(logits)


def expected(point: Any, behaviour: Any) -> tuple[float, Any]:
    """The mean over all tokens of a behaviour policy of the penalty as a loss, and its gradient by the logits."""
    old, ref = log_softmax(f64(behaviour)), log_softmax(f64(REF))
    scored = Scored(mx.ones((1, 3)) > 0, logp_old=old[None], logp_ref=ref[None])
    chances = mx.exp(old)
    value, slope = mx.value_and_grad(lambda x: (chances * point(log_softmax(x)[None], scored)[0]).sum())(f64(LOGITS))
    return float(np.asarray(value)), np.array(slope)


@pytest.mark.parametrize(
    ("point", "behaviour", "key", "gradient"),
    [
        (K2(1.0), LOGITS, "k2", "E_grad_as_loss_on_policy"),
        (K3(1.0), LOGITS, "k3", "E_grad_as_loss_on_policy"),
        (K3(1.0, by_ratio=True), BEHAVIOUR, "k3_times_ratio_off_policy(ratio differentiable)", "E_grad"),
        (K2(1.0), BEHAVIOUR, "k2_off_policy_no_ratio", "E_grad"),
        (K2(1.0, by_ratio=True), BEHAVIOUR, "k2_off_policy_detached_ratio", "E_grad"),
    ],
)
def test_expected_value_and_gradient_equal_the_enumerated_ones(
    point: Any, behaviour: Any, key: str, gradient: str
) -> None:
    value, slope = expected(point, behaviour)
    assert value == pytest.approx(EXACT[key]["E_value"], rel=MLX_EXP)
    np.testing.assert_allclose(slope, EXACT[key][gradient], atol=MLX_EXP)


def test_the_penalties_that_are_right_have_the_gradient_of_the_reverse_divergence() -> None:
    wanted = EXACT["grad_reverse_KL_logits"]
    for point, behaviour in ((K2(1.0), LOGITS), (K2(1.0, True), BEHAVIOUR), (K3(1.0, True), BEHAVIOUR)):
        np.testing.assert_allclose(expected(point, behaviour)[1], wanted, atol=MLX_EXP)
    assert np.abs(expected(K3(1.0), LOGITS)[1] - wanted).max() > 0.02
    np.testing.assert_allclose(expected(K3(1.0), LOGITS)[1], EXACT["grad_forward_KL_logits"], atol=MLX_EXP)


def test_k1_in_the_loss_is_refused_and_k1_in_the_reward_is_the_reverse_divergence() -> None:
    with pytest.raises(IncoherentObjectiveError, match="gradient of 0 on average"):
        recipe("grpo").but("mine", "none", kl=(K1(0.1), "wrong"))
    old, ref = (np.array(log_softmax(f64(logits))) for logits in (LOGITS, REF))
    batch = Batch(np.ones((3, 1), dtype=np.bool_), np.zeros(3), logp_old=old[:, None], logp_ref=ref[:, None])
    rewards = f64(K1InReward(1.0).shaped(batch).rewards)
    chances = mx.exp(log_softmax(f64(LOGITS)))
    slope = mx.grad(lambda x: -(chances * rewards * log_softmax(x)).sum())(f64(LOGITS))
    np.testing.assert_allclose(np.array(slope), EXACT["grad_reverse_KL_logits"], atol=MLX_EXP)
