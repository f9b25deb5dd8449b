"""What a batch has to be, and what of it a loss is computed from."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np
import pytest

from karl_fast.errors import ArgumentError, DTypeError, LayoutError, UsageError
from karl_fast.objective import Batch, Scored, recipe
from karl_fast.objective.axes.set_score import SetScore
from karl_fast.objective.batch import FIELDS
from karl_fast.objective.recipes import RECIPES
from tests.unit.objective.batch_cases import BATCH, LOG_Z, MASK, NEW, TREES, extra, loss_of

SHORT = np.zeros(3)


@pytest.mark.parametrize("name", FIELDS)
def test_wrong_shape_is_refused_by_name(name: str) -> None:
    held = getattr(TREES, name)
    wrong = held[:-1] if name not in ("mask", "turn_rewards", "state_ids") else held[..., None]
    with pytest.raises(LayoutError, match=rf"^({name}|rewards|logp_old) has the shape \("):
        replace(TREES, **{name: wrong}).check()


@pytest.mark.parametrize("name", FIELDS)
def test_wrong_type_is_refused_by_name(name: str) -> None:
    held = getattr(TREES, name)
    other = np.int32 if held.dtype in (np.float64, np.int64) else np.float64
    with pytest.raises(DTypeError, match=f"^{name} is {np.dtype(other)}, wanted an array of"):
        replace(TREES, **{name: held.astype(other)}).check()
    with pytest.raises(DTypeError, match=f"^{name} is list"):
        replace(TREES, **{name: held.tolist()}).check()


@pytest.mark.parametrize("name", ["logp_old", "logp_ref", "advantages"])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_what_counts_has_to_be_finite(name: str, value: float) -> None:
    held = getattr(BATCH, name).copy()
    held[1] = value
    place = r"\[1\]" if held.ndim == 1 else r"\[1, 0\]"
    with pytest.raises(ArgumentError, match=rf"^{name}{place} is {value}, wanted a finite number$"):
        replace(BATCH, **{name: held}).check()


@pytest.mark.parametrize("value", [-0.5, np.inf])
def test_a_weight_is_finite_and_not_negative(value: float) -> None:
    weights = np.where(np.arange(16) == 2, value, 1.0)
    with pytest.raises(ArgumentError, match=rf"^weights\[2\] is {value}, wanted a finite number from 0 on, or NaN$"):
        replace(BATCH, weights=weights).check()


def test_row_without_weight_does_not_count() -> None:
    weights = np.where(np.arange(16) == 2, np.nan, 1.0)
    scored = recipe("sft").objective.weighed().score(replace(BATCH, weights=weights))
    np.testing.assert_array_equal(np.array(scored.counted), ~np.isnan(weights))


NEEDS = {
    "grpo": ("rewards", "group_ids", "logp_old", "logp_ref"),
    "dapo": ("truncated", "rewards", "group_ids", "logp_old"),
    "ppo-clip": ("advantages", "logp_old"),
    "sampo": ("group_ids", "turns", "turn_rewards", "turn_offsets", "state_ids", "logp_old", "logp_ref"),
    "vpo": ("reward_vectors", "set_ids", "group_ids", "logp_old"),
    "multi-rlvr": ("rewards", "set_ids", "group_ids", "logp_old"),
    "gdpo": ("reward_vectors", "group_ids", "logp_old", "logp_ref"),
    "pass-at-k": ("rewards", "group_ids"),
    "kondo": ("rewards", "group_ids", "logp_old"),
    "paced": ("rewards", "logp_old"),
    "flowrl": ("rewards", "group_ids", "logp_old", "logp_ref"),
    "tpo": ("rewards", "group_ids", "logp_old"),
    "boltzmann": ("rewards",),
    "awr": ("rewards", "group_ids"),
    "reinforce": ("rewards",),
    "sft": (),
    "dpo": ("preferred", "pair_ids", "logp_ref"),
    "kto": ("preferred", "mismatched", "logp_ref"),
    "orpo": ("preferred", "pair_ids"),
}


@pytest.mark.parametrize(("name", "field"), [(name, field) for name, needed in NEEDS.items() for field in needed])
def test_missing_required_field_is_named(name: str, field: str) -> None:
    objective, batch = recipe(name).objective, replace(BATCH, **{field: None})
    with pytest.raises(ArgumentError, match=rf"has no {field}, which this objective needs$"):
        objective(NEW, objective.score(batch), **extra(objective))


@pytest.mark.parametrize("name", NEEDS)
def test_unneeded_field_may_be_missing(name: str) -> None:
    bare = Batch(MASK, **{field: getattr(BATCH, field) for field in NEEDS[name]})
    if name == "sampo":
        bare = replace(bare, outcomes=BATCH.outcomes)
    objective = recipe(name).objective
    assert np.isfinite(objective(NEW, objective.score(bare), **extra(objective)).loss)


OF_ROLLOUTS = [
    found
    for found in RECIPES.values()
    if found.name not in ("PPO-clip", "SAMPO", "VPO", "GDPO", "SFT", "DFT", "surprisal gate")
    and found.objective.reads_rewards
]
"""The others have no use for the reward of a rollout."""


@pytest.mark.parametrize("found", OF_ROLLOUTS, ids=lambda found: found.name)
def test_a_missing_reward_stays_missing(found: Any) -> None:
    """Its rollout does not count; it is not worth 0."""
    rewards = BATCH.rewards.copy()
    rewards[0] = np.nan
    objective = found.objective
    _, gradient = loss_of(objective, replace(BATCH, rewards=rewards, outcomes=None))
    assert np.all(gradient[0] == 0)
    assert not np.array(objective.score(replace(BATCH, rewards=rewards, outcomes=None)).mask)[0].any()


def test_an_infinite_reward_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="inf"):
        recipe("grpo").objective.score(replace(BATCH, rewards=np.where(np.arange(16) == 3, np.inf, 0.0)))


def test_single_and_constant_groups_have_zero_advantage() -> None:
    ids = BATCH.group_ids.copy()
    ids[0] = 99
    for name in ("grpo", "dr-grpo", "rloo", "maxrl"):
        scored = recipe(name).objective.score(replace(BATCH, group_ids=ids))
        advantages = np.array(scored.advantages)[:, 0]
        assert advantages[0] == 0
    assert np.all(np.array(recipe("grpo").objective.score(BATCH).advantages)[8:12] == 0)


def test_candidates_of_one_set_are_of_one_group() -> None:
    with pytest.raises(ArgumentError, match="set_ids names a set whose candidates are of several groups"):
        SetScore(recipe("grpo").objective.advantage)(replace(BATCH, set_ids=np.zeros(16, dtype=np.int64)), MASK.any(1))


@pytest.mark.parametrize("seed", range(3))
def test_what_is_drawn_is_of_the_seed_alone(seed: int) -> None:
    for name in ("kondo", "vpo"):
        objective, batch = recipe(name).objective, replace(BATCH, seed=seed)
        first, again = (np.array(objective.score(batch).advantages) for _ in range(2))
        np.testing.assert_array_equal(first, again)
        others = [np.array(objective.score(replace(BATCH, seed=other)).advantages) for other in range(3, 9)]
        assert any((first != other).any() for other in others)


def test_drawn_rows_are_not_weighed_again() -> None:
    from karl_fast.objective.axes.likelihood import Drawn

    drawn = replace(recipe("boltzmann").objective, sampler=Drawn())
    with pytest.raises(UsageError, match="weights again would count them twice"):
        drawn.score(BATCH)
    np.testing.assert_array_equal(drawn.weights(replace(BATCH, weights=None)), 1.0)


def test_log_z_is_accepted_only_where_learned() -> None:
    learned, optimum = recipe("flowrl").objective, recipe("flowrl-vargrad").objective
    scored = learned.score(BATCH)
    with pytest.raises(UsageError, match=r"^Learned\(\) needs log_z of each rollout$"):
        learned(NEW, scored)
    with pytest.raises(UsageError, match=r"^GroupOptimum\(\) has no use for log_z$"):
        optimum(NEW, scored, log_z=LOG_Z)


def test_batch_is_unchanged_and_frozen() -> None:
    before = {name: getattr(TREES, name).copy() for name in FIELDS}
    for found in RECIPES.values():
        found.objective.score(BATCH)
    recipe("rlm-grpo").objective.score(TREES)
    for name, held in before.items():
        np.testing.assert_array_equal(getattr(TREES, name), held)
    with pytest.raises(FrozenInstanceError):
        BATCH.seed = 4


def test_scored_fields_are_arrays_or_none() -> None:
    for found in RECIPES.values():
        scored = found.objective.score(BATCH)
        fields_of = [vars(scored), vars(scored.candidates) if scored.candidates else {}]
        arrays = [array for held in fields_of for name, array in held.items() if name != "candidates"]
        assert all(array is None or isinstance(array, np.ndarray) for array in arrays)
        assert set(vars(scored)) == {field.name for field in fields(Scored)}


def test_float32_stays_float32() -> None:
    single = replace(BATCH, logp_old=BATCH.logp_old.astype(np.float32), logp_ref=BATCH.logp_ref.astype(np.float32))
    for found in RECIPES.values():
        objective = found.objective
        value = objective(NEW.astype(np.float32), objective.score(single), **extra(objective))
        assert value.coefficients.dtype == np.float32, found.name
        wanted, slopes = loss_of(objective)
        assert value.loss == pytest.approx(wanted, rel=1e-4, abs=1e-5), found.name
        np.testing.assert_allclose(value.coefficients, slopes, rtol=1e-3, atol=1e-5 * max(1, np.abs(slopes).max()))
