"""Axis: which rollouts count.

A filter keeps or drops, and never reweights. A rollout that is dropped leaves the mask, the statistics of its group and
every denominator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast import filter as kernels
from karl_fast.objective.axes.point import OfGroups, Point, check_number, check_point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch

__all__ = [
    "Both",
    "DropConstantGroups",
    "DropTruncated",
    "Filter",
    "KeepAll",
    "MaxAge",
    "MaxDeviation",
    "MixedGroups",
    "VarianceTopP",
]


class Filter(Point, ABC):
    """Choice of the rollouts that count."""

    @abstractmethod
    def __call__(self, batch: Batch) -> NDArray[np.bool_]:
        """Return True for the rollouts kept. [B]"""

    @property
    def parts(self) -> tuple[Filter, ...]:
        """The filters that this one is made of."""
        return (self,)


@dataclass(frozen=True)
class KeepAll(Filter):
    """All rollouts."""

    def __call__(self, batch: Batch) -> NDArray[np.bool_]:
        """Keep all rollouts."""
        return np.ones(len(batch.mask), dtype=np.bool_)


@dataclass(frozen=True)
class DropConstantGroups(OfGroups, Filter):
    """Drop groups with equal outcomes; uses outcomes, because shaped rewards differ even in such groups.

    Reference: Yu et al. 2025, DAPO (arXiv:2503.14476), eq. 11.
    """

    def __call__(self, batch: Batch) -> NDArray[np.bool_]:
        """Keep the rollouts of the other groups; drop missing outcomes."""
        return kernels.constant_groups(_outcomes(batch), batch.need("group_ids")).keep


@dataclass(frozen=True)
class MixedGroups(OfGroups, Filter):
    """Keep groups of which some rollouts are right and some are not: ``0 < correct < G``.

    A rollout is right if its outcome is above ``threshold``.
    Reference: SAMPO (arXiv:2602.21534), eq. 8.
    """

    threshold: float = 0.0

    def __call__(self, batch: Batch) -> NDArray[np.bool_]:
        """Keep the rollouts of mixed groups; a missing outcome counts as neither, and is dropped."""
        outcomes = _outcomes(batch)
        right = np.where(np.isnan(outcomes), np.nan, outcomes > self.threshold)
        return kernels.constant_groups(right, batch.need("group_ids")).keep


@dataclass(frozen=True)
class VarianceTopP(OfGroups, Filter):
    """Keep the fewest groups that hold a share ``p`` of the variance of outcomes, summed over groups.

        v_g = sum_i (r_i - mean_g)^2 / (G_g - ddof),   v_(1) >= v_(2) >= ...
        kept: the first m, the least for which v_(1) + ... + v_(m) >= p * sum_g v_g

    Reference: RAGEN-2 (arXiv:2604.06268).
    """

    p: float
    ddof: int = 0

    def __post_init__(self) -> None:
        check_number("p", self.p, most=1.0)
        check_number("ddof", self.ddof, most=1.0)

    def __call__(self, batch: Batch) -> NDArray[np.bool_]:
        """Keep the rollouts of those groups; drop missing outcomes."""
        return kernels.variance_top_p(_outcomes(batch), batch.need("group_ids"), p=self.p, ddof=self.ddof).keep


@dataclass(frozen=True)
class DropTruncated(Filter):
    """Drop rollouts that were cut at the limit of tokens (overlong filtering).

    Reference: Yu et al. 2025, DAPO (arXiv:2503.14476), section 3.4.
    """

    def __call__(self, batch: Batch) -> NDArray[np.bool_]:
        """Keep the rollouts that were not cut."""
        truncated: NDArray[np.bool_] = batch.need("truncated")
        return ~truncated


@dataclass(frozen=True)
class MaxAge(Filter):
    """Drop rollouts of a policy more than ``steps`` steps old; 0 keeps on-policy rollouts only."""

    steps: int

    def __post_init__(self) -> None:
        check_number("steps", self.steps)

    def __call__(self, batch: Batch) -> NDArray[np.bool_]:
        """Keep the rollouts up to the maximum age."""
        return np.asarray(batch.need("ages") <= self.steps)


@dataclass(frozen=True)
class MaxDeviation(Filter):
    """Keep groups whose outcomes have a standard deviation of at most ``most``, ddof 0; a rollout in no group has 0.

    Outcomes in [0, 1] never deviate by more than 0.5.
    Reference: rl-experiments, ``FilteredDGLoss``.
    """

    most: float

    def __post_init__(self) -> None:
        check_number("most", self.most)

    def __call__(self, batch: Batch) -> NDArray[np.bool_]:
        """Keep the rollouts of groups that agree; drop missing outcomes."""
        outcomes = _outcomes(batch)
        return ~np.isnan(outcomes) & (group_deviations(outcomes, batch.need("group_ids")) <= self.most)


@dataclass(frozen=True)
class Both(Filter):
    """Rows kept by both ``first`` and ``second``; each sees the whole batch."""

    first: Filter
    second: Filter

    def __post_init__(self) -> None:
        check_point("first", self.first, Filter)
        check_point("second", self.second, Filter)

    @property
    def of_groups(self) -> bool:
        """True if one of the two is."""
        return self.first.of_groups or self.second.of_groups

    @property
    def parts(self) -> tuple[Filter, ...]:
        """The filters of both."""
        return (*self.first.parts, *self.second.parts)

    def __call__(self, batch: Batch) -> NDArray[np.bool_]:
        """Return the rows that both keep."""
        return self.first(batch) & self.second(batch)


def _outcomes(batch: Batch) -> NDArray[np.float64] | NDArray[np.float32]:
    return batch.need("rewards") if batch.outcomes is None else batch.outcomes


def group_deviations(
    values: NDArray[np.float64] | NDArray[np.float32], group_ids: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the standard deviation within the group of each rollout, ddof 0; missing values are left out.

    Args:
        values: NaN for a missing one. [B]
        group_ids: negative for none. int64, [B]

    Returns:
        0 for a rollout in no group. [B]
    """
    present = ~np.isnan(values) & (group_ids >= 0)
    _, groups = np.unique(group_ids, return_inverse=True)
    weights = present.astype(np.float64)
    counts = np.maximum(np.bincount(groups, weights), 1)
    numbers = np.where(present, values, 0.0).astype(np.float64)
    errors = (numbers - (np.bincount(groups, numbers) / counts)[groups]) * weights
    return np.where(group_ids >= 0, np.sqrt(np.bincount(groups, errors**2) / counts)[groups], 0.0)
