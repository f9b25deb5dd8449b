"""Groups end to end: offsets give what ids give, in every function that takes either."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from karl_fast import advantage, diversity, target
from karl_fast.errors import ArgumentError, LayoutError, UsageError

LENGTHS = np.array([1, 4, 0, 3, 8])
OFFSETS = np.concatenate([[0], LENGTHS.cumsum()])
IDS = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
RNG = np.random.default_rng(4)
REWARDS = np.where(RNG.random(len(IDS)) < 0.2, np.nan, RNG.random(len(IDS)))
OTHER = RNG.normal(size=len(IDS))

CALLS: dict[str, Any] = {
    "regression_intercept": lambda **by: target.regression_intercept(REWARDS, OTHER, temperature=0.5, **by),
    "tpo_target": lambda **by: target.tpo_target(OTHER, REWARDS, temperature=0.5, **by),
    "ema_baseline": lambda **by: advantage.ema_baseline(REWARDS, **by).advantages,
    "best_at_k": lambda **by: diversity.best_at_k(REWARDS, k=2, **by),
}


@pytest.mark.parametrize("name", CALLS)
def test_offsets_give_the_bits_of_ids(name: str) -> None:
    by_ids, by_offsets = CALLS[name](group_ids=IDS), CALLS[name](offsets=OFFSETS)
    # Of ids a group without rows is not known.
    rows = by_offsets if len(by_offsets) == len(IDS) else by_offsets[LENGTHS > 0]
    np.testing.assert_array_equal(rows, by_ids)
    assert np.isfinite(rows).any()


@pytest.mark.parametrize("name", CALLS)
def test_ids_or_offsets_are_required_and_checked(name: str) -> None:
    for by in ({}, {"group_ids": IDS, "offsets": OFFSETS}):
        with pytest.raises(UsageError, match="give either group_ids or offsets"):
            CALLS[name](**by)
    with pytest.raises(LayoutError, match="offsets at index"):
        CALLS[name](offsets=OFFSETS[:-1])
    with pytest.raises(ArgumentError, match="has length"):
        CALLS[name](group_ids=IDS[:-1])


def test_an_empty_group_has_no_best() -> None:
    assert np.isnan(CALLS["best_at_k"](offsets=OFFSETS)[2])


def test_a_state_numbers_groups_of_offsets() -> None:
    first = advantage.ema_baseline(REWARDS, offsets=OFFSETS).state
    second = advantage.ema_baseline(REWARDS, IDS, state=first)
    np.testing.assert_array_equal(first.ids, second.state.ids)


def test_gigpo_takes_the_offsets_of_groups_of_trajectories() -> None:
    steps, states = np.arange(len(IDS) + 1), np.zeros(len(IDS), dtype=np.int64)
    by_ids = advantage.gigpo(REWARDS, steps, IDS, states)
    by_offsets = advantage.gigpo(REWARDS, steps, None, states, group_offsets=OFFSETS)
    np.testing.assert_array_equal(by_offsets.joint, by_ids.joint)
    with pytest.raises(UsageError, match="give either group_ids or group_offsets"):
        advantage.gigpo(REWARDS, steps, None, states)
    with pytest.raises(LayoutError, match="group_offsets at index"):
        advantage.gigpo(REWARDS, steps, None, states, group_offsets=OFFSETS[:-1])
