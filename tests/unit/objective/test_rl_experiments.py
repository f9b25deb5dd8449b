"""Recipes of rl-experiments equal their formulas in plain loops, and no neighbour of theirs does."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.errors import ArgumentError, IncoherentObjectiveError, UsageError
from karl_fast.objective import Batch, PolicyGradient, recipe
from karl_fast.objective.axes.advantage import Given, PrefixTree, RemainingMean
from karl_fast.objective.axes.clip import (
    Delight,
    FreshDelight,
    GuardedDelight,
    InverseProbability,
    MaskNegatives,
    UncertainDelight,
)
from karl_fast.objective.axes.correction import TokenTruncate
from karl_fast.objective.axes.filter import MaxDeviation
from karl_fast.objective.axes.kl import NoKL
from karl_fast.objective.axes.labels import GatedLabels
from karl_fast.objective.axes.ratio import TokenRatio
from tests.unit.objective.batch_cases import differs, loss_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ROWS, WIDTH, SIZE = 12, 5, 4
DRAW = np.random.default_rng(4)
OLD = -DRAW.exponential(size=(ROWS, WIDTH))
NEW = np.minimum(OLD + DRAW.normal(size=OLD.shape), -0.01)
NEW[0, 0], OLD[0, 0] = -0.1, -3.0
"""A ratio of 18, above the cap of 10."""
REWARDS = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 2.0])
"""The third group deviates by 1, the others by less than or by 0.5."""

BATCH = Batch(
    mask=np.ones(OLD.shape, dtype=np.bool_),
    rewards=REWARDS,
    group_ids=np.repeat(np.arange(3), SIZE),
    logp_old=OLD,
    logp_ref=OLD,
    ages=np.arange(ROWS) * 7,
    tokens=DRAW.integers(0, 2, size=OLD.shape),
    token_rewards=DRAW.integers(0, 2, size=OLD.shape).astype(np.float64),
    truncated=np.arange(ROWS) % 2 == 0,
    labels=np.random.default_rng(5).integers(-1, 2, size=OLD.shape),
    baselines=np.random.default_rng(6).uniform(size=ROWS),
)
LABEL_LOGP = -np.random.default_rng(7).exponential(size=OLD.shape)


def group(row: int) -> list[int]:
    first = row // SIZE * SIZE
    return list(range(first, first + SIZE))


def mean(row: int) -> float:
    return float(sum(REWARDS[other] for other in group(row)) / SIZE)


def deviation(row: int) -> float:
    return math.sqrt(sum((REWARDS[other] - mean(row)) ** 2 for other in group(row)) / SIZE)


def centred(row: int) -> float:
    return float(REWARDS[row] - mean(row))


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def gate(advantage: float, row: int, token: int) -> float:
    return sigmoid(-advantage * NEW[row, token])


def ratio(row: int, token: int) -> float:
    return math.exp(NEW[row, token] - OLD[row, token])


def product(row: int, token: int) -> float:
    return math.prod(ratio(row, other) for other in range(WIDTH))


def guard(row: int, token: int) -> float:
    return 1 - 0.5 * math.exp(NEW[row, token]) if centred(row) > 0 else 1.0


def remaining(row: int, token: int) -> float:
    """The share of right tokens from one on, less the mean of the group."""
    shares = {other: float(BATCH.token_rewards[other, token:].mean()) for other in group(row)}  # type: ignore[index]
    return shares[row] - sum(shares.values()) / SIZE


def value(row: int, length: int) -> float:
    """The mean reward of the group's rollouts with the same first tokens."""
    tokens: Any = BATCH.tokens
    alike = [other for other in group(row) if (tokens[other, :length] == tokens[row, :length]).all()]
    return float(sum(REWARDS[other] for other in alike) / len(alike))


def tempo(row: int, token: int) -> float:
    return (centred(row) + value(row, token + 1) - value(row, token)) / deviation(row)


