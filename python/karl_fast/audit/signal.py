"""Groups that teach nothing, why, and how much of the compute went into them.

```text
rewards differ, outcomes differ        mixed          the group teaches what was right
rewards differ, outcomes are equal     only shaping   it teaches length, format or noise alone
rewards are equal                      all solved, none solved, or equal without either
fewer than two rewards                 alone
```

The outcome is logged beside the reward (`correct`, `acc`, `outcome`); where none is, the reward itself is taken for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.audit.conventions import group_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.audit.rollouts import Rollouts

KINDS = ("mixed", "only_shaping", "all_solved", "none_solved", "equal", "alone")
"""Kinds of groups, those with a signal first."""

KIND_NAMES = {
    "mixed": "mixed",
    "only_shaping": "only shaping differs",
    "all_solved": "all solved",
    "none_solved": "none solved",
    "equal": "equal otherwise",
    "alone": "fewer than two rewards",
}
"""Their names for people."""


@dataclass(frozen=True)
class Kind:
    """Groups of one kind.

    Attributes:
        groups: their number.
        rows: their rows.
        compute: share of all tokens that were generated, or of all words.
        names: the first of their names.
    """

    groups: int
    rows: int
    compute: float
    names: list[str]


@dataclass(frozen=True)
class Signal:
    """Groups of a dump by what they teach.

    Attributes:
        groups: number of groups.
        kinds: by name, as in ``KINDS``.
        without_group: rows without a group.
        outcome: path of the outcome beside the reward; None where the reward was taken for it.
        unit: what compute is counted in.
        shaping_share: share of the variance within groups that rows of equal outcome have; None without an outcome.
    """

    groups: int
    kinds: dict[str, Kind]
    without_group: int
    outcome: str | None
    unit: str
    shaping_share: float | None

    def share(self, *kinds: str) -> float:
        """Return the share of the compute that groups of some kinds took."""
        return sum(self.kinds[kind].compute for kind in kinds)


FIRST = 5
"""Names of groups that a finding shows."""


def measure_signal(rollouts: Rollouts) -> Signal:
    """Return the kinds of the groups of a dump, and the share of the compute of each."""
    kinds = kinds_of_groups(rollouts)
    groups, known = rollouts.groups, rollouts.groups >= 0
    tokens = np.where(np.isfinite(rollouts.tokens), rollouts.tokens, 0.0)
    total = float(tokens.sum()) or 1.0
    size = np.bincount(groups[known], minlength=len(kinds))
    cost = np.bincount(groups[known], tokens[known], minlength=len(kinds))
    parts = {}
    for number, name in enumerate(KINDS):
        own = np.flatnonzero(kinds == number)
        names = [rollouts.group_names[group] for group in own[:FIRST]]
        parts[name] = Kind(len(own), int(size[own].sum()), float(cost[own].sum() / total), names)
    beside = has_outcome(rollouts)
    return Signal(
        groups=len(kinds),
        kinds=parts,
        without_group=int((~known).sum()),
        outcome=rollouts.fields["outcome"] if beside else None,
        unit=rollouts.unit,
        shaping_share=_shaping_share(rollouts) if beside else None,
    )


def kinds_of_groups(rollouts: Rollouts) -> NDArray[np.int64]:
    """Return the number of the kind of each group. [P]"""
    low, high, counts = group_range(rollouts.rewards, rollouts.groups)
    outcomes = rollouts.outcomes if has_outcome(rollouts) else rollouts.rewards
    least, most, known = group_range(outcomes, rollouts.groups)
    differ = high > low
    same_outcome = (most == least) & (known > 1)
    everywhere = outcomes[np.isfinite(outcomes)]
    spread = bool(len(everywhere)) and float(everywhere.max()) > float(everywhere.min())
    at_top = same_outcome & spread & (least == (everywhere.max() if spread else 0))
    at_bottom = same_outcome & spread & (most == (everywhere.min() if spread else 0))
    kinds = np.full(len(counts), KINDS.index("equal"), dtype=np.int64)
    for name, rows in (("all_solved", at_top), ("none_solved", at_bottom)):
        kinds[rows] = KINDS.index(name)
    kinds[differ] = KINDS.index("mixed")
    kinds[differ & same_outcome] = KINDS.index("only_shaping")
    kinds[counts < 2] = KINDS.index("alone")
    return kinds


def has_outcome(rollouts: Rollouts) -> bool:
    """Return whether there is an outcome that is not the reward itself."""
    known = np.isfinite(rollouts.outcomes)
    return bool(known.mean() > 0.5) and not np.array_equal(rollouts.outcomes[known], rollouts.rewards[known])


def _shaping_share(rollouts: Rollouts) -> float | None:
    """Return the share of the variance within groups that is between rows of one outcome: what shaping adds."""
    rows = (rollouts.groups >= 0) & np.isfinite(rollouts.rewards) & np.isfinite(rollouts.outcomes)
    if not rows.any():
        return None
    groups, rewards = rollouts.groups[rows], rollouts.rewards[rows]
    _, cells = np.unique(np.stack([groups.astype(np.float64), rollouts.outcomes[rows]]), axis=1, return_inverse=True)
    within_groups = _squares(rewards, groups)
    return _squares(rewards, cells.reshape(-1)) / within_groups if within_groups > 0 else None


def _squares(values: NDArray[np.float64], codes: NDArray[np.int64]) -> float:
    """Return the sum of squares about the means of codes."""
    counts = np.maximum(np.bincount(codes), 1)
    means = np.bincount(codes, values) / counts
    return float(np.sum((values - means[codes]) ** 2))
