"""A recipe as TOML, and back: a table an axis, with the name of its point, its numbers and its source."""

from __future__ import annotations

import json
import tomllib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from karl_fast.errors import ArgumentError, UsageError
from karl_fast.objective.axes import (
    advantage,
    aggregate,
    balance,
    clip,
    correction,
    empg,
    entropy,
    filter,
    kl,
    kondo_gate,
    labels,
    likelihood,
    log_z,
    preference,
    ratio,
    set_score,
    teacher,
    tree,
)
from karl_fast.objective.axes.point import Point
from karl_fast.objective.families import target_policy, token_candidates
from karl_fast.objective.families.distillation import Distillation
from karl_fast.objective.families.policy_gradient import PolicyGradient
from karl_fast.objective.families.preference import Preference
from karl_fast.objective.families.target_policy import TargetPolicy
from karl_fast.objective.families.token_candidates import TokenGradients, TokenTargets
from karl_fast.objective.families.trajectory_balance import TrajectoryBalance
from karl_fast.objective.families.weighted_likelihood import WeightedLikelihood
from karl_fast.objective.recipe_type import Recipe

if TYPE_CHECKING:
    from karl_fast.objective.base import Objective

FAMILIES: dict[str, type[Objective]] = {
    family.__name__: family
    for family in (
        PolicyGradient,
        TrajectoryBalance,
        TargetPolicy,
        TokenTargets,
        TokenGradients,
        WeightedLikelihood,
        Distillation,
        Preference,
    )
}

AXES = (
    filter,
    advantage,
    kondo_gate,
    set_score,
    empg,
    ratio,
    clip,
    correction,
    kl,
    entropy,
    labels,
    aggregate,
    balance,
    log_z,
    likelihood,
    preference,
    target_policy,
    teacher,
    token_candidates,
    tree,
)
"""The modules that hold points."""

POINTS: dict[str, type[Point]] = {
    name: thing
    for module in AXES
    for name in module.__all__
    if isinstance(thing := getattr(module, name), type) and issubclass(thing, Point) and "__eq__" in vars(thing)
}
"""All points by name."""


ABSENT = {
    "entropy": {"point": "NoEntropy", "source": "an axis younger than the file"},
    "labels": {"point": "NoLabels", "source": "an axis younger than the file"},
    "correction": {"point": "NoCorrection", "source": "an axis younger than the file"},
    "tree": {"point": "TreeTokens", "source": "an axis younger than the file"},
}
"""Tables of axes that recipes stored by an earlier version do not have."""


def to_toml(recipe: Recipe) -> str:
    """Return a recipe as TOML.

    Args:
        recipe: any.

    Returns:
        The text, which `from_toml` makes an equal recipe of.

    Raises: nothing.
    """
    head = {
        "name": recipe.name,
        "family": type(recipe.objective).__name__,
        "reference": recipe.reference,
        "base": recipe.base,
        "changes": list(recipe.changes),
    }
    sources, lines = dict(recipe.sources), [f"{key} = {_value(value)}" for key, value in head.items()]
    for axis, point in recipe.objective.axes().items():
        lines += ["", *_table(axis, point, {"source": sources[axis]})]
    return "\n".join(lines) + "\n"


def from_toml(text: str) -> Recipe:
    """Parse a recipe from TOML.

    Args:
        text: of `to_toml`, or by hand.

    Returns:
        The recipe.

    Raises:
        UsageError: no TOML, or a family, axis, point or number that there is not.
        IncoherentObjectiveError: points that do not go together.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is not a recipe: {error}") from error
    family = _one_of("family", document.get("family"), FAMILIES)
    tables = {axis: document.pop(axis, ABSENT.get(axis)) for axis in family.kinds()}
    if missing := [axis for axis, table in tables.items() if not isinstance(table, dict)]:
        raise UsageError(f"the recipe has no table {missing[0]}")
    tables = {axis: dict(table) for axis, table in tables.items()}
    sources = tuple((axis, str(table.pop("source", ""))) for axis, table in tables.items())
    objective = family(**{axis: parse_point(axis, table) for axis, table in tables.items()})
    if unknown := document.keys() - {"name", "family", "reference", "base", "changes"}:
        raise UsageError(f"the recipe has {', '.join(sorted(unknown))}, which {family.__name__} has no use for")
    texts = [str(document.get(key, "")) for key in ("name", "reference", "base")]
    return Recipe(texts[0], objective, texts[1], sources, texts[2], tuple(document.get("changes", ())))


def _table(place: str, point: Any, more: dict[str, str]) -> list[str]:
    entries = {field.name: getattr(point, field.name) for field in fields(point)}
    plain = {"point": type(point).__name__} | {k: v for k, v in entries.items() if not isinstance(v, Point)} | more
    lines = [f"[{place}]", *(f"{key} = {_value(value)}" for key, value in plain.items())]
    for name, inner in entries.items():
        if isinstance(inner, Point):
            lines += _table(f"{place}.{name}", inner, {})
    return lines


def _value(value: Any) -> str:
    if isinstance(value, float):
        return repr(value)  # inf is TOML's too
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _one_of(what: str, name: Any, names: dict[str, Any]) -> Any:
    if name not in names:
        raise UsageError(f"{what} is {name!r}, wanted one of {', '.join(names)}")
    return names[name]


def parse_point(place: str, table: dict[str, Any]) -> Point:
    """Return the point of a table, with its numbers; ``place`` names the table in errors, and the table is used up.

    Raises:
        UsageError: a point or a number that there is not, or a wrong value.
    """
    kind = _one_of(f"{place}.point", table.pop("point", None), POINTS)
    names = {field.name for field in fields(kind)}
    if unknown := table.keys() - names:
        raise UsageError(f"{place}.{min(unknown)}: {kind.__name__} has {', '.join(sorted(names)) or 'no numbers'}")
    entries = {name: parse_point(f"{place}.{name}", v) if isinstance(v, dict) else v for name, v in table.items()}
    try:
        point: Point = kind(**entries)
    except (TypeError, ArgumentError) as error:
        raise UsageError(f"{place}: {error}") from error
    return point
