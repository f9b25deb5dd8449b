"""Every advantage equals its formula in plain Python, over ids and over offsets, in float64 and float32."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from karl_fast import advantage
from tests.properties.naive import advantage as naive
from tests.tolerances import TWIN

# Ties, missing ones, and scales a million apart; a spread of 1e-4 or more, so that a deviation is no rounding.
VALUES = st.sampled_from([0.0, 0.0, 0.1, 0.25, 0.7, 1.0, 1.0, 1.8, -3.0, math.nan])
SCALES = st.sampled_from([1e-4, 1.0, 1.0, 1e4])
KINDS = st.sampled_from([np.float64, np.float32])


class Rows(NamedTuple):
    """Rewards, and the groups of a ragged layout: the same by ids."""

    rewards: Any
    ids: Any
    offsets: Any
    lengths: list[int]

    @property
    def wide(self) -> Any:
        """For a twin: NumPy keeps float32 where it meets a number of Python."""
        return self.rewards.astype(np.float64)


@st.composite
def ragged(draw: st.DrawFn) -> Rows:
    lengths = draw(st.lists(st.integers(0, 9), max_size=12))
    if draw(st.booleans()):
        lengths = [draw(st.integers(1, 8))] * len(lengths)
    size = sum(lengths)
    values = draw(st.lists(VALUES, min_size=size, max_size=size))
    rewards = (np.array(values, dtype=np.float64) * draw(SCALES)).astype(draw(KINDS))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Rows(rewards, np.repeat(np.arange(len(lengths)), lengths), offsets, lengths)


def close(found: Any, wanted: Any) -> None:
    """Equal where NaN, else within the tolerance of the largest."""
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-4)
    np.testing.assert_allclose(found, wanted, rtol=100 * TWIN, atol=100 * TWIN * scale)


def told_apart(values: Any) -> bool:
    """Whether they differ by more than their rounding, or not at all: else a deviation is made of it."""
    kept = values[~np.isnan(values)]
    return len(kept) == 0 or np.ptp(kept) == 0 or np.ptp(kept) > 1e-9 * np.abs(kept).max()


GROUPED: dict[str, Any] = {
    "centre": (advantage.centre, naive.centre, {}),
    "zscore": (advantage.zscore, naive.zscore, {"ddof": 0, "eps": 1e-6}),
    "zscore_ddof_1": (advantage.zscore, naive.zscore, {"ddof": 1, "eps": 1e-4}),
    "leave_one_out": (advantage.leave_one_out, naive.leave_one_out, {}),
    # Of absolute rewards, for it refuses negative ones.
    "maxrl": (
        lambda r, *ids, **how: advantage.maxrl(np.abs(r), *ids, **how),
        lambda r, ids, eps: naive.maxrl(np.abs(r), ids, eps),
        {"eps": 1e-8},
    ),
}


@pytest.mark.parametrize("name", GROUPED)
@given(ragged())
def test_a_group_score_equals_its_twin(name: str, rows: Rows) -> None:
    fast, plain, how = GROUPED[name]
    close(fast(rows.rewards, rows.ids, **how), plain(rows.wide, rows.ids, *how.values()))


def drawn_ids(random: np.random.Generator, rows: int, groups: int) -> Any:
    ids = random.integers(0, groups, rows)
    return np.where(random.random(rows) < 0.05, -1, ids)


@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.parametrize(("groups", "rows"), [(3, 300), (2000, 20_000), (10_000, 30_000)])
def test_group_scores_equal_their_twins_in_any_order(name: str, groups: int, rows: int) -> None:
    """10,000 groups are more than one range of the table, and 20,000 rows more than one thread's."""
    random = np.random.default_rng(groups)
    rewards = random.choice([0.0, 0.5, 1.0, 2.0, math.nan], rows)
    ids = drawn_ids(random, rows, groups)
    fast, plain, how = GROUPED[name]
    close(fast(rewards, ids, **how), plain(rewards, ids, *how.values()))


@pytest.mark.parametrize("size", [1, 2, 3, 8, 16, 128, 200])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", GROUPED)
def test_offsets_give_the_bits_of_ids(name: str, kind: Any, size: int) -> None:
    """Groups of one size are folded eight at a time, those of another one by one; ids go through a table."""
    random = np.random.default_rng(size)
    rewards = random.normal(1.0, 1.0, 41 * size + 5).astype(kind)
    rewards[random.random(len(rewards)) < 0.1] = np.nan
    lengths = [size] * 20 + [size + 5] + [size] * 20
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    fast, _, how = GROUPED[name]
    by_ids = fast(rewards, np.repeat(np.arange(41), lengths), **how)
    np.testing.assert_array_equal(fast(rewards, offsets=offsets, **how), by_ids)