WEIGHTED: dict[str, tuple[str, Callable[[int, int], float]]] = {
    "pg": ("traj-pg", lambda row, token: centred(row) * min(ratio(row, token), 10.0)),
    "traj-pg": ("pg", lambda row, token: centred(row) * min(product(row, token), 10.0)),
    "dg": ("fresh-dg", lambda row, token: centred(row) * gate(centred(row), row, token)),
    "fresh-dg": ("dg", lambda row, token: centred(row) * gate(centred(row), row, token) * math.exp(-0.02 * row * 7)),
    "dg-entropy-guard": ("dg", lambda row, token: centred(row) * gate(centred(row), row, token) * guard(row, token)),
    "uncertainty-dg": (
        "reward-variance-dg",
        lambda row, token: centred(row) * sigmoid(-centred(row) * NEW[row, token] - deviation(row)),
    ),
    "reward-variance-dg": (
        "uncertainty-dg",
        lambda row, token: (damped := centred(row) / (1 + deviation(row))) * gate(damped, row, token),
    ),
    "log-growth": ("dg", lambda row, token: centred(row) * (math.exp(-NEW[row, token]) if centred(row) > 0 else 1.0)),
    "dg-token": ("dg", lambda row, token: remaining(row, token) * gate(remaining(row, token), row, token)),
    "dg-expected": (
        "dg",
        lambda row, token: (less := float(REWARDS[row] - BATCH.baselines[row])) * gate(less, row, token),  # type: ignore[index]
    ),
    "tempo": ("pg", lambda row, token: tempo(row, token) * min(ratio(row, token), 10.0)),
}
"""A neighbour, and what the log-probability of a token is multiplied by: all are detached, and means over tokens."""


def by_formula(weight: Callable[[int, int], float], rows: range = range(ROWS)) -> tuple[float, NDArray[np.float64]]:
    """The loss and its gradient of a weight of each token."""
    gradient = np.zeros(NEW.shape)
    for row in rows:
        for token in range(WIDTH):
            gradient[row, token] = -weight(row, token) / (len(rows) * WIDTH)
    return float((gradient * NEW).sum()), gradient


@pytest.mark.parametrize("name", WEIGHTED)
def test_weighted_rule_equals_its_formula(name: str) -> None:
    neighbour, weight = WEIGHTED[name]
    loss, gradient = loss_of(recipe(name).objective, BATCH, NEW)
    wanted = by_formula(weight)
    assert loss == pytest.approx(wanted[0], rel=1e-9)
    np.testing.assert_allclose(gradient, wanted[1], rtol=1e-9, atol=1e-12)
    assert differs(loss_of(recipe(neighbour).objective, BATCH, NEW), wanted, by=1e-4)


def test_filtered_dg_drops_groups_that_disagree() -> None:
    wanted = by_formula(WEIGHTED["dg"][1], range(8))
    loss, gradient = loss_of(recipe("filtered-dg").objective, BATCH, NEW)
    assert loss == pytest.approx(wanted[0], rel=1e-9)
    np.testing.assert_allclose(gradient, wanted[1], rtol=1e-9, atol=1e-12)
    assert differs(loss_of(recipe("dg").objective, BATCH, NEW), wanted, by=1e-4)
    binary = replace(BATCH, outcomes=np.minimum(REWARDS, 1.0))
    assert MaxDeviation(0.5)(binary).all()
    assert not MaxDeviation(0.45)(binary)[:4].any()


def test_group_pg_sums_scores_over_a_group() -> None:
    """The laboratory takes the mean over groups, here it is over rollouts."""
    gradient = loss_of(recipe("group-pg").objective, BATCH, NEW)[1]
    for row in range(ROWS):
        np.testing.assert_allclose(SIZE * gradient[row], -centred(row) / deviation(row) / 3, rtol=1e-5)
    for neighbour in ("reinforce", "rloo", "maxrl"):
        objective: Any = replace(recipe(neighbour).objective, kl=NoKL())  # type: ignore[type-var]
        assert np.abs(loss_of(objective, BATCH, NEW)[1] - gradient).max() > 1e-3


