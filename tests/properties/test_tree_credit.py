"""Losses of trees of rollouts on random trees: the law of each point, and that of what a tree is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from karl_fast.errors import IncoherentObjectiveError, UsageError
from karl_fast.objective import (
    K3,
    Anchored,
    Batch,
    Centre,
    ConstantLength,
    EntropyBonus,
    GatedLabels,
    NoClip,
    NoKL,
    PolicyGradient,
    RootOnly,
    SequenceMean,
    SequenceSum,
    TokenMean,
    TreeCalls,
    TreeTokens,
    recipe,
)

AGGREGATES = [SequenceMean(), TokenMean(), SequenceSum(), ConstantLength(7)]
GRPO = recipe("grpo").objective
WIDTH = 5


@dataclass
class Forest:
    """Trees of rollouts, in any order of their rows; the rewards of rollouts that others called are missing."""

    parents: list[int]
    lengths: list[int]
    groups: list[int]
    rewards: list[float]

    @property
    def roots(self) -> list[int]:
        roots = []
        for row in range(len(self.parents)):
            while self.parents[row] >= 0:
                row = self.parents[row]
            roots.append(row)
        return roots

    def arrays(self) -> dict[str, Any]:
        """Each token has values of its own, which do not depend on the row that it is in."""
        mask = np.arange(WIDTH)[None] < np.array(self.lengths)[:, None]
        noise = np.random.default_rng(len(self.parents))
        old = -noise.uniform(0.2, 2, mask.shape)
        return {
            "mask": mask,
            "logp_old": old,
            "logp_ref": old + noise.normal(0, 0.3, mask.shape),
            "logp": old + noise.normal(0, 0.4, mask.shape),
            "entropy": noise.uniform(0, 1, mask.shape),
        }


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    count = draw(st.integers(2, 10))
    above = [draw(st.integers(-1, row - 1)) for row in range(count)]
    order = draw(st.permutations(range(count)))
    place = {row: at for at, row in enumerate(order)}
    parents = [-1 if above[row] < 0 else place[above[row]] for row in order]
    forest = Forest(parents, [draw(st.integers(1, WIDTH)) for _ in parents], [], [])
    number = {root: draw(st.integers(0, 1)) for root in sorted(set(forest.roots))}
    forest.groups = [number[root] for root in forest.roots]
    rewards = [draw(st.sampled_from([0.0, 0.5, 1.0])) for _ in parents]
    forest.rewards = [reward if parent < 0 else np.nan for reward, parent in zip(rewards, parents, strict=True)]
    return forest


def batch_of(forest: Forest, **more: Any) -> tuple[Batch, Any, Any]:
    """A batch, the log-probabilities of the policy, and its entropies."""
    arrays = forest.arrays()
    logp, entropy = arrays.pop("logp"), arrays.pop("entropy")
    columns = {"group_ids": np.array(forest.groups), "parents": np.array(forest.parents)}
    return Batch(**arrays, rewards=np.array(forest.rewards), **columns, **more), logp, entropy


def joined(forest: Forest) -> tuple[Batch, Any, Any, list[tuple[int, int]]]:
    """Each tree as one rollout with the tokens of all its rollouts, and the place that each token came from."""
    batch, logp, entropy = batch_of(forest)
    trees = [[row for row, root in enumerate(forest.roots) if root == tree] for tree in sorted(set(forest.roots))]
    places = [[(row, at) for row in rows for at in range(forest.lengths[row])] for rows in trees]
    width = max(map(len, places))

    def moved(column: Any) -> Any:
        rows = [[column[place] for place in tree] + [-1.0] * (width - len(tree)) for tree in places]
        return np.array(rows)

    roots = sorted(set(forest.roots))
    whole = Batch(
        mask=np.arange(width)[None] < np.array([len(tree) for tree in places])[:, None],
        rewards=np.array(forest.rewards)[roots],
        group_ids=np.array(forest.groups)[roots],
        logp_old=moved(batch.logp_old),
        logp_ref=moved(batch.logp_ref),
    )
    return whole, moved(logp), moved(entropy), [place for tree in places for place in tree]


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=repr)
@given(forest=forests())
def test_by_tokens_a_tree_counts_as_one_rollout_with_all_its_tokens(aggregate: Any, forest: Forest) -> None:
    """The law: loss, penalties and gradients are those of whole trees, so that no shape of a tree matters."""
    objective = replace(GRPO, aggregate=aggregate, kl=K3(0.3), entropy=EntropyBonus(0.2))
    batch, logp, entropy = batch_of(forest)
    found = objective(logp, objective.score(batch), entropy=entropy)
    whole, moved_logp, moved_entropy, places = joined(forest)
    wanted = objective(moved_logp, objective.score(whole), entropy=moved_entropy)
    assert found.loss == pytest.approx(wanted.loss, rel=1e-12, abs=1e-14)
    for name in ("coefficients", "entropy_coefficients"):
        mine, others = getattr(found, name), getattr(wanted, name)[whole.mask]
        assert_allclose([mine[place] for place in places], others, rtol=1e-12, atol=1e-15)
        assert (mine[~batch.mask] == 0).all()
    for name in ("entropy", "kl", "ratio", "tokens"):
        assert found.statistics[name] == pytest.approx(wanted.statistics[name], rel=1e-12)


@given(forest=forests())
def test_by_calls_a_rollout_has_the_advantage_of_its_root_times_its_weight(forest: Forest) -> None:
    """At the first step the coefficient of a token is -A w / (tokens of its rollout * trees)."""
    objective = replace(GRPO, advantage=Centre(), kl=NoKL(), tree=TreeCalls())
    batch, _, _ = batch_of(forest)
    scored = objective.score(batch)
    found = objective(batch.need("logp_old"), scored).coefficients
    roots = forest.roots
    trees = sorted(set(roots))
    for row, root in enumerate(roots):
        peers = [forest.rewards[other] for other in trees if forest.groups[other] == forest.groups[root]]
        advantage = forest.rewards[root] - np.mean(peers)
        weight = 1.0 if row == root else 1 / (roots.count(root) - 1)
        wanted = -advantage * weight / (forest.lengths[row] * len(trees))
        assert_allclose(found[row, : forest.lengths[row]], wanted, rtol=1e-12, atol=1e-15)
    assert objective.count(scored) == len(trees)


@given(forest=forests())
def test_a_tree_has_one_by_tokens_and_one_or_two_by_calls(forest: Forest) -> None:
    batch, _, _ = batch_of(forest)
    roots = forest.roots
    for point, most in ((TreeTokens(), 1.0), (TreeCalls(), 2.0), (RootOnly(), 1.0)):
        weights = replace(GRPO, tree=point).score(batch).row_weights
        assert weights is not None
        totals = np.bincount(roots, weights=weights, minlength=len(roots))
        for root in set(roots):
            assert totals[root] == pytest.approx(most if roots.count(root) > 1 else 1.0)


@given(forest=forests())
def test_root_only_is_the_objective_of_the_roots(forest: Forest) -> None:
    batch, logp, _ = batch_of(forest)
    objective = replace(GRPO, tree=RootOnly())
    found = objective(logp, objective.score(batch))
    rows = sorted(set(forest.roots))
    alone, _ = batch.roots()
    wanted = objective(logp[rows], objective.score(alone))
    assert found.loss == pytest.approx(wanted.loss, rel=1e-12, abs=1e-14)
    assert_allclose(found.coefficients[rows], wanted.coefficients, rtol=1e-12, atol=1e-15)
    others = [row for row in range(len(logp)) if row not in rows]
    assert (found.coefficients[others] == 0).all()


@pytest.mark.parametrize("point", [TreeTokens(), TreeCalls(), RootOnly()], ids=repr)
@pytest.mark.parametrize("aggregate", AGGREGATES, ids=repr)
@given(forest=forests(), data=st.data())
def test_micro_batches_that_cut_trees_add_up(point: Any, aggregate: Any, forest: Forest, data: st.DataObject) -> None:
    objective = replace(GRPO, tree=point, aggregate=aggregate, kl=K3(0.3))
    batch, logp, _ = batch_of(forest)
    scored = objective.score(batch)
    cut = data.draw(st.integers(1, len(logp) - 1))
    parts = [(slice(0, cut), scored.rows(slice(0, cut))), (slice(cut, None), scored.rows(slice(cut, None)))]
    count = max(1.0, sum(objective.denominator(part) for _, part in parts))
    whole = objective(logp, scored)
    found = [objective(logp[rows], part, denominator=count) for rows, part in parts]
    assert sum(part.loss for part in found) == pytest.approx(whole.loss, rel=1e-12, abs=1e-14)
    assert_allclose(np.concatenate([part.coefficients for part in found]), whole.coefficients, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("point", [TreeTokens(), TreeCalls()], ids=repr)
@pytest.mark.parametrize("aggregate", AGGREGATES, ids=repr)
def test_coefficients_of_trees_are_derivatives(point: Any, aggregate: Any) -> None:
    forest = Forest([-1, 0, 1, 0, -1, 4, -1], [3, 5, 1, 2, 4, 2, 3], [0] * 7, [1.0, *[np.nan] * 3, 0.5, np.nan, 0.0])
    objective = replace(GRPO, tree=point, aggregate=aggregate, kl=K3(0.3), clip=NoClip())
    batch, logp, _ = batch_of(forest)
    scored = objective.score(batch)
    found = objective(logp, scored).coefficients
    for place in zip(*np.nonzero(batch.mask), strict=True):
        ends = []
        for step in (1e-6, -1e-6):
            other = logp.copy()
            other[place] += step
            ends.append(objective(other, scored).loss)
        assert found[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-9)


def test_a_batch_whose_rollouts_call_no_others_is_as_one_without_parents() -> None:
    forest = Forest([-1] * 4, [3, 5, 1, 2], [0, 0, 1, 1], [1.0, 0.0, 0.5, 0.5])
    batch, logp, _ = batch_of(forest)
    for point in (TreeTokens(), TreeCalls(), RootOnly()):
        objective = replace(GRPO, tree=point)
        with_parents = objective(logp, objective.score(batch))
        without = objective(logp, objective.score(replace(batch, parents=None)))
        assert with_parents.loss == without.loss
        assert (with_parents.coefficients == without.coefficients).all()


def test_a_filter_looks_at_the_root_and_drops_the_whole_tree() -> None:
    forest = Forest([-1, 0, -1, 2, -1], [3, 5, 1, 2, 2], [0] * 5, [1.0, np.nan, 0.0, np.nan, 0.5])
    truncated = np.array([False, True, True, False, False])
    batch, _, _ = batch_of(forest, truncated=truncated)
    scored = recipe("dapo").objective.score(batch)
    assert scored.counted.tolist() == [True, True, False, False, True]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"advantage": Anchored()}, "Anchored gives credit to tokens"),
        ({"kl": recipe("rloo").objective.axes()["kl"]}, "K1InReward changes the reward of a rollout"),
        ({"labels": GatedLabels(0.5)}, "GatedLabels needs right tokens"),
    ],
)
def test_points_that_are_not_for_trees_are_refused(changes: Any, problem: str) -> None:
    batch, _, _ = batch_of(Forest([-1, 0], [1, 2], [0, 0], [1.0, np.nan]))
    with pytest.raises(IncoherentObjectiveError, match=problem):
        replace(GRPO, **changes).score(batch)


def test_other_families_refuse_trees() -> None:
    batch, _, _ = batch_of(Forest([-1, 0], [1, 2], [0, 0], [1.0, np.nan]))
    for name in ("flowrl-vargrad", "tpo", "boltzmann"):
        more = replace(batch, weights=np.ones(2))
        with pytest.raises(UsageError, match="only a PolicyGradient"):
            recipe(name).objective.score(more)


def test_rlm_grpo_has_the_weights_of_its_source() -> None:
    """Two trees of one group: advantages 1 and -1, a root and two others with half of the weight each."""
    forest = Forest([-1, 0, 0, -1], [2, 4, 1, 3], [0] * 4, [1.0, np.nan, np.nan, 0.0])
    batch, _, _ = batch_of(forest)
    objective = recipe("rlm-grpo").objective
    assert isinstance(objective, PolicyGradient)
    assert objective.tree == TreeCalls()
    scored = objective.score(batch)
    assert scored.row_weights is not None
    assert scored.row_weights.tolist() == [1.0, 0.5, 0.5, 1.0]
    assert_allclose(scored.need("advantages").ravel(), [1, 1, 1, -1], rtol=1e-7)
