"""Published recipes by name, each as a point in the axes of its family, with the source of every choice.

| file | recipes |
|---|---|
| `grpo_gspo_dapo_sampo` | REINFORCE, RLOO, MaxRL, PPO, GRPO, Dr. GRPO, DAPO, CISPO, GSPO, SAMPO, GMPO, more |
| `pg_dg_tempo` | PG, TrajPG, GroupPG, the DG family, LogGrowth, TEMPO: rules of rl-experiments |
| `flowrl_vargrad_oapl` | FlowRL and its variants, PACED, OAPL, PMD-mean, A*-PO |
| `opd` | on-policy distillation: sampled tokens, whole distributions, top-k, with a reward |
| `dpo_simpo_kto_orpo` | DPO, IPO of pairs, SimPO, KTO, ORPO: recipes of preferences |
| `tpo_sft_awr` | TPO with and without its anchor; the recipes of logged rows: SFT, DFT, Boltzmann, AWR |

`recipe` looks one up, `names` lists them, and `table` shows a family side by side.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from karl_fast.errors import UsageError
from karl_fast.objective.axes.point import Point
from karl_fast.objective.recipe_type import Recipe
from karl_fast.objective.recipes import (
    dpo_simpo_kto_orpo,
    flowrl_vargrad_oapl,
    grpo_gspo_dapo_sampo,
    opd,
    pg_dg_tempo,
    tpo_sft_awr,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karl_fast.objective.base import Objective

RECIPES: Mapping[str, Recipe] = {
    name: value
    for module in (grpo_gspo_dapo_sampo, pg_dg_tempo, flowrl_vargrad_oapl, tpo_sft_awr, opd, dpo_simpo_kto_orpo)
    for name, value in vars(module).items()
    if isinstance(value, Recipe)
}
"""Recipes by the name of the module attribute, in the order of the papers' descent."""


def names() -> tuple[str, ...]:
    """Return the name of every recipe, as `recipe` takes it.

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
        UsageError: there is none of that name; the message lists all names.
    """
    known = RECIPES.get(_normal(name)) or BY_TITLE.get(_normal(name))
    if known is None:
        raise UsageError(f"there is no recipe {name!r}; there are {', '.join(RECIPES)}", "recipe")
    return known


def _normal(name: str) -> str:
    return re.sub(r"[-_.\s]+", "_", name.strip()).upper()


BY_TITLE = {_normal(value.name): value for value in RECIPES.values()}


def table(family: type[Objective]) -> str:
    """Return the recipes of a family as a Markdown table.

    Args:
        family: one of the eight.

    Returns:
        A table, a row a recipe: a root with every axis, another with what it changes.

    Raises: nothing.
    """
    rows = [recipe for recipe in RECIPES.values() if type(recipe.objective) is family]
    axes = list(family.kinds())
    lines = [f"| recipe | {' | '.join(axes)} |", "|---" * (len(axes) + 1) + "|"]
    for row in rows:
        title = f"{row.name} = {row.base} but" if row.base else row.name
        points = row.objective.axes()
        cells = [_cell(points[axis], bool(row.base), axis in row.changes) for axis in axes]
        lines.append(f"| {title} | {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def _cell(point: Point, differs: bool, changed: bool) -> str:
    if differs:
        return f"**{_short(point)}**" if changed else ""
    return _short(point)


def _short(point: Point) -> str:
    """Return a point as it is written, without names of numbers and empty brackets."""
    inner = ", ".join(text for name, value in vars(point).items() if (text := _shown(name, value)))
    return f"{type(point).__name__}({inner})" if inner else type(point).__name__


def _shown(name: str, value: object) -> str:
    if isinstance(value, bool):
        return name if value else ""
    if isinstance(value, str):
        return value
    return _short(value) if isinstance(value, Point) else f"{value:g}"
