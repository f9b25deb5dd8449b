"""The samplers equal their plain twins, on whatever hypothesis thinks of."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karl_fast import sampling
from karl_fast.errors import ArgumentError
from tests.properties.naive import chain
from tests.properties.naive import sampling as naive
from tests.tolerances import TWIN

SEEDS = st.integers(0, 2**64 - 1)
WEIGHTS = st.lists(st.one_of(st.floats(1e-3, 1e3), st.sampled_from([0.0, 1.0, 2.0])), min_size=1, max_size=40)
COUNTS = st.integers(1, 45)


def uniforms(seed: int, rows: int, purpose: int) -> list[float]:
    return [naive.uniform(seed, row, 0, purpose) for row in range(rows)]


def table(rows: int) -> Any:
    keys = np.zeros((rows, 3), dtype=np.uint64)
    keys[:, 0] = np.arange(rows)
    return keys


def logs(weights: list[float]) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(np.array(weights))


@given(WEIGHTS, COUNTS)
def test_the_threshold_equals_the_one_that_fits(weights: list[float], k: int) -> None:
    tau, shares = sampling.threshold(np.array(weights), k)
    assert math.isclose(tau, naive.threshold(weights, k), rel_tol=TWIN)
    present = sum(weight > 0 for weight in weights)
    assert math.isclose(shares.sum(), min(k, present), rel_tol=TWIN, abs_tol=0)
    assert all((share == 0) == (weight == 0) for share, weight in zip(shares, weights, strict=True))


@given(WEIGHTS, COUNTS, SEEDS)
def test_priority_sampling_equals_its_twin(weights: list[float], k: int, seed: int) -> None:
    found = sampling.draw_priority(np.array(weights), k, seed=seed)
    rows, tau = naive.priority(weights, k, uniforms(seed, len(weights), chain.PURPOSES["draw"]))
    assert (found.rows.tolist(), found.threshold) == (rows, tau)
    assert found.estimates.tolist() == [max(weights[row], tau) for row in rows]


@given(WEIGHTS, COUNTS, SEEDS)
def test_var_opt_equals_its_twin(weights: list[float], k: int, seed: int) -> None:
    found = sampling.draw_var_opt(np.array(weights), k, seed=seed)
    estimates, tau = naive.var_opt(weights, k, uniforms(seed, len(weights), naive.DROP))
    assert found.rows.tolist() == sorted(estimates)
    np.testing.assert_allclose(found.estimates, [estimates[row] for row in sorted(estimates)], rtol=TWIN)
    assert math.isclose(found.threshold, tau, rel_tol=TWIN)
    assert math.isclose(found.threshold, naive.threshold(weights, k), rel_tol=TWIN)
    assert len(found.rows) == min(k, sum(weight > 0 for weight in weights))
    assert math.isclose(found.estimates.sum(), math.fsum(weights), rel_tol=TWIN)


@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0, 7.0]), min_size=1, max_size=6), st.integers(0, 7))
def test_inclusion_equals_the_sum_over_every_possible_draw(weights: list[float], k: int) -> None:
    found = sampling.inclusion(logs(weights), k)
    present = [row for row, weight in enumerate(weights) if weight > 0]
    wanted = np.zeros(len(weights))
    wanted[present] = chain.inclusion([weights[row] for row in present], min(k, len(present)))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-11)


@given(st.lists(st.floats(-300, 300), min_size=2, max_size=12), st.integers(1, 11), st.floats(-1e3, 1e3))
def test_inclusion_adds_up_to_k(values: list[float], k: int, shift: float) -> None:
    found = sampling.inclusion(np.array(values), k)
    assert math.isclose(found.sum(), min(k, len(values)), rel_tol=1e-11)
    np.testing.assert_allclose(sampling.inclusion(np.array(values) + shift, k), found, rtol=0, atol=1e-10)
    order = np.argsort(values, kind="stable")
    assert np.all(np.diff(found[order]) >= -1e-11), "and rises with the weight"


def test_inclusion_of_many_alike_is_their_share() -> None:
    np.testing.assert_allclose(sampling.inclusion(np.zeros(300), 40), 40 / 300, rtol=1e-11)


@given(WEIGHTS, COUNTS, SEEDS)
def test_draw_with_inclusion_is_the_draw(weights: list[float], k: int, seed: int) -> None:
    found = sampling.draw_with_inclusion(logs(weights), k, seed=seed)
    keys = chain.gumbel_keys(logs(weights), seed, table(len(weights)))
    falling = chain.top(keys, len(weights))
    assert found.rows.tolist() == sampling.draw(logs(weights), k, seed=seed).tolist() == falling[:k]
    if len(falling) <= k:
        assert found.threshold is None
        assert np.all(found.inclusion == 1.0)
    else:
        assert found.threshold is not None
        assert math.isclose(found.threshold, keys[falling[k]], rel_tol=TWIN, abs_tol=TWIN)
        wanted = [-math.expm1(-weights[row] * math.exp(-found.threshold)) for row in falling[:k]]
        np.testing.assert_allclose(found.inclusion, wanted, rtol=1e-10)


@given(WEIGHTS.filter(any))
def test_an_alias_table_gives_back_the_weights(weights: list[float]) -> None:
    found = sampling.Alias(logs(weights)).probabilities()
    np.testing.assert_allclose(found, np.array(weights) / math.fsum(weights), rtol=1e-11)


@given(WEIGHTS.filter(any), SEEDS)
def test_alias_draws_do_not_depend_on_count(weights: list[float], seed: int) -> None:
    alias = sampling.Alias(logs(weights))
    found = alias.draw(50, seed=seed)
    assert alias.draw(20, seed=seed).tolist() == found[:20].tolist()
    assert all(weights[row] > 0 for row in found)
    assert len(alias) == len(weights)


@given(st.integers(0, 300), st.integers(0, 20), SEEDS)
def test_a_reservoir_of_an_iterable_equals_rows(rows: int, k: int, seed: int) -> None:
    wanted = sampling.reservoir(rows, k, seed=seed).tolist()
    assert sampling.reservoir_of(range(rows), k, seed=seed) == wanted
    assert sampling.reservoir_of((str(row) for row in range(rows)), k, seed=seed) == [str(row) for row in wanted]


@given(WEIGHTS, st.integers(0, 45), SEEDS)
def test_a_weighted_reservoir_of_iterables_equals_its_twin(weights: list[float], k: int, seed: int) -> None:
    pairs: list[tuple[object, float]] = list(enumerate(weights))
    wanted = naive.weighted_reservoir(pairs, k, naive.stream(seed))
    assert sampling.weighted_reservoir_of(iter(pairs), k, seed=seed) == wanted
    assert sampling.weighted_reservoir_of(range(len(weights)), k, weight=weights.__getitem__, seed=seed) == wanted


@given(WEIGHTS, COUNTS, SEEDS, st.randoms(use_true_random=False))
def test_merged_shards_draw_like_the_array(weights: list[float], k: int, seed: int, random: Any) -> None:
    keys, values = table(len(weights)), np.array(weights)
    parts = [np.array([row for row in range(len(weights)) if row % 3 == part], dtype=np.int64) for part in range(3)]
    random.shuffle(parts)
    for law, column in ((sampling.TopK, logs(weights)), (sampling.Priority, values), (sampling.BottomK, None)):
        whole, merged = law(k, seed=seed), law(k, seed=seed)
        whole.update(*([keys] if column is None else [keys, column]))
        for rows in parts:
            shard = law(k, seed=seed)
            shard.update(*([keys[rows]] if column is None else [keys[rows], column[rows]]))
            merged.merge(pickle.loads(pickle.dumps(shard)))
        assert merged.to_bytes() == whole.to_bytes()
        assert len(merged) == len(whole.drawn().ranks)
        rows = whole.drawn().keys[:, 0].tolist()
        if law is sampling.TopK:
            drawn = sampling.draw_with_inclusion(logs(weights), k, seed=seed)
            assert rows == drawn.rows.tolist()
            np.testing.assert_array_equal(whole.drawn().inclusion, drawn.inclusion)
        elif law is sampling.Priority:
            estimated = sampling.draw_priority(values, k, seed=seed)
            assert rows == estimated.rows.tolist()
            held = whole.drawn()
            np.testing.assert_allclose(held.sizes / held.inclusion, estimated.estimates, rtol=TWIN)
        else:
            assert rows == sampling.draw(np.zeros(len(weights)), k, sampler="reservoir", seed=seed).tolist()


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60), st.integers(0, 60), st.integers(0, 1))
def test_moments_of_parts_equal_numpy(values: list[float], cut: int, ddof: int) -> None:
    first, last = sampling.Moments(), sampling.Moments()
    first.update(np.array(values[cut:]))
    last.update(np.array([*values[:cut], math.nan]))
    first.merge(last)
    assert len(first) == len(values)
    assert math.isclose(first.mean, math.fsum(values) / len(values), rel_tol=TWIN, abs_tol=1e-9)
    deviations = math.fsum((value - first.mean) ** 2 for value in values)
    assert math.isclose(first.variance(ddof=ddof), deviations / (len(values) - ddof), rel_tol=1e-11, abs_tol=1e-18)
    assert (first.min, first.max) == (min(values), max(values))


BAD: list[Any] = [
    (lambda: sampling.threshold(np.array([1.0, -1.0]), 1), "weight at index 1 is -1, wanted a finite number, zero"),
    (lambda: sampling.draw_priority(np.array([math.nan]), 1), "weight at index 0 is NaN"),
    (lambda: sampling.draw_var_opt(np.array([1.0, math.inf]), 1), "weight at index 1 is inf"),
    (lambda: sampling.draw_var_opt(np.array([1.0]), 0), "k is 0, wanted a number above zero"),
    (lambda: sampling.VarOpt(0), "k is 0, wanted a number above zero"),
    (lambda: sampling.Alias(np.array([-math.inf])), "total weight is 0, wanted a number above zero"),
    (lambda: sampling.inclusion(np.array([0.0, math.nan]), 1), "log_weights at index 1 is NaN"),
    (lambda: sampling.draw_with_inclusion(np.zeros(2), -1), "^k is -1, wanted 0 to 2"),
    (lambda: sampling.TopK(2, seed=-1), "^seed is -1, wanted 0 to 2"),
    (lambda: sampling.weighted_reservoir_of([("a", 1.0), ("b", -2.0)], 1), "weight at index 1 is -2"),
    (lambda: sampling.weighted_reservoir_of([("a", 1.0), "b"], 1), "item at index 1 is not a tuple"),
    (lambda: sampling.threshold(np.full(3, 1e308), 2), "total of weights at index 1 is inf"),
    (lambda: sampling.draw_var_opt(np.full(3, 1e308), 2), "total of weights at index 1 is inf"),
    (lambda: sampling.TopK(2).update(table(3), np.zeros(2)), "^log_weights has length 2, wanted 3$"),
    (lambda: sampling.Priority(2).update(table(3), np.zeros(4)), "^weights has length 4, wanted 3$"),
    (lambda: sampling.VarOpt(2).update(table(3), np.zeros(4)), "^weights has length 4, wanted 3$"),
    (lambda: sampling.TopK(2).merge(sampling.TopK(3)), "another k"),
    (lambda: sampling.TopK(2).merge(sampling.BottomK(2)), "other is a BottomK, wanted a TopK"),
    (lambda: sampling.TopK.from_bytes(sampling.BottomK(2).to_bytes()), "they are of another kind"),
    (lambda: sampling.Moments.from_bytes(b""), "there are too few"),
    (lambda: sampling.Moments().update(np.array([math.inf])), "value at index 0 is inf"),
]


@pytest.mark.parametrize(("call", "match"), BAD)
def test_what_no_sampler_takes_is_refused_by_name(call: Any, match: str) -> None:
    with pytest.raises(ArgumentError, match=match):
        call()


def test_an_iterators_error_is_raised() -> None:
    def fails() -> Any:
        yield 1, 1.0
        raise KeyError("gone")

    for call in (sampling.reservoir_of, sampling.weighted_reservoir_of):
        with pytest.raises(KeyError, match="gone"):
            call(fails(), 3)
    with pytest.raises(ZeroDivisionError):
        sampling.weighted_reservoir_of([1, 0], 1, weight=lambda item: 1 / item)


def test_states_survive_pickle() -> None:
    keys, weights = table(50), np.arange(1.0, 51.0)
    for state in (sampling.TopK(5, seed=7), sampling.Priority(5, seed=7), sampling.VarOpt(5, seed=7)):
        state.update(keys[:30].copy(), weights[:30].copy())
        copy = pickle.loads(pickle.dumps(state))
        for one in (state, copy):
            one.update(keys[30:].copy(), weights[30:].copy())
        assert copy.to_bytes() == state.to_bytes()
        assert (repr(copy), len(copy)) == (repr(state), 5)
        before = state.to_bytes()
        if not isinstance(state, sampling.VarOpt):
            state.merge(state)
            assert state.to_bytes() == before


def states() -> list[Any]:
    keys, weights = table(50), np.arange(1.0, 51.0)
    made: list[Any] = [sampling.TopK(5), sampling.BottomK(5), sampling.Priority(5), sampling.VarOpt(5)]
    made[1].update(keys)
    for state in (made[0], *made[2:]):
        state.update(keys, weights)
    moments = sampling.Moments()
    moments.update(weights)
    return [*made, moments]


@pytest.mark.parametrize("at", range(5))
def test_states_are_equal_where_they_hold_the_same(at: int) -> None:
    one, other = states()[at], states()[at]
    assert one == other
    assert one != states()[at - 1]
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    one.update(*((np.array([0.5]),) if at == 4 else (table(1), np.array([1e9]))[: 1 if at == 1 else 2]))
    assert (one == other) == (at == 1)


@pytest.mark.parametrize("at", range(5))
def test_bytes_with_one_bit_turned_are_refused(at: int) -> None:
    state = states()[at]
    data = state.to_bytes()
    for place in range(len(data)):
        with pytest.raises(ArgumentError, match="bytes are not a state"):
            type(state).from_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


SINGLE: list[Any] = [
    pytest.param(lambda a: sampling.draw(a, 3), id="draw"),
    pytest.param(lambda a: sampling.weighted_reservoir(a, 3), id="weighted_reservoir"),
    pytest.param(lambda a: sampling.draw_with_inclusion(a, 3).inclusion, id="draw_with_inclusion"),
    pytest.param(lambda a: sampling.inclusion(a, 3), id="inclusion"),
    pytest.param(lambda a: sampling.threshold(a, 3)[1], id="threshold"),
    pytest.param(lambda a: sampling.draw_priority(a, 3).estimates, id="draw_priority"),
    pytest.param(lambda a: sampling.draw_var_opt(a, 3).estimates, id="draw_var_opt"),
    pytest.param(lambda a: sampling.Alias(a).probabilities(), id="Alias"),
]


@pytest.mark.parametrize("call", SINGLE)
def test_single_numbers_are_widened_and_nothing_else(call: Any) -> None:
    single = np.random.default_rng(3).random(40).astype(np.float32)
    np.testing.assert_array_equal(call(single), call(single.astype(np.float64)))


def test_inclusion_adds_up_for_distant_log_weights() -> None:
    assert sampling.inclusion(np.array([1e308, -1e308, 0.0]), 2).tolist() == [1.0, 0.0, 1.0]
    logs = np.random.default_rng(5).normal(0.0, 200.0, 300)
    assert math.isclose(sampling.inclusion(logs, 40).sum(), 40.0, rel_tol=1e-12)
    even = sampling.inclusion(np.zeros(5000), 100)
    np.testing.assert_allclose(even, 0.02, rtol=1e-10)