def test_tpo_without_anchor_ignores_the_old_policy() -> None:
    objective = recipe("tpo-no-anchor").objective
    scores = np.array([math.exp(centred(row) / deviation(row)) for row in range(ROWS)]).reshape(3, SIZE)
    targets = (scores / scores.sum(1, keepdims=True)).ravel()
    np.testing.assert_allclose(np.array(objective.score(BATCH).targets), targets, rtol=1e-9)
    chances = np.exp(NEW.sum(1)).reshape(3, SIZE)
    chances /= chances.sum(1, keepdims=True)
    gradient = loss_of(objective, BATCH, NEW)[1]
    np.testing.assert_allclose(gradient[:, 0], (chances.ravel() - targets) / 3, rtol=1e-9, atol=1e-12)
    anchored = np.array(recipe("tpo").objective.score(BATCH).targets)
    assert np.abs(anchored - targets).max() > 0.05


def clipped(row: int, token: int, low: float, high: float) -> float:
    """The derivative of -min(ratio A, clip(ratio) A) by a log-probability."""
    score, r = centred(row) / deviation(row), ratio(row, token)
    out = r > 1 + high if score > 0 else r < 1 - low
    return 0.0 if out else -score * r


def test_grpo_of_the_laboratory_has_its_constants() -> None:
    gradient = loss_of(recipe("grpo-rl-experiments").objective, BATCH, NEW)[1]
    wanted = [
        [clipped(row, token, 0.2, 0.2) + 0.04 * (1 - 1 / ratio(row, token)) for token in range(WIDTH)]
        for row in range(ROWS)
    ]
    np.testing.assert_allclose(gradient * ROWS * WIDTH, wanted, rtol=1e-6, atol=1e-9)
    assert np.abs(loss_of(recipe("grpo").objective, BATCH, NEW)[1] - gradient).max() > 1e-3


def test_dapo_lite_keeps_what_was_cut() -> None:
    gradient = loss_of(recipe("dapo-lite").objective, BATCH, NEW)[1]
    wanted = [[clipped(row, token, 0.2, 0.28) for token in range(WIDTH)] for row in range(ROWS)]
    np.testing.assert_allclose(gradient * ROWS * WIDTH, wanted, rtol=1e-6, atol=1e-9)
    assert np.abs(gradient[BATCH.truncated]).max() > 0
    assert np.all(loss_of(recipe("dapo").objective, BATCH, NEW)[1][BATCH.truncated] == 0)


def right_now(row: int, token: int) -> float:
    """The reward of a token, less the mean of the group there."""
    rewards: Any = BATCH.token_rewards
    return float(rewards[row, token] - sum(rewards[other, token] for other in group(row)) / SIZE)


def known(row: int, token: int) -> bool:
    return bool(BATCH.labels[row, token] >= 0)  # type: ignore[index]


def wrong(row: int, token: int) -> bool:
    return known(row, token) and bool(BATCH.labels[row, token] != BATCH.tokens[row, token])  # type: ignore[index]


def with_labels(objective: Any) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """The loss, and its gradient by the log-probabilities of own and right tokens."""
    found = objective(NEW, objective.score(BATCH), label_logp=LABEL_LOGP)
    return found.loss, found.coefficients, found.label_logp_coefficients


def test_self_distill_dg_gates_right_tokens() -> None:
    places = [(row, token) for row in range(ROWS) for token in range(WIDTH)]
    gates = {place: gate(right_now(*place), *place) for place in places}
    loss, own, right = with_labels(recipe("self-distill-dg").objective)
    wanted = np.zeros((2, ROWS, WIDTH))
    for place in places:
        wanted[0][place] = -right_now(*place) * gates[place] / len(places)
        wanted[1][place] = -0.5 * gates[place] * known(*place) / len(places)
    np.testing.assert_allclose([own, right], wanted, rtol=1e-9, atol=1e-12)
    assert loss == pytest.approx((wanted[0] * NEW).sum() + (wanted[1] * LABEL_LOGP).sum(), rel=1e-9)
    for neighbour in ("dg-token", "scope-lite"):
        objective: Any = recipe(neighbour).objective
        other = with_labels(objective) if objective.reads_labels else loss_of(objective, BATCH, NEW)
        assert np.abs(other[1] - own).max() > 1e-3


