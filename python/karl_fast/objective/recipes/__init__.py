"""Recipes by name; `recipe` looks one up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from karl_fast.errors import UsageError
from karl_fast.objective.recipe_type import Recipe
from karl_fast.objective.recipes import policy_gradient, target_and_likelihood, trajectory_balance

if TYPE_CHECKING:
    from collections.abc import Mapping

RECIPES: Mapping[str, Recipe] = {
    name: thing
    for module in (policy_gradient, trajectory_balance, target_and_likelihood)
    for name, thing in vars(module).items()
    if isinstance(thing, Recipe)
}
"""Recipes by the name of the module attribute, in the order of the papers' descent."""


def names() -> tuple[str, ...]:
    """Return the name of every recipe, as :func:`recipe` takes it.

    Returns:
        The names; each recipe comes after its base.

    Raises: nothing.
    """
    return tuple(RECIPES)


def recipe(name: str) -> Recipe:
    """Look a recipe up, as people write it: ``dr-grpo``, ``DR_GRPO`` and ``Dr. GRPO`` are one.

    Args:
        name: its name; case does not count, and ``-``, ``.`` and spaces are ``_``.

    Returns:
        The recipe.

    Raises:
        UsageError: there is none of that name; the message lists those there are.
    """
    found = RECIPES.get(_normal(name)) or BY_TITLE.get(_normal(name))
    if found is None:
        raise UsageError(f"there is no recipe {name!r}; there are {', '.join(RECIPES)}", "recipe")
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.\s]+", "_", name.strip()).upper()


BY_TITLE = {_normal(found.name): found for found in RECIPES.values()}
