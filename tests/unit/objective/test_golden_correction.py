"""Corrections, DPPO and IPO equal their formulas in 50 digits, and a neighbour in their place does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.errors import ArgumentError, IncoherentObjectiveError
from karl_fast.objective import Batch, recipe
from karl_fast.objective.axes.advantage import Given
from karl_fast.objective.axes.aggregate import TokenMean
from karl_fast.objective.axes.clip import Clip, DualClip, NoClip
from karl_fast.objective.axes.correction import (
    Correction,
    GeometricMask,
    NoCorrection,
    RolloutAnchor,
    SequenceMask,
    SequenceTruncate,
    TokenMask,
    TokenTruncate,
    mismatch,
)
from karl_fast.objective.axes.kl import K3, NoKL
from karl_fast.objective.axes.ratio import SequenceRatio
from karl_fast.objective.recipes import RECIPES
from tests.tolerances import GOLDEN
from tests.unit.objective.batch_cases import BATCH, loss_of, title
from tests.unit.objective.golden import cases, read

if TYPE_CHECKING:
    from karl_fast.objective import PolicyGradient, Recipe

HELD = read("rollout_correction")
CASES = cases(HELD)
LOGP, OLD, ROLLOUT = (np.array(HELD["inputs"][name]) for name in ("logp", "logp_old", "logp_rollout"))
MASK = np.array(HELD["inputs"]["mask"], dtype=np.bool_)
GIVEN = Batch(
    MASK,
    rewards=np.zeros(4),
    group_ids=np.zeros(4, dtype=np.int64),
    advantages=np.array(HELD["inputs"]["advantages"]),
    logp_old=OLD,
    logp_rollout=ROLLOUT,
)
POINTS: dict[str, Correction] = {
    "token_truncate_2": TokenTruncate(),
    "token_mask_0.5_2": TokenMask(0.5, 2.0),
    "sequence_truncate_3": SequenceTruncate(),
    "sequence_mask_0.5_3": SequenceMask(0.5),
    "geometric_mask_0.9_1.5": GeometricMask(0.9, 1.5),
}
LOSS = "loss_ppo_clip_token_mean"
CORRECTED = [held for held in RECIPES.values() if hasattr(held.objective, "correction")]
PPO: Any = replace(recipe("grpo").objective, advantage=Given(), kl=NoKL(), aggregate=TokenMean())


def given(name: str) -> PolicyGradient:
    objective: Any = recipe(name).objective
    return replace(objective, advantage=Given())  # type: ignore[no-any-return]


def check(found: tuple[float, Any], wanted: dict[str, Any], loss: str = "loss") -> None:
    assert found[0] == pytest.approx(wanted[loss], rel=GOLDEN)
    np.testing.assert_allclose(found[1], wanted["gradient"], rtol=GOLDEN, atol=1e-15)


@pytest.mark.parametrize(("name", "point"), POINTS.items())
def test_weights_and_statistics_are_the_golden_ones(name: str, point: Correction) -> None:
    wanted = CASES[name]["outputs"]
    weights, found = mismatch(point, OLD, ROLLOUT, MASK)
    np.testing.assert_allclose(weights, wanted["weights"], rtol=GOLDEN)
    assert found == pytest.approx({key: wanted[key] for key in found}, rel=GOLDEN)
    single = mismatch(point, OLD.astype(np.float32), ROLLOUT.astype(np.float32), MASK)[0]
    np.testing.assert_allclose(single, wanted["weights"], rtol=1e-6)


@pytest.mark.parametrize(("name", "point"), POINTS.items())
def test_a_weight_multiplies_loss_and_gradient(name: str, point: Correction) -> None:
    found = loss_of(replace(PPO, correction=point), GIVEN, LOGP)
    check(found, CASES[name]["outputs"], LOSS)
    for other in (*POINTS.values(), NoCorrection()):
        if other != point:
            with pytest.raises(AssertionError):
                check(
                    loss_of(replace(PPO, correction=other), GIVEN, LOGP),
                    CASES[name]["outputs"],
                    "loss_ppo_clip_token_mean",
                )


@pytest.mark.parametrize("name", ["dppo", "ipo"])
def test_a_recipe_is_the_golden_one_and_no_neighbour_is(name: str) -> None:
    mine, wanted = given(name), CASES[name]["outputs"]
    check(loss_of(mine, GIVEN, LOGP), wanted)
    neighbours: list[Any] = [
        given("ipo" if name == "dppo" else "dppo"),
        given("cispo"),
        replace(mine, correction=NoCorrection()),
        replace(mine, clip=NoClip()),
        replace(mine, clip=DualClip(0.2, 0.28, 20.0)),
        replace(mine, correction=TokenTruncate()),
    ]
    neighbours += [replace(mine, kl=NoKL())] if name == "ipo" else []
    batch = replace(GIVEN, truncated=np.zeros(4, dtype=np.bool_), logp_ref=OLD)
    for other in neighbours:
        with pytest.raises(AssertionError):
            check(loss_of(replace(other, filter=mine.filter), batch, LOGP), wanted)


@pytest.mark.parametrize("found", CORRECTED, ids=title)
def test_equal_arithmetics_are_not_corrected_by_a_bit(found: Recipe) -> None:
    same: Any = found.objective
    batch = replace(BATCH, logp_rollout=BATCH.logp_old)
    plain = loss_of(replace(same, correction=NoCorrection()), replace(BATCH, logp_rollout=None))
    for point in (*POINTS.values(), RolloutAnchor(), NoCorrection()):
        try:
            corrected = replace(same, correction=point)
        except IncoherentObjectiveError:  # Delight
            continue
        loss, gradient = loss_of(corrected, batch)
        assert loss == plain[0]
        assert gradient.tobytes() == plain[1].tobytes()


def test_a_penalty_is_not_weighed() -> None:
    batch = replace(GIVEN, logp_ref=OLD - 0.3, advantages=np.zeros(4))
    held = [
        loss_of(replace(PPO, kl=K3(0.5), correction=point), batch, LOGP) for point in (NoCorrection(), TokenTruncate())
    ]
    assert held[0][0] == held[1][0] > 0


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(IncoherentObjectiveError, match="Delight is not proportional to the advantage"):
        replace(recipe("dg").objective, correction=TokenTruncate())
    with pytest.raises(IncoherentObjectiveError, match="ProbabilityMask compares probabilities of tokens"):
        replace(recipe("dppo").objective, ratio=SequenceRatio())
    for wrong in (lambda: TokenTruncate(0.9), lambda: TokenMask(1.1, 2.0), lambda: SequenceMask(0.5, 0.9)):
        with pytest.raises(ArgumentError):
            wrong()
    assert Clip(0.2, 0.2) == PPO.clip
