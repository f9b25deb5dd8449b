"""Policy losses and their gradients as verl executed them, as TRL's were transcribed, and SAMPO's Eq. 8."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from karl_fast import kl, ratio
from karl_fast.errors import ArgumentError
from karl_fast.ratio import (
    Cap,
    Clip,
    ConstantLength,
    DualClip,
    SequenceMean,
    SequenceSum,
    TokenMean,
    TwoSided,
    policy_loss,
)
from tests.tolerances import GOLDEN, VERL_LENGTHS

FOLDER = Path(__file__).parent


def golden(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


LOSSES = golden("policy_losses")
CASES = {case["id"]: case for case in LOSSES["cases"]}
SAMPO = golden("sampo_empg")["sampo"]
SAMPO_CASES = {case["id"]: case for case in SAMPO["cases"]}

PPO, VERL, TRL = Clip(0.2, 0.2), DualClip(0.2, 0.2, 3.0), Clip(0.2, 0.28)
RULES: dict[str, Any] = {
    "ppo_clip_0.2_0.2_dualclip3_token-mean": {"clip": VERL, "aggregate": TokenMean()},
    "ppo_clip_0.2_0.2_dualclip3_seq-mean-token-sum": {"clip": VERL, "aggregate": SequenceSum()},
    "ppo_clip_0.2_0.2_dualclip3_seq-mean-token-mean": {"clip": VERL, "aggregate": SequenceMean()},
    # verl at that commit sums over sequences, which a mean over one of them is.
    "ppo_clip_0.2_0.2_dualclip3_seq-mean-token-sum-norm": {
        "clip": VERL,
        "aggregate": ConstantLength(4),
        "denominator": 1,
    },
    "dapo_clip_0.2_0.28_token-mean": {"clip": DualClip(0.2, 0.28, 3.0), "aggregate": TokenMean()},
    "gspo_3e-4_4e-4": {"clip": Clip(3e-4, 4e-4), "aggregate": SequenceMean(), "level": "sequence"},
    "gspo_0.2_0.2": {"clip": PPO, "aggregate": SequenceMean(), "level": "sequence"},
    "cispo_verl_0.2_0.2": {"clip": Cap(1.2, floor=0.8), "aggregate": TokenMean()},
    "trl_grpo_": {"clip": PPO, "aggregate": SequenceMean()},
    "trl_bnpo_": {"clip": PPO, "aggregate": TokenMean()},
    "trl_dapo_eps_high0.28": {"clip": TRL, "aggregate": TokenMean()},
    "trl_dr_grpo_": {"clip": PPO, "aggregate": ConstantLength(6)},
    "trl_cispo_eps_high5.0": {"clip": Cap(5.0), "aggregate": TokenMean()},
    "trl_grpo_levelsequence_eps_low0.0003_eps_high0.0004": {
        "clip": Clip(3e-4, 4e-4),
        "aggregate": SequenceMean(),
        "level": "sequence",
    },
    "trl_dapo_delta1.5": {"clip": TwoSided(0.2, 0.2, 1.5), "aggregate": TokenMean()},
    "trl_luspo_levelsequence": {"clip": PPO, "aggregate": SequenceSum(), "level": "sequence"},
}
"""Not here: SAPO and GMPO, whose bound is not one on the ratio; the variants with a KL term are below."""

BY_LENGTH = {"ppo_clip_0.2_0.2_dualclip3_seq-mean-token-mean", "gspo_3e-4_4e-4", "gspo_0.2_0.2"}
TOLERANCE = {name: VERL_LENGTHS if name in BY_LENGTH else GOLDEN for name in RULES}


class Batch:
    """A padded batch, packed with its padding masked, or without its padding."""

    def __init__(self, inputs: dict[str, Any], new: str, old: str, advantages: str) -> None:
        self.keep = np.array(inputs["mask"]) > 0
        self.new, self.old = np.array(inputs[new]), np.array(inputs[old])
        self.advantages = np.array(inputs[advantages])

    def padded(self, **how: Any) -> tuple[float, Any]:
        rows, width = self.keep.shape
        offsets = np.arange(0, rows * width + 1, width)
        columns = (self.new.ravel(), self.old.ravel(), self.advantages, offsets)
        found = policy_loss(*columns, mask=self.keep.ravel(), **how)
        return found.loss, np.asarray(found.coefficient).reshape(self.keep.shape)

    def packed(self, **how: Any) -> tuple[float, Any]:
        offsets = np.concatenate([[0], self.keep.sum(1).cumsum()])
        found = policy_loss(self.new[self.keep], self.old[self.keep], self.advantages, offsets, **how)
        coefficient = np.zeros(self.keep.shape)
        coefficient[self.keep] = found.coefficient
        return found.loss, coefficient


BATCH = Batch(LOSSES["inputs"], "new_logp", "old_logp", "adv_per_sequence")
SAMPO_BATCH = Batch(SAMPO["inputs"], "new", "old", "adv")


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("form", [Batch.padded, Batch.packed])
def test_losses_and_gradients_equal_verl_and_trl(name: str, form: Any) -> None:
    loss, coefficient = form(BATCH, **RULES[name])
    wanted = CASES[name]["outputs"]
    assert loss == pytest.approx(wanted["loss"], rel=TOLERANCE[name])
    np.testing.assert_allclose(coefficient, wanted["grad_wrt_new_logp"], rtol=TOLERANCE[name], atol=1e-15)
    assert np.all(coefficient[~BATCH.keep] == 0.0)


@pytest.mark.parametrize(
    ("name", "through_ratio"), [("trl_grpo_beta0.04", False), ("trl_grpo_beta0.04_bias_corrTrue", True)]
)
def test_weighted_k3_penalty_equals_trl(name: str, through_ratio: bool) -> None:
    """The bias correction of TRL multiplies k3 by the ratio, which its gradient goes through."""
    loss, coefficient = BATCH.padded(clip=PPO, aggregate=SequenceMean())
    reference, keep = np.array(LOSSES["inputs"]["ref_logp"]).ravel(), BATCH.keep.ravel()
    tokens: Any = {"estimator": "k3", "mask": keep, "logp_old": BATCH.old.ravel() if through_ratio else None}
    weights = ratio.token_weights(np.arange(0, 17, 4), mask=keep, aggregate=SequenceMean())
    loss += 0.04 * weights @ kl.estimate(BATCH.new.ravel(), reference, **tokens)
    slopes = kl.gradient(BATCH.new.ravel(), reference, through_ratio=through_ratio, **tokens)
    coefficient = coefficient + (0.04 * weights * slopes).reshape(coefficient.shape)
    wanted = CASES[name]["outputs"]
    assert loss == pytest.approx(wanted["loss"], rel=GOLDEN)
    np.testing.assert_allclose(coefficient, wanted["grad_wrt_new_logp"], rtol=GOLDEN, atol=1e-15)


def test_no_rule_passes_for_another() -> None:
    """But for those whose numbers agree in the golden file too, and verl's Dr. GRPO, which is a sum at T = B = 4."""
    found = {name: BATCH.padded(**rule) for name, rule in RULES.items()}
    same = [
        {"ppo_clip_0.2_0.2_dualclip3_seq-mean-token-sum", "ppo_clip_0.2_0.2_dualclip3_seq-mean-token-sum-norm"},
        {"gspo_3e-4_4e-4", "trl_grpo_levelsequence_eps_low0.0003_eps_high0.0004"},
    ]
    for name, (loss, gradient) in found.items():
        for other, case in CASES.items():
            if name != other and {name, other} not in same:
                off = np.abs(gradient - case["outputs"]["grad_wrt_new_logp"]).max()
                assert max(off, abs(loss - case["outputs"]["loss"])) > 1e-6, (name, other)


