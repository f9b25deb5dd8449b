"""Credit in trees of trajectories: laws on random trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from karl_fast.advantage import segment_weights, tree_roots
from karl_fast.errors import ArgumentError, UsageError

Tree = tuple[list[int], list[int], list[int]]
"""Parents of trajectories; the trajectory and the tokens of each segment."""


@st.composite
def forests(draw: st.DrawFn) -> Tree:
    """Any trees, in any order of their rows, each trajectory with one segment or more."""
    count = draw(st.integers(1, 12))
    parents = [draw(st.integers(-1, row - 1)) for row in range(count)]
    order = draw(st.permutations(range(count)))
    place = {row: at for at, row in enumerate(order)}
    shuffled = [-1 if parents[row] < 0 else place[parents[row]] for row in order]
    rows = list(range(count)) + draw(st.lists(st.integers(0, count - 1), max_size=20))
    tokens = [draw(st.integers(1, 9)) for _ in rows]
    return shuffled, rows, tokens


def weigh(tree: Tree, credit: str) -> np.ndarray:
    return segment_weights(*(np.array(column, dtype=np.int64) for column in tree), credit=credit)  # type: ignore[arg-type]


def naive_roots(parents: list[int]) -> list[int]:
    roots = []
    for row in range(len(parents)):
        while parents[row] >= 0:
            row = parents[row]
        roots.append(row)
    return roots


@given(forests())
def test_roots_are_those_that_nothing_called(tree: Tree) -> None:
    assert_array_equal(tree_roots(np.array(tree[0], dtype=np.int64)), naive_roots(tree[0]))


@given(forests())
def test_by_tokens_every_tree_counts_as_one(tree: Tree) -> None:
    parents, rows, _ = tree
    totals = np.bincount(np.array(naive_roots(parents))[rows], weights=weigh(tree, "tokens"), minlength=len(parents))
    assert_allclose(totals[np.array(parents) < 0], 1.0, rtol=1e-12)


@given(forests(), st.data())
def test_by_tokens_a_token_counts_the_same_in_every_shape_of_its_tree(tree: Tree, data: st.DataObject) -> None:
    """Hang all trajectories of each tree anywhere under its root, and cut or join segments: nothing changes."""
    parents, rows, tokens = tree
    roots = naive_roots(parents)
    each = weigh(tree, "tokens") / tokens
    other = list(parents)
    for row, root in enumerate(roots):
        if row != root:
            above = [at for at in range(len(parents)) if roots[at] == root and at != row and _is_before(at, row, root)]
            other[row] = data.draw(st.sampled_from(above))
    cut = data.draw(st.integers(0, len(rows) - 1))
    first = data.draw(st.integers(0, tokens[cut]))
    cut_rows, cut_tokens = [*rows, rows[cut]], [*tokens[:cut], first, *tokens[cut + 1 :], tokens[cut] - first]
    changed = weigh((other, cut_rows, cut_tokens), "tokens")
    present = np.array(cut_tokens) > 0
    again = changed[present] / np.array(cut_tokens)[present]
    assert_allclose(again, np.append(each, each[cut])[present], rtol=1e-12)


def _is_before(at: int, row: int, root: int) -> bool:
    """Order that has no circles: the root first, then by number."""
    return at == root or (row != root and at < row)


@given(forests())
def test_by_calls_a_tree_counts_as_one_without_callees_and_as_two_with_them(tree: Tree) -> None:
    parents, rows, _ = tree
    roots = naive_roots(parents)
    totals = np.bincount(np.array(roots)[rows], weights=weigh(tree, "calls"), minlength=len(parents))
    for row, parent in enumerate(parents):
        if parent < 0:
            assert totals[row] == pytest.approx(1.0 + (roots.count(row) > 1))


def test_circles_and_parents_that_are_not_there_are_refused() -> None:
    for parents in ([1, 0], [0], [7], [1, 2, 1]):
        with pytest.raises(ArgumentError):
            tree_roots(np.array(parents, dtype=np.int64))
    with pytest.raises(UsageError, match="credit"):
        weigh(([-1], [0], [1]), "turns")
