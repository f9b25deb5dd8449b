"""Equal to published formulas and to other people's code, as numbers that were computed elsewhere.

Each file under tests/golden names its makers, and each key its `ddof` and `eps`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import karl_fast
from karl_fast import _core
from tests.properties.naive import chain as naive
from tests.tolerances import GOLDEN

FOLDER = Path(__file__).parent


def golden(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


CASES = {case["id"]: case for case in golden("group_advantages")["cases"]}
ADVANTAGES = [case for case in CASES.values() if "ddof1_eps1e-4_TRL" in case["outputs"]]
"""One group each; the other cases have a shape, and a test, of their own."""

PARTITION = golden("partition_function")
SAMPLING = golden("sampling")
STREAMING = golden("streaming_stats")

ESTIMATORS: dict[str, Any] = {
    "ddof1_eps1e-4_TRL": {"ddof": 1, "eps": 1e-4},
    "ddof1_eps1e-6_verl": {"ddof": 1, "eps": 1e-6},
    "EXECUTED_verl_grpo": {"ddof": 1, "eps": 1e-6},
    "ddof1_eps1e-9_OpenRLHF": {"ddof": 1, "eps": 1e-9},
    "ddof0_eps1e-4_mlxlmlora_flowgrpo": {"ddof": 0, "eps": 1e-4},
    "ddof0_eps1e-8_rlsandbox": {"ddof": 0, "eps": 1e-8},
}


def ids(case: dict[str, Any]) -> str:
    return str(case["id"])


def number(value: float | str) -> float:
    return float(value)


def check(found: Any, wanted: Any, rewards: Any) -> None:
    """As published, and exactly 0 where rewards do not differ: there our law 8 overrules whatever was published."""
    if rewards.max() == rewards.min():
        assert np.all(found == 0.0)
    else:
        np.testing.assert_allclose(found, wanted, rtol=GOLDEN, atol=1e-14)


@pytest.mark.parametrize("case", ADVANTAGES, ids=ids)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_zscore_equals_each_surveyed_estimator(case: Any, name: str) -> None:
    rewards = np.array(case["rewards"], dtype=np.float64)
    group = np.zeros(len(rewards), dtype=np.int64)
    check(karl_fast.zscore(rewards, group, **ESTIMATORS[name]), case["outputs"][name], rewards)


@pytest.mark.parametrize("case", ADVANTAGES, ids=ids)
@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("centre_only_DrGRPO", karl_fast.centre),
        ("EXECUTED_verl_grpo_nostd", karl_fast.centre),
        ("rloo", karl_fast.leave_one_out),
        ("EXECUTED_verl_rloo", karl_fast.leave_one_out),
    ],
)
def test_centre_equals_dr_grpo_leave_one_out_rloo(case: Any, name: str, score: Any) -> None:
    rewards = np.array(case["rewards"], dtype=np.float64)
    check(score(rewards, np.zeros(len(rewards), dtype=np.int64)), case["outputs"][name], rewards)


@pytest.mark.parametrize(("ones", "ddof"), [(1, 0), (2, 0), (4, 0), (7, 0), (1, 1), (2, 1), (4, 1), (7, 1)])
def test_a_binary_group_has_the_closed_form(ones: int, ddof: int) -> None:
    outputs = CASES["closed_form_binary"]["outputs"][f"G8_c{ones}"]
    rewards = np.array([1.0] * ones + [0.0] * (8 - ones))
    found = karl_fast.zscore(rewards, np.zeros(8, dtype=np.int64), ddof=ddof, eps=0.0)
    assert math.isclose(found[0], outputs[f"Aplus_ddof{ddof}"], rel_tol=GOLDEN)
    if ddof == 0:
        assert math.isclose(found[-1], outputs["Aminus_ddof0"], rel_tol=GOLDEN)


def test_missing_reward_stays_missing_outside_its_group() -> None:
    """TRL trains on an unscorable row with advantage 0; here it has no advantage, so that nobody draws it."""
    case = CASES["trl_unscorable_nan"]
    rewards = np.array([number(reward) for reward in case["rewards"]])
    found = karl_fast.zscore(rewards, np.zeros(4, dtype=np.int64), ddof=1, eps=1e-4)
    assert np.isnan(found[2])
    np.testing.assert_allclose(np.delete(found, 2), np.delete(case["outputs"]["adv"], 2), rtol=GOLDEN)


def test_centre_over_batch_deviation_equals_trl() -> None:
    case = CASES["trl_scale_rewards_batch"]
    rewards, groups = np.array(case["rewards"]).ravel(), np.repeat(np.arange(2), 4)
    found = karl_fast.centre(rewards, groups) / (rewards.std(ddof=1) + 1e-4)
    np.testing.assert_allclose(found, np.array(case["outputs"]["adv"]).ravel(), rtol=GOLDEN)


def test_a_composite_is_summed_before_it_is_normalised() -> None:
    """GDPO does it the other way round, and its numbers differ."""
    case = CASES["gdpo_normalize_then_sum_vs_grpo"]
    parts = np.array(case["rewards_PGK"]).reshape(8, 2)
    rewards = karl_fast.composite([parts[:, 0].copy(), parts[:, 1].copy()], case["weights"])
    found = karl_fast.zscore(rewards, np.repeat(np.arange(2), 4), ddof=1, eps=1e-4)
    np.testing.assert_allclose(found, np.ravel(case["outputs"]["sum_then_normalize_adv"]), rtol=GOLDEN)
    assert np.abs(found - case["outputs"]["gdpo_adv"]).max() > 0.1


def test_estimators_differ_from_each_other() -> None:
    case = CASES["binary_8_one_right"]
    rewards, group = np.array(case["rewards"], dtype=np.float64), np.zeros(8, dtype=np.int64)
    found = {name: karl_fast.zscore(rewards, group, **how)[0] for name, how in ESTIMATORS.items()}
    distinct = {round(value, 7) for value in found.values()}
    assert len(distinct) == len(ESTIMATORS) - 1  # verl stands twice: transcribed and executed


@pytest.mark.parametrize("case", PARTITION["soft_value_vs_accuracy"])
def test_log_mean_exp_is_the_soft_value(case: Any) -> None:
    rewards = np.zeros(case["G"])
    rewards[: case["correct"]] = 1.0
    found = karl_fast.log_mean_exp(rewards / case["beta_temperature"])
    assert math.isclose(found, case["outputs"]["log_mean_exp(r/beta)"], rel_tol=GOLDEN, abs_tol=1e-15)


@pytest.mark.parametrize("case", PARTITION["beta_multiplied_softmax(FlowRL convention: exp(beta*r))"])
def test_boltzmann_equals_the_softmax_of_flowrl(case: Any) -> None:
    b = float(case["beta_multiplier"])
    target = karl_fast.boltzmann(np.array(case["rewards"]), inverse_temperature=b)
    assert math.isclose(target.log_z[0], case["logZ_sum"], rel_tol=GOLDEN)
    assert math.isclose(target.reached_ess, case["ess"], rel_tol=GOLDEN)
    # exp of a difference of two numbers near 800 has lost nine digits: an absolute error of 1e-13 in the exponent.
    np.testing.assert_allclose(np.exp(target.log_weights), case["p"], rtol=1e-9)


@pytest.mark.parametrize("case", SAMPLING["plackett_luce_without_replacement"])
def test_the_twin_enumerates_plackett_luce(case: Any) -> None:
    np.testing.assert_allclose(naive.inclusion(case["w"], case["k"]), case["inclusion"], rtol=GOLDEN)


@pytest.mark.parametrize("case", SAMPLING["low_temperature_log_keys"])
def test_keys_stand_in_log_space_where_exp_overflows(case: Any) -> None:
    keys = np.array(case["beta"]) * np.array(case["r"]) + np.array(case["gumbel"])
    np.testing.assert_allclose(keys, case["log_key"], rtol=GOLDEN)
    assert _core.top(keys, 5).tolist() == case["order"]
    weights = np.exp(karl_fast.boltzmann(np.array(case["r"]), inverse_temperature=case["beta"]).log_weights)
    # At beta 1e6 the exponents are near 8e5: their last bit is 1e-10.
    np.testing.assert_allclose(weights, case["p_log_space"], rtol=1e-9, atol=1e-300)


def test_gumbel_keys_order_as_efraimidis_spirakis() -> None:
    case = SAMPLING["key_equivalence"]
    found = _core.top(np.array(case["gumbel_key_ln(w)-ln(E)"]), 6).tolist()
    assert found == _core.top(np.array(case["log_key_ln(u)/w"]), 6).tolist() == case["order_all_three(descending key)"]


@pytest.mark.parametrize("case", SAMPLING["ess"])
def test_ess_equals_kish(case: Any) -> None:
    with np.errstate(divide="ignore"):
        logs = np.log(np.array(case["w"]))
    assert math.isclose(karl_fast.ess(logs), case["ess"], rel_tol=GOLDEN)


def test_merging_the_best_of_two_shards_is_exact() -> None:
    case = SAMPLING["shard_merge_A_Res"]
    keys, k = np.array(case["log_keys"]), case["k"]
    half = len(keys) // 2
    shards = [_core.top(keys[:half].copy(), k), _core.top(keys[half:].copy(), k) + half]
    merged = np.concatenate(shards)
    best = merged[_core.top(keys[merged], k)]
    assert sorted(best.tolist()) == sorted(case["merged"]) == sorted(_core.top(keys, k).tolist())


def test_uniforms_never_reach_zero_or_one() -> None:
    """What 52 bits buy: at 53 the largest would round to 1 and its Gumbel number be infinite."""
    case = SAMPLING["uniform_generation_pitfalls"]
    assert (2**52 - 1 + 0.5) * 2.0**-52 == case["(k+0.5)*2^-52 at max"] < 1.0
    found = karl_fast.uniforms(200_000, seed=3, purpose="draw")
    assert found.min() > 0.0
    assert found.max() < 1.0
    gumbel = _core.gumbel_keys(np.zeros(200_000), seed=3)
    assert case["gumbel_min_52bit"] <= gumbel.min()
    assert gumbel.max() <= case["gumbel_max_52bit"]


@pytest.mark.parametrize("case", STREAMING["online_lse"], ids=lambda case: str(len(case["x"])))
def test_log_sum_exp_equals_the_online_softmax(case: Any) -> None:
    found = karl_fast.log_sum_exp(np.array([number(x) for x in case["x"]], dtype=np.float64))
    wanted = number(case["lse"])
    assert found == wanted or math.isclose(found, wanted, rel_tol=GOLDEN)
