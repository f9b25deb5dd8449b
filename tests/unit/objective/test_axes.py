"""Each point, each number and each recipe is told from its neighbours: what is put in its place fails here."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.errors import ArgumentError, IncoherentObjectiveError
from karl_fast.objective.recipes import RECIPES
from karl_fast.objective.toml import POINTS
from tests.unit.objective.batch_cases import BATCH, TREES, changed, differs, loss_of, numbers, title
from tests.unit.objective.objectives_to_test import ALONE, AXES, BASES, neighbours

if TYPE_CHECKING:
    from karl_fast.objective import Batch, Recipe

SAME_BY_DESIGN = {frozenset({"GSPO", "GSPO-token"})}
"""Where an advantage is of a rollout, both have the loss and the gradient of the other (Zheng et al., section 4.3)."""


def point_id(thing: Any) -> str:
    return repr(thing) if not isinstance(thing, tuple) else f"{thing[0].__name__}.{thing[1]}"


def batch_of(axis: str) -> Batch:
    """The batch on which the points of an axis differ."""
    return TREES if axis == "tree" else BATCH


@pytest.mark.parametrize("place", AXES, ids=point_id)
def test_points_of_an_axis_differ_from_each_other(place: tuple[Any, str]) -> None:
    family, axis = place
    found = {point: loss_of(replace(BASES[family], **{axis: point}), batch_of(axis)) for point in AXES[place]}
    for one, other in combinations(AXES[place], 2):
        if {type(one).__name__, type(other).__name__} != {"SequenceRatio", "SequenceTokenRatio"}:
            assert differs(found[one], found[other]), (one, other)


def test_every_point_there_is_is_tried() -> None:
    tried = {type(point).__name__ for points in AXES.values() for point in points}
    tried |= {type(point).__name__ for objective in ALONE for point in objective.axes().values()}
    refused = {"K1"}  # by every objective
    sampler = {"Drawn", "EveryRow"}  # these refuse or accept, and change no loss
    assert tried | refused | sampler == set(POINTS)


def test_recipes_differ_from_each_other_on_one_batch() -> None:
    found = {recipe.name: loss_of(recipe.objective) for recipe in RECIPES.values()}
    for one, other in combinations(found, 2):
        assert differs(found[one], found[other]) != (frozenset({one, other}) in SAME_BY_DESIGN), (one, other)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=title)
def test_an_axis_that_a_recipe_changes_matters(recipe: Recipe) -> None:
    """Without any one of its changes a recipe is another."""
    base = next((other for other in RECIPES.values() if other.name == recipe.base), None)
    for axis in recipe.changes:
        mine = loss_of(recipe.objective, batch_of(axis))
        assert base is not None
        if recipe.name == "GSPO-token":
            continue
        try:
            mutant = replace(recipe.objective, **{axis: getattr(base.objective, axis)})
        except IncoherentObjectiveError:  # its changes need each other
            continue
        assert differs(mine, loss_of(mutant, batch_of(axis))), axis


NUMBERS = [
    (recipe, axis, path, value)
    for recipe in RECIPES.values()
    for axis, point in recipe.objective.axes().items()
    for path, value in numbers(point)
    if axis != "draw"  # the number of candidates is that of the data
]


def mutants(value: Any) -> list[Any]:
    """Other numbers, near and far, since not all are in range."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, str):
        return ["student", "intersection", "forward"]
    if isinstance(value, int):
        return [1 - value, value + 1, value * 2]
    return [value * 3 + 0.11, value * 0.3, value * 40, 0.5 if np.isinf(value) else value + 1, 1.01]


@pytest.mark.parametrize(
    ("recipe", "axis", "path", "value"), NUMBERS, ids=[f"{r.name}-{axis}.{path}" for r, axis, path, _ in NUMBERS]
)
def test_a_constant_of_a_recipe_matters(recipe: Recipe, axis: str, path: str, value: float) -> None:
    mine = loss_of(recipe.objective)
    for other in mutants(value):
        try:
            mutant = replace(recipe.objective, **{axis: changed(getattr(recipe.objective, axis), path, other)})
            if differs(mine, loss_of(mutant)):
                return
        except ArgumentError:  # out of range
            continue
    raise AssertionError(f"no other {path} than {value} changes {recipe.name}")


def test_the_battery_holds_objectives_of_every_family() -> None:
    assert len(neighbours()) > 60
    assert {type(objective) for objective in neighbours()} == set(BASES)
