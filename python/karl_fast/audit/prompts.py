"""Prompts and answers that occur again: unlike prompts in one group, one prompt in several splits, copies of answers.

Prompts are equal by the rule of splits and promotions: what the user says before the first answer, white space aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.audit.conventions import group_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from karl_fast.audit.rollouts import Rollouts

FIRST = 5
"""Names that a finding shows."""


@dataclass(frozen=True)
class Prompts:
    """Equal prompts of a dump.

    Attributes:
        count: number of different prompts.
        rows: rows with a prompt.
        unlike: groups of rows whose prompts differ, and the first of their names.
        split_groups: prompts whose rows in one step are in several groups, and rows of them.
        between_splits: prompts that occur in more than one split, and the rows of them that are not in ``train``.
        copies: rows whose answer, word for word, another row of their group has.
        excluded: rows whose prompt is in the file of excluded ones; None without such a file.
        first_unlike, first_between, first_excluded, first_copied: names of groups and rows.
    """

    count: int
    rows: int
    unlike: int
    split_groups: int
    split_rows: int
    between_splits: int
    between_rows: int
    copies: int
    excluded: int | None
    first_unlike: list[str]
    first_between: list[str]
    first_excluded: list[str]
    first_copied: list[str]


def measure_prompts(rollouts: Rollouts, excluded: NDArray[np.bool_] | None = None) -> Prompts:
    """Return what the prompts of a dump have in common.

    Args:
        rollouts: the columns of a dump.
        excluded: rows whose prompt is in a file of excluded ones. [B]
    """
    prompts, groups = rollouts.prompts, rollouts.groups
    known = prompts >= 0
    unlike = _groups_of_unlike(prompts, groups)
    split_prompts, split_rows = _split_prompts(rollouts)
    between, rows = _between_splits(rollouts)
    copied = _copies(rollouts)
    hit = np.zeros(len(rollouts), dtype=np.bool_) if excluded is None else excluded
    return Prompts(
        count=len(np.unique(prompts[known])),
        rows=int(known.sum()),
        unlike=len(unlike),
        split_groups=split_prompts,
        split_rows=split_rows,
        between_splits=between,
        between_rows=len(rows),
        copies=len(copied),
        excluded=None if excluded is None else int(hit.sum()),
        first_unlike=[rollouts.group_names[group] for group in unlike[:FIRST]],
        first_between=_names(rollouts, rows),
        first_excluded=_names(rollouts, np.flatnonzero(hit)),
        first_copied=_names(rollouts, copied),
    )


def _names(rollouts: Rollouts, rows: Iterable[int]) -> list[str]:
    return [rollouts.names[row] for row in list(rows)[:FIRST]]


def _groups_of_unlike(prompts: NDArray[np.int64], groups: NDArray[np.int64]) -> list[int]:
    """Return the groups of two prompts or more."""
    rows = groups >= 0
    low, high, _ = group_range(np.where(prompts >= 0, prompts, np.nan).astype(np.float64)[rows], groups[rows])
    unlike: list[int] = np.flatnonzero(high > low).tolist()
    return unlike


def _split_prompts(rollouts: Rollouts) -> tuple[int, int]:
    """Return how many prompts are in several groups of one step, and their rows."""
    rows = (rollouts.prompt_steps >= 0) & (rollouts.groups >= 0)
    prompts, groups = rollouts.prompt_steps[rows], rollouts.groups[rows]
    if not len(prompts):
        return 0, 0
    low, high, counts = group_range(groups.astype(np.float64), prompts)
    several = high > low
    return int(several.sum()), int(counts[several].sum())


def _between_splits(rollouts: Rollouts) -> tuple[int, NDArray[np.int64]]:
    """Return how many prompts occur in several splits, and their rows outside of train."""
    rows = np.flatnonzero((rollouts.splits >= 0) & (rollouts.prompts >= 0))
    if not len(rows):
        return 0, rows
    low, high, _ = group_range(rollouts.splits[rows].astype(np.float64), rollouts.prompts[rows])
    several = high > low
    train = rollouts.split_names.index("train") if "train" in rollouts.split_names else -1
    held = rows[several[rollouts.prompts[rows]] & (rollouts.splits[rows] != train)]
    return int(several.sum()), held


def _copies(rollouts: Rollouts) -> NDArray[np.int64]:
    """Return the rows with an answer that an earlier row of their group has."""
    rows = np.flatnonzero(rollouts.groups >= 0)
    if not len(rows):
        return rows
    _, first = np.unique(np.stack([rollouts.groups[rows], rollouts.answers[rows]]), axis=1, return_index=True)
    return np.delete(rows, first)
