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


def shorter_is_better(trajectories: Sequence[Any]) -> list[float]:
    """Score a group by length: 1 for the shortest, 0 for the longest.

        r_i = (longest - length_i) / (longest - shortest); .5 if all are equal

    Args:
        trajectories: objects with a length, of one group. [G]

    Returns:
        The rewards. [G]

    Raises:
        TypeError: a trajectory without a length.

    Reference: Kimi k1.5 (arXiv:2501.12599), its length reward rescaled to 0 to 1, without the part for errors.
    """
    lengths = [len(trajectory) for trajectory in trajectories]
    least, most = min(lengths), max(lengths)
    return [(most - length) / (most - least) if most > least else 0.5 for length in lengths]