def test_scope_lite_learns_right_tokens_from_the_first_wrong_one_on() -> None:
    suffix = [
        (row, token)
        for row in range(ROWS)
        for token in range(WIDTH)
        if known(row, token) and any(wrong(row, before) for before in range(token + 1))
    ]
    assert 0 < len(suffix) < np.count_nonzero(BATCH.need("labels") >= 0)
    loss, own, right = with_labels(recipe("scope-lite").objective)
    wanted = np.zeros((ROWS, WIDTH))
    for place in suffix:
        wanted[place] = -0.5 / len(suffix)
    np.testing.assert_allclose(right, wanted, rtol=1e-9, atol=1e-12)
    plain = loss_of(recipe("dg").objective, BATCH, NEW)
    np.testing.assert_allclose(own, plain[1], rtol=1e-12)
    assert loss == pytest.approx(plain[0] + (wanted * LABEL_LOGP).sum(), rel=1e-9)
    gated: Any = replace(recipe("scope-lite").objective, labels=GatedLabels(0.5))  # type: ignore[type-var]
    assert np.abs(with_labels(gated)[2] - right).max() > 1e-3


@pytest.mark.parametrize("name", ["self-distill-dg", "scope-lite"])
def test_micro_batches_of_right_tokens_add_up(name: str) -> None:
    objective = recipe(name).objective
    scored = objective.score(BATCH)
    whole = objective(NEW, scored, label_logp=LABEL_LOGP)
    by = objective.denominator(scored)
    parts = [
        objective(NEW[rows], scored.rows(rows), denominator=by, label_logp=LABEL_LOGP[rows])
        for rows in (slice(0, 5), slice(5, ROWS))
    ]
    assert sum(part.loss for part in parts) == pytest.approx(whole.loss, rel=1e-12)
    slopes = np.concatenate([part.label_logp_coefficients for part in parts])
    np.testing.assert_allclose(slopes, whole.label_logp_coefficients, rtol=1e-12)


def test_right_tokens_are_asked_for_where_they_are_read() -> None:
    scored = recipe("scope-lite").objective.score(BATCH)
    with pytest.raises(UsageError, match=r"SuffixLabels\(coef=0.5\) needs label_logp of each token"):
        recipe("scope-lite").objective(NEW, scored)
    with pytest.raises(UsageError, match="has no use for label_logp"):
        recipe("dg").objective(NEW, recipe("dg").objective.score(BATCH), label_logp=LABEL_LOGP)


KEEP = np.ones(4, dtype=np.bool_)
TREE = Batch(
    mask=np.array([[True, True, False, True], [True, True, True, False], [False, True, True, True], [True] * 4]),
    rewards=np.array([1.0, 0.0, 1.0, 0.0]),
    group_ids=np.zeros(4, dtype=np.int64),
    tokens=np.array([[5, 6, 9, 7], [5, 6, 7, 9], [9, 5, 8, 1], [4, 4, 4, 4]]),
)
"""Own tokens 5 6 7, 5 6 7, 5 8 1 and 4 4 4 4."""


