"""The filters beside their twins, and what has to hold whatever comes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karl_fast import advantage, errors, filter
from karl_fast.filter import differ
from tests.properties.naive import filter as naive

NAN = math.nan
VALUES = st.one_of(st.just(NAN), st.sampled_from([0.0, 1.0]), st.floats(-100, 100, allow_subnormal=False))
ROWS = st.lists(st.tuples(VALUES, VALUES, st.integers(-1, 5)), max_size=40)


def columns(rows: list[tuple[float, float, int]]) -> tuple[Any, Any, Any]:
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return table[:, 0].copy(), table[:, 1].copy(), table[:, 2].astype(np.int64)


def names(found: filter.Filtered) -> list[str]:
    """The reason of each row, after a look at the accounting: every row is kept or dropped by one name."""
    told = [filter.REASONS[code] for code in found.reasons]
    assert found.keep.tolist() == [name == "kept" for name in told]
    assert found.counts == {name: told.count(name) for name in filter.REASONS if name in told or name == "kept"}
    return told


@given(ROWS, st.booleans())
def test_constant_groups_equal_their_twin(rows: Any, shaped: bool) -> None:
    outcomes, rewards, ids = columns(rows)
    given_rewards = rewards if shaped else None
    found = filter.constant_groups(outcomes, ids, rewards=given_rewards)
    assert names(found) == naive.constant_groups(outcomes, ids, given_rewards)


ROUNDED = [
    (0.1 + 0.2, 0.3),
    (0.1 + 0.2 - 0.3, 0.0),
    (100 + 0.1 - 100, 0.1),
    (sum([0.1] * 10), 1.0),
    (0.7 * 3 * 1e9, 2.1 * 1e9),
    (-(0.1 + 0.2), -0.3),
]
"""Two ways to one reward, which differ by rounding."""


@pytest.mark.parametrize(("one", "other"), ROUNDED)
def test_rewards_that_differ_by_rounding_are_equal_everywhere(one: float, other: float) -> None:
    """One tolerance in filters, scores, statistics of a log and what is written in Python."""
    assert one != other
    rewards, ids = np.array([one, other, one, 0.0, 1.0]), np.array([0, 0, 0, 1, 1])
    for found in (filter.constant_groups(rewards, ids), filter.variance_top_p(rewards, ids, p=1.0)):
        assert found.counts == {"kept": 2, "constant_group": 3}
    phantom = filter.constant_groups(rewards, ids, rewards=rewards + np.arange(5.0))
    assert phantom.counts == {"kept": 2, "phantom_group": 3}
    assert filter.starved(np.ones(5, dtype=bool), rewards, ids).groups == 1
    for score in (advantage.centre, advantage.zscore, advantage.leave_one_out):
        assert score(rewards, ids)[:3].tolist() == [0.0, 0.0, 0.0]
        assert score(rewards, ids)[3:].tolist() != [0.0, 0.0]
    assert advantage.zscore(rewards[:3], ids[:3], eps=0.0).tolist() == [0.0, 0.0, 0.0]
    assert not differ(*sorted((one, other)))


def test_rewards_that_differ_by_more_differ() -> None:
    for one, other in ((0.0, 1e-9), (1e9, 1e9 + 1e-3), (1.0, 1.0 + 1e-12), (-1e-12, 0.0)):
        assert filter.constant_groups(np.array([one, other]), np.array([0, 0])).keep.all()
        assert differ(one, other)


@given(st.lists(st.tuples(st.booleans(), st.integers(-1, 5)), max_size=40))
def test_mixed_groups_equal_their_twin_and_constant_groups(rows: Any) -> None:
    right = np.array([row[0] for row in rows], dtype=bool)
    ids = np.array([row[1] for row in rows], dtype=np.int64)
    found = filter.mixed_groups(right, ids)
    assert names(found) == naive.mixed_groups(right, ids)
    assert found.keep.tolist() == filter.constant_groups(right.astype(np.float64), ids).keep.tolist()


def test_shaping_does_not_make_a_failed_group_teach() -> None:
    """A filter by the deviation of the shaped reward keeps group 0, where nobody succeeded; ours drops it by name."""
    outcomes = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 2.0, 2.0])
    penalties = np.array([0.0, -0.1, -0.3, -0.2, 0.0, 0.0, 0.0, 0.0])
    groups = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    rewards = outcomes + penalties
    by_deviation = [rewards[groups == group].std() > 0 for group in groups]
    assert by_deviation[:3] == [True] * 3
    found = filter.constant_groups(outcomes, groups, rewards=rewards)
    assert found.keep.tolist() == [False] * 3 + [True] * 3 + [False] * 2
    assert found.counts == {"kept": 3, "phantom_group": 3, "constant_group": 2}
    assert filter.constant_groups(rewards, groups).keep[:3].all()  # judged on the wrong column


@given(ROWS, st.floats(0, 1), st.integers(0, 1))
def test_variance_top_p_equals_its_twin(rows: Any, p: float, ddof: int) -> None:
    rewards, _, ids = columns(rows)
    rewards = np.round(rewards, 1)  # apart from ties, sums that decide are then apart by more than rounding
    found = filter.variance_top_p(rewards, ids, p=p, ddof=ddof)
    assert names(found) == naive.variance_top(rewards, ids, p=p, ddof=ddof)


@given(ROWS, st.integers(0, 7), st.integers(0, 1))
def test_variance_top_k_equals_its_twin(rows: Any, k: int, ddof: int) -> None:
    rewards, _, ids = columns(rows)
    rewards = np.round(rewards, 1)
    assert names(filter.variance_top_k(rewards, ids, k=k, ddof=ddof)) == naive.variance_top(
        rewards, ids, k=k, ddof=ddof
    )


@given(ROWS)
def test_p_of_one_keeps_every_varied_group(rows: Any) -> None:
    rewards, _, ids = columns(rows)
    kept = filter.variance_top_p(rewards, ids, p=1.0).keep
    assert kept.tolist() == (filter.constant_groups(rewards, ids).keep & ~np.isnan(rewards)).tolist()
    assert not filter.variance_top_p(rewards, ids, p=0.0).keep.any()


def test_the_smallest_prefix_of_groups_covers_the_share() -> None:
    """Variances 4, 1, 1, 0 (ddof 0): 4 of 6 is two thirds; the tie goes to the group that came first."""
    rewards = np.array([-1.0, 1.0, -2.0, 2.0, 5.0, 7.0, 3.0, 3.0])
    groups = np.array([9, 9, 4, 4, 7, 7, 1, 1])
    for p, kept in [(0.6, [4]), (0.67, [4, 9]), (0.84, [4, 9, 7]), (1.0, [4, 9, 7])]:
        found = filter.variance_top_p(rewards, groups, p=p)
        assert set(groups[found.keep]) == set(kept), p
    assert filter.variance_top_k(rewards, groups, k=2).counts == {"kept": 4, "constant_group": 2, "low_variance": 2}


def test_ddof_decides_between_groups_of_two_sizes() -> None:
    """Variances 1 and 1.21 over n, 2 and 1.61 over n - 1."""
    rewards = np.array([0.0, 2.0, 0.0, 0.0, 2.2, 2.2])
    groups = np.array([0, 0, 1, 1, 1, 1])
    assert filter.variance_top_k(rewards, groups, k=1, ddof=0).keep.tolist() == [False] * 2 + [True] * 4
    assert filter.variance_top_k(rewards, groups, k=1, ddof=1).keep.tolist() == [True] * 2 + [False] * 4


def test_groups_by_offsets_are_groups_by_ids() -> None:
    offsets = np.array([0, 3, 3, 5, 6])
    ids = np.array([0, 0, 0, 2, 2, 3])
    rewards = np.array([0.0, 1.0, NAN, 2.0, 2.0, 4.0])
    right = np.array([True, False, True, True, True, False])
    keep = np.array([True, False, True, True, False, True])
    assert names(filter.constant_groups(rewards, offsets=offsets)) == names(filter.constant_groups(rewards, ids))
    assert names(filter.mixed_groups(right, offsets=offsets)) == names(filter.mixed_groups(right, ids))
    by_offsets = filter.variance_top_k(rewards, offsets=offsets, k=1)
    assert names(by_offsets) == names(filter.variance_top_k(rewards, ids, k=1))
    assert filter.starved(keep, rewards, offsets=offsets) == filter.starved(keep, rewards, ids)
    for both in ({}, {"group_ids": ids, "offsets": offsets}):
        with pytest.raises(errors.UsageError, match="either group_ids or offsets"):
            filter.constant_groups(rewards, **both)


@given(st.lists(st.integers(0, 300), max_size=20), st.integers(1, 200))
def test_overlong_drops_by_limit_or_flags(lengths: Any, limit: int) -> None:
    lengths = np.array(lengths, dtype=np.int64)
    assert filter.overlong(lengths, max_tokens=limit).keep.tolist() == (lengths < limit).tolist()
    cut = lengths % 3 == 0
    found = filter.overlong(lengths, max_tokens=limit, truncated=cut)
    assert found.keep.tolist() == (~cut & (lengths <= limit)).tolist()
    assert set(names(found)) <= {"kept", "overlong"}


@given(st.lists(st.integers(-50, 50), max_size=20), st.integers(0, 60))
def test_stale_drops_what_is_older_than_the_window(versions: Any, max_age: int) -> None:
    versions = np.array(versions, dtype=np.int64)
    found = filter.stale(versions, now=50, max_age=max_age)
    assert found.keep.tolist() == (50 - versions <= max_age).tolist()
    assert set(names(found)) <= {"kept", "stale"}


def test_a_window_reaches_the_first_version() -> None:
    first = np.array([-(2**63), -5])
    assert filter.stale(first, now=-5, max_age=2**63 - 1).keep.all()


@given(ROWS, st.integers(1, 3))
def test_starved_equals_its_twin(rows: Any, least: int) -> None:
    rewards, other, ids = columns(rows)
    keep = other > 0
    found = filter.starved(keep, rewards, ids, min_group=least)
    assert (found.groups, found.short, found.constant) == naive.starved(keep, rewards, ids, least)
    assert filter.starved(np.ones(len(keep), dtype=bool), rewards, ids).short == 0


def test_an_age_window_starves_groups() -> None:
    versions = np.array([9, 9, 2, 9, 9, 2, 9, 2, 2])
    rewards = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0])
    groups = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])
    fresh = filter.stale(versions, now=10, max_age=4)
    assert filter.starved(fresh.keep, rewards, groups) == filter.Starved(groups=3, short=1, constant=1)


def ragged(seed: int, dtype: Any) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 9, 30)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    logp_old = -rng.exponential(1.0, offsets[-1])
    logp = logp_old + rng.normal(0.0, 0.5, offsets[-1])
    advantages = rng.choice([-1.5, 0.0, 1.0, NAN], 30)
    return logp.astype(dtype), logp_old.astype(dtype), offsets, advantages, rng.random(offsets[-1]) < 0.8


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_filters_by_log_probability_equal_their_twins(seed: int, dtype: Any) -> None:
    logp, logp_old, offsets, advantages, mask = ragged(seed, dtype)
    taken = np.ones(len(logp), dtype=bool)
    for tokens in (mask, None):
        found = filter.low_ratio_negatives(logp, logp_old, offsets, advantages, delta=0.1, mask=tokens)
        used = taken if tokens is None else tokens
        assert names(found) == naive.low_ratio_negatives(logp, logp_old, offsets, advantages, 0.1, used)
        bounds = {"low": 0.05, "high": 0.1}
        found = filter.probability_difference(logp, logp_old, offsets, advantages, mask=tokens, **bounds)
        wanted = naive.probability_difference(logp, logp_old, offsets, advantages, mask=used, **bounds)
        assert names(found) == wanted
        assert {"kept", "missing_advantage", "below_low"} <= set(wanted)


def test_a_difference_of_probabilities_is_no_ratio() -> None:
    """A rare token that triples moves by 0.002, a common one that gains a tenth by 0.08."""
    logp = np.log(np.array([0.003, 0.88]))
    logp_old = np.log(np.array([0.001, 0.80]))
    found = filter.probability_difference(logp, logp_old, np.array([0, 2]), np.array([1.0]), low=0.05, high=0.05)
    assert found.keep.tolist() == [True, False]
    down = filter.probability_difference(logp_old, logp, np.array([0, 2]), np.array([-1.0]), low=0.05, high=0.05)
    assert down.counts == {"kept": 1, "below_low": 1}
    assert filter.probability_difference(
        logp, logp_old, np.array([0, 2]), np.array([-1.0]), low=0.0, high=0.0
    ).keep.all()


def test_a_bound_itself_is_kept() -> None:
    """Numbers that are exact in binary: a mean fall of 1/4, and a probability that goes from a half to one."""
    one, down, up = np.array([0, 1]), np.array([-1.0]), np.array([1.0])
    for delta, kept in ((0.25, True), (float(np.nextafter(0.25, 0.0)), False)):
        found = filter.low_ratio_negatives(np.array([-1.25]), np.array([-1.0]), one, down, delta=delta)
        assert found.keep.tolist() == [kept]
    half, whole = np.array([math.log(0.5)]), np.array([0.0])
    for bound, kept in ((0.5, True), (float(np.nextafter(0.5, 0.0)), False)):
        rises = filter.probability_difference(whole, half, one, up, low=0.0, high=bound)
        falls = filter.probability_difference(half, whole, one, down, low=bound, high=0.0)
        assert rises.keep.tolist() == falls.keep.tolist() == [kept]


def test_a_density_above_one_may_move_further() -> None:
    found = filter.probability_difference(
        np.array([0.3]), np.array([0.0]), np.array([0, 1]), np.array([1.0]), low=0.0, high=0.32
    )
    assert names(found) == ["above_high"]


def test_masks_are_the_same_in_blocks() -> None:
    """Rows enough for several blocks and threads, tokens that cross them."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 40, 3000)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    logp_old = -rng.exponential(1.0, offsets[-1])
    logp = logp_old + rng.normal(0.0, 0.3, offsets[-1])
    advantages = rng.choice([-1.0, 1.0], 3000)
    found = filter.probability_difference(logp, logp_old, offsets, advantages, low=0.1, high=0.1)
    moved, signs = np.exp(logp) - np.exp(logp_old), np.repeat(advantages, lengths)
    assert found.keep.tolist() == (np.where(signs > 0, moved, -moved) <= 0.1).tolist()
    ids, outcomes = rng.integers(0, 9000, 60_000), rng.integers(0, 2, 60_000).astype(np.float64)
    sums = np.bincount(ids, outcomes, 9000)
    mixed = (sums > 0) & (sums < np.bincount(ids, minlength=9000))
    assert filter.constant_groups(outcomes, ids).keep.tolist() == mixed[ids].tolist()


