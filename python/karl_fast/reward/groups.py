"""Rewards that a trajectory has among those of its group alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from karl_fast.errors import ArgumentError
from karl_fast.reward.functions import Function, answers, checked

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray


class GroupScorer(Protocol):
    """Something that scores the trajectories of one group together."""

    def __call__(self, trajectories: Sequence[Any]) -> Sequence[float | None]:
        """Return a reward for each trajectory, None if it has none."""
        ...


def score_groups(
    scorer: GroupScorer, trajectories: Sequence[Any], groups: Sequence[Hashable | None]
) -> NDArray[np.float64]:
    """Score trajectories group by group, in order of appearance.

    Args:
        scorer: called once a group with its trajectories, in their order.
        trajectories: whatever the scorer takes. [B]
        groups: the group of each; None for none, which is not scored. [B]

    Returns:
        The rewards; NaN where the scorer says None, and without a group. [B]

    Raises:
        ArgumentError: as many groups as trajectories were wanted.
        RewardError: the scorer raises, or gives another number of rewards, or what is no finite number; the message
            names file, function, group and row.

    Reference: a reward function of TRL that sees one group at a time.
    """
    if len(groups) != len(trajectories):
        raise ArgumentError(f"there are {len(groups)} groups, wanted one for each of {len(trajectories)} trajectories")
    places: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        if group is not None:
            places.setdefault(group, []).append(row)
    place, rewards = Function.of(scorer).place, np.full(len(trajectories), np.nan)
    for group, rows in places.items():
        found = answers(partial(scorer, [trajectories[row] for row in rows]), len(rows))
        rewards[rows] = checked(f"{place}, group {group!r}", found)
    return rewards