def test_tempo_credits_tokens_where_rollouts_part() -> None:
    """Values by hand: 1/2 at the root, 2/3 after 5, 1/2 after 5 6 and 5 6 7, 1 after 5 8, 0 after 4."""
    found = PrefixTree()(TREE, KEEP)
    sixth = 1 / 6
    wanted = np.array(
        [
            [0.5 + sixth, 0.5 - sixth, np.nan, 0.5],
            [-0.5 + sixth, -0.5 - sixth, -0.5, np.nan],
            [np.nan, 0.5 + sixth, 0.5 + 2 * sixth, 0.5],
            [-1.0, -0.5, -0.5, -0.5],
        ]
    )
    np.testing.assert_allclose(found[TREE.mask], (2 * wanted)[TREE.mask], rtol=1e-12)


def test_prefixes_are_compared_within_a_group_only() -> None:
    apart = replace(TREE, group_ids=np.array([0, 1, 0, 1]))
    np.testing.assert_array_equal(PrefixTree()(apart, KEEP)[TREE.mask], 0.0)  # each group is of equal rewards
    alone = replace(TREE, group_ids=np.array([-1, -1, 0, 0]))
    np.testing.assert_array_equal(PrefixTree()(alone, KEEP)[:2][TREE.mask[:2]], 0.0)
    missing = replace(TREE, rewards=np.array([1.0, np.nan, 1.0, 0.0]))
    assert np.isnan(PrefixTree()(missing, KEEP)[1]).all()
    dropped = PrefixTree()(TREE, np.array([True, False, True, True]))
    np.testing.assert_array_equal(dropped, PrefixTree()(missing, KEEP))


def test_infinite_reward_has_no_prefix_value() -> None:
    with pytest.raises(ArgumentError, match="inf"):
        PrefixTree()(replace(TREE, rewards=np.array([np.inf, 0.0, 1.0, 0.0])), KEEP)


def test_tool_output_is_not_part_of_prefixes() -> None:
    tokens = np.where(TREE.mask, TREE.tokens, -7)  # type: ignore[arg-type]
    other = PrefixTree()(replace(TREE, tokens=tokens), KEEP)
    np.testing.assert_array_equal(other, PrefixTree()(TREE, KEEP))


def test_remaining_mean_counts_rewarded_tokens_alone() -> None:
    rewards = np.array([[np.nan, 1.0, 0.0], [1.0, 0.0, np.nan]])
    batch = Batch(np.ones((2, 3), dtype=np.bool_), group_ids=np.zeros(2, dtype=np.int64), token_rewards=rewards)
    found = RemainingMean()(batch, np.ones(2, dtype=np.bool_))
    np.testing.assert_allclose(found, [[0.0, 0.25, 0.0], [0.0, -0.25, 0.0]], atol=1e-15)
    alone = replace(batch, group_ids=np.full(2, -1, dtype=np.int64))
    np.testing.assert_array_equal(RemainingMean()(alone, np.ones(2, dtype=np.bool_)), 0.0)


GATES = [FreshDelight(), GuardedDelight(), UncertainDelight()]


def objective_of(clip: Any, **more: Any) -> PolicyGradient:
    return replace(recipe("dg").objective, clip=clip, **more)  # type: ignore[return-value,type-var]


@pytest.mark.parametrize("clip", [*GATES, InverseProbability()], ids=repr)
def test_weight_of_a_log_probability_refuses_ratios(clip: Any) -> None:
    with pytest.raises(IncoherentObjectiveError, match=f"{type(clip).__name__} weighs the log-probability"):
        objective_of(clip, ratio=TokenRatio())
    with pytest.raises(IncoherentObjectiveError, match="MaskNegatives needs a ratio"):
        objective_of(MaskNegatives(clip, 0.1), ratio=TokenRatio())


@pytest.mark.parametrize("clip", GATES, ids=repr)
def test_gates_refuse_a_correction(clip: Any) -> None:
    with pytest.raises(IncoherentObjectiveError, match=f"{type(clip).__name__} is not proportional"):
        objective_of(clip, correction=TokenTruncate())