TWO = np.array([0, 1], dtype=np.int64)
PAIR = np.array([-0.1, -0.2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: filter.constant_groups(np.array([0.0, math.inf]), TWO), "outcomes at index 1 is inf"),
        (lambda: filter.constant_groups(PAIR, TWO, rewards=np.array([1.0])), "rewards has length 1, wanted 2"),
        (lambda: filter.constant_groups(PAIR, np.array([1])), "outcomes has length 2, wanted 1"),
        (lambda: filter.variance_top_p(PAIR, TWO, p=1.5), r"p is 1.5, wanted a number in \[0, 1\]"),
        (lambda: filter.variance_top_p(PAIR, TWO, p=NAN), "p is NaN"),
        (lambda: filter.variance_top_k(PAIR, TWO, k=1, ddof=2), "ddof is 2, wanted 0 or 1"),
        (lambda: filter.variance_top_k(PAIR, TWO, k=-1), "k is -1, wanted 0 or more"),
        (lambda: filter.variance_top_k(np.array([1e200, 0.0]), TWO * 0, k=1), "variance of group at index 0 is NaN"),
        (lambda: filter.overlong(-TWO, max_tokens=3), "lengths at index 1 is -1, wanted 0 or more"),
        (lambda: filter.overlong(TWO, max_tokens=-3), "max_tokens is -3, wanted 0 or more"),
        (lambda: filter.overlong(TWO, max_tokens=2**32), "max_tokens is 4294967296, wanted at most 4294967295"),
        (lambda: filter.soft_overlong_penalty(TWO, max_tokens=3, cache_tokens=-1), "cache_tokens is -1"),
        (lambda: filter.soft_overlong_penalty(-TWO, max_tokens=3, cache_tokens=1), "lengths at index 1 is -1"),
        (
            lambda: filter.soft_overlong_penalty(TWO, max_tokens=3, cache_tokens=4),
            "cache_tokens is 4, wanted at most 3",
        ),
        (lambda: filter.soft_overlong_penalty(TWO, max_tokens=3, cache_tokens=0), "cache_tokens is 0"),
        (lambda: filter.stale(TWO, now=0, max_age=1), "versions at index 1 is 1, wanted at most 0"),
        (lambda: filter.stale(TWO, now=1, max_age=-1), "max_age is -1"),
        (lambda: filter.starved(np.array([True] * 2), PAIR, TWO, min_group=0), "min_group is 0"),
        (lambda: filter.starved(np.array([True] * 2), PAIR, TWO, min_group=-1), "min_group is -1"),
        (lambda: filter.variance_top_p(np.full(2, -math.inf), TWO, p=1.0), "rewards at index 0 is -inf"),
        (lambda: filter.low_ratio_negatives(PAIR, PAIR[:1], np.array([0, 2]), PAIR[:1]), "logp_old has length 1"),
        (
            lambda: filter.low_ratio_negatives(np.array([0.0, -math.inf]), PAIR, np.array([0, 2]), PAIR[:1]),
            "index 1 is -inf",
        ),
        (lambda: filter.low_ratio_negatives(PAIR, PAIR, np.array([0, 2]), PAIR), "advantages has length 2, wanted 1"),
        (
            lambda: filter.probability_difference(PAIR, PAIR, np.array([0, 2]), PAIR[:1], low=-1.0, high=0.0),
            "low is -1, wanted zero or more",
        ),
    ],
)
def test_what_is_wrong_is_named(call: Any, message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        call()


def test_casts_and_unknown_forms_are_refused() -> None:
    with pytest.raises(errors.DTypeError, match="right has dtype int64, wanted bool"):
        filter.mixed_groups(TWO, TWO)
    with pytest.raises(errors.DTypeError, match="logp has dtype float16"):
        filter.low_ratio_negatives(PAIR.astype(np.float16), PAIR, np.array([0, 2]), PAIR[:1])
    with pytest.raises(errors.LayoutError, match="offsets at index 1 is 3"):
        filter.low_ratio_negatives(PAIR, PAIR, np.array([0, 3]), PAIR[:1])
    with pytest.raises(errors.UsageError, match='form is "trl", wanted one of dapo'):
        filter.soft_overlong_penalty(TWO, max_tokens=3, cache_tokens=1, form="trl")  # type: ignore[arg-type]
    with pytest.raises(errors.UsageError, match="takes no factor"):
        filter.soft_overlong_penalty(TWO, max_tokens=3, cache_tokens=1, factor=2.0)
