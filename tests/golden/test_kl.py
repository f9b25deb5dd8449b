"""Estimators of the divergence equal to verl's, and their expectations over a small vocabulary to what torch found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from karl_fast import kl
from tests.golden.test_files import golden
from tests.properties.naive import kl as naive
from tests.tolerances import GOLDEN

GOLD = golden("kl_estimators")
TOKENS, EXACT = GOLD["per_sample"], GOLD["exact_categorical"]
P = naive.softmax(np.array(EXACT["logits"]))
Q = naive.softmax(np.array(EXACT["ref_logits"]))
MU = naive.softmax(np.array(EXACT["behaviour_logits"]))


def near(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=GOLDEN, atol=1e-14)


def by_logits(slopes: Any, drawn: Any) -> Any:
    """The expectation over tokens of ``drawn`` of slope times d log p / d logits."""
    return drawn * slopes - P * (drawn * slopes).sum()


@pytest.mark.parametrize("name", ["k1", "k2", "k3"])
def test_token_value_and_slope_equal_verl(name: Any) -> None:
    logp, logp_ref = np.array(TOKENS["logp"]), np.array(TOKENS["ref_logp"])
    wanted = TOKENS["estimators"][name]
    near(kl.estimate(logp, logp_ref, estimator=name), wanted["value"])
    near(kl.gradient(logp, logp_ref, estimator=name), wanted["grad_wrt_logp"])


@pytest.mark.parametrize("name", ["k1", "k2", "k3"])
def test_on_policy_each_has_its_expectation(name: Any) -> None:
    value = kl.estimate(np.log(P), np.log(Q), estimator=name)
    near(P @ value, EXACT[name]["E_value"])
    slopes = kl.gradient(np.log(P), np.log(Q), estimator=name)
    near(by_logits(slopes, P), EXACT[name]["E_grad_as_loss_on_policy"])


def test_what_each_gradient_is() -> None:
    """k1 nothing, k2 the reverse divergence, k3 the forward one; they differ."""
    found = {name: by_logits(kl.gradient(np.log(P), np.log(Q), estimator=name), P) for name in ("k1", "k2", "k3")}
    near(found["k1"], 0.0)
    near(found["k2"], EXACT["grad_reverse_KL_logits"])
    near(found["k3"], EXACT["grad_forward_KL_logits"])


def test_k3_through_ratio_is_reverse_kl_off_policy() -> None:
    wanted = EXACT["k3_times_ratio_off_policy(ratio differentiable)"]
    tokens = {"estimator": "k3", "logp_old": np.log(MU)}
    near(MU @ kl.estimate(np.log(P), np.log(Q), **tokens), wanted["E_value"])
    near(by_logits(kl.gradient(np.log(P), np.log(Q), through_ratio=True, **tokens), MU), wanted["E_grad"])
    near(wanted["E_grad"], EXACT["grad_reverse_KL_logits"])


def test_k2_off_policy_needs_its_ratio() -> None:
    alone, detached = EXACT["k2_off_policy_no_ratio"], EXACT["k2_off_policy_detached_ratio"]
    near(MU @ kl.estimate(np.log(P), np.log(Q), estimator="k2"), alone["E_value"])
    near(by_logits(kl.gradient(np.log(P), np.log(Q), estimator="k2"), MU), alone["E_grad"])
    tokens = {"estimator": "k2", "logp_old": np.log(MU)}
    near(MU @ kl.estimate(np.log(P), np.log(Q), **tokens), detached["E_value"])
    near(by_logits(kl.gradient(np.log(P), np.log(Q), **tokens), MU), detached["E_grad"])


def test_k1_in_reward_has_the_reverse_kl_gradient() -> None:
    """The score function of one-token rollouts, with the penalised reward held constant."""
    offsets = np.arange(4, dtype=np.int64)
    penalty = -kl.in_reward(np.zeros(3), np.log(P), np.log(Q), offsets, kl_coef=1.0)
    near(by_logits(penalty, P), EXACT["k1_in_reward (score-function: logp * sg(k1))"]["E_grad"])


@pytest.mark.parametrize(
    ("direction", "value", "slope"),
    [
        ("reverse", "true_reverse_KL", "grad_reverse_KL_logits"),
        ("forward", "forward_KL", "grad_forward_KL_logits"),
    ],
)
def test_the_exact_divergence_and_its_derivative(direction: Any, value: str, slope: str) -> None:
    logits, reference = np.array([EXACT["logits"]]), np.array([EXACT["ref_logits"]])
    near(kl.categorical(logits, reference, direction=direction), [EXACT[value]])
    near(kl.categorical_gradient(logits, reference, direction=direction), [EXACT[slope]])
