"""Partitions, targets and values: fast equals plain, and what holds for every input."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karl_fast import target
from karl_fast.errors import ArgumentError, DTypeError, LayoutError, UsageError
from tests.properties.naive import chain
from tests.properties.naive import target as naive
from tests.tolerances import GOLDEN, LOG

SCORE = st.one_of(st.floats(-40, 40, allow_subnormal=False), st.sampled_from([0.0, 1.0, -1.0, 0.5]))
REWARD = st.one_of(st.sampled_from([0.0, 1.0, 0.25, -2.0, math.nan]), st.floats(-3, 3, allow_subnormal=False))


@st.composite
def grouped(draw: st.DrawFn, values: st.SearchStrategy[float] = REWARD) -> tuple[Any, Any, Any]:
    size = draw(st.integers(1, 40))
    column = st.lists(values, min_size=size, max_size=size)
    ids = draw(st.lists(st.integers(-1, 5), min_size=size, max_size=size))
    other = draw(st.lists(SCORE, min_size=size, max_size=size))
    return np.array(draw(column)), np.array(other), np.array(ids, dtype=np.int64)


def laid_out(lengths: list[int], seed: int) -> tuple[Any, Any]:
    values = np.random.default_rng(seed).normal(0, 10, sum(lengths))
    return values, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


# partition


@given(grouped(SCORE))
def test_log_sum_exp_by_equals_its_twin(data: Any) -> None:
    values, _, ids = data
    np.testing.assert_allclose(
        target.log_sum_exp_by(values, ids), naive.log_sum_exp_by(values, ids), rtol=LOG, atol=LOG
    )


@given(st.lists(st.sampled_from([0, 1, 2, 7, 8, 9, 40, 1023, 1024, 1025, 9000]), max_size=12), st.integers(0, 99))
def test_rows_equal_the_whole_of_each(lengths: list[int], seed: int) -> None:
    values, offsets = laid_out(lengths, seed)
    found = target.log_sum_exp_by(values, offsets=offsets)
    rows = [values[a:b] for a, b in itertools.pairwise(offsets)]
    wanted = [target.log_sum_exp(row.copy()) for row in rows]
    np.testing.assert_allclose(found, wanted, rtol=LOG, atol=LOG)


def test_a_row_does_not_depend_on_neighbours() -> None:
    values, offsets = laid_out([8, 3, 1500, 8, 0, 5000, 17] * 40, 1)
    found = target.log_sum_exp_by(values, offsets=offsets)
    for row in range(len(offsets) - 1):
        alone = values[offsets[row] : offsets[row + 1]].copy()
        assert target.log_sum_exp_by(alone, offsets=np.array([0, len(alone)]))[0] == found[row]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shift", [0.0, 1e5, -1e5])
def test_log_sum_exp_equals_scipy(dtype: Any, shift: float) -> None:
    logsumexp = pytest.importorskip("scipy.special").logsumexp
    values = np.random.default_rng(2).normal(shift, 30, 100_003).astype(dtype)
    assert math.isclose(target.log_sum_exp(values), logsumexp(values.astype(np.float64)), rel_tol=LOG)
    ids = np.random.default_rng(3).integers(0, 500, len(values))
    first = list(dict.fromkeys(ids.tolist()))
    wanted = [logsumexp(values[ids == group].astype(np.float64)) for group in first]
    np.testing.assert_allclose(target.log_sum_exp_by(values, ids), wanted, rtol=LOG)


def test_float32_is_summed_in_float64() -> None:
    values = np.full(1 << 22, 0.1, dtype=np.float32)
    wanted = float(np.float32(0.1)) + math.log(1 << 22)
    assert math.isclose(target.log_sum_exp(values), wanted, rel_tol=1e-15)


@given(st.lists(SCORE, min_size=1, max_size=60), st.randoms(use_true_random=False), st.integers(0, 60))
def test_a_state_ignores_order_and_parts(values: list[float], random: Any, cut: int) -> None:
    whole, parts, other = target.LogSumExp(), target.LogSumExp(), target.LogSumExp()
    whole.update(np.array(values))
    random.shuffle(values)
    other.update(np.array(values[:cut]))
    parts.update(np.array(values[cut:]))
    parts.merge(other)
    assert parts == whole
    assert parts.value == whole.value
    assert math.isclose(whole.value, target.log_sum_exp(np.array(values)), rel_tol=LOG, abs_tol=LOG)
    assert math.isclose(whole.mean, target.log_mean_exp(np.array(values)), rel_tol=LOG, abs_tol=1e-11)
    assert pickle.loads(pickle.dumps(whole)) == whole


def test_a_state_holds_every_threads_part() -> None:
    """60,000 values are summed in as many parts as there are threads; their sizes differ, so that each part tells."""
    values = np.linspace(-5.0, 5.0, 60_001)
    state = target.LogSumExp()
    state.update(values)
    assert math.isclose(state.value, target.log_sum_exp(values), rel_tol=LOG)


def test_the_ess_counts_blocks_by_squared_distance() -> None:
    """Blocks are of 4096 values: the tops of these two differ, so that their squares shrink by twice the distance."""
    logs = np.repeat([0.0, -3.0], 4096)
    weights = np.exp(logs)
    assert math.isclose(target.ess(logs), weights.sum() ** 2 / (weights**2).sum(), rel_tol=LOG)


def test_a_state_may_be_merged_with_itself() -> None:
    state = target.LogSumExp()
    state.update(np.zeros(3))
    state.merge(state)
    assert len(state) == 6
    assert math.isclose(state.value, math.log(6), rel_tol=LOG)


def test_a_state_of_nothing() -> None:
    state = target.LogSumExp()
    assert (state.value, len(state)) == (-math.inf, 0)
    assert math.isnan(state.mean)
    assert repr(state) == "LogSumExp(value=-inf, count=0)"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_state_is_unchanged_by_what_it_refuses(bad: float) -> None:
    state = target.LogSumExp()
    state.update(np.zeros(2))
    with pytest.raises(ArgumentError, match="value at index 1"):
        state.update(np.array([5.0, bad]))
    assert len(state) == 2
    for call in (target.log_sum_exp, target.log_mean_exp, target.ess):
        with pytest.raises(ArgumentError, match="at index 20000"):
            call(np.append(np.zeros(20_000), bad))
    with pytest.raises(ArgumentError, match="at index 1"):
        target.log_sum_exp_by(np.array([0.0, bad]), offsets=np.array([0, 1, 2]))


def test_bytes_that_no_state_gave_are_refused() -> None:
    state = target.LogSumExp()
    state.update(np.array([1.0, -200.0]))
    data = state.to_bytes()
    flipped = [data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :] for at in range(len(data))]
    for wrong in (*flipped, *(data[:cut] for cut in range(len(data))), data + data[-24:]):
        with pytest.raises(ArgumentError, match="bytes are not a state of a log-sum-exp"):
            target.LogSumExp.from_bytes(wrong)


def test_a_state_of_another_kind_is_not_merged() -> None:
    with pytest.raises(ArgumentError, match=r"^other is a float, wanted a LogSumExp$"):
        target.LogSumExp().merge(1.0)  # type: ignore[arg-type]


def test_groups_are_given_one_way() -> None:
    values, ids = np.zeros(2), np.zeros(2, dtype=np.int64)
    for choice in ({}, {"group_ids": ids, "offsets": np.array([0, 2])}):
        with pytest.raises(UsageError, match="either group_ids or offsets"):
            target.log_sum_exp_by(values, **choice)
    with pytest.raises(LayoutError, match="offsets at index 1"):
        target.log_sum_exp_by(values, offsets=np.array([0, 3]))
    narrow = np.array([0, 2], dtype=np.int32)
    assert target.log_sum_exp_by(values, offsets=narrow) == target.log_sum_exp_by(values, offsets=np.array([0, 2]))
    with pytest.raises(DTypeError, match="offsets has dtype float64"):
        target.log_sum_exp_by(values, offsets=np.array([0.0, 2.0]))


def test_logarithms_are_single_or_double() -> None:
    for call, name in (
        (target.ess, "log_weights"),
        (target.log_sum_exp, "values"),
        (target.LogSumExp().update, "values"),
    ):
        call(np.zeros(2, dtype=np.float32))
        with pytest.raises(DTypeError, match=f"{name} has dtype float16, wanted .* float32 or float64"):
            call(np.zeros(2, dtype=np.float16))


# target


@given(st.lists(st.integers(0, 60), min_size=2, max_size=40), st.floats(0.0, 4.0), st.floats(1e-3, 1e3))
def test_a_divergence_is_reached_or_noted(values: list[int], wanted: float, scale: float) -> None:
    scores = np.array(values, dtype=np.float64) * scale
    fit = target.boltzmann(scores, kl=wanted)
    assert math.isclose(fit.reached_kl, naive.kl(fit.log_weights), rel_tol=GOLDEN, abs_tol=1e-12)
    most = math.log(len(values) / values.count(max(values)))
    if fit.note is None:
        assert math.isclose(fit.reached_kl, wanted, rel_tol=1e-6, abs_tol=1e-9)
    elif fit.note == "ties_at_top":
        assert wanted >= most - 1e-6
        assert math.isclose(fit.reached_kl, most, abs_tol=1e-5)
    else:
        assert fit.note == "equal_scores"
        assert most == 0.0


@given(grouped(), st.floats(0, 5), st.floats(0, 5))
def test_divergence_rises_and_ess_falls(data: Any, a: float, b: float) -> None:
    scores, _, ids = data
    low, high = (target.boltzmann(scores, ids, inverse_temperature=x) for x in sorted((a, b)))
    assert high.reached_kl >= low.reached_kl - 1e-12
    assert high.reached_ess <= low.reached_ess * (1 + 1e-12)


@given(grouped(st.sampled_from([0.0, 0.25, 1.0, -2.0, math.nan])), st.floats(0.01, 2))
def test_the_target_for_a_divergence_ignores_order(data: Any, wanted: float) -> None:
    scores, _, ids = data
    forward = target.boltzmann(scores, ids, kl=wanted)
    backward = target.boltzmann(scores[::-1].copy(), ids[::-1].copy(), kl=wanted)
    assert forward.inverse_temperature == backward.inverse_temperature
    assert forward.reached_kl == backward.reached_kl
    np.testing.assert_array_equal(forward.log_weights, backward.log_weights[::-1])


@pytest.mark.parametrize("wanted", [0.9, 0.5, 0.2])
def test_the_smallest_inverse_temperature_is_taken(wanted: float) -> None:
    """Doubles whose last twelve bits are zero: at the one found the share is reached, at the one before it is not."""
    scores = np.random.default_rng(8).normal(0, 1, 500)
    found = target.boltzmann(scores, ess=wanted)
    bits = int(np.float64(found.inverse_temperature).view(np.uint64))
    assert bits % 4096 == 0
    before = target.boltzmann(scores, inverse_temperature=float(np.uint64(bits - 4096).view(np.float64)))
    assert found.reached_share <= wanted < before.reached_share


def test_divergence_over_scopes_is_of_one_draw() -> None:
    """Scopes of 1, 3 and 8 rows, each drawn from once in three: at b = 0 that is uneven already."""
    ids = np.repeat([0, 1, 2], [1, 3, 8]).astype(np.int64)
    scores = np.random.default_rng(9).normal(0, 1, 12)
    for b in (0.0, 1.5):
        fit = target.boltzmann(scores, ids, inverse_temperature=b)
        p = np.exp(fit.log_weights) / 3
        assert math.isclose(fit.reached_kl, math.log(12) + (p * np.log(p)).sum(), rel_tol=GOLDEN)


def test_a_divergence_of_nothing_is_uniform() -> None:
    fit = target.boltzmann(np.arange(5.0), kl=0.0)
    assert (fit.inverse_temperature, fit.note, fit.wanted_kl, fit.wanted_ess) == (0.0, None, 0.0, None)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_a_divergence_that_nobody_can_mean_is_refused(bad: float) -> None:
    with pytest.raises(ArgumentError, match=r"^kl (at index 0 )?is"):
        target.boltzmann(np.arange(3.0), kl=bad)


def test_one_goal_is_given() -> None:
    for goals in ({"kl": 0.1, "ess": 0.5}, {"kl": 0.1, "inverse_temperature": 1.0}):
        with pytest.raises(UsageError, match="give one of ess, inverse_temperature and kl"):
            target.boltzmann(np.arange(3.0), **goals)


# values and weights


@given(grouped(), st.sampled_from([0.0, 1e-3, 0.05, 1.0, 1e4, math.inf]))
def test_the_soft_value_equals_its_twin(data: Any, t: float) -> None:
    rewards, _, ids = data
    found = target.soft_value(rewards, ids, temperature=t)
    np.testing.assert_allclose(found, naive.soft_value(rewards, ids, t), rtol=LOG, atol=max(1.0, min(t, 1e4)) * LOG)
    mean = target.soft_value(rewards, ids, temperature=math.inf)
    top = target.soft_value(rewards, ids, temperature=0.0)
    assert np.all((found >= mean - 1e-12) & (found <= top) | np.isnan(found))
    for rows in chain.groups(ids, rewards):
        if len(rows) and np.ptp(rewards[rows]) == 0:
            assert np.all(found[rows] == rewards[rows])


def test_the_soft_value_keeps_digits_near_the_mean() -> None:
    """The mean and half the variance over t; a plain log-mean-exp has lost all of the second at t = 1e9."""
    rewards, same = np.array([0.0, 1.0, 5.0]), np.zeros(3, dtype=np.int64)
    found = target.soft_value(rewards, same, temperature=1e9)[0]
    assert math.isclose(found - 2.0, rewards.var() / 2e9, rel_tol=1e-5)


@given(grouped(), st.floats(0.01, 10))
def test_the_intercept_equals_its_twin(data: Any, t: float) -> None:
    rewards, log_ratio, ids = data
    found = target.regression_intercept(rewards, log_ratio, ids, temperature=t)
    np.testing.assert_allclose(found, naive.regression_intercept(rewards, log_ratio, ids, t), rtol=1e-9, atol=1e-9)
    for rows in chain.groups(ids, rewards):
        residual = found[rows] + log_ratio[rows] - rewards[rows] / t
        assert abs(residual.sum()) <= 1e-9 * (1 + np.abs(residual).sum())


@given(grouped(), st.sampled_from([0.25, 1.0, 2.0]), st.booleans())
def test_the_tpo_target_equals_its_twin(data: Any, t: float, anchored: bool) -> None:
    rewards, logp_old, ids = data
    found = target.tpo_target(logp_old, rewards, ids, temperature=t, anchored=anchored)
    np.testing.assert_allclose(found, naive.tpo(logp_old, rewards, ids, t, anchored), rtol=1e-9, atol=1e-12)
    for rows in chain.groups(ids, rewards):
        assert len(rows) == 0 or math.isclose(found[rows].sum(), 1.0, rel_tol=1e-12)


def test_tpo_scales_no_rewards_that_hardly_differ() -> None:
    """Of two that are 1e-7 apart the z-scores would be 1 and -1."""
    found = target.tpo_target(np.zeros(2), np.array([0.0, 1e-7]), np.zeros(2, dtype=np.int64))
    np.testing.assert_allclose(found, 0.5, atol=1e-7)
    same = target.tpo_target(np.log([0.75, 0.25]), np.full(2, 0.1), np.zeros(2, dtype=np.int64))
    np.testing.assert_allclose(same, [0.75, 0.25], rtol=LOG)


@given(st.lists(REWARD, min_size=1, max_size=30), st.floats(0.02, 5))
def test_normalised_weights_add_up_to_one(values: list[float], t: float) -> None:
    rewards = np.array(values)
    for weights in (
        target.awr_weights(rewards, temperature=t, normalised=True),
        target.awr_weights(rewards, temperature=t, clip=None, normalised=True),
        target.rwr_weights(rewards, inverse_temperature=1 / t),
    ):
        assert np.all(weights[np.isnan(rewards)] == 0.0)
        assert math.isclose(weights.sum(), 0.0 if np.isnan(rewards).all() else 1.0, rel_tol=1e-12)


def test_a_clip_comes_before_the_sum() -> None:
    advantages = np.array([0.0, 10.0])
    np.testing.assert_allclose(target.awr_weights(advantages, temperature=1.0), [1.0, 20.0], rtol=LOG)
    shares = target.awr_weights(advantages, temperature=1.0, normalised=True)
    np.testing.assert_allclose(shares, [1 / 21, 20 / 21], rtol=LOG)


def test_overflowing_weights_fail_unless_normalised() -> None:
    advantages = np.array([0.0, 800.0])
    with pytest.raises(ArgumentError, match="weight at index 1 is inf"):
        target.awr_weights(advantages, temperature=1.0, clip=None)
    assert target.awr_weights(advantages, temperature=1.0, clip=None, normalised=True)[1] == 1.0
    assert target.rwr_weights(advantages, inverse_temperature=1e3)[1] == 1.0


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda r, g: target.soft_value(r, g, temperature=-1.0), "temperature is -1, wanted zero or more"),
        (lambda r, g: target.soft_value(r, g[:2].copy(), temperature=1.0), "group_ids has length 2, wanted 3"),
        (lambda r, g: target.regression_intercept(r, r, g, temperature=0.0), "temperature is 0, wanted a number above"),
        (lambda r, g: target.regression_intercept(r, r[:2].copy(), g, temperature=1.0), "log_ratio has length 2"),
        (lambda r, g: target.awr_weights(r, temperature=1.0, clip=0.0), "clip is 0"),
        (lambda r, g: target.rwr_weights(r, inverse_temperature=-1.0), "inverse_temperature is -1"),
        (lambda r, g: target.tpo_target(r, r, g, temperature=math.inf), "temperature is inf"),
        (lambda r, g: target.soft_value(np.append(r[:2], math.inf), g, temperature=1.0), "rewards at index 2 is inf"),
        (lambda r, g: target.tpo_target(r * math.nan, r, g), "logp_old at index 0 is NaN"),
    ],
)
def test_bad_input_is_refused_by_name(call: Any, match: str) -> None:
    with pytest.raises(ArgumentError, match=match):
        call(np.array([0.0, 1.0, 2.0]), np.zeros(3, dtype=np.int64))


def test_the_ess_of_scopes_is_of_all_rows() -> None:
    scores, scopes = np.array([0.0, 1.0, 2.0, 5.0, 5.0, 3.0]), np.array([0, 0, 0, 1, 1, 2])
    found = target.boltzmann(scores, scopes, inverse_temperature=1.3)
    # A draw takes each scope alike, and a row of it by its weight there.
    shares = np.exp(found.log_weights) / 3
    np.testing.assert_allclose(found.reached_ess, 1 / (shares**2).sum(), rtol=1e-12)


@pytest.mark.parametrize("turn", [1, -1])
def test_blocks_are_summed_about_their_maximum(turn: int) -> None:
    values = np.repeat([800.0, -800.0][::turn], 5000)
    np.testing.assert_allclose(target.log_sum_exp(values), 800 + math.log(5000), rtol=1e-15)
    np.testing.assert_allclose(target.ess(values), 5000, rtol=1e-12)


def test_the_ess_of_rows_without_weight_is_zero() -> None:
    assert target.ess(np.array([])) == target.ess(np.full(3, -math.inf)) == 0.0
