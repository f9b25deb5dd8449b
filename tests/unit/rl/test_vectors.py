"""Vectors of rewards and sets of rollouts: what functions may give, what recipes learn from it, and what is logged."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")

from karl_fast.errors import UsageError
from karl_fast.objective import Batch, recipe
from karl_fast.rl import rl
from karl_fast.rl.metrics import vector_metrics
from karl_fast.rl.rewards import RewardFunctions, Weighted, component_weights, parse_vector, reward_vectors
from karl_fast.rl.rollout import Prompt, Rollout, set_numbers
from tests.unit.rl.conftest import lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from karl_fast.rl.settings import Online

VECTORS = """
def both(prompts, completions, completion_ids=None, **columns):
    return [{"low": sum(ids) / 40, "short": 1 / len(ids)} for ids in completion_ids]
"""


def rollout(group: int, member: int, **components: float) -> Rollout:
    prompt = Prompt("p", 0, ({"role": "user", "content": "1"},))
    empty = np.zeros(1, np.float32)
    parts: Any = {"messages": ({"content": "x"},), "states": (), "turn_rewards": (), "finish": "stop", "version": 0}
    tokens = np.array([1, 2], dtype=np.int32)
    return Rollout(f"{group}-{member}", prompt, group, tokens, ((1, 2),), empty, empty, components=components, **parts)


def test_vector_is_components_that_share_the_weight() -> None:
    functions = RewardFunctions(
        [
            Weighted("both", lambda completions: [{"a": 1.0, "b": 0.0}, {"a": None, "b": 0.5}], 2.0),
            Weighted("plain", lambda completions: [0.25, 0.5], 1.0),
        ]
    )
    ((first, second),), failures = functions([[rollout(0, 0), rollout(0, 1)]])
    assert not failures
    assert first.components == {"both.a": 1.0, "both.b": 0.0, "plain": 0.25}
    assert first.reward == pytest.approx(2 * (1 + 0) / 2 + 0.25)
    assert second.components == {"both.b": 0.5, "plain": 0.5}
    assert second.reward == pytest.approx((1.0 * 0.5 + 1.0 * 0.5) * 3 / 2)  # that of what is left out is shared
    assert component_weights([first, second], functions.weights) == {"both.a": 1.0, "both.b": 1.0, "plain": 1.0}


def test_names_of_entries_may_hold_dots() -> None:
    functions = RewardFunctions([Weighted("f", lambda completions: [{"v1.0": 1.0, "c": 0.0}, {"v1.0": 1.0, "c": 1.0}])])
    ((first, second),), failures = functions([[rollout(0, 0), rollout(0, 1)]])
    assert not failures
    assert (first.reward, second.reward) == (0.5, 1.0)


def test_entries_that_are_no_rewards_are_named() -> None:
    functions = RewardFunctions([Weighted("both", lambda completions: [{"a": float("nan"), "b": 1.0}])])
    ((found,),), failures = functions([[rollout(3, 0)]])
    assert found.missing == "both: nan"
    assert failures == ["both gave NaN for 1 of 2 completions, the first for rollout 3-0: nan"]


def test_a_vector_has_names() -> None:
    assert parse_vector({"a": 1, 2: None}) == {"a": 1.0, "2": None}
    assert parse_vector(0.5) == 0.5
    assert parse_vector(None) is None
    assert parse_vector([1.0, 2.0]).kind == "not a number"  # an array of the wrong shape more often than a vector


def test_matrix_has_a_column_for_each_reward_that_counts() -> None:
    rollouts = [rollout(0, 0, **{"f.a": 1.0, "g": 2.0, "seen": 9.0}), rollout(0, 1, **{"f.b": 0.5, "g": 3.0})]
    names, vectors, weights = reward_vectors(rollouts, {"f": 1.0, "g": 0.5, "seen": 0.0})
    assert names == ["f.a", "f.b", "g"]
    np.testing.assert_array_equal(vectors, [[1.0, np.nan, 2.0], [np.nan, 0.5, 3.0]])
    np.testing.assert_array_equal(weights, [0.5, 0.5, 0.5])


def test_sets_are_neighbours_of_a_group() -> None:
    rollouts = [rollout(group, member) for group in (4, 2) for member in range(6)]
    assert set_numbers(rollouts, 3).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


def scores(name: str, vectors: Any, groups: Any, sets: Any, weights: Any) -> Any:
    rows = len(vectors)
    rewards = (vectors * weights).sum(1)
    zeros = np.zeros((rows, 1))
    batch = Batch(
        np.ones((rows, 1), dtype=np.bool_),
        rewards=rewards,
        group_ids=groups,
        logp_old=zeros,
        logp_ref=zeros,
        reward_vectors=vectors,
        component_weights=weights,
        set_ids=sets,
    )
    return recipe(name).objective.score(batch).advantages[:, 0]


VALUES = np.random.default_rng(3).uniform(size=(12, 2)) * [100.0, 1.0]
GROUPS, SETS = np.repeat([0, 1], 6), np.arange(12) // 3
WEIGHTS = np.array([0.01, 0.5])


def zscore(values: Any, ddof: int, eps: float) -> Any:
    return (values - values.mean(0)) / (values.std(0, ddof=ddof) + eps)


def test_gdpo_standardises_each_reward_before_it_adds_them() -> None:
    sums = np.concatenate([(zscore(VALUES[group == GROUPS], 1, 1e-4) * WEIGHTS).sum(1) for group in (0, 1)])
    np.testing.assert_allclose(
        scores("gdpo", VALUES, GROUPS, SETS, WEIGHTS), sums / (sums.std(ddof=1) + 1e-4), rtol=1e-9
    )


def test_multi_rlvr_gives_a_set_the_advantage_of_its_best() -> None:
    best = (VALUES * WEIGHTS).sum(1).reshape(4, 3).max(1)
    wanted = np.concatenate([zscore(best[:2], 0, 1e-8), zscore(best[2:], 0, 1e-8)])
    np.testing.assert_allclose(scores("multi-rlvr", VALUES, GROUPS, SETS, WEIGHTS), np.repeat(wanted, 3), rtol=1e-9)


def test_vpo_scores_weighted_rewards() -> None:
    sets = np.arange(12) // 2
    plain = scores("vpo", VALUES * WEIGHTS, GROUPS, sets, np.ones(2))
    np.testing.assert_allclose(scores("vpo", VALUES, GROUPS, sets, WEIGHTS), plain, rtol=1e-9)
    assert np.abs(scores("vpo", VALUES, GROUPS, sets, np.ones(2)) - plain).max() > 0.01
    np.testing.assert_array_equal(plain[::2], plain[1::2])


def test_metrics_are_those_of_a_loop_over_preferences() -> None:
    from karl_fast.objective.axes.set_score import directions

    rollouts = [rollout(0, member, **{"f.a": a, "f.b": b}) for member, (a, b) in enumerate(VALUES[:6])]
    found = vector_metrics(rollouts, {"f": 1.0}, 3)
    wanted = directions(np.zeros(1, dtype=np.int64), 16, 2, 0)[0]
    for k in (1, 3, 6):
        best = [
            np.mean([max(VALUES[list(chosen)] @ weight) for chosen in combinations(range(6), k)]) for weight in wanted
        ]
        assert found[f"best_at_{k}"] == pytest.approx(np.mean(best))
    pairs = [(a, b) for start in (0, 3) for a, b in combinations(range(start, start + 3), 2)]
    assert found["pool_l1"] == pytest.approx(np.mean([np.abs(VALUES[a] - VALUES[b]).sum() for a, b in pairs]))
    assert vector_metrics([rollout(0, 0, f=1.0)], {"f": 1.0}, 1) == {}


@pytest.mark.parametrize("name", ["vpo", "multi-rlvr", "gdpo", "grpo", "pass-at-k"])
def test_run_learns_from_vectors(online: Callable[..., Online], tmp_path: Path, name: str) -> None:
    (tmp_path / "vectors.py").write_text(VECTORS)
    more = {"candidates": 2} if name in ("vpo", "multi-rlvr") else {}
    rewards = {f"{tmp_path / 'vectors.py'}:both": 1.0}
    assert rl(online(recipe=name, rewards=rewards, rounds=2, **more)).steps == 2
    line = lines(tmp_path / "out" / "metrics.jsonl")[-1]
    assert line["reward"] == pytest.approx(np.mean([line["reward.both.low"], line["reward.both.short"]]))
    assert line["best_at_4"] >= line["best_at_1"]
    assert line["pool_l1"] >= 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"recipe": "vpo"}, "VPO learns from sets of candidates, and candidates is 1"),
        ({"recipe": "grpo", "candidates": 2}, "GRPO does not learn from sets of candidates, and candidates is 2"),
        ({"recipe": "vpo", "candidates": 4}, "group_size is 4, and VPO compares"),
        ({"recipe": "vpo", "candidates": 3}, "group_size is 4, wanted a multiple of candidates, 3"),
    ],
)
def test_sets_that_do_not_fit_are_refused(online: Callable[..., Online], given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rl(online(**given))


def test_best_of_k_is_that_of_a_loop_over_sets() -> None:
    from karl_fast.objective.axes.advantage import BestOfK

    draw = np.random.default_rng(8)
    rewards = draw.integers(0, 4, 17) / 3
    rewards[5] = np.nan
    groups = np.array([2] * 7 + [0] * 6 + [9] * 2 + [5] + [-1])
    groups = groups[draw.permutation(17)]
    batch = Batch(np.ones((17, 1), dtype=np.bool_), rewards=rewards, group_ids=groups)
    for k in (2, 3, 6):
        found = BestOfK(k)(batch, np.ones(17, dtype=np.bool_))
        for row in range(17):
            others = [
                rewards[j] for j in range(17) if groups[j] == groups[row] and j != row and rewards[j] == rewards[j]
            ]
            sets = list(combinations(others, k - 1))
            gains = [max(rewards[row], *chosen) - max(chosen) for chosen in sets]
            wanted = np.nan if np.isnan(rewards[row]) or groups[row] < 0 else np.mean(gains) if sets else 0.0
            assert found[row] == pytest.approx(wanted, abs=1e-12, nan_ok=True), (k, row)
    equal = Batch(batch.mask, rewards=np.full(17, 0.1), group_ids=np.zeros(17, dtype=np.int64))
    np.testing.assert_array_equal(BestOfK(3)(equal, np.ones(17, dtype=np.bool_)), 0.0)


def test_best_of_k_estimates_the_slope_of_the_best_of_k() -> None:
    """A policy over three arms: the mean of k A_i dlogp over draws is the slope of the expected best of k."""
    from itertools import product

    from karl_fast.objective.axes.advantage import BestOfK

    pays, chances, k = np.array([0.2, 0.5, 1.0]), np.array([0.5, 0.3, 0.2]), 2

    def best(p: np.ndarray) -> float:
        return sum(np.prod(p[list(arms)]) * pays[list(arms)].max() for arms in product(range(3), repeat=k))

    slope = np.zeros(3)
    for arms in product(range(3), repeat=4):
        drawn = np.array(arms)
        batch = Batch(np.ones((4, 1), dtype=np.bool_), rewards=pays[drawn], group_ids=np.zeros(4, dtype=np.int64))
        advantages = BestOfK(k)(batch, np.ones(4, dtype=np.bool_))
        slope += np.prod(chances[drawn]) * (k * advantages[:, None] * (np.eye(3)[drawn] - chances)).mean(0)
    logits = np.log(chances)
    for arm in range(3):
        step = np.exp(logits + 1e-6 * np.eye(3)[arm])
        other = np.exp(logits - 1e-6 * np.eye(3)[arm])
        wanted = (best(step / step.sum()) - best(other / other.sum())) / 2e-6
        assert slope[arm] == pytest.approx(wanted, abs=1e-8)
