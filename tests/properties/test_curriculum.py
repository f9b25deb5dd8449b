"""The curriculum beside its twins, and what has to hold whatever comes."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karl_fast import curriculum, errors
from karl_fast.curriculum import BetaPosterior, Schedule, Stage
from tests.properties.naive import curriculum as naive
from tests.tolerances import LOG, TWIN

NAN = math.nan
RATES = st.one_of(st.floats(0, 1), st.floats(0, 1e-12), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
TRIALS = st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 9), st.integers(0, 9)), max_size=20)


def ints(values: Any) -> Any:
    return np.array(values, dtype=np.int64)


@given(RATES, st.integers(1, 64))
def test_mixed_group_probability_equals_exact_fractions(rate: float, size: int) -> None:
    found = curriculum.mixed_group_probability(np.array([rate]), size=size)[0]
    assert math.isclose(found, naive.mixed_group_probability(rate, size), rel_tol=1e-14, abs_tol=5e-324)


@given(st.integers(0, 1 << 20), st.integers(1, 64))
def test_mixed_group_probability_is_symmetric_with_a_peak(numerator: int, size: int) -> None:
    rate = numerator / (1 << 20)
    found = curriculum.mixed_group_probability(np.array([rate, 1.0 - rate, 0.5]), size=size)
    assert found[0] == found[1] <= found[2]
    assert (found[0] == 0.0) == (size == 1 or rate in (0.0, 1.0))


def test_tiny_rates_keep_their_digits() -> None:
    q = 1e-18
    assert 1.0 - q**8 - (1.0 - q) ** 8 == 0.0
    found = curriculum.mixed_group_probability(np.array([q, NAN]), size=8)
    assert math.isclose(found[0], 8e-18, rel_tol=1e-15)
    assert np.isnan(found[1])


def test_expected_mixed_groups_weigh_large_groups_against_many() -> None:
    """64 rollouts of prompts solved once in twenty: groups of 8 teach 2.7 times, one of 64 once, of 2 three times."""
    rates = np.array([0.05])
    found = {size: curriculum.expected_mixed_groups(rates, size=size, budget=64)[0] for size in (2, 8, 64)}
    assert math.isclose(found[8], 8 * (1 - 0.05**8 - 0.95**8), rel_tol=TWIN)
    assert found[2] > found[8] > found[64] > 0.95


@given(st.lists(st.one_of(st.just(NAN), st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.8, 1.0]))), st.integers(0, 9), st.data())
def test_nearest_rate_equals_its_twin(rates: Any, k: int, data: Any) -> None:
    ids = data.draw(st.lists(st.integers(-9, 9), min_size=len(rates), max_size=len(rates)))
    column, target = np.array(rates, dtype=np.float64), data.draw(st.sampled_from([0.5, 0.3, 1.0]))
    found = curriculum.nearest_rate(column, k, target=target, ids=ints(ids))
    assert found.tolist() == naive.nearest_rate(rates, k, target, ids)
    assert curriculum.nearest_rate(column, k).tolist() == naive.nearest_rate(rates, k, 0.5, range(len(rates)))


def test_ties_go_to_the_smaller_id() -> None:
    rates, ids = np.array([0.25, 0.75, 0.9, 0.75]), ints([7, 2, 5, 3])
    first = ids[curriculum.nearest_rate(rates, 2, ids=ids)]
    again = ids[::-1].copy()[curriculum.nearest_rate(rates[::-1].copy(), 2, ids=ids[::-1].copy())]
    assert first.tolist() == again.tolist() == [2, 3]
    assert curriculum.outcome_variance(np.array([0.0, 0.5, NAN, 0.25]))[[0, 1, 3]].tolist() == [0.0, 0.25, 0.1875]


@pytest.mark.parametrize(
    "measure",
    [
        lambda x: curriculum.mixed_group_probability(x, size=8),
        lambda x: curriculum.expected_mixed_groups(x, size=8, budget=64),
        curriculum.outcome_variance,
        lambda x: curriculum.nearest_rate(x, 9),
    ],
)
def test_rates_of_float32_are_widened_and_nothing_else(measure: Any) -> None:
    rates = np.random.default_rng(6).random(100).astype(np.float32)
    np.testing.assert_equal(measure(rates), measure(rates.astype(np.float64)))


def seen(trials: Any, a: float = 1.0, b: float = 1.0) -> BetaPosterior:
    table = ints(trials).reshape(-1, 3)
    posterior = BetaPosterior(a, b)
    posterior.update(table[:, 0].copy(), table[:, 1].copy(), table[:, 1] + table[:, 2])
    return posterior


def merged(one: Any, two: Any) -> BetaPosterior:
    posterior = seen(one)
    posterior.merge(seen(two))
    return posterior


@given(TRIALS, st.sampled_from([(1.0, 1.0), (0.5, 0.5), (2.0, 7.0)]))
def test_the_moments_are_those_of_the_counts(trials: Any, prior: tuple[float, float]) -> None:
    posterior = seen(trials, *prior)
    ids = sorted({task for task, _, _ in trials})
    assert posterior.ids.tolist() == ids
    assert len(posterior) == len(ids)
    for at, task in enumerate(ids):
        right = sum(row[1] for row in trials if row[0] == task)
        all_ = right + sum(row[2] for row in trials if row[0] == task)
        assert (posterior.successes[at], posterior.failures[at]) == (right, all_ - right)
        mean, variance = naive.moments(*prior, right, all_)
        assert math.isclose(posterior.mean()[at], mean, rel_tol=TWIN)
        assert math.isclose(posterior.variance()[at], variance, rel_tol=TWIN)


@given(TRIALS, TRIALS)
def test_merged_posteriors_equal_the_whole(one: Any, two: Any) -> None:
    whole = seen(one + two)
    assert merged(one, two) == whole == merged(two, one) == seen(list(reversed(one + two)))
    assert BetaPosterior.from_bytes(whole.to_bytes()) == whole == pickle.loads(pickle.dumps(whole))
    assert whole.to_bytes() == seen(two + one).to_bytes()
    assert BetaPosterior(2.0, 1.0) != BetaPosterior(1.0, 1.0)


def test_quantiles_equal_those_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    counts = [0, 1, 3, 20, 1000, 100_000]
    trials = [(at, right, wrong) for at, (right, wrong) in enumerate((r, w) for r in counts for w in counts)]
    for prior in [(1.0, 1.0), (0.5, 0.5), (0.1, 3.0)]:
        posterior = seen(trials, *prior)
        a, b = prior[0] + posterior.successes, prior[1] + posterior.failures
        for probability in (0.001, 0.05, 0.5, 0.9, 0.999):
            wanted = stats.beta.ppf(probability, a, b)
            # The log of the beta function of 1e5 is near 1e6: its last bit is 1e-10 of the density.
            np.testing.assert_allclose(posterior.quantile(probability), wanted, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(posterior.mean(), stats.beta.mean(a, b), rtol=TWIN)
        np.testing.assert_allclose(posterior.variance(), stats.beta.var(a, b), rtol=TWIN)


def test_a_uniform_prior_has_uniform_quantiles() -> None:
    posterior = seen([(4, 0, 0)])
    for probability in (0.0, 1e-9, 0.25, 0.5, 1.0):
        assert math.isclose(posterior.quantile(probability)[0], probability, rel_tol=LOG)
    ten = seen([(4, 10, 0)])  # the law of the largest of eleven uniforms
    assert math.isclose(ten.quantile(0.5)[0], 0.5 ** (1 / 11), rel_tol=LOG)


@pytest.mark.parametrize(
    ("right", "wrong", "prior"), [(0, 0, 1.0), (3, 5, 1.0), (0, 2, 0.5), (0, 0, 0.3), (400, 90, 1.0)]
)
def test_thompson_draws_follow_the_posterior(right: int, wrong: int, prior: float) -> None:
    """Kolmogorov-Smirnov over 20,000 tasks of the same counts; alpha 1e-3 a case, five cases, fixed seed."""
    stats = pytest.importorskip("scipy.stats")
    posterior = seen([(task, right, wrong) for task in range(20_000)], prior, prior)
    drawn = posterior.thompson(seed=11)
    assert stats.kstest(drawn, stats.beta(prior + right, prior + wrong).cdf).pvalue > 1e-3
    other = posterior.thompson(seed=12)
    assert abs(np.corrcoef(stats.rankdata(drawn), stats.rankdata(other))[0, 1]) < 4 / math.sqrt(20_000)


def test_a_thompson_draw_depends_on_seed_and_id() -> None:
    few = seen([(7, 1, 2), (3, 4, 0)]).thompson(seed=5)
    many = seen([(task, 1, 1) for task in range(100, 200)] + [(3, 4, 0), (7, 1, 2)]).thompson(seed=5)
    assert few.tolist() == many[:2].tolist()
    assert [rate.hex() for rate in few.tolist()] == ["0x1.f4100c5efd700p-1", "0x1.d66ee996ac535p-3"]


def test_a_schedule_covers_every_step_once() -> None:
    schedule = Schedule((Stage(("a",), steps=3), Stage(("a", "b"), epochs=2), Stage(("b",), steps=1)))
    stages = [schedule.stage_at(step, epoch_steps=4) for step in range(schedule.steps(epoch_steps=4))]
    wanted = [stage for stage in schedule.stages for _ in range(stage.length(4))]
    assert stages == wanted
    assert len(stages) == 12
    for step in (-1, 12):
        with pytest.raises(errors.ArgumentError, match=f"step is {step}, wanted one of 0 to 12"):
            schedule.stage_at(step, epoch_steps=4)


def test_easy_to_hard_has_four_stages() -> None:
    found = [curriculum.EASY_TO_HARD.stage_at(step, epoch_steps=5).levels for step in range(0, 40, 10)]
    assert found == [("easy",), ("easy", "medium"), ("medium", "hard"), ("hard",)]
    assert curriculum.EASY_TO_HARD.steps(epoch_steps=5) == 40
    with pytest.raises(errors.UsageError, match="wanted epoch_steps"):
        curriculum.EASY_TO_HARD.stage_at(0)


ONE = ints([1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: curriculum.mixed_group_probability(np.array([1.5]), size=2),
            r"rates at index 0 is 1.5, wanted a number in \[0, 1\]",
        ),
        (lambda: curriculum.mixed_group_probability(np.array([0.5]), size=0), "size is 0"),
        (lambda: curriculum.mixed_group_probability(np.array([0.5]), size=-2), "size is -2, wanted 0 or more"),
        (lambda: curriculum.nearest_rate(np.array([0.5]), -1), "k is -1, wanted 0 or more"),
        (lambda: BetaPosterior().thompson(seed=-1), r"seed is -1, wanted an integer in \[0, 2\^64\)"),
        (lambda: BetaPosterior().thompson(seed=2**64), "seed is 18446744073709551616"),
        (lambda: Stage("easy", epochs=1), "levels is 'easy', wanted a tuple of names"),  # type: ignore[arg-type]
        (lambda: curriculum.expected_mixed_groups(np.array([0.5]), size=2, budget=-1), "budget is -1"),
        (lambda: curriculum.nearest_rate(np.array([0.5]), 1, target=NAN), "target is NaN"),
        (lambda: curriculum.nearest_rate(np.array([0.5]), 1, ids=ints([1, 2])), "ids has length 2, wanted 1"),
        (lambda: BetaPosterior(0.0, 1.0), "prior a is 0"),
        (
            lambda: BetaPosterior().update(ONE, ints([2]), ONE),
            r"successes at index 0 is 2, wanted a number in \[0, 1\]",
        ),
        (lambda: BetaPosterior().update(ONE, ints([-2]), ONE), "successes at index 0 is -2"),
        (lambda: BetaPosterior().update(ONE, ints([1, 2]), ONE), "successes has length 2, wanted 1"),
        (lambda: seen([(1, 1, 0)]).quantile(1.5), "probability is 1.5"),
        (lambda: seen([(1, 0, 10**10)]).quantile(0.5), "trials is 10000000000"),
        (lambda: BetaPosterior(2.0, 1.0).merge(BetaPosterior()), "cannot be merged with one of another prior"),
        (lambda: BetaPosterior().merge(1), "^other is a int, wanted a BetaPosterior$"),  # type: ignore[arg-type]
        (lambda: Stage(()), "give a stage either epochs or steps"),
        (lambda: Stage((), steps=1), r"stage has levels \(\)"),
        (lambda: Stage(("a",), epochs=0), "lasts 0"),
        (lambda: Stage(("a",), epochs=1).length(0), "epoch_steps is 0"),
        (lambda: Schedule(()), "schedule has no stages"),
    ],
)
def test_what_is_wrong_is_named(call: Any, message: str) -> None:
    with pytest.raises((errors.ArgumentError, errors.UsageError), match=message):
        call()


def test_a_posterior_survives_refusals_and_merges_with_itself() -> None:
    posterior = seen([(1, 2, 3), (4, 5, 6)])
    with pytest.raises(errors.ArgumentError, match="successes at index 1 is 9"):
        posterior.update(ints([1, 4]), ints([1, 9]), ints([1, 1]))
    assert posterior == seen([(1, 2, 3), (4, 5, 6)])
    posterior.merge(posterior)
    assert posterior == seen([(1, 4, 6), (4, 10, 12)])
    assert len(posterior) == 2


def test_bytes_that_are_no_posterior_are_refused() -> None:
    whole = seen([(1, 2, 3), (4, 5, 6)]).to_bytes()
    damaged = [whole[:cut] for cut in range(len(whole))]
    damaged += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for data in [*damaged, whole + b"\0"]:
        with pytest.raises(errors.ArgumentError, match="bytes are not a state of a Beta posterior"):
            BetaPosterior.from_bytes(data)
