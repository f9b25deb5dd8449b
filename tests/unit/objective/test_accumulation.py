"""One batch is its micro-batches accumulated, for every objective, and in any order and size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from karl_fast.errors import ArgumentError
from karl_fast.objective import Objective, recipe
from karl_fast.objective.batch import FIELDS
from tests.unit.objective.batch_cases import BATCH, NEW, extra, loss_of
from tests.unit.objective.objectives_to_test import neighbours

GROUPS = [[4, 5, 6, 7], [0, 1, 2, 3, 12, 13, 14, 15], [8, 9, 10, 11]]
RAGGED = [[0], [15, 3, 8], [1, 2, 4, 5, 6, 7, 9], [10, 11, 12, 13, 14]]


def accumulated(objective: Any, parts: list[list[int]]) -> tuple[float, Any]:
    """As a trainer does it: the denominators first, then a gradient a part."""
    scored = objective.score(BATCH)
    whole = sum(objective.denominator(scored.rows(rows)) for rows in parts)
    loss, gradient = 0.0, np.zeros_like(NEW)
    for rows in parts:
        part = objective(NEW[rows], scored.rows(rows), denominator=max(whole, 1.0), **extra(objective, rows))
        loss += part.loss
        gradient[rows] += part.coefficients
    return loss, gradient


@pytest.mark.parametrize("objective", neighbours(), ids=repr)
def test_a_batch_is_its_micro_batches_accumulated(objective: Objective) -> None:
    wanted, slopes = loss_of(objective)
    for parts in (GROUPS, GROUPS if objective.whole_groups else RAGGED):
        loss, gradient = accumulated(objective, parts)
        assert loss == pytest.approx(wanted, rel=1e-10, abs=1e-13)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-10, atol=1e-13)


def test_mean_of_micro_batch_losses_differs() -> None:
    """What frameworks do that divide by the number of micro-batches."""
    objective = recipe("dapo").objective
    scored = objective.score(BATCH)
    means = [objective(NEW[rows], scored.rows(rows)).loss for rows in RAGGED]
    assert abs(np.mean(means) - loss_of(objective)[0]) > 1e-3


@pytest.mark.parametrize("name", ["tpo", "flowrl-vargrad"])
def test_cut_group_is_refused_where_whole_is_needed(name: str) -> None:
    objective = recipe(name).objective
    scored = objective.score(BATCH)
    assert objective.whole_groups
    with pytest.raises(ArgumentError, match=r"^group 2 has 3 of its 4 rollouts here: this objective needs it whole$"):
        objective.denominator(scored.rows([0, 1, 2]))


def test_dropped_rollouts_leave_their_group() -> None:
    """A group that a filter thinned is whole without what it dropped."""
    objective = replace(recipe("tpo").objective, filter=recipe("dapo").objective.filter.second)
    scored = objective.score(BATCH)
    counted = np.flatnonzero(np.array(scored.counted))
    assert len(counted) == 13
    assert objective.denominator(scored.rows(counted)) == 4


@pytest.mark.parametrize("objective", neighbours(), ids=repr)
def test_the_order_of_rollouts_does_not_matter(objective: Objective) -> None:
    order = np.random.default_rng(11).permutation(len(NEW))
    found = objective(NEW[order], objective.score(BATCH).rows(order), **extra(objective, order))
    wanted, slopes = loss_of(objective)
    assert found.loss == pytest.approx(wanted, rel=1e-12, abs=1e-14)
    np.testing.assert_allclose(found.coefficients, slopes[order], rtol=1e-12, atol=1e-14)


def test_more_padding_changes_nothing() -> None:
    def widen(held: Any) -> Any:
        return np.pad(held, [(0, 0), (0, 5), (0, 0)][: held.ndim])

    two = [name for name, (dimensions, _) in FIELDS.items() if dimensions.startswith("BT")]
    columns = {name: widen(getattr(BATCH, name)) for name in two}
    columns["turns"] = np.where(columns["mask"], columns["turns"], -1)
    batch = replace(BATCH, **columns)
    for objective in neighbours():
        more = {name: widen(held) if held.ndim > 1 else held for name, held in extra(objective).items()}
        loss, gradient = loss_of(objective, batch, widen(NEW), **more)
        wanted, slopes = loss_of(objective)
        assert loss == pytest.approx(wanted, rel=1e-12, abs=1e-14), objective
        np.testing.assert_allclose(gradient[:, : NEW.shape[1]], slopes, rtol=1e-12, atol=1e-14)
