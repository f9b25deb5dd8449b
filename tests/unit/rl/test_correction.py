"""Rollouts that another arithmetic drew: the weight is on there alone, and without it no bit of a run changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.errors import UsageError
from karl_fast.objective import PolicyGradient, names, recipe
from karl_fast.objective.axes.clip import Delight
from karl_fast.objective.axes.correction import (
    GeometricMask,
    NoCorrection,
    RolloutAnchor,
    SequenceMask,
    SequenceTruncate,
    TokenMask,
    TokenTruncate,
)
from karl_fast.rl import rl
from karl_fast.rl.learner import needs_reference, reads_vectors
from karl_fast.rl.setup import correct_objective, uncorrected_remark
from tests.unit.rl.conftest import lines
from tests.unit.rl.test_learn import learned, policy, rollouts  # noqa: F401  (fixtures)
from tests.unit.rl.test_quantized_cache import wide

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from karl_fast.rl.rollout import Rollout
    from karl_fast.rl.settings import Online

WEIGHED = {"correction_low", "correction_high", "correction_ess"}


def point(online: Callable[..., Online], held: Any, name: str = "grpo", **over: Any) -> Any:
    objective: Any = correct_objective(replace(online(), **over), recipe(name), held)
    return objective.correction


def drawn_at(rollouts: list[Rollout], prepared: Any, logp: Any) -> list[Rollout]:  # noqa: F811
    """The same rollouts, with other log-probabilities in the arithmetic of generation. [B, T]"""
    flat = [values[mask] for values, mask in zip(logp, prepared.packed.mask, strict=True)]
    return [replace(rollout, logp=own) for rollout, own in zip(rollouts, flat, strict=True)]


def in_bfloat16(held: Any) -> None:
    import mlx.core as mx
    from mlx.utils import tree_map

    held.model.update(tree_map(lambda one: one.astype(mx.bfloat16), held.model.parameters()))


def test_it_is_on_where_arithmetics_differ_and_off_elsewhere(online: Callable[..., Online], policy: Any) -> None:  # noqa: F811
    assert point(online, policy) == NoCorrection()
    assert point(online, policy, kv_cache="8-bit") == TokenTruncate(2.0)
    assert point(online, policy, "dppo") == RolloutAnchor()
    assert point(online, policy, "dg", kv_cache="8-bit") == NoCorrection()
    assert point(online, policy, kv_cache="8-bit", correction="off") == NoCorrection()
    in_bfloat16(policy)
    assert point(online, policy) == TokenTruncate(2.0)
    assert correct_objective(online(), recipe("tpo"), policy) is recipe("tpo").objective


def test_a_recipe_without_weights_says_so(online: Callable[..., Online], policy: Any) -> None:  # noqa: F811
    bits = replace(online(), kv_cache="8-bit")
    assert uncorrected_remark(online(), recipe("tpo"), policy) is None
    assert uncorrected_remark(bits, recipe("grpo"), policy) is None
    assert "8-bit caches draw the rollouts" in str(uncorrected_remark(bits, recipe("tpo"), policy))
    in_bfloat16(policy)
    assert "a policy in 16 bits draws" in str(uncorrected_remark(online(), recipe("flowrl"), policy))


def test_a_correction_is_named_with_its_bounds(online: Callable[..., Online], policy: Any) -> None:  # noqa: F811
    assert point(online, policy, correction="token-mask") == TokenMask(0.2, 5.0)
    assert point(online, policy, correction="token-mask", correction_low=0.5) == TokenMask(0.5, 5.0)
    assert point(online, policy, correction="sequence-truncate", correction_high=4.0) == SequenceTruncate(4.0)
    assert point(online, policy, correction="sequence-mask") == SequenceMask(0.0, 3.0)
    assert point(online, policy, correction="geometric-mask") == GeometricMask(0.99, 1.01)
    with pytest.raises(UsageError, match="TPO is a TargetPolicy, wanted a PolicyGradient"):
        correct_objective(online(correction="token-mask"), recipe("tpo"), policy)
    for wrong in (
        {"correction_low": 0.5},
        {"correction_high": 2.0},
        {"correction": "token-mask", "correction_low": 2.0},
    ):
        with pytest.raises(UsageError, match="correction"):
            online(**wrong)


@pytest.mark.parametrize("name", [name for name in names() if isinstance(recipe(name).objective, PolicyGradient)])
def test_equal_arithmetics_take_the_step_of_no_correction_to_the_bit(
    policy: Any,  # noqa: F811
    rollouts: list[Rollout],  # noqa: F811
    name: str,
) -> None:
    plain: Any = replace(recipe(name).objective, correction=NoCorrection())  # type: ignore[call-arg]
    if isinstance(plain.clip, Delight) or name == "PPO_CLIP" or reads_vectors(plain):
        pytest.skip("takes no correction, or credit that these rollouts do not have")
    passes = {"epochs": 2}  # logp_old is computed before the first step
    _, first, wanted = learned(policy, rollouts, plain, **passes)
    # What the rollouts say they were drawn at becomes what training computes, to the last bit.
    prepared, _, _ = learned(policy, rollouts, plain, **passes)
    same = drawn_at(rollouts, prepared, prepared.logp_old)
    _, second, found = learned(policy, same, replace(plain, correction=TokenTruncate()), **passes)
    assert second.losses == first.losses
    assert all(found[key].tobytes() == wanted[key].tobytes() for key in wanted)


def test_a_weight_changes_the_step_in_proportion(policy: Any, rollouts: list[Rollout]) -> None:  # noqa: F811
    """All log-probabilities of generation lower by log 1.5: every weight is 1.5, in one step and before several."""
    plain: Any = replace(recipe("dr-grpo").objective, correction=NoCorrection())  # type: ignore[call-arg]
    for passes in ({}, {"epochs": 1, "reference": True}):
        prepared, first, _ = learned(policy, rollouts, plain, **passes)
        lower = drawn_at(rollouts, prepared, first.logp_old - np.float32(np.log(1.5)))
        _, weighed, _ = learned(policy, lower, replace(plain, correction=TokenTruncate()), **passes)
        assert weighed.norms[0] == pytest.approx(1.5 * first.norms[0], rel=1e-4)
        _, capped, _ = learned(policy, lower, replace(plain, correction=TokenTruncate(1.2)), **passes)
        assert capped.norms[0] == pytest.approx(1.2 * first.norms[0], rel=1e-4)
        _, masked, _ = learned(policy, lower, replace(plain, correction=TokenMask(0.9, 1.2)), **passes)
        assert masked.norms[0] == 0


def test_ipo_needs_no_reference_policy() -> None:
    assert not needs_reference(recipe("ipo").objective)
    assert needs_reference(recipe("grpo").objective)


def test_run_with_8_bit_caches_reports_its_weights(online: Callable[..., Online], tmp_path: Path) -> None:
    model, held = wide(tmp_path / "model"), {}
    for kind, word in (("full", "auto"), ("full", "off"), ("8-bit", "auto"), ("8-bit", "off")):
        out = tmp_path / f"{kind}-{word}"
        rl(online(model=model, kv_cache=kind, correction=word, rounds=2, out=str(out)))
        held[kind, word] = lines(out / "metrics.jsonl")
    timed = {"draw_seconds", "seconds", "tokens_per_second", "peak_bytes", "cache_bytes"}
    untimed = {
        key: [{k: v for k, v in line.items() if k not in timed} for line in found] for key, found in held.items()
    }
    assert untimed["full", "auto"] == untimed["full", "off"]
    for line in (*held["full", "auto"], *held["8-bit", "off"]):
        assert not WEIGHED & line.keys()
        assert line["mismatch_k3"] >= 0
    for line in held["8-bit", "auto"]:
        assert line.keys() >= WEIGHED
        assert 0.9 < line["correction_ess"] < 1
        assert 0 < line["mismatch_k3"] < 1e-2
        assert line["mismatch_chi2"] + 1e-2 > 0