@pytest.mark.parametrize(("scope", "plain"), [("batch", naive.zscore_batch), ("global", naive.zscore_global)])
@given(ragged(), st.integers(0, 1))
def test_a_deviation_over_the_batch_equals_its_twin(scope: Any, plain: Any, rows: Rows, ddof: int) -> None:
    found = advantage.zscore(rows.rewards, offsets=rows.offsets, ddof=ddof, eps=1e-4, scope=scope)
    close(found, plain(rows.wide, rows.ids, ddof, 1e-4))


@given(ragged(), st.sampled_from([1e-12, 1e-3, 1.0, 30.0]))
def test_a_partition_baseline_equals_its_twin(rows: Rows, b: float) -> None:
    found = advantage.partition_baseline(rows.rewards, rows.ids, inverse_temperature=b)
    wanted = naive.partition_baseline(rows.wide, rows.ids, b)
    close(found, wanted)


@given(ragged(), st.sampled_from([(10.0, 0.02, 5), (0.0, 0.5, 1), (3.0, 1e-9, 100)]))
def test_a_shrunk_baseline_equals_its_twin(rows: Rows, how: tuple[float, float, int]) -> None:
    strength, floor, min_count = how
    found = advantage.shrunk(rows.rewards, rows.ids, strength=strength, floor=floor, min_count=min_count)
    wanted = naive.shrunk(rows.wide, rows.ids, *how)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    # Equal rewards of 0.1 have a deviation of 0 here and of their rounding there, both below the floor of 1e-9; the
    # rounding of the baseline is then divided by that floor.
    top = np.nanmax(np.abs(rows.wide), initial=0)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-15 * top / floor + 1e-12)


@given(ragged(), st.booleans(), st.randoms(use_true_random=False))
def test_gdpo_equals_its_twin(rows: Rows, batch: bool, random: Any) -> None:
    second = rows.rewards.astype(np.float64)[::-1].copy()
    weights = [1.0, random.choice([0.5, 2.0])]
    assume(not batch or told_apart(naive.gdpo([rows.wide, second], weights, rows.ids, 0, 1e-4, False)))
    found = advantage.gdpo([rows.rewards, second], weights, rows.ids, ddof=0, batch=batch)
    close(found, naive.gdpo([rows.wide, second], weights, rows.ids, 0, 1e-4, batch))


@given(ragged(), st.sampled_from([0.0, 0.9, 1.0]), st.randoms(use_true_random=False))
def test_reinforce_plus_plus_reads_no_masked_token(rows: Rows, gamma: float, random: Any) -> None:
    mask = np.array([random.random() < 0.7 for _ in rows.rewards], dtype=bool)
    spoilt = np.where(mask, rows.rewards, np.inf).astype(rows.rewards.dtype)
    found = advantage.reinforce_plus_plus(spoilt, rows.offsets, mask=mask, gamma=gamma)
    kept = np.concatenate([[0], np.cumsum(mask)])[rows.offsets]
    alone = advantage.reinforce_plus_plus(rows.rewards[mask], kept, gamma=gamma)
    np.testing.assert_array_equal(found[mask], alone)
    assert np.all(found[~mask] == 0.0)
    spoilt = np.where(mask, rows.rewards, random.choice([np.nan, np.inf])).astype(rows.rewards.dtype)
    close(advantage.whiten(spoilt, mask, ddof=0), naive.whiten(np.where(mask, rows.wide, 0.0), mask, 0, 1e-8))


@given(ragged(), st.integers(0, 1), st.randoms(use_true_random=False))
def test_whitened_values_equal_their_twin(rows: Rows, ddof: int, random: Any) -> None:
    mask = np.array([random.random() < 0.8 for _ in rows.rewards], dtype=bool)
    close(advantage.whiten(rows.rewards, mask, ddof=ddof), naive.whiten(rows.wide, mask, ddof, 1e-8))


