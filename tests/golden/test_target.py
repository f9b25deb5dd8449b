"""Values, weights and targets equal to the published formulas, as numbers that were computed elsewhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from karl_fast import target
from karl_fast.advantage import segment_weights
from tests.golden.test_files import PARTITION, STREAMING, golden, number
from tests.tolerances import GOLDEN

CASES = {case["id"]: case for case in golden("update_rules")["cases"]}
OAPL = [case for name, case in CASES.items() if name.startswith("oapl_vstar")]
AWR = [case for name, case in CASES.items() if name.startswith("awr")]
PEDAGOGICAL = [case for name, case in CASES.items() if name.startswith("pedagogical_beta")]
TREES = [case for name, case in CASES.items() if name.startswith("rlm_segment_weights")]
TPO = [case for name, case in CASES.items() if name.startswith("tpo")]


def one_group(rows: int) -> Any:
    return np.zeros(rows, dtype=np.int64)


def ids(case: dict[str, Any]) -> str:
    return str(case["id"])


@pytest.mark.parametrize("case", OAPL, ids=ids)
def test_the_soft_value_is_that_of_oapl(case: Any) -> None:
    rewards = np.array(case["inputs"]["rewards"])
    value = target.soft_value(rewards, one_group(4), temperature=case["inputs"]["beta"])
    np.testing.assert_allclose(value, case["outputs"]["V_star"], rtol=GOLDEN)
    np.testing.assert_allclose(rewards - value, case["outputs"]["advantage_r_minus_V"], rtol=GOLDEN)


def test_soft_value_equals_a_star_po() -> None:
    case = CASES["astarpo_b1_0.5_b2_1e-3"]
    rewards = np.array(case["inputs"]["rewards(ref samples, also used as r here)"])
    value = target.soft_value(rewards, one_group(4), temperature=case["inputs"]["beta1"])
    np.testing.assert_allclose(value, case["outputs"]["V_star"], rtol=GOLDEN)


@pytest.mark.parametrize("case", PARTITION["soft_value_vs_accuracy"])
def test_the_soft_value_is_no_rate_of_success(case: Any) -> None:
    rewards = np.zeros(case["G"])
    rewards[: case["correct"]] = 1.0
    t, same = case["beta_temperature"], one_group(case["G"])
    value = target.soft_value(rewards, same, temperature=t)[0]
    assert math.isclose(value, case["outputs"]["beta_times_it(soft value)"], rel_tol=GOLDEN, abs_tol=1e-15)
    intercept = target.regression_intercept(rewards, np.zeros(case["G"]), same, temperature=t)[0]
    assert math.isclose(intercept, case["outputs"]["p_over_beta"], rel_tol=GOLDEN, abs_tol=1e-15)


def test_the_intercept_is_that_of_proposition_4_1() -> None:
    """Ten rows in the shares of the behaviour policy have its expectation as their mean."""
    case = PARTITION["prop41_identity"]
    rows = np.repeat(np.arange(3), [5, 3, 2])
    log_ratio = np.log(np.array(case["pi_theta"]) / np.array(case["pi_old"]))[rows]
    rewards = np.array(case["reward"])[rows]
    found = target.regression_intercept(rewards, log_ratio, one_group(10), temperature=case["beta"])[0]
    assert math.isclose(found, case["argmin_logZ"], rel_tol=GOLDEN)
    assert math.isclose(case["beta"] * found - case["beta*KL(old||theta)"], case["p_old"], rel_tol=GOLDEN)


@pytest.mark.parametrize("case", AWR, ids=ids)
def test_weights_equal_those_of_advantage_weighted_regression(case: Any) -> None:
    advantages, t = np.array(case["inputs"]["advantages"]), case["inputs"]["beta"]
    clipped = target.awr_weights(advantages, temperature=t)
    np.testing.assert_allclose(clipped, case["outputs"]["weights_clipped_20"], rtol=GOLDEN)
    whole = target.awr_weights(advantages, temperature=t, clip=None)
    np.testing.assert_allclose(whole, case["outputs"]["weights_exp"], rtol=GOLDEN)
    shares = target.awr_weights(advantages, temperature=t, clip=None, normalised=True)
    np.testing.assert_allclose(shares, case["outputs"]["self_normalised"], rtol=GOLDEN)
    both = target.awr_weights(advantages, temperature=t, normalised=True)
    np.testing.assert_allclose(both, clipped / clipped.sum(), rtol=GOLDEN)


@pytest.mark.parametrize("case", PARTITION["beta_multiplied_softmax(FlowRL convention: exp(beta*r))"])
def test_weights_equal_those_of_reward_weighted_regression(case: Any) -> None:
    found = target.rwr_weights(np.array(case["rewards"]), inverse_temperature=float(case["beta_multiplier"]))
    np.testing.assert_allclose(found, case["p"], rtol=GOLDEN)


@pytest.mark.parametrize("case", TPO, ids=ids)
def test_the_target_is_that_of_target_policy_optimization(case: Any) -> None:
    inputs = case["inputs"]
    logp_old, rewards = np.array(inputs["old_seq_logp"]), np.array(inputs["rewards"])
    found = target.tpo_target(logp_old, rewards, one_group(4), temperature=inputs["eta"])
    np.testing.assert_allclose(found, case["outputs"]["q"], rtol=GOLDEN)
    free = target.tpo_target(logp_old, rewards, one_group(4), temperature=inputs["eta"], anchored=False)
    assert np.abs(free - case["outputs"]["q"]).max() > 0.01


@pytest.mark.parametrize("case", STREAMING["online_lse"], ids=lambda case: str(len(case["x"])))
def test_stream_ends_on_the_same_log_sum_exp(case: Any) -> None:
    state = target.LogSumExp()
    for x in case["x"]:
        state.update(np.array([number(x)]))
    wanted = number(case["lse"])
    assert state.value == wanted or math.isclose(state.value, wanted, rel_tol=GOLDEN)
    assert len(state) == len(case["x"])


def test_the_mean_is_the_baseline_of_kimi() -> None:
    case = CASES["pmdmean"]
    rewards, t = np.array(case["inputs"]["rewards"]), case["inputs"]["tau"]
    value = target.soft_value(rewards, one_group(4), temperature=math.inf)
    residual = t * np.array(case["inputs"]["sum_log_ratio"]) - (rewards - value)
    np.testing.assert_allclose(2 * t * residual / 4, case["outputs"]["grad_wrt_seq_logp"], rtol=GOLDEN)


def test_flow_sampler_of_karl_draws_by_a_boltzmann_target() -> None:
    case = CASES["karl_flow_sampler_advantage_mode"]
    advantages, t = np.array(case["inputs"]["advantages"]), case["inputs"]["temperature"]
    found = target.boltzmann(advantages, inverse_temperature=1 / t)
    chances = np.exp(found.log_weights)
    np.testing.assert_allclose(chances, case["outputs"]["p"], rtol=GOLDEN)
    np.testing.assert_allclose(chances / chances.max(), case["outputs"]["weights"], rtol=GOLDEN)
    assert math.isclose(found.reached_share, case["outputs"]["ess_over_n"], rel_tol=GOLDEN)
    assert chances.min() / chances.max() > case["inputs"]["floor"]  # which is then without effect


@pytest.mark.parametrize("case", PEDAGOGICAL, ids=ids)
def test_spike_of_pedagogical_rl_is_a_soft_value(case: Any) -> None:
    """How far each token of a teacher lies below the student's likeliest one; between its mean and its largest."""
    chances, actions = np.log(np.array(case["inputs"]["student_probs"])), case["inputs"]["actions"]
    gaps = chances.max(1) - chances[np.arange(len(actions)), actions]
    np.testing.assert_allclose(gaps, case["outputs"]["gap"], rtol=GOLDEN, atol=1e-15)
    spike = target.soft_value(gaps, one_group(len(gaps)), temperature=1 / case["inputs"]["beta"])[0]
    assert math.isclose(spike, case["outputs"]["spike"], rel_tol=1e-9)  # 1e6 times a logarithm near 0
    assert math.isclose(math.exp(-case["inputs"]["lambda"] * spike), case["outputs"]["G"], rel_tol=1e-9)


@pytest.mark.parametrize("case", TREES, ids=ids)
def test_segments_of_a_tree_share_the_weight_of_their_node(case: Any) -> None:
    """As equal scores of a node share its Boltzmann target; the children together weigh what the root does."""
    sizes = [case["inputs"]["n_root_segments"], *case["inputs"]["child_segment_counts"]]
    node = np.repeat(np.arange(len(sizes)), sizes)
    shares = np.exp(target.boltzmann(np.zeros(len(node)), node, inverse_temperature=1.0).log_weights)
    weights = np.where(node == 0, shares, shares / max(1, len(sizes) - 1))
    np.testing.assert_allclose(weights, np.concatenate([*case["outputs"]["weights"].values()]), rtol=GOLDEN)
    assert math.isclose(weights.sum(), case["outputs"]["total_weight"], rel_tol=GOLDEN)
    parents = np.array([-1] + [0] * (len(sizes) - 1), dtype=np.int64)
    np.testing.assert_allclose(segment_weights(parents, node, np.ones_like(node), credit="calls"), weights, rtol=GOLDEN)
