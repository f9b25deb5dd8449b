"""Objectives of candidates: golden numbers of TPOToken, GRPOToken and TPOFullAction, and what a place is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from karl_fast.errors import ArgumentError, IncoherentObjectiveError, LayoutError, UsageError
from karl_fast.objective import Batch, DrawnTokens, K1InReward, ReverseKL, Scored, recipe
from karl_fast.objective.axes.advantage import AllActions, Centre, ExpectedBaseline, Given
from tests.tolerances import GOLDEN
from tests.unit.objective.batch_cases import BATCH, CANDIDATES_NEW, NEW
from tests.unit.objective.golden import cases, read

HELD = read("token_rules")
INPUTS: dict[str, Any] = {name: np.array(values) for name, values in HELD["inputs"].items()}
CASES = cases(HELD)
PLACES, COUNT = INPUTS["candidates"].shape
RECIPES = ["tpo-token", "grpo-token"]


def log_softmax(logits: Any) -> Any:
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def logp_of(logits: Any) -> Any:
    """Log-probabilities of the candidates of each place, as one rollout. [1, T, K]"""
    return np.take_along_axis(log_softmax(np.array(logits)), INPUTS["candidates"], -1)[None]


ROLLOUT = Batch(
    mask=np.ones((1, PLACES), dtype=np.bool_),
    candidate_logp_old=logp_of(INPUTS["logits_old"]),
    candidate_rewards=(INPUTS["candidates"] == INPUTS["labels"][:, None]).astype(np.float64)[None],
)
OWN = np.full((1, PLACES), -1.0)


def with_four(name: str, **axes: Any) -> Any:
    return replace(recipe(name).objective, draw=DrawnTokens(COUNT), **axes)  # type: ignore[type-var]


def slopes_by_logits(coefficients: Any, logits: Any) -> Any:
    """d loss / d logits, by d logp_c / d z = [v = c] - softmax(z). [T, V]"""
    taken = np.eye(np.array(logits).shape[1])[INPUTS["candidates"]] - np.exp(log_softmax(np.array(logits)))[:, None]
    return (coefficients[0][:, :, None] * taken).sum(1)


@pytest.mark.parametrize("name", RECIPES)
def test_rule_of_candidates_equals_its_golden_number(name: str) -> None:
    case, other = CASES[name.replace("-", "_")], next(each for each in RECIPES if each != name)
    found, neighbour = (
        with_four(each)(OWN, with_four(each).score(ROLLOUT), candidate_logp=logp_of(case["logits"]))
        for each in (name, other)
    )
    tolerance = 1e-7 if name == "grpo-token" else GOLDEN  # its eps is added there where the deviation is not 0
    assert found.loss == pytest.approx(case["loss"], rel=tolerance)
    gradient = slopes_by_logits(found.candidate_logp_coefficients, case["logits"])
    np.testing.assert_allclose(gradient, case["slopes"], rtol=tolerance, atol=1e-12)
    assert np.abs(slopes_by_logits(neighbour.candidate_logp_coefficients, case["logits"]) - gradient).max() > 1e-2
    np.testing.assert_array_equal(found.coefficients, 0.0)


def test_token_rules_differ_from_rules_of_rollouts() -> None:
    """Candidates as rollouts of one token of one group give another target: the places are not told apart."""
    flat = Batch(
        np.ones((PLACES * COUNT, 1), dtype=np.bool_),
        ROLLOUT.need("candidate_rewards").ravel(),
        np.zeros(PLACES * COUNT, dtype=np.int64),
        logp_old=ROLLOUT.need("candidate_logp_old").reshape(-1, 1),
    )
    together = recipe("tpo").objective.score(flat).need("targets")
    apart = with_four("tpo-token").score(ROLLOUT).candidates.need("targets")
    assert np.abs(together * PLACES - apart).max() > 0.05


def test_full_action_equals_its_golden_number() -> None:
    """Less the baseline of the source, by the gradient: its loss is a cross-entropy, ours a weight times logp."""
    case, actions = CASES["tpo_full_action"], INPUTS["actions"]
    logp = log_softmax(np.array(case["logits"]))
    own = logp[np.arange(PLACES), actions][:, None]
    batch = Batch(
        mask=np.ones((PLACES, 1), dtype=np.bool_),
        rewards=INPUTS["rewards_of_actions"],
        group_ids=np.zeros(PLACES, dtype=np.int64),
        logp_old=own,
        baselines=INPUTS["baselines"],
    )

    def gradient(objective: Any) -> Any:
        weights = objective(own, objective.score(batch)).coefficients
        return weights * (np.eye(logp.shape[1])[actions] - np.exp(logp))

    objective: Any = recipe("tpo-full-action").objective
    mine = replace(objective, advantage=AllActions(ExpectedBaseline(), actions=logp.shape[1]))
    np.testing.assert_allclose(gradient(mine), case["slopes"], rtol=GOLDEN, atol=1e-12)
    for neighbour in ("group-pg", "dg-expected", "log-growth"):
        assert np.abs(gradient(recipe(neighbour).objective) - case["slopes"]).max() > 1e-2
    wrong = replace(objective, advantage=AllActions(ExpectedBaseline(), actions=3))
    assert np.abs(gradient(wrong) - case["slopes"]).max() > 1e-2


def test_weight_of_all_actions_is_finite_at_its_ends() -> None:
    """A million actions, and probabilities of nearly 0 and of 1; a group that agrees has weight exactly 0."""
    batch = Batch(
        np.ones((4, 1), dtype=np.bool_),
        advantages=np.array([1.0, -1.0, 1.0, 0.0]),
        logp_old=np.array([[-80.0], [0], [0], [-1]]),
    )
    found = AllActions(Given(), actions=1_000_000)(batch, np.ones(4, dtype=np.bool_))
    assert np.isfinite(found).all()
    assert found[0, 0] == pytest.approx(1.0)
    assert found[3, 0] == 0.0
    with pytest.raises(ArgumentError, match="actions is 1"):
        AllActions(Centre(), actions=1)


@pytest.mark.parametrize("name", RECIPES)
def test_place_without_rewards_does_not_count(name: str) -> None:
    rewards = ROLLOUT.need("candidate_rewards").copy()
    rewards[0, 1] = np.nan
    objective = with_four(name)
    scored = objective.score(replace(ROLLOUT, candidate_rewards=rewards))
    np.testing.assert_array_equal(scored.mask, [[True, False, True]])
    assert objective.count(scored) == 2
    found = objective(OWN, scored, candidate_logp=logp_of(CASES["tpo_token"]["logits"]))
    np.testing.assert_array_equal(found.candidate_logp_coefficients[0, 1], 0.0)
    assert np.abs(found.candidate_logp_coefficients[0, 0]).max() > 1e-3


@pytest.mark.parametrize("name", RECIPES)
def test_rollout_without_reward_does_not_count(name: str) -> None:
    rewards = np.where(np.arange(16) == 3, np.nan, BATCH.need("rewards"))
    scored = recipe(name).objective.score(replace(BATCH, rewards=rewards))
    assert not scored.mask[3].any()
    assert scored.mask[4].any()


@pytest.mark.parametrize("name", RECIPES)
def test_micro_batches_of_candidates_add_up(name: str) -> None:
    objective = recipe(name).objective
    scored = objective.score(BATCH)
    whole = objective(NEW, scored, candidate_logp=CANDIDATES_NEW)
    by, parts = objective.denominator(scored), [[4, 0, 9], [*range(1, 4), *range(5, 9), *range(10, 16)]]
    slopes, loss = np.zeros_like(CANDIDATES_NEW), 0.0
    for rows in parts:
        part = objective(NEW[rows], scored.rows(rows), denominator=by, candidate_logp=CANDIDATES_NEW[rows])
        slopes[rows], loss = part.candidate_logp_coefficients, loss + part.loss
    assert loss == pytest.approx(whole.loss, rel=1e-12)
    np.testing.assert_allclose(slopes, whole.candidate_logp_coefficients, rtol=1e-12, atol=1e-15)
    cut: Scored = scored.rows(slice(2, 5))
    assert cut.candidates is not None
    assert len(cut.candidates.mask) == 3 * NEW.shape[1] * 8


def test_statistics_are_of_the_rollouts_themselves() -> None:
    objective, plain = recipe("tpo-token").objective, recipe("grpo").objective
    mine = objective(NEW, objective.score(BATCH), candidate_logp=CANDIDATES_NEW).statistics
    theirs = plain.statistics(NEW, plain.score(BATCH))
    for name in ("tokens", "ratio", "ratio_std", "ratio_ess", "kl_old"):
        assert mine[name] == pytest.approx(theirs[name], rel=1e-12), name


def test_wrong_candidates_are_refused() -> None:
    objective = with_four("tpo-token")
    scored = objective.score(ROLLOUT)
    with pytest.raises(UsageError, match="TokenTargets needs candidate_logp of each candidate"):
        objective(OWN, scored)
    with pytest.raises(LayoutError, match=r"candidate_logp has the shape \(1, 3, 2\), wanted \(1, 3, 4\)"):
        objective(OWN, scored, candidate_logp=logp_of(CASES["tpo_token"]["logits"])[:, :, :2])
    with pytest.raises(LayoutError, match=r"candidate_rewards has the shape \(1, 3, 4\), wanted 8 for each token"):
        recipe("tpo-token").objective.score(ROLLOUT)
    with pytest.raises(UsageError, match="has no use for candidate_logp"):
        recipe("tpo").objective(NEW, recipe("tpo").objective.score(BATCH), candidate_logp=CANDIDATES_NEW)
    with pytest.raises(ArgumentError, match="the batch has no candidate_rewards"):
        objective.score(replace(ROLLOUT, candidate_rewards=None))
    with pytest.raises(ArgumentError, match="count is 1, wanted a whole number from 2 on"):
        DrawnTokens(1)
    for kl in (K1InReward(0.1), ReverseKL(0.1)):
        with pytest.raises(IncoherentObjectiveError, match="is not of candidates"):
            with_four("grpo-token", kl=kl)
