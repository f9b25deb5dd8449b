"""Base of the four families: axes, the two sides of the gradient line, and exact accumulation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np

from karl_fast.errors import ArgumentError
from karl_fast.objective.axes.point import check_point
from karl_fast.objective.mlx_arrays import mx, to_numpy

if TYPE_CHECKING:
    from karl_fast.objective.axes.point import Point
    from karl_fast.objective.batch import Batch, Scored


class Objective(ABC):
    """A family of objectives: its fields are axes, their values are points.

    ``score`` runs before the gradient line, once a batch; the call runs after it, once a step.
    """

    def __post_init__(self) -> None:
        kinds = self.kinds()
        for axis, point in self.axes().items():
            check_point(axis, point, kinds[axis])
        self.check()

    def check(self) -> None:  # noqa: B027  (not every family has points that do not go together)
        """Raise where points do not go together; a family says which."""

    @classmethod
    @cache
    def kinds(cls) -> dict[str, type]:
        """Return the type of each axis: that of its field."""
        hints = get_type_hints(cls)
        return {field.name: hints[field.name] for field in fields(cls)}  # type: ignore[arg-type]

    def axes(self) -> dict[str, Point]:
        """Return the point of each axis."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @property
    def whole_groups(self) -> bool:
        """True if all rollouts of a group have to be in one micro-batch."""
        return False

    @abstractmethod
    def score(self, batch: Batch) -> Scored:
        """Carry a batch over the gradient line: filter it, and give credit."""

    @abstractmethod
    def total(self, logp: mx.array, scored: Scored, **more: Any) -> mx.array:
        """Return the loss times its denominator, which adds up over micro-batches."""

    @abstractmethod
    def count(self, scored: Scored) -> mx.array:
        """Return the denominator as an array."""

    def denominator(self, scored: Scored) -> float:
        """Return the denominator of the total of a batch; that of a whole is the sum over its micro-batches.

        Raises:
            ArgumentError: a group is split where groups have to be whole.
        """
        if self.whole_groups:
            _check_whole(scored)
        return float(to_numpy(self.count(scored)))

    def __call__(
        self, logp: mx.array, scored: Scored, *, denominator: float | mx.array | None = None, **more: Any
    ) -> mx.array:
        """Return the loss, a number; with the denominator of the whole batch, the additive part of a micro-batch."""
        total = self.total(logp, scored, **more)
        by = mx.maximum(self.count(scored), 1).astype(total.dtype) if denominator is None else denominator
        return total / by


def _check_whole(scored: Scored) -> None:
    groups, sizes = to_numpy(scored.need("groups")), to_numpy(scored.need("group_sizes"))
    groups = np.where(to_numpy(scored.counted), groups, -1)
    for group, came in zip(*np.unique(groups[groups >= 0], return_counts=True), strict=True):
        wanted = int(sizes[groups == group][0])
        if came != wanted:
            raise ArgumentError(
                f"group {group} has {came} of its {wanted} rollouts here: this objective needs it whole"
            )