def test_gspo_token_equals_gspo() -> None:
    rule = {"clip": Clip(3e-4, 4e-4), "aggregate": SequenceMean()}
    loss, coefficient = BATCH.padded(level="sequence-token", **rule)
    wanted = CASES["trl_grpo_levelsequence_eps_low0.0003_eps_high0.0004"]["outputs"]
    assert loss == pytest.approx(wanted["loss"], rel=GOLDEN)
    np.testing.assert_allclose(coefficient, wanted["grad_wrt_new_logp"], rtol=GOLDEN, atol=1e-15)


def test_ratios_equal_the_derived_ones() -> None:
    derived, keep = LOSSES["derived"], BATCH.keep
    columns = (BATCH.new.ravel(), BATCH.old.ravel())
    tokens = np.exp(ratio.token_log_ratio(*columns, mask=keep.ravel())).reshape(keep.shape)
    np.testing.assert_allclose(tokens[keep], np.array(derived["token_ratio"])[keep], rtol=GOLDEN)
    for name, product in (("seq_geometric_mean_ratio", False), ("seq_product_ratio", True)):
        found = ratio.sequence_log_ratio(*columns, np.arange(0, 17, 4), mask=keep.ravel(), product=product)
        np.testing.assert_allclose(np.exp(found), derived[name], rtol=GOLDEN)


