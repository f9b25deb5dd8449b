"""Replay beside its twin, and what has to hold whatever comes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import karl_fast
from karl_fast import errors, replay
from tests.properties.naive import replay as naive
from tests.tolerances import LOG, SIGMAS, TWIN

NAN = math.nan
AGES = st.lists(st.integers(0, 30), min_size=1, max_size=30)
PRIORITIES = st.lists(st.one_of(st.just(NAN), st.floats(0, 100, allow_subnormal=False)), min_size=1, max_size=30)


def ints(values: Any) -> Any:
    return np.array(values, dtype=np.int64)


@given(AGES, st.floats(0, 2))
def test_decays_are_their_formulas(ages: Any, rate: float) -> None:
    ages = ints(ages)
    np.testing.assert_allclose(replay.ExponentialDecay(rate)(ages), -rate * ages, rtol=TWIN)
    np.testing.assert_allclose(np.exp(replay.Power(rate)(ages)), (1.0 + ages) ** -rate, rtol=LOG)
    assert replay.Window(7)(ages).tolist() == [0.0 if age <= 7 else -math.inf for age in ages]


@given(AGES)
def test_a_rate_of_zero_is_uniform(ages: Any) -> None:
    ages = ints(ages)
    for decay in (replay.ExponentialDecay(0.0), replay.Power(0.0), replay.Window(30)):
        found = replay.age_distribution(ages, decay(ages))
        assert math.isclose(found.ess, len(ages), rel_tol=LOG)
        assert math.isclose(found.mean_age, ages.mean(), rel_tol=LOG, abs_tol=LOG)


@given(AGES, st.floats(0.01, 1.0), st.lists(st.sampled_from([0.0, 0.13, 0.47, 0.81, 1.0]), max_size=3, unique=True))
def test_age_distribution_equals_its_twin(ages: Any, rate: float, levels: Any) -> None:
    log_weights = replay.ExponentialDecay(rate)(ints(ages)) + 5.0
    log_weights[0] = 1.0
    mean, ess, quantiles = naive.age_distribution(ages, log_weights.tolist(), levels)
    found = replay.age_distribution(ints(ages), log_weights, quantiles=levels)
    assert math.isclose(found.mean_age, mean, rel_tol=LOG)
    assert math.isclose(found.ess, ess, rel_tol=LOG)
    assert found.quantiles == dict(zip(levels, quantiles, strict=True))


def test_decay_makes_a_draw_younger_and_smaller() -> None:
    """Ages 0 to 99 once each: FreshDG's mean age is sum a e^(-.02 a) / sum e^(-.02 a) = 34.0 instead of 49.5."""
    ages = np.arange(100)
    fresh = replay.age_distribution(ages, replay.FRESH_DG(ages))
    weights = np.exp(-0.02 * ages)
    assert math.isclose(fresh.mean_age, (weights * ages).sum() / weights.sum(), rel_tol=TWIN)
    assert math.isclose(fresh.ess, weights.sum() ** 2 / (weights**2).sum(), rel_tol=LOG)
    window = replay.age_distribution(ages, replay.Window(9)(ages), quantiles=[0.05, 0.5, 1.0])
    assert (window.mean_age, window.quantiles) == (4.5, {0.05: 0, 0.5: 4, 1.0: 9})
    assert math.isclose(window.ess, 10.0, rel_tol=LOG)
    assert replay.age_distribution(ages, replay.Power(1.0)(ages)).mean_age < fresh.mean_age


