"""Fast equals plain, on whatever hypothesis thinks of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import karl_fast
from karl_fast import _core
from tests.properties.naive import chain as naive
from tests.tolerances import LOG, SOLVED, TWIN

REWARDS = st.one_of(
    st.floats(-1e6, 1e6, allow_subnormal=False),
    st.sampled_from([0.0, 1.0, 0.5, -1.0, 0.1, 0.2, 1.8, math.nan]),
)
SEEDS = st.integers(0, 2**64 - 1)
WORDS = st.integers(0, 2**64 - 1)


@st.composite
def columns(draw: st.DrawFn, rewards: st.SearchStrategy[float] = REWARDS) -> tuple[Any, Any]:
    size = draw(st.integers(1, 40))
    values = draw(st.lists(rewards, min_size=size, max_size=size))
    ids = draw(st.lists(st.integers(-1, 5), min_size=size, max_size=size))
    return np.array(values), np.array(ids, dtype=np.int64)


def close(found: Any, wanted: Any, scale: float) -> None:
    """Equal where NaN, else within the tolerance times what went into the sum."""
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=TWIN, atol=TWIN * scale)


def size_of(rewards: Any) -> float:
    present = np.abs(rewards[~np.isnan(rewards)])
    return float(present.max(initial=1.0))


@given(columns())
def test_centre_equals_its_twin(data: Any) -> None:
    rewards, ids = data
    close(karl_fast.centre(rewards, ids), naive.centre(rewards, ids), size_of(rewards))


@given(columns())
def test_leave_one_out_equals_its_twin(data: Any) -> None:
    rewards, ids = data
    close(karl_fast.leave_one_out(rewards, ids), naive.leave_one_out(rewards, ids), size_of(rewards))


@given(columns(st.sampled_from([0.0, 0.1, 0.25, 0.7, 1.0, 1.8, -3.0, math.nan])), st.integers(0, 1))
def test_zscore_equals_its_twin(data: Any, ddof: int) -> None:
    rewards, ids = data
    for eps in (0.0, 1e-6, 1e-4):
        close(karl_fast.zscore(rewards, ids, ddof=ddof, eps=eps), naive.zscore(rewards, ids, ddof, eps), 10.0)


@pytest.mark.parametrize("score", [karl_fast.centre, karl_fast.zscore, karl_fast.leave_one_out])
@given(columns())
def test_constant_and_single_groups_score_zero(score: Any, data: Any) -> None:
    rewards, ids = data
    found = score(rewards, ids)
    for members in naive.groups(ids, rewards):
        if len(members) and np.ptp(rewards[members]) == 0:
            assert np.all(found[members] == 0.0)
    assert np.all(np.isnan(found[np.isnan(rewards) | (ids < 0)]))


@pytest.mark.parametrize("score", [karl_fast.centre, karl_fast.zscore, karl_fast.leave_one_out])
@given(columns(), st.randoms(use_true_random=False))
def test_the_names_of_groups_do_not_matter(score: Any, data: Any, random: Any) -> None:
    rewards, ids = data
    names = list(range(100, 106))
    random.shuffle(names)
    renamed = np.array([names[i] if i >= 0 else -7 for i in ids], dtype=np.int64)
    np.testing.assert_array_equal(score(rewards, ids), score(rewards, renamed))


@given(st.lists(st.floats(-1e4, 1e4), max_size=60))
def test_log_sum_exp_equals_its_twin(values: list[float]) -> None:
    found, wanted = karl_fast.log_sum_exp(np.array(values)), naive.log_sum_exp(np.array(values))
    assert found == wanted or abs(found - wanted) <= LOG * max(1.0, abs(wanted))


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=60), st.floats(-1e3, 1e3))
def test_ess_equals_its_twin_and_ignores_a_constant(values: list[float], shift: float) -> None:
    logs = np.array(values)
    wanted = naive.ess(logs)
    assert math.isclose(karl_fast.ess(logs), wanted, rel_tol=1e3 * LOG)
    assert math.isclose(karl_fast.ess(logs + shift), wanted, rel_tol=1e4 * LOG)
    assert 1 - 1e-9 <= wanted <= len(values) + 1e-9


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=40), st.floats(0, 30))
def test_boltzmann_at_a_given_temperature_equals_its_twin(values: list[float], b: float) -> None:
    scores = np.array(values)
    target = karl_fast.boltzmann(scores, inverse_temperature=b)
    log_z = naive.log_sum_exp(b * scores)
    assert math.isclose(target.log_z[0], log_z, rel_tol=LOG, abs_tol=1e3 * LOG)
    np.testing.assert_allclose(target.log_weights, b * scores - log_z, rtol=LOG, atol=1e3 * LOG)
    assert math.isclose(target.reached_ess, naive.ess(b * scores), rel_tol=1e4 * LOG)


@given(
    st.lists(st.integers(0, 1000), min_size=4, max_size=40, unique=True),
    st.floats(0.3, 0.9),
    st.floats(1e-3, 1e3),
)
def test_boltzmann_for_an_ess_equals_plain_bisection(values: list[int], wanted: float, scale: float) -> None:
    scores = np.array(values, dtype=np.float64) * scale
    assume(naive.share(scores, naive.CAP / np.ptp(scores)) < wanted - 1e-3)
    target = karl_fast.boltzmann(scores, ess=wanted)
    # Where scores lie within a hair of each other the ESS hardly falls: compare what was wanted, not only b.
    assert math.isclose(target.reached_share, wanted, rel_tol=SOLVED)
    slope = naive.share(scores, target.inverse_temperature * 1.01) - wanted
    if slope < -1e-4:
        assert math.isclose(target.inverse_temperature, naive.solve(scores, wanted), rel_tol=SOLVED)


@given(columns(st.floats(-5, 5)), st.floats(0, 5))
def test_each_scope_has_total_weight_one(data: Any, b: float) -> None:
    scores, ids = data
    target = karl_fast.boltzmann(scores, ids, inverse_temperature=b)
    for members in naive.groups(ids, scores):
        assert math.isclose(np.exp(target.log_weights[members]).sum(), 1.0, rel_tol=1e3 * LOG)
    assert np.all(target.log_weights[ids < 0] == -np.inf)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=20), SEEDS)
def test_uniforms_equal_their_twin_to_the_bit(keys: list[tuple[int, int, int]], seed: int) -> None:
    table = np.array(keys, dtype=np.uint64)
    for purpose in naive.PURPOSES:
        wanted = [naive.uniform(seed, *key, purpose) for key in keys]
        assert karl_fast.uniforms(len(keys), seed=seed, purpose=purpose, keys=table).tolist() == wanted


def test_without_keys_the_index_is_the_id() -> None:
    wanted = [naive.uniform(7, row, 0, 0, "draw") for row in range(50)]
    assert karl_fast.uniforms(50, seed=7, purpose="draw").tolist() == wanted


@given(st.lists(st.one_of(st.floats(-30, 30), st.just(-math.inf)), min_size=1, max_size=40), SEEDS)
def test_a_draw_takes_the_largest_keys_in_order(values: list[float], seed: int) -> None:
    logs = np.array(values)
    table = np.array([(row, 0, 0) for row in range(len(logs))], dtype=np.uint64)
    wanted = naive.gumbel_keys(logs, seed, table)
    found = _core.gumbel_keys(logs, seed=seed, keys=table)
    np.testing.assert_allclose(found, wanted, rtol=LOG, atol=LOG)
    for k in (1, 3, len(logs) + 5):
        drawn = karl_fast.draw(logs, k, seed=seed, keys=table).tolist()
        assert drawn == naive.top(found, k)
        assert drawn == karl_fast.draw(logs, k, seed=seed).tolist()


@given(columns(st.floats(-5, 5)), SEEDS, st.randoms(use_true_random=False))
def test_a_draw_follows_keys_not_row_order(data: Any, seed: int, random: Any) -> None:
    logs, _ = data
    table = np.array([(row * 7919, row, 1) for row in range(len(logs))], dtype=np.uint64)
    order = list(range(len(logs)))
    random.shuffle(order)
    plain = karl_fast.draw(logs, 5, seed=seed, keys=table)
    mixed = karl_fast.draw(logs[order].copy(), 5, seed=seed, keys=table[order].copy())
    assert plain.tolist() == [order[row] for row in mixed]


@given(st.lists(st.tuples(REWARDS, REWARDS), min_size=1, max_size=30), st.floats(-2, 2), st.floats(-2, 2))
def test_composite_is_a_weighted_sum_or_missing(pairs: Any, a: float, b: float) -> None:
    first, second = (np.array(column) for column in zip(*pairs, strict=True))
    found = karl_fast.composite([first, second], [a, b])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(first) | np.isnan(second))
    np.testing.assert_allclose(found, a * first + b * second, rtol=TWIN, atol=TWIN * 1e6)