@given(ragged(), st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_discounted_returns_equal_their_twin(rows: Rows, gamma: float) -> None:
    close(
        advantage.discounted_returns(rows.rewards, rows.offsets, gamma=gamma),
        naive.returns(rows.wide, rows.lengths, gamma),
    )


@given(ragged(), st.sampled_from([0.0, 0.9, 1.0]))
def test_reinforce_plus_plus_is_the_whitened_return(rows: Rows, gamma: float) -> None:
    found = advantage.reinforce_plus_plus(rows.rewards, rows.offsets, gamma=gamma)
    values = naive.returns(rows.wide, rows.lengths, gamma)
    assume(told_apart(values))
    close(found, naive.whiten(values, np.ones(len(values), dtype=bool), 1, 1e-8))


@given(ragged(), st.randoms(use_true_random=False))
def test_reinforce_plus_plus_baseline_weighs_rollouts_by_tokens(rows: Rows, random: Any) -> None:
    tokens = [random.randint(1, 4) for _ in rows.rewards]
    offsets = np.concatenate([[0], np.cumsum(tokens)]).astype(np.int64)
    found = advantage.reinforce_plus_plus_baseline(rows.rewards, offsets=rows.offsets, token_offsets=offsets)
    centred = np.repeat(naive.centre(rows.wide, rows.ids), tokens)
    close(np.repeat(found, tokens), naive.whiten(centred, np.ones(len(centred), dtype=bool), 1, 1e-8))
    # One token more in each rollout, which does not count, changes nothing.
    longer = np.concatenate([[0], np.cumsum([count + 1 for count in tokens])]).astype(np.int64)
    mask = np.ones(longer[-1], dtype=bool)
    mask[longer[:-1]] = False
    masked = advantage.reinforce_plus_plus_baseline(rows.rewards, offsets=rows.offsets, token_offsets=longer, mask=mask)
    np.testing.assert_array_equal(masked, found)


@given(ragged(), st.sampled_from([0.0, 0.1, 1.0]), st.randoms(use_true_random=False))
def test_an_ema_baseline_equals_its_twin(rows: Rows, alpha: float, random: Any) -> None:
    ids = np.array([random.randint(-1, 3) for _ in rows.rewards], dtype=np.int64)
    wanted, baselines = naive.ema(rows.wide, ids, alpha, 0.5)
    whole = advantage.ema_baseline(rows.rewards, ids, alpha=alpha)
    close(whole.advantages, wanted)
    assert whole.state.ids.tolist() == list(baselines)
    close(whole.state.baselines, np.array(list(baselines.values())))
    half = len(ids) // 2
    first = advantage.ema_baseline(rows.rewards[:half], ids[:half], alpha=alpha)
    second = advantage.ema_baseline(rows.rewards[half:], ids[half:], alpha=alpha, state=first.state)
    np.testing.assert_array_equal(np.concatenate([first.advantages, second.advantages]), whole.advantages)
    np.testing.assert_array_equal(second.state.baselines, whole.state.baselines)


@pytest.mark.parametrize("norm", ["mean", "mean_std"])
@pytest.mark.parametrize("unit", ["trajectory", "step"])
@given(ragged(), st.randoms(use_true_random=False))
def test_gigpo_equals_its_twin(norm: Any, unit: Any, rows: Rows, random: Any) -> None:
    groups = np.array([random.randint(-1, 2) for _ in rows.lengths], dtype=np.int64)
    states = np.array([random.randint(0, 2) for _ in rows.rewards], dtype=np.int64)
    # Half as a discount: returns of equal rewards are equal to the last bit.
    how: dict[str, Any] = {"gamma": 0.5, "unit": unit, "norm": norm, "ddof": 0, "eps": 1e-6}
    found = advantage.gigpo(rows.rewards, rows.offsets, groups, states, step_weight=0.5, **how)
    episode, step = naive.gigpo(rows.wide, rows.lengths, groups, states, how)
    for one, other in [(found.episode, episode), (found.step, step), (found.joint, episode + 0.5 * step)]:
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7)


@given(ragged(), st.randoms(use_true_random=False))
def test_empg_equals_its_twin(rows: Rows, random: Any) -> None:
    entropies = np.array([random.choice([0.2, 0.9, 2.0]) for _ in rows.rewards])
    if np.isfinite(rows.rewards).any():
        found = advantage.empg(rows.rewards, entropies, rows.offsets, fade=1.0, bonus_fade=2.0, bonus=0.3, eps=0.1)
        close(found, naive.empg(rows.wide, entropies, rows.lengths, (1.0, 2.0, 0.3, 0.1)))


@pytest.mark.parametrize("name", list(advantage.CONVENTIONS))
@given(ragged())
def test_a_convention_equals_what_its_trainer_does(name: Any, rows: Rows) -> None:
    # Equal numbers whose mean rounds leave a deviation of 1e-17, which the eps of each drowns.
    rewards = np.nan_to_num(rows.wide) if advantage.CONVENTIONS[name].missing == "refused" else rows.wide
    wanted = naive.by_convention(name, rewards, rows.ids)
    for found in (
        advantage.by_convention(name, rewards, rows.ids),
        advantage.by_convention(name, rewards, offsets=rows.offsets),
    ):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-7 if name == "openrlhf" else 1e-9)
