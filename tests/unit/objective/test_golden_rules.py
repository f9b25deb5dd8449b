"""The single-paper rules equal their formulas: TPO, AWR, DG, Kondo, ASPO, R2VPO, VPO, pedagogy, trees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from karl_fast import _core
from karl_fast.advantage import segment_weights
from karl_fast.errors import ArgumentError
from karl_fast.objective import Batch, recipe
from karl_fast.objective.axes.advantage import Given
from karl_fast.objective.axes.aggregate import TokenMean
from karl_fast.objective.axes.clip import Delight, Flip, VariancePenalty
from karl_fast.objective.axes.filter import KeepAll
from karl_fast.objective.axes.kl import NoKL
from karl_fast.objective.axes.kondo_gate import TopGated, gate_probabilities
from karl_fast.objective.axes.likelihood import Exponential, SurprisalGated
from karl_fast.objective.axes.set_score import directions, set_scores
from karl_fast.objective.families.target_policy import Tilted
from tests.tolerances import GOLDEN
from tests.unit.objective.batch_cases import loss_of
from tests.unit.objective.golden import cases, column, one_token, read

RULES = cases(read("update_rules"))


@pytest.mark.parametrize("eta", [0.25, 1.0, 2.0])
def test_tpo_is_the_cross_entropy_to_its_target(eta: float) -> None:
    held = RULES[f"tpo_eta{eta}"]
    inputs, wanted = held["inputs"], held["outputs"]
    rewards = np.array(inputs["rewards"])
    batch = one_token(rewards, rewards=rewards, logp_old=column(inputs["old_seq_logp"]))
    objective = replace(recipe("tpo").objective, target=Tilted(eta))
    np.testing.assert_allclose(objective.score(batch).targets, wanted["q"], rtol=GOLDEN)
    loss, gradient = loss_of(objective, batch, column(inputs["new_seq_logp"]))
    assert loss == pytest.approx(wanted["loss_CE"], rel=GOLDEN)
    np.testing.assert_allclose(gradient[:, 0], wanted["grad_wrt_new_seq_logp(p-q)"], rtol=GOLDEN, atol=GOLDEN)


@pytest.mark.parametrize("beta", [0.05, 1.0])
def test_awr_weighs_by_its_exponential_up_to_twenty(beta: float) -> None:
    held = RULES[f"awr_beta{beta}"]
    advantages = np.array(held["inputs"]["advantages"])
    objective = replace(recipe("awr").objective, target=Exponential(Given(), beta, held["inputs"]["w_max"]))
    batch = one_token(advantages, rewards=advantages, advantages=advantages)
    np.testing.assert_allclose(objective.weights(batch), held["outputs"]["weights_clipped_20"], rtol=GOLDEN)
    gradient = loss_of(objective, batch, np.zeros((4, 1)))[1][:, 0]
    np.testing.assert_allclose(-4 * gradient, held["outputs"]["weights_clipped_20"], rtol=GOLDEN)
    assert recipe("awr").objective.target.ceiling == held["inputs"]["w_max"]


@pytest.mark.parametrize("eta", [0.5, 1.0])
def test_dg_is_gated_by_its_delight(eta: float) -> None:
    held = RULES[f"dg_eta{eta}"]
    advantages = np.array(held["inputs"]["advantage"])
    objective = replace(recipe("dg").objective, advantage=Given(), clip=Delight(eta))
    batch = one_token(advantages, advantages=advantages)
    loss, gradient = loss_of(objective, batch, column(held["inputs"]["logp"]))
    assert loss == pytest.approx(held["outputs"]["loss_mean(-gate*A*logp)"], rel=GOLDEN)
    np.testing.assert_allclose(gradient[:, 0], held["outputs"]["grad_wrt_logp"], rtol=GOLDEN)


@pytest.mark.parametrize("keep", [0.2, 0.5])
def test_kondo_soft_gate_has_the_set_mean(keep: float) -> None:
    held = RULES[f"kondo_soft_keep{keep}"]
    found = gate_probabilities(np.array(held["inputs"]["delight"]), keep, held["inputs"]["eta"])
    assert found.mean() == pytest.approx(keep, abs=1e-12)
    np.testing.assert_allclose(found, held["outputs"]["gate_prob"], rtol=1e-4)  # 20 halvings of a bracket of 29


def test_kondo_hard_gate_keeps_most_delightful_tokens() -> None:
    held = RULES["kondo_hard_topk_0.4"]
    delight = np.array(held["inputs"]["delight"])
    batch = one_token(delight, advantages=np.ones(5), logp_old=-delight[:, None])
    found = TopGated(Given(), held["inputs"]["pct_learn"])(batch, np.ones(5, dtype=np.bool_))
    np.testing.assert_array_equal(found[:, 0], held["outputs"]["gate"])


def test_kondo_gate_is_drawn_at_its_rate() -> None:
    """400 seeds: a frequency is within 4 standard errors, of which one in 16,000 is not."""
    logp_old, rewards = -np.array([[0.1], [3.0], [0.7], [2.0]]), np.array([1.0, 0.0, 1.0, 0.0])
    batch = one_token(rewards, rewards=rewards, logp_old=logp_old)
    gated = recipe("kondo-gate").objective.advantage
    advantages = gated.advantage(batch, np.ones(4, dtype=np.bool_))
    chances = gate_probabilities(-advantages * logp_old[:, 0], 0.5, 1.0)
    drawn = [gated(replace(batch, seed=seed), np.ones(4, dtype=np.bool_)) != 0 for seed in range(400)]
    errors = np.sqrt(chances * (1 - chances) / 400)
    assert np.all(np.abs(np.mean(drawn, axis=0) - chances) < 4 * errors)


def by_ratio(name: str, clip: Any, advantage: float) -> Any:
    """What the gradient of a log-probability is multiplied by, at each ratio."""
    objective = replace(
        recipe("aspo").objective, filter=KeepAll(), advantage=Given(), clip=clip, kl=NoKL(), aggregate=TokenMean()
    )
    ratios = np.array(RULES[name]["inputs"]["ratio"])
    batch = one_token(ratios, advantages=np.full(5, advantage), logp_old=np.full((5, 1), -1.0))
    return -5 * loss_of(objective, batch, -1.0 + np.log(ratios)[:, None])[1][:, 0]


@pytest.mark.parametrize(("name", "advantage"), [("aspo_A+1", 1.0), ("aspo_A-1", -1.0)])
def test_aspo_flips_gains_and_drops_far_tokens(name: str, advantage: float) -> None:
    held = RULES[name]
    clip = recipe("aspo").objective.clip
    assert (clip.low, clip.high) == (held["inputs"]["eps_low"], held["inputs"]["eps_high"])
    wanted = np.array(held["outputs"]["paper_note_weight_after_mask(before soft dual clip)"])
    np.testing.assert_allclose(by_ratio(name, clip, advantage), advantage * wanted, rtol=GOLDEN, atol=1e-12)
    wrong = np.array(held["outputs"]["rl_sandbox_weight(detached)"])
    assert np.abs(by_ratio(name, clip, advantage) - advantage * wrong).max() > 0.4


def test_aspo_bounds_the_value_not_the_gradient() -> None:
    found = by_ratio("aspo_A+1", Flip(0.2, 0.28, bound=1.5), 1.0)
    np.testing.assert_allclose(found, np.minimum([2.0, 1 / 0.9, 1.0, 1 / 1.2, 0.0], 1.5), rtol=GOLDEN, atol=1e-12)


@pytest.mark.parametrize("strength", [0.04, 1.0])
def test_r2vpo_prices_the_variance_of_the_ratio(strength: float) -> None:
    held = RULES[f"r2vpo_lambda{strength}"]
    found = by_ratio(f"r2vpo_lambda{strength}", VariancePenalty(strength), held["inputs"]["A"])
    wanted = held["outputs"]["weight rho*(A-2*lambda*(rho-1)) (detached, times grad logp)"]
    np.testing.assert_allclose(found, wanted, rtol=GOLDEN)


def test_r2vpo_is_grpo_with_that_price_in_place_of_its_clip() -> None:
    """At ratios of 0.5 to 2, in a group with three right answers; GRPO's clip bounds the ratio instead."""
    held = RULES["r2vpo_lambda0.04"]
    ratios, rewards = np.array(held["inputs"]["ratio"]), np.array([1.0, 0.0, 0.0, 1.0, 1.0])
    logp_old = np.full((5, 1), -1.0)
    batch = one_token(rewards, rewards=rewards, logp_old=logp_old, logp_ref=logp_old)
    advantages = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
    logp = logp_old + np.log(ratios)[:, None]
    gradient = loss_of(recipe("r2vpo").objective, batch, logp)[1][:, 0]
    np.testing.assert_allclose(-5 * gradient, ratios * (advantages - 2 * 0.04 * (ratios - 1)), rtol=GOLDEN, atol=1e-12)
    neighbour = loss_of(replace(recipe("grpo").objective, kl=NoKL()), batch, logp)[1][:, 0]  # type: ignore[type-var]
    assert np.abs(neighbour - gradient).max() > 1e-2