def test_cap_as_a_distance_is_refused() -> None:
    """TRL takes 0.28 there, and gives every token of every sequence the weight 0.28."""
    with pytest.raises(ArgumentError, match=r"^ceiling is 0\.28, wanted a number in \[1, inf\]$"):
        Cap(0.28)
    trap = np.array(CASES["trl_cispo_eps_high0.28"]["outputs"]["grad_wrt_new_logp"])[BATCH.keep]
    assert np.ptp(np.abs(trap)) == 0.0


@pytest.mark.parametrize("aggregate", [SequenceMean(), TokenMean(), SequenceSum(), ConstantLength(4)])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_grpo_of_mlx_lm_lora_differs_from_all(aggregate: Any, level: Any) -> None:
    wanted = CASES["mlx_lm_lora_as_released_beta0.1_eps1e-4"]["outputs"]
    loss, coefficient = BATCH.padded(clip=Clip(1e-4, 1e-4), aggregate=aggregate, level=level)
    assert abs(loss - wanted["loss"]) > 1e-2
    assert np.abs(coefficient - wanted["grad_wrt_new_logp"]).max() > 1e-2


@pytest.mark.parametrize(
    ("name", "clip", "aggregate"),
    [
        ("paper_eps_0.003_0.004_token-mean", Clip(0.003, 0.004), TokenMean()),
        ("webshop_eps_0.03_0.04_token-mean", Clip(0.03, 0.04), TokenMean()),
        ("repo_final_script_default_0.2_seq-mean-token-mean", Clip(0.2, 0.2), SequenceMean()),
    ],
)
def test_sampo_is_sequence_level_asymmetric_clip_token_mean(name: str, clip: Any, aggregate: Any) -> None:
    wanted = SAMPO_CASES[name]["outputs"]
    loss, coefficient = SAMPO_BATCH.padded(level="sequence", clip=clip, aggregate=aggregate)
    assert loss == pytest.approx(wanted["loss"], rel=GOLDEN)
    np.testing.assert_allclose(coefficient, wanted["grad"], rtol=GOLDEN, atol=1e-15)
    other = TokenMean() if aggregate == SequenceMean() else SequenceMean()
    for how in ({"level": "token"}, {"level": "sequence-product"}, {"aggregate": other}):
        point = {"level": "sequence", "clip": clip, "aggregate": aggregate} | how
        assert abs(SAMPO_BATCH.padded(**point)[0] - wanted["loss"]) > 1e-4


def test_sampo_mask_zeroes_advantage_and_keeps_denominator() -> None:
    wanted = SAMPO_CASES["with_sequence_mask_0.223"]["outputs"]
    kept = Batch(SAMPO["inputs"], "new", "old", "adv")
    kept.advantages = kept.advantages * SAMPO["derived"]["kept_by_seq_mask_0.223"]
    loss, coefficient = kept.padded(level="sequence", clip=Clip(0.03, 0.04), aggregate=TokenMean())
    assert loss == pytest.approx(wanted["loss"], rel=GOLDEN)
    np.testing.assert_allclose(coefficient, wanted["grad"], rtol=GOLDEN, atol=1e-15)
