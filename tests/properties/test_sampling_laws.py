"""Samplers follow their laws: frequencies and estimates over many seeds; the same numbers reject a neighbour."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from karl_fast import sampling
from tests.properties.naive import chain as naive
from tests.tolerances import SIGMAS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

SEEDS = 10_000
WEIGHTS = np.array([1.0, 2.0, 3.0, 4.0, 20.0, 0.5])
K = 3


def off(counts: NDArray[np.float64], chances: NDArray[np.float64], draws: int) -> float:
    """The largest deviation of frequencies from chances strictly between 0 and 1, in standard deviations."""
    free = (chances > 0) & (chances < 1)
    assert np.all(counts[~free] == chances[~free] * draws)
    wanted, found = chances[free], counts[free] / draws
    return float(np.abs((found - wanted) / np.sqrt(wanted * (1 - wanted) / draws)).max())


def frequencies(draw: Callable[[int], NDArray[np.int64]]) -> NDArray[np.float64]:
    counts = np.zeros(len(WEIGHTS))
    for seed in range(SEEDS):
        counts[draw(seed)] += 1
    return counts


def test_an_alias_table_draws_in_proportion_to_weight() -> None:
    counts = np.bincount(sampling.Alias(np.log(WEIGHTS)).draw(200_000, seed=7), minlength=len(WEIGHTS)).astype(float)
    assert off(counts, WEIGHTS / WEIGHTS.sum(), 200_000) <= SIGMAS
    assert off(counts, WEIGHTS**1.1 / (WEIGHTS**1.1).sum(), 200_000) > 3 * SIGMAS


def test_draws_of_an_alias_table_follow_nothing() -> None:
    rows = sampling.Alias(np.zeros(4)).draw(200_001, seed=7)
    pairs = np.bincount(rows[1:] * 4 + rows[:-1], minlength=16).astype(float)
    assert off(pairs, np.full(16, 1 / 16), 200_000) <= SIGMAS


def test_var_opt_draws_by_share_not_plackett_luce() -> None:
    counts = frequencies(lambda seed: sampling.draw_var_opt(WEIGHTS, K, seed=seed).rows)
    assert off(counts, sampling.threshold(WEIGHTS, K)[1], SEEDS) <= SIGMAS
    assert np.abs(counts / SEEDS - sampling.inclusion(np.log(WEIGHTS), K)).max() > 0.01


def test_var_opt_draws_by_share_after_merges() -> None:
    order = np.array([4, 0, 5, 2, 3, 1])
    keys = np.zeros((6, 3), dtype=np.uint64)
    keys[:, 0] = np.arange(6)

    def merged(seed: int) -> NDArray[np.int64]:
        parts = [sampling.VarOpt(K, seed=seed) for _ in range(3)]
        for part, rows in zip(parts, (order[:4], order[4:5], order[5:]), strict=True):
            part.update(keys[rows], WEIGHTS[rows])
        parts[1].merge(parts[0])
        parts[1].merge(parts[2])
        found = parts[1].drawn()
        assert math.isclose(found[1].sum(), WEIGHTS.sum(), rel_tol=1e-12)
        return found[0][:, 0].astype(np.int64)

    assert off(frequencies(merged), sampling.threshold(WEIGHTS, K)[1], SEEDS) <= SIGMAS


def test_var_opt_draws_new_numbers_at_each_merge() -> None:
    """Rows 0 and 1 of weight 1 are merged, and then into row 2 of weight 2: by one number row 1 would never stay."""
    keys, weights = np.zeros((3, 3), dtype=np.uint64), np.array([1.0, 1.0, 2.0])
    keys[:, 0] = np.arange(3)
    counts = np.zeros(3)
    for seed in range(SEEDS):
        first, second, third = (sampling.VarOpt(1, seed=seed) for _ in range(3))
        for row, state in enumerate((first, second, third)):
            state.update(keys[row : row + 1], weights[row : row + 1])
        first.merge(second)
        third.merge(first)
        counts[third.drawn()[0][0, 0]] += 1
    assert off(counts, weights / 4, SEEDS) <= SIGMAS


def test_rows_are_drawn_as_often_as_inclusion_says() -> None:
    counts = frequencies(lambda seed: sampling.draw(np.log(WEIGHTS), K, seed=seed))
    assert off(counts, sampling.inclusion(np.log(WEIGHTS), K), SEEDS) <= SIGMAS
    assert off(counts, sampling.inclusion(np.log(WEIGHTS) * 1.1, K), SEEDS) > SIGMAS


def test_a_weighted_reservoir_is_plackett_luce() -> None:
    pairs = list(enumerate(WEIGHTS.tolist()))
    counts = frequencies(lambda seed: np.array(sampling.weighted_reservoir_of(pairs, K, seed=seed)))
    assert off(counts, np.array(naive.inclusion(WEIGHTS.tolist(), K)), SEEDS) <= SIGMAS


def test_a_reservoir_draws_every_set_alike() -> None:
    counts = dict.fromkeys(itertools.combinations(range(5), 2), 0.0)
    for seed in range(SEEDS):
        counts[tuple(sorted(sampling.reservoir_of(range(5), 2, seed=seed)))] += 1
    assert off(np.array(list(counts.values())), np.full(10, 0.1), SEEDS) <= SIGMAS


VALUES = np.array([3.0, -1.0, 4.0, 1.0, -5.0, 9.0])


def by_inclusion(seed: int) -> float:
    found = sampling.draw_with_inclusion(np.log(WEIGHTS), K, seed=seed)
    return float((VALUES[found.rows] / found.inclusion).sum())


def by_priority(seed: int) -> float:
    found = sampling.draw_priority(WEIGHTS, K, seed=seed)
    return float((VALUES / WEIGHTS)[found.rows] @ found.estimates)


def by_var_opt(seed: int) -> float:
    found = sampling.draw_var_opt(WEIGHTS, K, seed=seed)
    return float((VALUES / WEIGHTS)[found.rows] @ found.estimates)


def by_bottom_k(seed: int) -> float:
    keys = np.zeros((6, 3), dtype=np.uint64)
    keys[:, 1] = np.arange(6)
    state = sampling.BottomK(K, seed=seed)
    state.update(keys)
    held = state.drawn()
    return float((VALUES[held.keys[:, 1].astype(np.int64)] / held.inclusion).sum())


@pytest.mark.parametrize("estimate", [by_inclusion, by_priority, by_var_opt, by_bottom_k])
def test_estimates_of_a_total_are_unbiased(estimate: Callable[[int], float]) -> None:
    found = np.array([estimate(seed) for seed in range(SEEDS)])
    error = found.std() / math.sqrt(SEEDS)
    assert abs(found.mean() - VALUES.sum()) <= SIGMAS * error


def test_var_opt_has_the_least_variance_of_totals() -> None:
    """Subset sums of one half: VarOpt before priority before weights that are not looked at."""
    half = np.arange(len(WEIGHTS)) % 2 == 0
    spread = {}
    for name, draw in (("var_opt", sampling.draw_var_opt), ("priority", sampling.draw_priority)):
        drawn = [draw(WEIGHTS, K, seed=seed) for seed in range(SEEDS)]
        spread[name] = np.var([one.estimates[half[one.rows]].sum() for one in drawn])
    assert spread["var_opt"] < spread["priority"]
    first = sampling.draw_with_inclusion(np.log(WEIGHTS), K, seed=1)
    assert np.abs(first.inclusion - sampling.inclusion(np.log(WEIGHTS), K)[first.rows]).max() > 0.01


def test_var_opt_varies_as_that_of_datasketches() -> None:
    """Another implementation of the same law: variances of one subset sum within a fifth of each other."""
    datasketches = pytest.importorskip("datasketches")
    weights = np.random.default_rng(0).pareto(1.2, 200) + 0.01
    half, k, rounds = np.arange(200) % 2 == 0, 20, 2000
    ours = []
    theirs = []
    for seed in range(rounds):
        drawn = sampling.draw_var_opt(weights, k, seed=seed)
        ours.append(drawn.estimates[half[drawn.rows]].sum())
        sketch = datasketches.var_opt_sketch(k)
        for row, weight in enumerate(weights.tolist()):
            sketch.update(row, weight)
        theirs.append(sum(weight for row, weight in list(sketch) if half[row]))
    assert 0.8 < np.var(ours) / np.var(theirs) < 1.25
    assert abs(np.mean(ours) - weights[half].sum()) <= SIGMAS * np.std(ours) / math.sqrt(rounds)