def test_vpo_scores_sets_by_best_per_direction() -> None:
    held = RULES["vpo_set_score"]
    vectors = np.array(held["inputs"]["reward_vectors_G_M_D"])
    wanted = np.array(held["inputs"]["dirichlet_weights_K_D(fixed for the test)"])
    member = np.repeat(np.arange(4), 3)
    scores = set_scores(vectors.reshape(12, 2), member, np.broadcast_to(wanted, (4, *wanted.shape)))
    np.testing.assert_allclose(scores, held["outputs"]["set_score_per_rollout"], rtol=GOLDEN)
    zscore = recipe("vpo").objective.advantage.advantage
    sets = Batch(np.ones((4, 1), dtype=np.bool_), scores, np.zeros(4, dtype=np.int64))
    found = zscore(sets, np.ones(4, dtype=np.bool_))
    np.testing.assert_allclose(found, held["outputs"]["group_adv_ddof0"], rtol=1e-6)  # eps 1e-8 of 0.19


def test_directions_are_uniform_and_shared_by_groups() -> None:
    """The mean of a coordinate of Dirichlet(1) over 3 is 1/3, its variance 1/18; 4 standard errors."""
    drawn = directions(np.array([4, 4, 9]), 5000, 3, seed=1)
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.abs(drawn[0] - drawn[2]).max() > 0.5
    np.testing.assert_allclose(drawn.sum(2), 1, rtol=1e-12)
    assert np.all(np.abs(drawn[0].mean(0) - 1 / 3) < 4 / np.sqrt(18 * 5000))
    assert np.all(np.abs(drawn[0].var(0) - 1 / 18) < 0.005)


