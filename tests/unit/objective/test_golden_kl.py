"""Divergences equal verl's a token, and have the expected gradients on a distribution that can be enumerated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from karl_fast.errors import IncoherentObjectiveError
from karl_fast.objective import Batch, PolicyGradient, recipe
from karl_fast.objective.axes.advantage import Given
from karl_fast.objective.axes.aggregate import TokenMean
from karl_fast.objective.axes.clip import NoClip
from karl_fast.objective.axes.filter import KeepAll
from karl_fast.objective.axes.kl import K1, K2, K3, K1InReward
from karl_fast.objective.axes.ratio import TokenRatio
from tests.tolerances import GOLDEN
from tests.unit.objective.golden import read

HELD = read("kl_estimators")
EXACT = HELD["exact_categorical"]
LOGITS, REF, BEHAVIOUR = (np.array(EXACT[name]) for name in ("logits", "ref_logits", "behaviour_logits"))


def penalty(point: Any, logp: Any, ref: Any, old: Any = None) -> tuple[Any, Any]:
    """The penalty of each token and its slope: every advantage is 0, every token a rollout."""
    rows = np.asarray(logp)[:, None]
    held = {"logp_ref": np.asarray(ref)[:, None], "logp_old": rows if old is None else np.asarray(old)[:, None]}
    objective = PolicyGradient(KeepAll(), Given(), TokenRatio(), NoClip(), point, TokenMean())
    scored = objective.score(Batch(np.ones(rows.shape, dtype=np.bool_), advantages=np.zeros(len(rows)), **held))
    found = objective(rows, scored, denominator=1.0)
    each = [objective(rows[[row]], scored.rows([row])).loss for row in range(len(rows))]
    assert found.loss == pytest.approx(sum(each), rel=1e-12)
    return np.array(each), found.coefficients[:, 0]


@pytest.mark.parametrize(("name", "point"), [("k2", K2(1.0)), ("k3", K3(1.0))])
def test_token_value_and_slope_match_verl(name: str, point: Any) -> None:
    tokens, wanted = HELD["per_sample"], HELD["per_sample"]["estimators"][name]
    value, slope = penalty(point, tokens["logp"], tokens["ref_logp"])
    np.testing.assert_allclose(value, wanted["value"], rtol=GOLDEN, atol=1e-12)
    np.testing.assert_allclose(slope, wanted["grad_wrt_logp"], rtol=GOLDEN, atol=1e-12)


def log_softmax(logits: Any) -> Any:
    return np.asarray(logits - np.log(np.exp(logits).sum()))


def by_logits(slopes: Any) -> Any:
    """A gradient by the log-probabilities of LOGITS as one by the logits."""
    return slopes - np.exp(log_softmax(LOGITS)) * slopes.sum()


def expected(point: Any, behaviour: Any) -> tuple[float, Any]:
    """The mean over all tokens of a behaviour policy of the penalty as a loss, and its gradient by the logits."""
    chances = np.exp(log_softmax(behaviour))
    value, slopes = penalty(point, log_softmax(LOGITS), log_softmax(REF), log_softmax(behaviour))
    return float(chances @ value), by_logits(chances * slopes)


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
    assert value == pytest.approx(EXACT[key]["E_value"], rel=GOLDEN)
    np.testing.assert_allclose(slope, EXACT[key][gradient], atol=GOLDEN)


def test_correct_penalties_have_the_reverse_kl_gradient() -> None:
    wanted = EXACT["grad_reverse_KL_logits"]
    for point, behaviour in ((K2(1.0), LOGITS), (K2(1.0, True), BEHAVIOUR), (K3(1.0, True), BEHAVIOUR)):
        np.testing.assert_allclose(expected(point, behaviour)[1], wanted, atol=GOLDEN)
    assert np.abs(expected(K3(1.0), LOGITS)[1] - wanted).max() > 0.02
    np.testing.assert_allclose(expected(K3(1.0), LOGITS)[1], EXACT["grad_forward_KL_logits"], atol=GOLDEN)


def test_k1_in_loss_refused_in_reward_reverse_kl() -> None:
    with pytest.raises(IncoherentObjectiveError, match="gradient of 0 on average"):
        recipe("grpo").but("mine", "none", kl=(K1(0.1), "wrong"))
    old, ref = log_softmax(LOGITS), log_softmax(REF)
    batch = Batch(np.ones((3, 1), dtype=np.bool_), np.zeros(3), logp_old=old[:, None], logp_ref=ref[:, None])
    rewards = K1InReward(1.0).shaped(batch).rewards
    assert rewards is not None
    np.testing.assert_allclose(by_logits(-np.exp(old) * rewards), EXACT["grad_reverse_KL_logits"], atol=GOLDEN)
