"""Policy gradients equal the losses and gradients that verl gave and TRL was transcribed to, and the paper of SAMPO."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from karl_fast.errors import ArgumentError
from karl_fast.objective import Batch, PolicyGradient, recipe
from karl_fast.objective.axes.advantage import Anchored, Centre, Given, LeaveOneOut, MeanScaled, ZScore
from karl_fast.objective.axes.aggregate import ConstantLength, SequenceMean, SequenceSum, TokenMean
from karl_fast.objective.axes.clip import Cap, Clip, DualClip, GeometricClip, MaskNegatives, SoftGate, TwoSided
from karl_fast.objective.axes.filter import KeepAll
from karl_fast.objective.axes.kl import K3, NoKL
from karl_fast.objective.axes.ratio import SequenceProduct, SequenceRatio, SequenceTokenRatio, TokenRatio
from tests.tolerances import GOLDEN, VERL_LENGTHS
from tests.unit.objective.batch_cases import differs, loss_of
from tests.unit.objective.golden import cases, read

LOSSES, SAMPO, GIGPO = read("policy_losses"), read("sampo_empg")["sampo"], read("gigpo")
CASES, SAMPO_CASES = cases(LOSSES), cases(SAMPO)

T, S = TokenRatio(), SequenceRatio()
PPO, VERL = Clip(0.2, 0.2), DualClip(0.2, 0.2, 3.0)
POINTS: dict[str, tuple[Any, ...]] = {
    "ppo_clip_0.2_0.2_dualclip3_token-mean": (T, VERL, TokenMean()),
    "ppo_clip_0.2_0.2_dualclip3_seq-mean-token-sum": (T, VERL, SequenceSum()),
    "ppo_clip_0.2_0.2_dualclip3_seq-mean-token-mean": (T, VERL, SequenceMean()),
    "dapo_clip_0.2_0.28_token-mean": (T, DualClip(0.2, 0.28, 3.0), TokenMean()),
    "gspo_3e-4_4e-4": (S, Clip(3e-4, 4e-4), SequenceMean()),
    "gspo_0.2_0.2": (S, PPO, SequenceMean()),
    "sapo_1.0_1.05": (T, SoftGate(1.0, 1.05), SequenceMean()),
    "gmpo_0.4_0.4": (T, GeometricClip(0.4, 0.4), SequenceMean()),
    "cispo_verl_0.2_0.2": (T, Cap(1.2, floor=0.8), TokenMean()),
    "trl_grpo_": (T, PPO, SequenceMean()),
    "trl_bnpo_": (T, PPO, TokenMean()),
    "trl_dapo_eps_high0.28": (T, Clip(0.2, 0.28), TokenMean()),
    "trl_dr_grpo_": (T, PPO, ConstantLength(6)),
    "trl_grpo_beta0.04": (T, PPO, SequenceMean(), K3(0.04)),
    "trl_grpo_beta0.04_bias_corrTrue": (T, PPO, SequenceMean(), K3(0.04, by_ratio=True)),
    "trl_cispo_eps_high5.0": (T, Cap(5.0), TokenMean()),
    "trl_sapo_": (T, SoftGate(1.0, 1.05), SequenceMean()),
    "trl_grpo_levelsequence_eps_low0.0003_eps_high0.0004": (S, Clip(3e-4, 4e-4), SequenceMean()),
    "trl_dapo_delta1.5": (T, TwoSided(0.2, 0.2, 1.5), TokenMean()),
    "trl_luspo_levelsequence": (S, PPO, SequenceSum()),
}
OBJECTIVES = {
    name: PolicyGradient(KeepAll(), Given(), ratio, clip, kl[0] if kl else NoKL(), aggregate)
    for name, (ratio, clip, aggregate, *kl) in POINTS.items()
}
NO_POINT = {
    # verl at that commit sums over sequences: B times Dr. GRPO; a later commit has the mean
    "ppo_clip_0.2_0.2_dualclip3_seq-mean-token-sum-norm",
    # a distance where a ratio belongs: `Cap` refuses it
    "trl_cispo_eps_high0.28",
    # the old policy is the reference, and the penalty has the wrong sign
    "mlx_lm_lora_as_released_beta0.1_eps1e-4",
}


def batch_of(held: Any, new: str, old: str, advantages: str) -> tuple[Batch, Any]:
    inputs = held["inputs"]
    reference = np.array(inputs["ref_logp"]) if "ref_logp" in inputs else None
    batch = Batch(
        mask=np.array(inputs["mask"]) > 0,
        logp_old=np.array(inputs[old]),
        logp_ref=reference,
        advantages=np.array(inputs[advantages]),
    )
    return batch, np.array(inputs[new])


BATCH, NEW = batch_of(LOSSES, "new_logp", "old_logp", "adv_per_sequence")
SAMPO_BATCH, SAMPO_NEW = batch_of(SAMPO, "new", "old", "adv")


def outputs(case: Any, gradient: str = "grad_wrt_new_logp") -> tuple[float, Any]:
    return case["outputs"]["loss"], np.array(case["outputs"][gradient])


@pytest.mark.parametrize("name", OBJECTIVES)
def test_loss_and_gradient_match_verl_and_trl(name: str) -> None:
    loss, gradient = loss_of(OBJECTIVES[name], BATCH, NEW)
    wanted, slopes = outputs(CASES[name])
    assert loss == pytest.approx(wanted, abs=VERL_LENGTHS)  # of terms near 1, some of which cancel
    np.testing.assert_allclose(gradient, slopes, rtol=VERL_LENGTHS, atol=VERL_LENGTHS * np.abs(slopes).max())
    assert np.all(gradient[~BATCH.mask] == 0.0)


def test_every_golden_case_is_reproduced_or_refused() -> None:
    assert set(OBJECTIVES) | NO_POINT == set(CASES)


def test_objective_matches_no_other_case() -> None:
    same = [
        {"gspo_3e-4_4e-4", "trl_grpo_levelsequence_eps_low0.0003_eps_high0.0004"},
        {"sapo_1.0_1.05", "trl_sapo_"},
        # B = T = 4: a sum over both is a mean over one
        {"ppo_clip_0.2_0.2_dualclip3_seq-mean-token-sum", "ppo_clip_0.2_0.2_dualclip3_seq-mean-token-sum-norm"},
    ]
    for name, objective in OBJECTIVES.items():
        found = loss_of(objective, BATCH, NEW)
        for other, case in CASES.items():
            if name != other and {name, other} not in same:
                assert differs(found, outputs(case), 1e-6), (name, other)


def test_a_cap_that_is_a_distance_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"^ceiling is 0\.28"):
        Cap(0.28)


@pytest.mark.parametrize("recipe_name", ["grpo", "dr-grpo", "dapo", "gspo"])
def test_no_recipe_equals_mlx_lm_lora_grpo(recipe_name: str) -> None:
    objective = replace(recipe(recipe_name).objective, filter=KeepAll(), advantage=Given())
    assert differs(loss_of(objective, BATCH, NEW), outputs(CASES["mlx_lm_lora_as_released_beta0.1_eps1e-4"]), 1e-2)


def test_gspo_token_equals_gspo() -> None:
    gspo = OBJECTIVES["gspo_0.2_0.2"]
    loss, gradient = loss_of(replace(gspo, ratio=SequenceTokenRatio()), BATCH, NEW)
    wanted, slopes = loss_of(gspo, BATCH, NEW)
    assert loss == pytest.approx(wanted, rel=1e-12)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-12, atol=1e-15)


SAMPO_POINT = PolicyGradient(KeepAll(), Given(), S, Clip(0.003, 0.004), NoKL(), TokenMean())
WEBSHOP = Clip(0.03, 0.04)
SAMPO_OBJECTIVES = {
    "paper_eps_0.003_0.004_token-mean": SAMPO_POINT,
    "webshop_eps_0.03_0.04_token-mean": replace(SAMPO_POINT, clip=WEBSHOP),
    "repo_final_script_default_0.2_seq-mean-token-mean": replace(SAMPO_POINT, clip=PPO, aggregate=SequenceMean()),
    "with_sequence_mask_0.223": replace(SAMPO_POINT, clip=MaskNegatives(WEBSHOP, 0.223)),
}


@pytest.mark.parametrize("name", SAMPO_CASES)
def test_sampo_equals_its_paper(name: str) -> None:
    loss, gradient = loss_of(SAMPO_OBJECTIVES[name], SAMPO_BATCH, SAMPO_NEW)
    wanted, slopes = outputs(SAMPO_CASES[name], "grad")
    assert loss == pytest.approx(wanted, rel=GOLDEN)
    np.testing.assert_allclose(gradient, slopes, rtol=GOLDEN, atol=1e-8)


def test_sampo_has_its_ratio_clip_and_mean() -> None:
    found = recipe("sampo").objective
    mine = replace(found, filter=KeepAll(), advantage=Given(), kl=NoKL())
    assert mine == SAMPO_OBJECTIVES["paper_eps_0.003_0.004_token-mean"]
    wanted = outputs(SAMPO_CASES["paper_eps_0.003_0.004_token-mean"], "grad")
    for wrong in ({"ratio": SequenceProduct()}, {"ratio": T}, {"aggregate": SequenceMean()}):
        assert differs(loss_of(replace(mine, **wrong), SAMPO_BATCH, SAMPO_NEW), wanted, 1e-4), wrong


def test_the_advantage_of_sampo_is_gigpo_by_trajectories() -> None:
    """Rows are steps: each becomes a turn of two tokens."""
    rows = GIGPO["inputs"]["rows(prompt,traj,anchor_obs,step_reward)"]
    names = list(dict.fromkeys(row[1] for row in rows))
    counts = [sum(row[1] == name for row in rows) for name in names]
    turns = np.where(np.arange(8)[None, :] < 2 * np.array(counts)[:, None], np.arange(8)[None, :] // 2, -1)
    states = {state: number for number, state in enumerate(dict.fromkeys(row[2] for row in rows))}
    batch = Batch(
        mask=turns >= 0,
        group_ids=np.array([0, 0, 0, 1, 1]),
        turns=turns,
        turn_rewards=np.array([row[3] for row in rows]),
        turn_offsets=np.concatenate([[0], np.cumsum(counts)]),
        state_ids=np.array([states[row[2]] for row in rows]),
    )
    found = recipe("sampo").objective.advantage(batch, np.ones(5, dtype=np.bool_))
    wanted = GIGPO["outputs"]["INDEPENDENT_paper_form(mean_std_norm, per-trajectory episode stats, w=1)"]
    np.testing.assert_allclose(found[batch.mask], np.repeat(wanted, 2), rtol=1e-6)
    other = np.repeat(GIGPO["outputs"]["mean_std_norm_w1.0"], 2)  # statistics over steps, as ARLArena's code has them
    assert np.abs(found[batch.mask] - other).max() > 0.05
    assert recipe("sampo").objective.advantage == Anchored(1.0, 0.95, 1, 1e-6)


GROUPS = [case for case in read("group_advantages")["cases"] if "rloo" in case.get("outputs", {})]
ADVANTAGES = {
    "ddof1_eps1e-6_verl": recipe("grpo").objective.advantage,
    "ddof1_eps1e-4_TRL": ZScore(1, 1e-4),
    "ddof0_eps1e-8_rlsandbox": ZScore(0, 1e-8),
    "centre_only_DrGRPO": recipe("dr-grpo").objective.advantage,
    "rloo": recipe("rloo").objective.advantage,
    "maxrl_eps1e-8": recipe("maxrl").objective.advantage,
}


@pytest.mark.parametrize("name", ADVANTAGES)
@pytest.mark.parametrize("case", GROUPS, ids=lambda case: case["id"])
def test_advantages_equal_the_golden_ones(case: Any, name: str) -> None:
    """A group of one, and one whose rewards are all equal, has advantage 0, whatever its trainer gives it."""
    rewards = np.array(case["rewards"], dtype=np.float64)
    wanted = case["outputs"][name] if np.ptp(rewards) else np.zeros(len(rewards))
    batch = Batch(np.ones((len(rewards), 1), dtype=np.bool_), rewards, np.zeros(len(rewards), dtype=np.int64))
    found = ADVANTAGES[name](batch, np.ones(len(rewards), dtype=np.bool_))
    # Differences of 1e-7 have nine digits left of sixteen.
    np.testing.assert_allclose(found, wanted, rtol=1e-6 if case["id"] == "near_equal" else GOLDEN, atol=1e-12)


def test_recipe_points_match_their_papers() -> None:
    assert recipe("dr-grpo").objective.advantage == Centre()
    assert recipe("rloo").objective.advantage == LeaveOneOut()
    assert recipe("maxrl").objective.advantage == MeanScaled()