@pytest.mark.parametrize("beta", ["1e-06", "5.0", "1000.0"])
def test_the_spike_of_a_trajectory_goes_from_the_mean_gap_to_the_largest(beta: str) -> None:
    held = RULES[f"pedagogical_beta{beta}"]
    logp = np.log(np.array(held["inputs"]["student_probs"]))
    gaps = logp.max(1) - logp[np.arange(4), held["inputs"]["actions"]]
    how = {"beta": held["inputs"]["beta"], "lambda_": held["inputs"]["lambda"]}
    gap, spike, learnable = _core.learnability(gaps, np.array([0, 4]), **how)
    np.testing.assert_allclose(gaps, held["outputs"]["gap"], rtol=GOLDEN, atol=1e-15)
    np.testing.assert_allclose(gap, np.mean(held["outputs"]["gap"]), rtol=GOLDEN)
    np.testing.assert_allclose(spike, held["outputs"]["spike"], rtol=1e-6)  # log of 1 + 1e-6 over 1e-6
    np.testing.assert_allclose(learnable, held["outputs"]["G"], rtol=1e-6)


def test_a_trajectory_without_tokens_has_no_learnability_and_a_gap_below_zero_is_refused() -> None:
    columns = _core.learnability(np.array([1.0]), np.array([0, 0, 1]))
    assert np.isnan([column[0] for column in columns]).all()
    with pytest.raises(ArgumentError, match="gaps"):
        _core.learnability(np.array([-0.5]), np.array([0, 1]))


@pytest.mark.parametrize(("kappa", "gamma"), [(4.0, -2.5), (2.0, -3.5)])
def test_a_gate_of_surprisal_weighs_the_tokens_of_a_row(kappa: float, gamma: float) -> None:
    held = RULES[f"pedagogical_student_gate_k{kappa}_g{gamma}"]
    logp = np.array([held["inputs"]["logp"]])
    objective = replace(recipe("surprisal-gate").objective, term=SurprisalGated(kappa, gamma))
    scored = objective.score(Batch(np.ones_like(logp, dtype=np.bool_)))
    found = objective(logp, scored)
    weights = np.array(held["outputs"]["w"])
    assert found.loss == pytest.approx(held["outputs"]["loss"], rel=GOLDEN)
    np.testing.assert_allclose(found.coefficients[0], -weights / weights.sum(), rtol=1e-9)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_segments_of_a_tree_weigh_by_calls_as_in_the_source(number: int) -> None:
    held = RULES[f"rlm_segment_weights_{number}"]
    counts = [held["inputs"]["n_root_segments"], *held["inputs"]["child_segment_counts"]]
    parents = np.array([-1] + [0] * (len(counts) - 1))
    rows = np.repeat(np.arange(len(counts)), counts)
    weights = segment_weights(parents, rows, np.ones(len(rows), dtype=np.int64), credit="calls")
    expected = held["outputs"]["weights"]
    flat = [*expected["root"], *(w for child in range(len(counts) - 1) for w in expected[f"child{child}"])]
    np.testing.assert_allclose(weights, flat, rtol=GOLDEN)
    assert weights.sum() == pytest.approx(held["outputs"]["total_weight"])
