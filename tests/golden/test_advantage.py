"""Advantages equal numbers that other implementations gave; each golden file names its maker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from karl_fast import advantage
from tests.tolerances import GOLDEN

FOLDER = Path(__file__).parent
SINGLE = 1e-6
"""Relative: the maker kept returns or results in float32."""


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


CASES = {case["id"]: case for case in read("group_advantages")["cases"]}
PLAIN = [
    case for case in CASES.values() if isinstance(case.get("rewards", [None])[0], float) and "group_ids" not in case
]
MAXRL = [case for case in PLAIN if "maxrl_eps1e-8" in case["outputs"]]
NAMES = {"trl": "ddof1_eps1e-4_TRL", "verl": "EXECUTED_verl_grpo", "openrlhf": "ddof1_eps1e-9_OpenRLHF"}
NAMES |= {"mlx_lm_lora": "ddof0_eps1e-4_mlxlmlora_flowgrpo", "tinker": "centre_only_DrGRPO"}


@pytest.mark.parametrize("case", MAXRL, ids=lambda case: case["id"])
def test_maxrl_equals_its_formula(case: Any) -> None:
    rewards = np.array(case["rewards"], dtype=np.float64)
    found = advantage.maxrl(rewards, offsets=np.array([0, len(rewards)]))
    np.testing.assert_allclose(found, case["outputs"]["maxrl_eps1e-8"], rtol=GOLDEN, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case["id"])
def test_a_convention_equals_its_trainer(case: Any, name: str) -> None:
    wanted = case["outputs"].get(NAMES[name])
    if wanted is None:
        pytest.skip("not in the file")
    rewards = np.array(case["rewards"], dtype=np.float64)
    found = advantage.by_convention(name, rewards, offsets=np.array([0, len(rewards)]))
    # Differences of 1e-7 have nine digits left of sixteen.
    np.testing.assert_allclose(found, wanted, rtol=1e-6 if case["id"] == "near_equal" else GOLDEN, atol=1e-9)


ROOT = 1.2e-7
"""Relative: one step of float32."""
ROUNDED = read("torch_float32_advantages")["cases"]


@pytest.mark.parametrize("name", ["trl", "verl", "openrlhf", "tinker"])
@pytest.mark.parametrize("case", ROUNDED, ids=lambda case: case["id"])
def test_float32_conventions_have_the_bits_of_torch(case: Any, name: Any) -> None:
    table = np.array(case["rewards"], dtype=np.float32)
    offsets = np.arange(0, table.size + 1, table.shape[1])
    found = advantage.by_convention(name, table.ravel(), offsets=offsets)
    # TRL takes the root in float32, where torch may be one step off the nearest.
    np.testing.assert_allclose(found, np.ravel(case["outputs"][name]), rtol=ROOT if name == "trl" else 0)
    ids = np.tile(np.arange(len(table)), table.shape[1])
    mixed = advantage.by_convention(name, table.T.ravel(), ids)
    np.testing.assert_array_equal(mixed.reshape(table.T.shape).T.ravel(), found)


@pytest.mark.parametrize("size", [*range(2, 70), 127, 128, 300, 1000, 2048, 5000, 20_000])
def test_float32_mean_has_the_bits_of_torch(size: int) -> None:
    torch = pytest.importorskip("torch")
    rewards = np.random.default_rng(size).choice([0.1, 0.3, 0.7, 1.0], size).astype(np.float32)
    tensor = torch.from_numpy(rewards)
    found = advantage.by_convention("tinker", rewards, offsets=np.array([0, size]))
    np.testing.assert_array_equal(found, (tensor - tensor.mean()).numpy())


def test_trl_gives_an_unscorable_row_advantage_zero() -> None:
    found = advantage.by_convention("trl", np.array([1.0, 0.0, np.nan, 0.0]), offsets=np.array([0, 4]))
    np.testing.assert_allclose(found, CASES["trl_unscorable_nan"]["outputs"]["adv"], rtol=GOLDEN)


def test_batch_deviation_equals_trl_scale_rewards_batch() -> None:
    case = CASES["trl_scale_rewards_batch"]
    rewards = np.ravel(case["rewards"]).astype(np.float64)
    found = advantage.zscore(rewards, offsets=np.array([0, 4, 8]), ddof=1, eps=1e-4, scope="batch")
    np.testing.assert_allclose(found, np.ravel(case["outputs"]["adv"]), rtol=GOLDEN)


def test_gdpo_equals_trl_normalize_then_sum() -> None:
    case = CASES["gdpo_normalize_then_sum_vs_grpo"]
    parts = np.array(case["rewards_PGK"]).reshape(8, 2)
    columns = [parts[:, 0].copy(), parts[:, 1].copy()]
    found = advantage.gdpo(columns, case["weights"], offsets=np.array([0, 4, 8]))
    np.testing.assert_allclose(found, case["outputs"]["gdpo_adv"], rtol=GOLDEN)


class Tokens:
    """The padded table of the REINFORCE++ cases, and its ragged form."""

    case = CASES["rfpp_two_groups"]
    mask = np.array(case["response_mask"]) > 0
    rewards = np.array(case["rewards"])
    offsets = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    groups = np.array([0, 0, 0, 0, 1, 1, 1, 1])

    @classmethod
    def at_the_end(cls) -> Any:
        table = np.zeros(cls.mask.shape)
        table[np.arange(8), cls.mask.sum(axis=1) - 1] = cls.rewards
        return table[cls.mask]


@pytest.mark.parametrize(("key", "gamma"), [("gamma1", 1.0), ("gamma0.9", 0.9)])
def test_reinforce_plus_plus_equals_verl(key: str, gamma: float) -> None:
    found = advantage.reinforce_plus_plus(Tokens.at_the_end(), Tokens.offsets, gamma=gamma)
    wanted = np.array(Tokens.case["outputs"][f"EXECUTED_verl_reinforce_plus_plus_{key}"])[Tokens.mask]
    # verl divides by a count with 1e-8 added.
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_reinforce_plus_plus_baseline_equals_verl() -> None:
    found = advantage.reinforce_plus_plus_baseline(Tokens.rewards, Tokens.groups, token_offsets=Tokens.offsets)
    wanted = np.array(Tokens.case["outputs"]["EXECUTED_verl_reinforce_plus_plus_baseline"])
    np.testing.assert_allclose(np.repeat(found, Tokens.mask.sum(axis=1)), wanted[Tokens.mask], rtol=1e-8)
    centred = advantage.centre(Tokens.rewards, Tokens.groups)
    padded = advantage.whiten(np.repeat(centred, 3), Tokens.mask.ravel())
    np.testing.assert_allclose(padded, wanted.ravel(), rtol=1e-8)


class Shop:
    """The rows of the GiGPO case."""

    file = read("gigpo")
    rows = file["inputs"]["rows(prompt,traj,anchor_obs,step_reward)"]
    rewards = np.array([row[3] for row in rows], dtype=np.float32)
    offsets = np.array([0, 3, 5, 9, 10, 11])
    groups = np.array([0, 0, 0, 1, 1])
    states = advantage.state_ids(row[2] for row in rows)

    @classmethod
    def run(cls, **how: Any) -> Any:
        return advantage.gigpo(cls.rewards, cls.offsets, cls.groups, cls.states, gamma=0.95, **how)


PER_TRAJECTORY = "episode_only_mean_std_per_TRAJECTORY(compute_mean_std_cross_steps=False)"
PAPER = "INDEPENDENT_paper_form(mean_std_norm, per-trajectory episode stats, w=1)"


def test_discounted_returns_equal_arlarena() -> None:
    found = advantage.discounted_returns(Shop.rewards, Shop.offsets, gamma=0.95)
    np.testing.assert_allclose(found, Shop.file["outputs"]["step_discounted_returns"], rtol=SINGLE)


@pytest.mark.parametrize(("norm", "key"), [("mean", "mean_norm"), ("mean_std", "mean_std_norm")])
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_gigpo_over_steps_equals_arlarena(norm: Any, key: str, weight: float) -> None:
    found = Shop.run(unit="step", norm=norm, step_weight=weight)
    wanted = Shop.file["outputs"][f"{key}_w{weight}"]
    np.testing.assert_allclose(found.joint, wanted, rtol=SINGLE, atol=SINGLE)


def test_gigpo_over_trajectories_equals_the_paper() -> None:
    found, outputs = Shop.run(), Shop.file["outputs"]
    np.testing.assert_allclose(found.joint, outputs[PAPER], rtol=SINGLE)
    np.testing.assert_allclose(found.episode, outputs[PER_TRAJECTORY], rtol=SINGLE)
    np.testing.assert_allclose(found.step, outputs["INDEPENDENT_A_step(mean_std)"], rtol=SINGLE, atol=SINGLE)
    assert np.abs(found.joint - outputs["mean_std_norm_w1.0"]).max() > 0.1


def test_empg_equals_arlarena() -> None:
    case = read("empg_float64")
    before, means, offsets = (np.array(case["inputs"][name]) for name in ("before", "means", "offsets"))
    found = advantage.empg(before, means, offsets)
    np.testing.assert_allclose(found, case["outputs"]["after"], rtol=GOLDEN)
    assert np.abs(advantage.empg(before, means, offsets, eps=0.0) / found - 1.0).max() > GOLDEN


def test_ema_baseline_is_karl_skill_weight_minus_half() -> None:
    trace = read("karl_reward_v1")["ema_trace_from_1.0"]
    rewards = np.array([step["mean_reward"] for step in trace])
    ids = np.zeros(len(rewards), dtype=np.int64)
    for seen, step in enumerate(trace, 1):
        found = advantage.ema_baseline(rewards[:seen], ids[:seen]).state.baselines[0]
        assert abs(found + 0.5 - step["weight"]) <= GOLDEN


def test_a_fixed_baseline_is_the_advantage_of_karl() -> None:
    assert advantage.fixed_baseline(np.array([0.6047, np.nan]))[0] == 0.6047 - 0.5


WEIGHTS = {case["id"]: case for case in read("update_rules")["cases"]}["grpo_question_weight_vs_p"]


@pytest.mark.parametrize("rate", WEIGHTS["outputs"])
def test_weight_of_a_question_by_its_success_rate(rate: str) -> None:
    """The mean of advantage times reward over a group of 40: what a question adds to its right answers."""
    p = float(rate.removeprefix("p"))
    rewards, group = (np.arange(40) < round(40 * p)).astype(np.float64), np.zeros(40, dtype=np.int64)
    estimators = {
        "std_normalised": advantage.zscore(rewards, group, ddof=0, eps=0.0),
        "centre_only": advantage.centre(rewards, group),
        "maxrl(r/mean)": advantage.maxrl(rewards, group, eps=0.0),
    }
    for name, advantages in estimators.items():
        np.testing.assert_allclose((advantages * rewards).mean(), WEIGHTS["outputs"][rate][name], rtol=GOLDEN)