def test_a_draw_has_the_predicted_ages() -> None:
    ages = np.repeat(np.arange(10), 50)
    log_weights = replay.ExponentialDecay(0.5)(ages)
    told = replay.age_distribution(ages, log_weights)
    drawn = ages[karl_fast.draw(log_weights, 20_000, sampler="multinomial", seed=4)]
    assert abs(drawn.mean() - told.mean_age) < SIGMAS * drawn.std() / math.sqrt(len(drawn))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_surprisal_is_a_mean_over_tokens(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, 6, 2000)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    logp = (-rng.exponential(1.0, offsets[-1])).astype(dtype)
    found = replay.surprisal(logp, offsets)
    for row in range(200):
        tokens = logp[offsets[row] : offsets[row + 1]].tolist()
        wanted = -math.fsum(tokens) / len(tokens) if tokens else NAN
        assert math.isclose(found[row], wanted, rel_tol=TWIN) or math.isnan(wanted)
    assert np.isnan(found).tolist() == (lengths == 0).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_masked_token_is_not_read_by_surprisal(dtype: Any) -> None:
    """Masked tokens hold what nothing else may; the rest is as if they were not there."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 6, 2000)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    logp, mask = (-rng.exponential(1.0, offsets[-1])).astype(dtype), rng.random(offsets[-1]) < 0.7
    assert (
        replay.surprisal(logp, offsets, mask=np.ones_like(mask)).tobytes() == replay.surprisal(logp, offsets).tobytes()
    )
    logp[~mask] = rng.choice([NAN, math.inf, -math.inf, 5.0], (~mask).sum())
    ends = np.concatenate([[0], np.cumsum(mask)])[offsets]
    found = replay.surprisal(logp, offsets, mask=mask)
    assert found.tobytes() == replay.surprisal(logp[mask], ends).tobytes()
    assert np.isnan(found).sum() > (lengths == 0).sum()
    with pytest.raises(errors.ArgumentError, match="logp at index"):
        replay.surprisal(logp, offsets)


SINGLE = [
    lambda x: replay.delight(x, x),
    lambda x: replay.delight(x, x.astype(np.float64)),
    lambda x: replay.delight_gate(x, eta=0.5, price=0.25),
    lambda x: replay.kondo_price(x, 0.3),
    lambda x: replay.prioritised(x, alpha=0.7, eps=0.1),
    lambda x: replay.importance_log_weights(x, beta=0.5),
    lambda x: replay.largest(x, 7),
    lambda x: replay.accuracy_error(x > 0.5, x, ints(np.arange(len(x)) // 4)),
    lambda x: replay.age_distribution(ints(np.arange(len(x))), x),
]


@pytest.mark.parametrize("measure", SINGLE)
def test_float32_is_widened_and_nothing_else(measure: Any) -> None:
    column = np.random.default_rng(4).random(100).astype(np.float32)
    np.testing.assert_equal(measure(column), measure(column.astype(np.float64)))


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=30), st.floats(0.02, 0.98), st.floats(0.1, 5))
def test_the_price_opens_the_asked_share(delights: Any, keep: float, eta: float) -> None:
    price = replay.kondo_price(np.array(delights), keep, eta=eta)
    gates = replay.delight_gate(np.array(delights), eta=eta, price=price)
    np.testing.assert_allclose(gates, [naive.sigmoid((x - price) / eta) for x in delights], rtol=LOG)
    assert math.isclose(math.fsum(gates) / len(gates), keep, rel_tol=1e-9)
    with_missing = np.array([*delights, NAN])
    assert replay.kondo_price(with_missing, keep, eta=eta) == price


@given(PRIORITIES, st.floats(0, 2), st.floats(0, 1))
def test_prioritised_equals_its_twin_and_importance_undoes_it(priorities: Any, alpha: float, beta: float) -> None:
    assume(any(priority > 1e-3 for priority in priorities))
    logs = replay.prioritised(np.array(priorities), alpha=alpha, eps=1e-3)
    p = naive.prioritised(priorities, alpha, 1e-3)
    np.testing.assert_allclose(np.exp(logs), p, rtol=1e-11)
    weights = np.exp(replay.importance_log_weights(logs, beta=beta))
    np.testing.assert_allclose(weights, naive.importance_weights(p, beta), rtol=1e-11)
    whole = np.exp(logs + replay.importance_log_weights(logs, beta=1.0))[~np.isnan(priorities)]
    np.testing.assert_allclose(whole, whole[0], rtol=1e-11)


def test_alpha_zero_is_uniform() -> None:
    found = replay.prioritised(np.array([0.0, 3.0, NAN, 9.0]), alpha=0.0)
    np.testing.assert_allclose(np.exp(found), [1 / 3, 1 / 3, 0.0, 1 / 3], rtol=LOG)
    assert np.exp(replay.prioritised(np.array([0.0, 3.0, NAN, 9.0]), alpha=1.0)).round(12).tolist() == [
        0,
        0.25,
        0,
        0.75,
    ]
    assert replay.importance_log_weights(found, beta=0.0)[[0, 1, 3]].tolist() == [0.0] * 3


def test_importance_weights_correct_a_priority_draw() -> None:
    """200,000 rows drawn by priority; the self-normalised weights bring their mean back from 0.67 to 0.5."""
    values = np.linspace(0.0, 1.0, 101)
    logs = replay.prioritised(values, alpha=1.0, eps=1e-2)
    drawn = karl_fast.draw(logs, 200_000, sampler="multinomial", seed=1)
    weights = np.exp(replay.importance_log_weights(logs, beta=1.0))[drawn]
    assert values[drawn].mean() > 0.65
    deviations = weights * (values[drawn] - 0.5)
    error = SIGMAS * deviations.std() / math.sqrt(len(drawn)) / weights.mean()
    assert abs((weights * values[drawn]).sum() / weights.sum() - 0.5) < error < 0.02


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1), st.integers(-1, 3)), max_size=25), st.booleans())
def test_accuracy_error_equals_its_twin(rows: Any, successes_only: bool) -> None:
    right = np.array([row[0] for row in rows], dtype=bool)
    predicted, ids = np.array([row[1] for row in rows], dtype=np.float64), ints([row[2] for row in rows])
    found = replay.accuracy_error(right, predicted, ids, successes_only=successes_only)
    np.testing.assert_allclose(found, naive.accuracy_error(right, predicted, ids, successes_only), rtol=TWIN)


def test_paced_replays_the_largest_errors_first() -> None:
    """Groups of four: 1 of 4 right where 0.8 was predicted (error 0.55), 3 of 4 where 0.7 was (0.05)."""
    right = np.array([True, False, False, False, True, True, False, True])
    predicted, offsets = np.repeat([0.8, 0.7], 4), ints([0, 4, 8])
    priorities = replay.accuracy_error(right, predicted, offsets=offsets)
    assert replay.largest(priorities, 3).tolist() == [0, 4, 5]
    assert replay.largest(priorities, 99).tolist() == [0, 4, 5, 7]
    both = replay.accuracy_error(right, predicted, offsets=offsets, successes_only=False)
    assert replay.largest(both, 4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: replay.ExponentialDecay(-1.0), "rate is -1"),
        (lambda: replay.ExponentialDecay(math.inf), "rate at index 0 is inf"),
        (lambda: replay.Window(-1), "max_age is -1"),
        (lambda: replay.Power(NAN), "exponent is NaN"),
        (lambda: replay.Power(1.0)(ints([3, -2])), "ages at index 1 is -2, wanted 0 or more"),
        (lambda: replay.age_distribution(ints([1]), np.array([-math.inf])), "sum of weights is 0"),
        (
            lambda: replay.age_distribution(ints([1]), np.array([0.0]), quantiles=[2.0]),
            r"quantiles at index 0 is 2, wanted a number in \[0, 1\]",
        ),
        (lambda: replay.surprisal(np.array([-math.inf]), ints([0, 1])), "logp at index 0 is -inf"),
        (lambda: replay.delight(np.array([math.inf]), np.array([1.0])), "advantages at index 0 is inf"),
        (lambda: replay.delight_gate(np.array([1.0]), eta=0.0), "eta is 0"),
        (lambda: replay.kondo_price(np.array([NAN]), 0.5), "delights that are present has length 0"),
        (lambda: replay.kondo_price(np.array([1.0]), 1.0), "keep is 1"),
        (
            lambda: replay.prioritised(np.array([1.0, -0.5]), alpha=1.0),
            "priorities at index 1 is -0.5, wanted 0 or more",
        ),
        (lambda: replay.prioritised(np.array([0.0]), alpha=1.0), "sum of priorities is 0"),
        (lambda: replay.importance_log_weights(np.array([0.0]), beta=1.5), r"beta is 1.5, wanted a number in \[0, 1\]"),
        (lambda: replay.accuracy_error(np.array([True]), np.array([0.5, 0.5]), ints([0])), "predicted has length 2"),
        (lambda: replay.largest(np.array([math.inf]), 1), "priorities at index 0 is inf"),
        (lambda: replay.largest(np.array([1.0]), -1), "k is -1, wanted 0 or more"),
        (
            lambda: replay.surprisal(np.zeros(1), ints([0, 1]), mask=np.ones(2, dtype=bool)),
            "mask has length 2, wanted 1",
        ),
        (lambda: replay.importance_log_weights(np.array([math.inf]), beta=1.0), "log_weights at index 0 is inf"),
    ],
)
def test_what_is_wrong_is_named(call: Any, message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        call()
