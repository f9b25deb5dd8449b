"""Table of recipes: a row for each recipe, a column for each axis, changes in bold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast.objective.axes.point import Point
from karl_fast.objective.recipes import RECIPES

if TYPE_CHECKING:
    from karl_fast.objective.base import Objective


def table(family: type[Objective]) -> str:
    """Return the recipes of a family as a Markdown table.

    Args:
        family: one of the four.

    Returns:
        A table, a row a recipe: a root with every axis, another with what it changes.

    Raises: nothing.
    """
    rows = [found for found in RECIPES.values() if type(found.objective) is family]
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
    inner = ", ".join(shown for name, value in vars(point).items() if (shown := _shown(name, value)))
    return f"{type(point).__name__}({inner})" if inner else type(point).__name__


def _shown(name: str, value: object) -> str:
    if isinstance(value, bool):
        return name if value else ""
    return _short(value) if isinstance(value, Point) else f"{value:g}"
