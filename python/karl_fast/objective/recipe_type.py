"""A recipe: a named point in the axes of a family, and the source of each choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from karl_fast.errors import UsageError

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    from karl_fast.objective.axes.point import Point
    from karl_fast.objective.base import Objective
    from karl_fast.objective.batch import Batch, Evaluation

    Sourced: TypeAlias = "tuple[Point, str]"


@dataclass(frozen=True)
class Recipe:
    """A named point in the axes of a family.

    Attributes:
        name: as its paper writes it.
        objective: what is computed.
        reference: the paper.
        sources: of each axis, where the choice is from: ``[paper]``, ``[code]``, ``[note]`` (a reader's), ``[ours]``.
        base: the recipe that this one differs from, empty for a root.
        changes: the axes in which it does.
    """

    name: str
    objective: Objective
    reference: str
    sources: tuple[tuple[str, str], ...]
    base: str = ""
    changes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        axes = list(self.objective.axes())
        if [axis for axis, _ in self.sources] != axes:
            raise UsageError(f"sources of {self.name} are of {[axis for axis, _ in self.sources]}, wanted {axes}")

    @classmethod
    def of(cls, name: str, family: type[Objective], reference: str, **axes: Sourced) -> Recipe:
        """Make a root recipe with every axis given.

        Args:
            name, reference: of the paper.
            family: of objectives.
            axes: the point of each axis, and its source.

        Returns:
            The recipe.

        Raises:
            UsageError: an axis is missing, or there is none of that name.
            IncoherentObjectiveError: points that do not go together.
        """
        kinds = family.kinds()
        if axes.keys() != kinds.keys():
            raise UsageError(f"{name} has the axes {', '.join(axes)}, wanted {', '.join(kinds)}")
        objective = family(**{axis: axes[axis][0] for axis in kinds})
        return cls(name, objective, reference, tuple((axis, axes[axis][1]) for axis in kinds))

    def but(self, name: str, reference: str, **axes: Sourced) -> Recipe:
        """Return a copy of the recipe with some axes changed.

        Args:
            name, reference: of the new one.
            axes: the points that differ, each with its source.

        Returns:
            The recipe.

        Raises:
            UsageError: there is no axis of that name.
            IncoherentObjectiveError: points that do not go together.
        """
        if unknown := axes.keys() - self.objective.axes().keys():
            raise UsageError(f"{name} changes {', '.join(sorted(unknown))}, wanted {', '.join(self.objective.axes())}")
        objective = replace(self.objective, **{axis: point for axis, (point, _) in axes.items()})  # type: ignore[type-var]
        sources = tuple((axis, axes[axis][1] if axis in axes else source) for axis, source in self.sources)
        changes = tuple(axis for axis in self.objective.axes() if axis in axes)
        return Recipe(name, objective, reference, sources, self.name, changes)

    def __call__(self, logp: NDArray[Any], batch: Batch, **more: Any) -> Evaluation:
        """Score a batch, and compute the loss and its derivatives.

        Args:
            logp: log-probability of each token under the policy. [B, T]
            batch: with what the axes need.
            more: as in the call of the objective.

        Returns:
            Loss, coefficients and statistics.

        Raises:
            KarlError: as ``score`` and the call of the objective.
        """
        return self.objective(logp, self.objective.score(batch), **more)

    def __str__(self) -> str:
        """Return one axis a line with its source; those that differ from the base are marked."""
        axes = {axis: repr(point) for axis, point in self.objective.axes().items()}
        wide, far = max(map(len, axes)), max(map(len, axes.values()))
        family = type(self.objective).__name__
        head = f"{self.name}: {family}, {self.reference}"
        but = f"\n= {self.base} but for the axes marked *" if self.base else ""
        lines = [
            f"{'*' if axis in self.changes else ' '} {axis:<{wide}}  {axes[axis]:<{far}}  {source}".rstrip()
            for axis, source in self.sources
        ]
        return "\n".join([head + but, *lines])
