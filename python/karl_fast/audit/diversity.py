"""Diversity of answers and entropy of tokens over the steps of a run: does the policy fall into one way of answering?

```text
unique     mean over groups of different answers / answers
distinct_2 different pairs of words / pairs of words, of the first words of a step
entropy    mean entropy of a token, or minus the mean log-probability of what was drawn
```

A run collapses where unique answers and entropy fall together to a small part of what they were, and stay there. The
rank correlation with the step is compared with orders of the steps at random, so that a run that fluctuates does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast import _core
from karl_fast.audit.reward_hacking import ALPHA, PERMUTATIONS, ranks_within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.audit.rollouts import Rollouts

    Column = NDArray[np.float64]

FEWEST_STEPS = 8
"""Steps from which on a trend is judged: of fewer no order is rare enough."""

COLLAPSED = 0.5
"""Part of its first value below which a measure has collapsed."""


@dataclass(frozen=True)
class Trend:
    """A measure over the steps of a run.

    Attributes:
        measure: ``unique``, ``distinct_2``, ``entropy``, ``length`` or ``reward``.
        first, last: its means over the first and the last fifth of the steps.
        rho: rank correlation with the step; None for fewer than ``FEWEST_STEPS``.
        p: of a rho as large in size, if the order of the steps did not matter; None as rho.
        values: the measure of each step, in order of steps; NaN where it is not known.
    """

    measure: str
    first: float
    last: float
    rho: float | None
    p: float | None
    values: list[float]

    @property
    def falls(self) -> bool:
        """Return whether the measure fell to less than half, by a trend that is not chance."""
        return self.p is not None and self.p < ALPHA and (self.rho or 0) < 0 and self.last < COLLAPSED * self.first


@dataclass(frozen=True)
class Diversity:
    """Diversity of the answers of a dump.

    Attributes:
        steps: the steps, in order.
        unique: mean share of different answers in a group.
        distinct_2: share of different pairs of words, of all words that were kept.
        trends: measures over the steps, by name.
        collapsed: True where unique answers and another measure of diversity fell to less than half.
    """

    steps: list[float]
    unique: float | None
    distinct_2: float | None
    trends: dict[str, Trend]
    collapsed: bool


def measure_diversity(rollouts: Rollouts, *, seed: int = 0) -> Diversity:
    """Return the diversity of the answers of a dump, and its course over the steps.

    Args:
        rollouts: the columns of a dump.
        seed: of the orders of steps that trends are compared with.
    """
    steps = np.unique(rollouts.steps[np.isfinite(rollouts.steps)])
    by_step = {
        "unique": [_unique(rollouts, rollouts.steps == step) for step in steps],
        "distinct_2": _distinct_by_step(rollouts, steps),
        "entropy": [_mean(rollouts.entropies, rollouts.steps == step) for step in steps],
        "length": [_mean(rollouts.tokens, rollouts.steps == step) for step in steps],
        "reward": [_mean(rollouts.rewards, rollouts.steps == step) for step in steps],
    }
    generator = np.random.default_rng(seed)
    trends = {}
    for name, values in by_step.items():
        known = np.isfinite(values)
        if known.sum() > 1:
            trends[name] = _trend(name, np.array(values), generator)
    fallen = {name for name in ("unique", "distinct_2", "entropy") if name in trends and trends[name].falls}
    everything = np.ones(len(rollouts), dtype=np.bool_)
    return Diversity(
        steps=steps.tolist(),
        unique=_known(_unique(rollouts, everything)),
        distinct_2=_known(_distinct([words for _, words in rollouts.words])),
        trends=trends,
        collapsed="unique" in fallen and len(fallen) > 1,
    )


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _mean(values: Column, rows: NDArray[np.bool_]) -> float:
    known = values[rows & np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _unique(rollouts: Rollouts, rows: NDArray[np.bool_]) -> float:
    """Return the mean share of different answers in the groups of some rows that have two or more."""
    rows = rows & (rollouts.groups >= 0)
    if not rows.any():
        return float("nan")
    sizes = np.unique(rollouts.groups[rows], return_counts=True)[1]
    pairs = np.unique(np.stack([rollouts.groups[rows], rollouts.answers[rows]]), axis=1)[0]
    different = np.unique(pairs, return_counts=True)[1]
    several = sizes > 1
    return float((different / sizes)[several].mean()) if several.any() else float("nan")


def _distinct_by_step(rollouts: Rollouts, steps: Column) -> list[float]:
    held: dict[float, list[list[int]]] = {float(step): [] for step in steps}
    for row, words in rollouts.words:
        if (step := float(rollouts.steps[row])) in held:
            held[step].append(words)
    return [_distinct(texts) for texts in held.values()]


def _distinct(texts: list[list[int]]) -> float:
    if not texts:
        return float("nan")
    words = np.array([word for text in texts for word in text], dtype=np.int64)
    return float(_core.distinct_n(words, np.cumsum([0, *map(len, texts)], dtype=np.int64), 2))


def _trend(name: str, values: Column, generator: np.random.Generator) -> Trend:
    known = values[np.isfinite(values)]
    part = max(1, len(known) // 5)
    first, last = float(known[:part].mean()), float(known[-part:].mean())
    if len(known) < FEWEST_STEPS or known.max() == known.min():
        return Trend(name, first, last, None, None, values.tolist())
    codes = np.zeros(len(known), dtype=np.int64)
    times, ranks = ranks_within(np.arange(len(known), dtype=np.float64), codes), ranks_within(known, codes)
    observed = float(times @ ranks)
    orders = np.stack([generator.permutation(ranks) for _ in range(PERMUTATIONS)]) @ times
    reached = int((np.abs(orders) >= abs(observed) - 1e-9).sum())
    rho = observed / float(np.sqrt((times @ times) * (ranks @ ranks)))
    return Trend(name, first, last, rho, (1 + reached) / (1 + PERMUTATIONS), values.tolist())
