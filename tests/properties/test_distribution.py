"""Draws follow the law that the manifest names: Plackett-Luce, by exact enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest

import karl_fast
from tests.properties.naive import chain as naive
from tests.tolerances import SIGMAS

SEEDS = 20_000

CASES = [
    ([1.0, 2.0, 3.0, 4.0], 2),
    ([1.0, 1.0, 1.0, 1.0, 1.0], 3),
    ([0.1, 1.0, 10.0], 1),
    ([5.0, 1.0, 1.0, 1.0, 1.0, 20.0], 3),
]


@pytest.mark.parametrize(("weights", "k"), CASES)
def test_rows_are_drawn_as_enumeration_says(weights: list[float], k: int) -> None:
    logs = np.log(np.array(weights))
    counts = np.zeros(len(weights))
    for seed in range(SEEDS):
        counts[karl_fast.draw(logs, k, seed=seed)] += 1
    for count, chance in zip(counts, naive.inclusion(weights, k), strict=True):
        error = math.sqrt(chance * (1 - chance) / SEEDS)
        assert abs(count / SEEDS - chance) <= SIGMAS * error


def test_neighbouring_seeds_draw_independently() -> None:
    """Of two rows with equal weights the same comes first in half of the pairs of seeds."""
    logs = np.zeros(2)
    first = np.array([karl_fast.draw(logs, 1, seed=seed)[0] for seed in range(SEEDS)])
    same = float(np.mean(first[1:] == first[:-1]))
    assert abs(same - 0.5) <= SIGMAS * 0.5 / math.sqrt(SEEDS)