@pytest.mark.parametrize(
    "clip", [FreshDelight(decay=0.0), GuardedDelight(strength=0.0), UncertainDelight(scale=0.0)], ids=repr
)
@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_gates_without_their_term_are_delight(clip: Any, temperature: float) -> None:
    found = loss_of(objective_of(replace(clip, temperature=temperature)), BATCH, NEW)
    assert not differs(found, loss_of(objective_of(Delight(temperature)), BATCH, NEW), by=1e-12)


def test_guard_leaves_out_the_mean_probability() -> None:
    """Over two actions the mean is a half: a gain of probability 0.9 is guarded by 0.4, a rare one is not."""
    mask, logp = np.ones((2, 1), dtype=np.bool_), np.log(np.array([[0.9], [0.2]]))
    objective = objective_of(GuardedDelight(mean=0.5), advantage=Given())
    gradient = loss_of(objective, Batch(mask, advantages=np.ones(2)), logp)[1][:, 0]
    gates = 1 / (1 + np.exp(logp[:, 0]))
    np.testing.assert_allclose(-2 * gradient, gates * [1 - 0.5 * 0.4, 1.0], rtol=1e-12)


CANDIDATES = 6
SCORES = np.array([[1.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])


def log_softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(values - np.log(np.exp(values).sum(-1, keepdims=True)))


def candidates(scores: NDArray[np.float64], old: NDArray[np.float64]) -> Batch:
    """Prefixes as groups, and their candidates as rollouts of one token."""
    prefixes, each = scores.shape
    flat = old.reshape(-1, 1)
    ids = np.repeat(np.arange(prefixes), each)
    return Batch(np.ones(flat.shape, dtype=np.bool_), scores.ravel(), ids, logp_old=flat, logp_ref=flat)


@pytest.mark.parametrize("whole", [False, True], ids=["some tokens", "all actions"])
def test_token_tpo_is_tpo_of_candidates(whole: bool) -> None:
    """TPOToken; with every action as a candidate and one that has a score, TPOFullAction."""
    draw = np.random.default_rng(8)
    old, new = (log_softmax(draw.normal(size=SCORES.shape) - (0.0 if whole else 1.0)) for _ in range(2))
    scores = np.where(np.arange(CANDIDATES) == np.array([[3], [1]]), [[0.7], [-0.4]], 0.0) if whole else SCORES
    skill = (scores - scores.mean(1, keepdims=True)) / scores.std(1, keepdims=True)
    wanted = np.exp(log_softmax(old + skill))
    loss, gradient = loss_of(recipe("tpo").objective, candidates(scores, old), new.reshape(-1, 1))
    assert loss == pytest.approx(-(wanted * new).sum(1).mean(), rel=1e-9)
    np.testing.assert_allclose(gradient.reshape(SCORES.shape), (np.exp(new) - wanted) / 2, rtol=1e-9, atol=1e-12)


def test_token_grpo_is_grpo_of_candidates() -> None:
    """GRPOToken sums over the candidates of a prefix, where the recipe takes the mean."""
    draw = np.random.default_rng(9)
    old = -draw.exponential(size=SCORES.shape)
    new = old + 0.4 * draw.normal(size=SCORES.shape)
    scores = (SCORES - SCORES.mean(1, keepdims=True)) / (SCORES.std(1, keepdims=True) + 1e-8)
    r = np.exp(new - old)
    terms = np.minimum(r * scores, np.clip(r, 0.8, 1.2) * scores) - 0.04 * (1 / r + new - old - 1)
    objective = recipe("grpo-rl-experiments").objective
    loss, _ = loss_of(objective, candidates(SCORES, old), new.reshape(-1, 1))
    assert CANDIDATES * loss == pytest.approx(-terms.sum(1).mean(), rel=1e-6)


@pytest.mark.parametrize("clip", [*GATES, InverseProbability()], ids=repr)
def test_float32_weights_match_those_of_float64(clip: Any) -> None:
    objective = objective_of(clip)
    scored = objective.score(BATCH)
    single = objective(NEW.astype(np.float32), scored).coefficients
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, objective(NEW, scored).coefficients, rtol=1e-5, atol=1e-7)
