"""What holds for every advantage, where neighbours meet, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karl_fast import advantage, target
from karl_fast.errors import ArgumentError, DTypeError, LayoutError, UsageError
from tests.properties.test_advantage import GROUPED, Rows, drawn_ids, ragged

WITHIN: dict[str, Any] = {
    **{name: lambda r, ids, f=fast, how=how: f(r, ids, **how) for name, (fast, _, how) in GROUPED.items()},
    "zscore_batch": lambda r, ids: advantage.zscore(r, ids, scope="batch"),
    "partition_baseline": lambda r, ids: advantage.partition_baseline(r, ids, inverse_temperature=3.0),
    "gdpo_unnormalised": lambda r, ids: advantage.gdpo([r], [1.0], ids, ddof=0, batch=False),
}
HALF_RIGHT = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
ONE = np.zeros(8, dtype=np.int64)


@pytest.mark.parametrize("name", WITHIN)
@given(ragged())
def test_equal_rewards_have_advantage_exactly_zero(name: str, rows: Rows) -> None:
    found = WITHIN[name](rows.rewards, rows.ids)
    for group in range(len(rows.lengths)):
        inside = rows.ids == group
        values = rows.rewards[inside & ~np.isnan(rows.rewards)]
        if len(values) and np.ptp(values) == 0:
            assert np.all(found[inside & ~np.isnan(rows.rewards)] == 0.0)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rows.rewards))


@pytest.mark.parametrize("name", WITHIN)
def test_order_of_rows_and_names_do_not_matter(name: str) -> None:
    random = np.random.default_rng(5)
    rewards, ids = random.choice([0.0, 0.3, 1.0, np.nan], 3000), drawn_ids(random, 3000, 400)
    order = random.permutation(3000)
    names = random.permutation(10_000)[:400]
    renamed = np.where(ids < 0, -4, names[ids])
    found = WITHIN[name](rewards, ids)
    np.testing.assert_array_equal(WITHIN[name](rewards, renamed), found)
    moved = WITHIN[name](rewards[order].copy(), ids[order].copy())
    np.testing.assert_allclose(moved, found[order], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["centre", "zscore", "leave_one_out", "zscore_batch"])
@pytest.mark.parametrize(("shift", "scale"), [(5.0, 1.0), (0.0, 8.0), (-3.0, 1e-3)])
def test_shifts_cancel_and_scales_divide(name: str, shift: float, scale: float) -> None:
    random = np.random.default_rng(8)
    rewards, ids = random.normal(size=800), random.integers(0, 100, 800)
    how: dict[str, Any] = {"zscore": {"eps": 0.0}, "zscore_batch": {"eps": 0.0, "scope": "batch"}}.get(name, {})
    score = getattr(advantage, name.removesuffix("_batch"))
    plain, moved = score(rewards, ids, **how), score(rewards * scale + shift, ids, **how)
    np.testing.assert_allclose(moved, plain if how else plain * scale, rtol=1e-9, atol=1e-9 * scale)
    sums = np.bincount(ids, weights=plain)
    np.testing.assert_allclose(sums, 0.0, atol=1e-12)


def test_half_right_the_zscore_is_twice_the_centre() -> None:
    twice = 2 * advantage.centre(HALF_RIGHT, ONE)
    np.testing.assert_array_equal(advantage.zscore(HALF_RIGHT, ONE, ddof=0, eps=0.0), twice)


def test_leave_one_out_is_a_scaled_centre() -> None:
    rewards = np.random.default_rng(1).normal(size=40)
    offsets = np.arange(0, 41, 8)
    found = advantage.leave_one_out(rewards, offsets=offsets)
    np.testing.assert_allclose(found, 8 / 7 * advantage.centre(rewards, offsets=offsets), rtol=1e-13)


def test_maxrl_is_the_centre_over_the_success_rate() -> None:
    rewards = np.array([1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(advantage.maxrl(rewards, offsets=np.array([0, 4]), eps=0.0), [3.0, -1.0, -1.0, -1.0])


def test_gdpo_of_one_reward_is_its_zscore() -> None:
    random = np.random.default_rng(2)
    rewards, ids = random.normal(size=60), random.integers(0, 9, 60)
    inner = advantage.zscore(rewards, ids, ddof=1, eps=1e-4)
    plain = advantage.gdpo([rewards], [1.0], ids, batch=False)
    np.testing.assert_array_equal(plain, inner)
    outer = advantage.zscore(inner, np.zeros(60, dtype=np.int64), ddof=1, eps=1e-4)
    # The mean that is not taken off is the rounding of a sum of 60.
    np.testing.assert_allclose(advantage.gdpo([rewards], [1.0], ids), outer, rtol=1e-12, atol=1e-15)


def test_a_partition_baseline_lies_between_mean_and_max() -> None:
    rewards, offsets = np.array([0.0, 0.2, 1.0]), np.array([0, 3])
    cold = advantage.partition_baseline(rewards, offsets=offsets, inverse_temperature=1e6)
    warm = advantage.partition_baseline(rewards, offsets=offsets, inverse_temperature=1e-6)
    np.testing.assert_allclose(cold, rewards - 1.0, atol=2e-6)
    np.testing.assert_allclose(warm, advantage.centre(rewards, offsets=offsets), atol=1e-6)
    found = advantage.partition_baseline(rewards, offsets=offsets, inverse_temperature=3.0)
    assert math.isclose(np.exp(3.0 * found).mean(), 1.0, rel_tol=1e-12)


def test_a_shrunk_baseline_without_strength_is_the_mean() -> None:
    random = np.random.default_rng(3)
    rewards, ids = random.normal(size=90), np.repeat(np.arange(9), 10)
    found = advantage.shrunk(rewards, ids, strength=0.0, floor=1e-12)
    np.testing.assert_allclose(found, advantage.zscore(rewards, ids, ddof=0, eps=0.0), rtol=1e-9)


def test_whitened_values_have_mean_zero_and_variance_one() -> None:
    values = np.random.default_rng(4).normal(3.0, 5.0, 50_000)
    found = advantage.whiten(values, eps=0.0)
    assert abs(found.mean()) < 1e-12
    assert math.isclose(found.var(ddof=1), 1.0, rel_tol=1e-12)


def test_returns_at_discount_zero_and_one() -> None:
    rewards, offsets = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0, 3, 3, 4])
    assert advantage.discounted_returns(rewards, offsets, gamma=0.0).tolist() == [1.0, 2.0, 4.0, 8.0]
    assert advantage.discounted_returns(rewards, offsets, gamma=1.0).tolist() == [7.0, 6.0, 4.0, 8.0]


def test_gigpo_without_steps_is_the_episode() -> None:
    random = np.random.default_rng(6)
    rewards, offsets = random.normal(size=40), np.arange(0, 41, 4)
    groups, states = np.repeat([0, 1], 5), random.integers(0, 3, 40)
    found = advantage.gigpo(rewards, offsets, groups, states, step_weight=0.0)
    np.testing.assert_array_equal(found.joint, found.episode)
    totals = rewards.reshape(10, 4).sum(axis=1)
    wanted = np.repeat(advantage.zscore(totals, groups, ddof=1, eps=1e-6), 4)
    np.testing.assert_allclose(found.episode, wanted, rtol=1e-12)
    assert np.any(found.step != 0.0)
    for apart in (np.arange(40), np.full(40, -1)):
        np.testing.assert_array_equal(advantage.gigpo(rewards, offsets, groups, apart).step, np.zeros(40))


def test_equal_observations_have_one_number() -> None:
    assert advantage.state_ids(["a", "b", b"a", "a"]).tolist() == [0, 1, 2, 0]


def test_ours_differs_from_defective_conventions() -> None:
    """The defect is reachable under the name of its trainer alone."""
    one, offsets = np.array([0.9]), np.array([0, 1])
    assert math.isclose(advantage.by_convention("verl", one, offsets=offsets)[0], 0.9 / (1 + 1e-6))
    assert np.isnan(advantage.by_convention("openrlhf", one, offsets=offsets)[0])
    near, four = np.array([0.5, 0.5, 0.5, 0.5 + 1e-7]), np.array([0, 4])
    assert math.isclose(advantage.by_convention("openrlhf", near, offsets=four)[3], 1.4706, rel_tol=1e-4)
    assert advantage.by_convention("trl", near, offsets=four)[3] < 1e-3
    torn = np.array([1.0, 0.0, np.nan, 0.0])
    for name in ("verl", "openrlhf", "tinker", "prime_rl"):
        assert np.isnan(advantage.by_convention(name, torn, offsets=four)).all()
    assert advantage.by_convention("trl", torn, offsets=four)[2] == 0.0
    with pytest.raises(ArgumentError, match="rewards at index 2 is NaN, wanted a finite number"):
        advantage.by_convention("mlx_lm_lora", torn, offsets=four)
    assert advantage.zscore(one, offsets=offsets)[0] == 0.0
    assert np.isnan(advantage.zscore(torn, offsets=four)).tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("name", "wanted"), [("trl", 2.98e-4), ("verl", 0.0289), ("openrlhf", 0.907), ("tinker", 2.98e-8)]
)
def test_equal_float32_rewards_round_like_torch(name: Any, wanted: float) -> None:
    rewards, offsets = np.full(8, 0.3, dtype=np.float32), np.array([0, 8])
    np.testing.assert_allclose(advantage.by_convention(name, rewards, offsets=offsets), wanted, rtol=1e-2)
    assert not advantage.by_convention(name, rewards.astype(np.float64), offsets=offsets).any()
    assert not advantage.zscore(rewards, offsets=offsets, ddof=1, eps=1e-9).any()


def test_gdpo_gives_equal_rewards_zero_despite_missing() -> None:
    first = np.array([0.1, 0.7, np.nan, 0.3, 0.5, 0.5, 0.5, 0.5])
    second = np.array([0.3, 0.1, 0.7, 1.0, 0.2, 0.2, 0.2, 0.2])
    assert not advantage.gdpo([first, second], [1.0, 0.3], offsets=np.array([0, 4, 8]))[4:].any()


def test_a_partition_baseline_keeps_digits_near_the_mean() -> None:
    found = advantage.partition_baseline(np.array([1.0, 0, 0, 0]), offsets=np.array([0, 4]), inverse_temperature=1e-12)
    np.testing.assert_allclose(found, [0.75, -0.25, -0.25, -0.25], rtol=1e-11)


def test_a_soft_value_equals_the_partition_baseline() -> None:
    rewards, offsets = np.random.default_rng(2).normal(size=40), np.array([0, 7, 7, 30, 40])
    value = target.soft_value(rewards, offsets=offsets, temperature=0.5)
    ids = np.repeat(np.arange(4), np.diff(offsets))
    np.testing.assert_array_equal(value, target.soft_value(rewards, ids, temperature=0.5))
    found = advantage.partition_baseline(rewards, ids, inverse_temperature=2.0)
    np.testing.assert_array_equal(found, rewards - value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r, o: advantage.centre(r, o[:1]), "group_ids has length 1, wanted 2"),
        (lambda r, o: advantage.centre(r * np.inf, offsets=o), "rewards at index 1 is inf"),
        (lambda r, o: advantage.maxrl(-r, offsets=o), "rewards at index 1 is -1, wanted 0 or more"),
        (lambda r, o: advantage.shrunk(r, offsets=o, min_count=-1), "min_count is -1, wanted 0 or more"),
        (lambda r, o: advantage.gdpo([r, r * np.inf], [1, 1], offsets=o), r"rewards at index 1 is inf.* \(reward 1\)"),
        (lambda r, o: advantage.gdpo([r, r[:1]], [1, 1], offsets=o), r"rewards\[1\] has length 1, wanted 2"),
        (lambda r, o: advantage.fixed_baseline(r, baseline=np.nan), "^baseline is NaN, wanted a finite number"),
        (lambda r, o: advantage.ema_baseline(r, o, state=3), "state is a int, wanted an Ema"),
        (lambda r, o: advantage.ema_baseline(r, o[:1]), "group_ids has length 1, wanted 2"),
        (lambda r, o: advantage.empg(r, -r, o), "entropies at index 1 is -1, wanted 0 or more"),
        (lambda r, o: advantage.whiten(r * np.inf), "values at index 1 is inf"),
        (lambda r, o: advantage.gigpo(r, o, o[:1], o, ddof=-1), "ddof is -1, wanted 0 or 1"),
    ],
)
def test_a_refusal_names_the_argument_and_its_place(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message), np.errstate(invalid="ignore"):
        call(np.array([0.5, 1.0]) - np.array([0.5, 0.0]), np.array([0, 2]))


def test_a_number_of_wrong_type_is_refused() -> None:
    with pytest.raises(TypeError, match="gamma"):
        advantage.gigpo(np.ones(2), np.array([0, 2]), np.array([0]), np.array([0, 1]), gamma="x")  # type: ignore[arg-type]


def test_a_group_has_ids_or_offsets() -> None:
    rewards, ids, offsets = np.ones(2), np.zeros(2, dtype=np.int64), np.array([0, 2])
    for name, score in WITHIN.items():
        with pytest.raises(UsageError, match="either group_ids or offsets"):
            score(rewards, None), name
    with pytest.raises(UsageError, match="either group_ids or offsets"):
        advantage.centre(rewards, ids, offsets=offsets)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (LayoutError, lambda r: advantage.centre(r, offsets=np.array([0, 3, 2]))),
        (DTypeError, lambda r: advantage.centre(r, offsets=np.array([0.0, 2.0]))),
        (DTypeError, lambda r: advantage.whiten(r.astype(np.float16))),
        (DTypeError, lambda r: advantage.whiten(r, np.ones(2))),
        (ArgumentError, lambda r: advantage.whiten(r, np.ones(3, dtype=bool))),
        (ArgumentError, lambda r: advantage.centre(r, np.zeros(3, dtype=np.int64))),
        (ArgumentError, lambda r: advantage.centre(np.array([1.0, np.inf]), offsets=np.array([0, 2]))),
        (ArgumentError, lambda r: advantage.centre(np.array([1.0, -np.inf], np.float32), offsets=np.array([0, 2]))),
        (ArgumentError, lambda r: advantage.zscore(r, offsets=np.array([0, 2]), ddof=2)),
        (ArgumentError, lambda r: advantage.zscore(r, offsets=np.array([0, 2]), eps=-1.0)),
        (UsageError, lambda r: advantage.zscore(r, offsets=np.array([0, 2]), scope="prompt")),
        (UsageError, lambda r: advantage.by_convention("ppo", r, offsets=np.array([0, 2]))),
        (ArgumentError, lambda r: advantage.discounted_returns(r, np.array([0, 2]), gamma=1.1)),
        (ArgumentError, lambda r: advantage.partition_baseline(r, offsets=np.array([0, 2]), inverse_temperature=0.0)),
        (ArgumentError, lambda r: advantage.shrunk(r, offsets=np.array([0, 2]), strength=-1.0)),
        (ArgumentError, lambda r: advantage.gdpo([r], [1.0, 2.0], offsets=np.array([0, 2]))),
        (ArgumentError, lambda r: advantage.gdpo([], [], offsets=np.array([0, 2]))),
        (ArgumentError, lambda r: advantage.fixed_baseline(r, temperature=0.0)),
        (ArgumentError, lambda r: advantage.ema_baseline(r, np.zeros(2, dtype=np.int64), alpha=1.5)),
        (ArgumentError, lambda r: advantage.empg(r, np.array([1.0, np.nan]), np.array([0, 2]))),
    ],
)
def test_bad_input_is_refused(error: Any, call: Any) -> None:
    with pytest.raises(error):
        call(np.array([0.0, 1.0]))


def test_a_state_with_a_repeated_group_is_refused() -> None:
    state = advantage.Ema(np.array([4, 4]), np.array([0.5, 0.5]))
    with pytest.raises(ArgumentError, match="row at index 1 is 4"):
        advantage.ema_baseline(np.ones(1), np.array([4]), state=state)


@given(st.sampled_from([np.float32, np.float64]))
def test_no_rows_have_no_advantages(kind: Any) -> None:
    none, offsets = np.array([], dtype=kind), np.array([0])
    for score in WITHIN.values():
        assert score(none, np.array([], dtype=np.int64)).shape == (0,)
    assert advantage.whiten(none).shape == (0,)
    assert advantage.empg(none, np.array([]), offsets).shape == (0,)
    assert advantage.gigpo(none, offsets, offsets[:0], offsets[:0]).joint.shape == (0,)


def test_a_missing_step_without_a_state_stays_missing() -> None:
    rewards, none = np.array([math.nan, 1.0]), np.array([-1, -1])
    found = advantage.gigpo(rewards, np.array([0, 2]), np.array([0]), none)
    np.testing.assert_array_equal(found.step, [math.nan, 0.0])
