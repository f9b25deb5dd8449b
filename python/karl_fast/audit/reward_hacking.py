"""Tests of a reward that follows the form of an answer: its length, repetition or markup.

```text
rho = sum over groups of R_x R_r / sqrt(sum R_x^2 * sum R_r^2)       R: ranks within a group, less their mean
p = (1 + permutations of the rewards within groups with a rho as large) / (1 + permutations)
```

A hard prompt has long answers and low rewards; ranks within a group leave such differences out. Under the hypothesis
that rewards of a group have nothing to do with form, each order of them is as likely, so the test holds at its level
for any rewards, ties included; Holm's rule keeps that level over all forms together. Where an outcome is logged beside
the reward, rewards are compared among rows of a group with one outcome: there only shaping can follow the form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.audit.signal import has_outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.audit.rollouts import Rollouts

    Column = NDArray[np.float64]
    Codes = NDArray[np.int64]

ALPHA = 0.01
"""Level of the tests of all forms together: so often an honest dump is suspected."""

LEAST_RHO = 0.1
"""Correlation below which the reward does not follow a form, however certain its sign is."""

PERMUTATIONS = 999
"""Orders of the rewards that are tried; the least p is one in a thousand."""

MOST_ROWS = 20_000
"""Rows that are tested: whole groups, the first in the order of the log, which does not depend on rewards."""

FIRST = 5
"""Names of rows that a finding shows."""

FORMS = {"length": "tokens", "repetition": "repetition", "markup": "markup"}
"""Forms of an answer, and their columns."""


@dataclass(frozen=True)
class Correlation:
    """Correlation of the reward with a form of the answer.

    Attributes:
        form: ``length``, ``repetition`` or ``markup``.
        rows: rows that are compared.
        groups: groups, or groups and outcomes, in which both differ.
        rho: rank correlation within them.
        low, high: interval of it at 95 %, by a bootstrap of the groups.
        p: of a rho as large, if rewards had nothing to do with the form; one-sided.
        adjusted: p after Holm's rule over all forms.
        at_equal_outcome: True where rows of one outcome are compared.
        first: ids of rows that are high in the reward and in the form of their group, the highest first.
        follows: True where the reward follows the form: ``adjusted`` is below ``ALPHA`` and rho above ``LEAST_RHO``.
    """

    form: str
    rows: int
    groups: int
    rho: float
    low: float
    high: float
    p: float
    adjusted: float
    at_equal_outcome: bool
    first: list[str]
    follows: bool


def measure_forms(rollouts: Rollouts, *, seed: int = 0) -> list[Correlation]:
    """Return the correlation of the reward with each form of the answer.

    Args:
        rollouts: the columns of a dump.
        seed: of the permutations and the bootstrap.

    Returns:
        One for each form that differs within groups; none where rewards do not.
    """
    cells, at_equal_outcome = _cells(rollouts)
    generator = np.random.default_rng(seed)
    tests = []
    for form, column in FORMS.items():
        test = _prepare(getattr(rollouts, column), rollouts.rewards, cells)
        if test is not None:
            tests.append((form, test))
    raw = [(form, test, _p_value(test, generator)) for form, test in tests]
    adjusted = _holm([p for _, _, p in raw])
    results = []
    for (form, test, p), level in zip(raw, adjusted, strict=True):
        rho = _rho(test.products.sum(), test.forms.sum(), test.rewards.sum())
        low, high = _interval(test, generator)
        follows = bool(level < ALPHA and rho > LEAST_RHO)
        high_in_both = np.argsort(-np.minimum(test.form, test.reward), kind="stable")[:FIRST]
        first = [rollouts.names[row] for row in test.rows[high_in_both]]
        results.append(
            Correlation(
                form, test.count, len(test.products), rho, low, high, p, level, at_equal_outcome, first, follows
            )
        )
    return results


def _cells(rollouts: Rollouts) -> tuple[Codes, bool]:
    """Return the group of each row, parted by outcome where rewards of one outcome differ; and whether it is parted."""
    groups = rollouts.groups
    if not has_outcome(rollouts):
        return groups, False
    known = (groups >= 0) & np.isfinite(rollouts.outcomes) & np.isfinite(rollouts.rewards)
    pairs = np.stack([groups[known].astype(np.float64), rollouts.outcomes[known]])
    _, codes = np.unique(pairs, axis=1, return_inverse=True)
    cells = np.full(len(groups), -1, dtype=np.int64)
    cells[known] = codes.reshape(-1)
    low = np.full(int(cells.max()) + 1 if known.any() else 0, np.inf)
    high = -low
    np.minimum.at(low, cells[known], rollouts.rewards[known])
    np.maximum.at(high, cells[known], rollouts.rewards[known])
    # An outcome that decides the reward leaves nothing to compare.
    return (cells, True) if (high > low).any() else (groups, False)


@dataclass(frozen=True, eq=False)
class _Test:
    """Ranks within cells, centred, and their sums of products by cell."""

    rows: Codes
    form: Column
    reward: Column
    cells: Codes
    products: Column
    forms: Column
    rewards: Column

    @property
    def count(self) -> int:
        return len(self.form)


def _prepare(form: Column, rewards: Column, cells: Codes) -> _Test | None:
    """Return the ranks of rows in cells where both the form and the reward differ; None without any."""
    rows = np.flatnonzero((cells >= 0) & np.isfinite(form) & np.isfinite(rewards))
    rows = rows[np.argsort(cells[rows], kind="stable")]
    rows = _within(rows, cells[rows], rewards[rows], form[rows])
    if len(rows) < 2:
        return None
    rows = rows[cells[rows] <= cells[rows[min(MOST_ROWS, len(rows)) - 1]]]
    _, codes = np.unique(cells[rows], return_inverse=True)
    codes = codes.reshape(-1)
    x, r = ranks_within(form[rows], codes), ranks_within(rewards[rows], codes)
    products, forms, squares = (np.bincount(codes, values).astype(np.float64) for values in (x * r, x * x, r * r))
    return _Test(rows, x, r, codes, products, forms, squares)


def _within(rows: Codes, cells: Codes, *columns: Column) -> Codes:
    """Return the rows of cells in which every column differs."""
    if not len(rows):
        return rows
    starts = np.flatnonzero(np.diff(cells, prepend=cells[0] - 1))
    sizes = np.diff(np.append(starts, len(cells)))
    keep = np.ones(len(starts), dtype=np.bool_)
    for column in columns:
        keep &= np.maximum.reduceat(column, starts) > np.minimum.reduceat(column, starts)
    return rows[np.repeat(keep, sizes)]


def ranks_within(values: Column, codes: Codes) -> Column:
    """Return the rank of each value in its group less the mean rank; equal values share their mean rank. [B]

    Args:
        values: finite numbers. [B]
        codes: number of the group of each, from 0, without gaps. [B]

    Returns:
        float64; each group adds up to 0.
    """
    order = np.lexsort((values, codes))
    same = (np.diff(codes[order]) == 0) & (np.diff(values[order]) == 0)
    runs = np.concatenate([[0], np.cumsum(~same)])
    place = np.arange(len(values), dtype=np.float64)
    ranks = np.empty(len(values))
    ranks[order] = (np.bincount(runs, place) / np.bincount(runs))[runs]
    return ranks - (np.bincount(codes, ranks) / np.bincount(codes))[codes]


def _rho(product: float, form: float, reward: float) -> float:
    return float(product / np.sqrt(form * reward))


def _p_value(test: _Test, generator: np.random.Generator) -> float:
    """Return the share of orders of the rewards within cells with a product as large; cells are end to end in order."""
    order = np.argsort(test.cells, kind="stable")
    form, reward = test.form[order], test.reward[order]
    cells = test.cells[order].astype(np.float64)
    observed = float(form @ reward)
    # Sums in another order differ by rounding, and must count as equal.
    least = observed - 1e-9 * max(1.0, abs(observed))
    reached = 0
    for _ in range(PERMUTATIONS):
        shuffled = np.argsort(cells + generator.random(len(cells)))
        reached += float(form @ reward[shuffled]) >= least
    return (1 + reached) / (1 + PERMUTATIONS)


def _interval(test: _Test, generator: np.random.Generator) -> tuple[float, float]:
    """Return the interval of rho at 95 %, by drawing groups again with replacement."""
    sums = np.stack([test.products, test.forms, test.rewards])
    count = sums.shape[1]
    drawn = generator.multinomial(count, np.full(count, 1 / count), size=PERMUTATIONS) @ sums.T
    scale = np.sqrt(drawn[:, 1] * drawn[:, 2])
    rhos = drawn[:, 0][scale > 0] / scale[scale > 0]
    low, high = np.quantile(rhos, [0.025, 0.975])
    return float(low), float(high)


def _holm(values: list[float]) -> list[float]:
    """Return p values adjusted by Holm's rule: below a level together with a probability of that level."""
    order = np.argsort(values, kind="stable")
    adjusted, largest = [0.0] * len(values), 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - place) * values[index]))
        adjusted[index] = largest
    return adjusted
