"""Measures of attempts against enumeration, and paired comparisons."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from karl_fast.errors import ArgumentError
from karl_fast.resampling import Attempts, bootstrap_mean, measure, paired_differences, powers


def attempts(*groups: list[float]) -> Attempts:
    each = [reward for group in groups for reward in group]
    return Attempts(
        tuple(f"p{number}" for number in range(len(groups))),
        np.cumsum([0, *map(len, groups)], dtype=np.int64),
        np.array(each, dtype=np.float64),
        np.arange(1, len(each) + 1, dtype=np.int64),
        np.array([len(set(group)) for group in groups], dtype=np.int64),
    )


def test_pass_and_best_at_k_equal_enumeration() -> None:
    for n in range(1, 6):
        groups = [list(map(float, case)) for case in product((0, 1), repeat=n)]
        columns = attempts(*groups).columns()
        for k in powers(n):
            draws = [[max(draw) for draw in combinations(group, k)] for group in groups]
            wanted = [sum(best) / len(best) for best in draws]
            np.testing.assert_allclose(columns[f"pass@{k}"], wanted, rtol=0, atol=1e-12)
            np.testing.assert_allclose(columns[f"best@{k}"], wanted, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(columns["solved_once"], [max(group) for group in groups])


def test_graded_rewards_are_solved_from_the_threshold_on() -> None:
    columns = attempts([0.2, 0.5, 0.9, 0.5]).columns(solved_at=0.5)
    assert columns["solved"].tolist() == [0.75]
    assert columns["reward"] == pytest.approx([0.525])
    pairs = [max(pair) for pair in combinations([0.2, 0.5, 0.9, 0.5], 2)]
    assert columns["best@2"] == pytest.approx([sum(pairs) / len(pairs)])
    assert columns["best@4"].tolist() == [0.9]


def test_missing_rewards_are_attempts_that_were_not_made() -> None:
    nan = float("nan")
    columns = attempts([1.0, nan, 0.0, nan], [nan, nan], [0.0, 1.0, 1.0, 0.0]).columns()
    assert columns["solved"].tolist()[::2] == [0.5, 0.5]
    assert np.isnan(columns["reward"][1])
    assert np.isnan(columns["pass@4"]).tolist() == [True, True, False]
    measured = measure(columns)
    assert (measured["reward"].prompts, measured["pass@4"].prompts) == (2, 1)
    assert measured["pass@4"].low is None


def test_equal_shares_have_the_exact_interval() -> None:
    column = np.zeros(40)
    measured = measure({"solved": column, "pass@8": column + 1, "reward": column, "solved_once": np.eye(1, 40)[0]})
    limit = 0.08809730  # binom.test(0, 40) of R
    assert (measured["solved"].low, measured["solved"].high) == pytest.approx((0, limit), abs=1e-8)
    assert (measured["pass@8"].low, measured["pass@8"].high) == pytest.approx((1 - limit, 1), abs=1e-8)
    assert measured["reward"].low is None
    low, high = bootstrap_mean(np.eye(1, 40)[0])
    assert (measured["solved_once"].low, measured["solved_once"].high) == (low, high)


@pytest.mark.parametrize(
    ("count", "wanted"), [(0, []), (1, []), (2, [2]), (3, [2, 3]), (8, [2, 4, 8]), (9, [2, 4, 8, 9])]
)
def test_powers_of_two_and_the_count_itself(count: int, wanted: list[int]) -> None:
    assert powers(count) == wanted


@pytest.mark.parametrize(
    ("prompts", "method"), [(12, "sign-flip"), pytest.param(40, "sign-flip", marks=pytest.mark.slow), (41, "bootstrap")]
)
def test_few_prompts_use_sign_flips_many_the_bootstrap(prompts: int, method: str) -> None:
    random = np.random.default_rng(0)
    new, old = random.random(prompts) + 0.3, random.random(prompts)
    found = paired_differences({"reward": new}, {"reward": old})["reward"]
    assert found.method == method
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    back = paired_differences({"reward": old}, {"reward": new})["reward"]
    assert back.value == pytest.approx(-found.value)
    if method == "sign-flip":
        assert (back.low, back.high) == pytest.approx((-found.high, -found.low), abs=1e-9)


def test_five_prompts_exclude_nothing_at_95_percent() -> None:
    found = paired_differences({"reward": np.ones(5)}, {"reward": np.zeros(5)})["reward"]
    assert (found.low, found.high, found.p) == (None, None, 2.0**-5)


def test_columns_of_another_length_are_refused() -> None:
    with pytest.raises(ArgumentError, match="wanted 2 and 1"):
        Attempts(("p",), np.array([0]), np.zeros(0), np.zeros(0, np.int64), np.zeros(1, np.int64))
