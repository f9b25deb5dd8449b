"""Every measure of a set of rollouts at once, and two sets side by side."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from karl_fast import _core
from karl_fast.diversity.information import mutual_information
from karl_fast.diversity.vendi import vendi_ngrams
from karl_fast.errors import ArgumentError, DTypeError, LayoutError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[np.int64]


@dataclass(frozen=True)
class Profile:
    """The diversity of a set of rollouts; NaN where there was nothing to measure it by.

    Attributes:
        rows: rollouts, copies counted.
        distinct_rows: rollouts, copies counted once.
        distinct_1: share of different tokens among all.
        distinct_n: share of different n-grams among all.
        self_bleu: mean BLEU of each sequence with the others as references, of orders up to n; lower is more diverse.
        vendi: effective number of different sequences, of order 2, by the cosine of their n-gram counts.
        entropy_nats: H of the categories.
        evenness: H / ln K, K being all categories.
        effective_categories: exp(H).
        gini: 0 where all categories are used alike.
        coverage: share of the categories that are used.
        mutual_nats: I(prompt; category), the bias not taken off.
    """

    rows: int
    distinct_rows: int
    distinct_1: float
    distinct_n: float
    self_bleu: float
    vendi: float
    entropy_nats: float
    evenness: float
    effective_categories: float
    gini: float
    coverage: float
    mutual_nats: float

    def __str__(self) -> str:
        return "\n".join(f"{name:22}{_shown(value):>10}" for name, value in _values(self).items())


@dataclass(frozen=True)
class Comparison:
    """Two sets of rollouts side by side; ``print`` shows them as a table.

    Attributes:
        before: the set that was drawn from.
        after: the draw.
    """

    before: Profile
    after: Profile

    @property
    def ratios(self) -> dict[str, float]:
        """After over before, by the name of the measure; NaN where before is 0."""
        after = _values(self.after)
        return {name: after[name] / value if value else float("nan") for name, value in _values(self.before).items()}

    def __str__(self) -> str:
        after, ratios = _values(self.after), self.ratios
        lines = [f"{'':22}{'before':>10}{'after':>10}{'ratio':>10}"]
        for name, value in _values(self.before).items():
            lines.append(f"{name:22}{_shown(value):>10}{_shown(after[name]):>10}{_shown(ratios[name]):>10}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Rollouts:
    """What rollouts did, in columns.

    Attributes:
        tokens: ids of tokens, tools or actions of all rollouts, end to end, none below 0. [T]
        offsets: where each rollout begins, and where the last one ends. [B + 1]
        categories: the strategy, domain or cluster of each rollout, from 0 up; negative for none. [B]
        category_count: K; by default one more than the largest category.
        prompts: the prompt of each rollout, negative for none. [B]

    Raises:
        ArgumentError: categories or prompts that are not one a rollout, or a negative ``category_count``.
        DTypeError, LayoutError: a column that is no NumPy array of int64 in one dimension.
    """

    tokens: Column
    offsets: Column
    categories: Column | None = None
    category_count: int | None = None
    prompts: Column | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "offsets", "categories", "prompts"):
            if (column := getattr(self, name)) is not None:
                _check(column, name)
        if not len(self.offsets):
            raise LayoutError("offsets has length 0, wanted one more than there are rollouts")
        for name in ("categories", "prompts"):
            if (column := getattr(self, name)) is not None and len(column) != len(self):
                raise ArgumentError(f"{name} has length {len(column)}, wanted {len(self)}")
        if (self.category_count or 0) < 0:
            raise ArgumentError(f"category_count is {self.category_count}, wanted 0 or more")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: Column) -> Rollouts:
        """Those of some rows, in their order, copies as often as they stand there. The categories stay those of the
        whole.

        Args:
            rows: row numbers; a mask of bool is none. [rows]

        Returns:
            As many rollouts as there are rows.

        Raises:
            ArgumentError: a row that there is not.
            DTypeError, LayoutError: rows that are no NumPy array of int64 in one dimension.
        """
        _check(rows, "rows")
        wrong = np.flatnonzero((rows < 0) | (rows >= len(self)))
        if len(wrong):
            raise ArgumentError(
                f"row at index {wrong[0]} is {rows[wrong[0]]}, wanted one of 0 to {len(self)} exclusive"
            )
        lengths = np.diff(self.offsets)[rows]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(ends[-1]) + np.repeat(self.offsets[:-1][rows] - ends[:-1], lengths)
        return Rollouts(
            self.tokens[places],
            ends,
            None if self.categories is None else self.categories[rows],
            self.category_count if self.categories is None else len(self.weights()),
            None if self.prompts is None else self.prompts[rows],
        )

    def weights(self) -> NDArray[np.float64]:
        """The rollouts of each category.

        Returns:
            One number a category; none where there are no categories. [K]

        Raises:
            ArgumentError: a category beyond ``category_count``.
        """
        if self.categories is None:
            return np.zeros(0)
        counts = np.bincount(self.categories[self.categories >= 0], minlength=self.category_count or 0)
        if self.category_count is not None and len(counts) > self.category_count:
            raise ArgumentError(f"categories hold {len(counts) - 1}, wanted less than {self.category_count}")
        return counts.astype(np.float64)


def profile(rollouts: Rollouts, rows: Column | None = None, *, n: int = 2) -> Profile:
    """Measure the diversity of rollouts, or of those that a draw chose.

    ```text
    distinct_1, distinct_n, mean self-BLEU, Vendi of order 2           of the sequences
    H, H / ln K, exp(H), Gini, coverage                                of the categories
    I(prompt; category)                                                of both
    ```

    The distinct shares, self-BLEU and Vendi depend on the size of a set: a draw is to be compared with one of its size
    that heeds no reward.

    Args:
        rollouts: their columns, as NumPy arrays of int64.
        rows: numbers of the rollouts that count, a copy as often as it stands there; all by default. [rows]
        n: the length of an n-gram, and the longest one of self-BLEU; 1 or more.

    Returns:
        One number a measure.

    Raises:
        ArgumentError: a row or a category out of range, a token id below 0, columns that differ in length, or an n
            below 1.
        DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.

    Reference: those of the functions it calls.
    """
    # Refuses tokens and offsets that are out of place before rows are taken by them.
    _core.distinct_n(rollouts.tokens, rollouts.offsets, 1)
    chosen = rollouts if rows is None else rollouts.take(rows)
    sequences = chosen.tokens, chosen.offsets
    weights = chosen.weights()
    return Profile(
        rows=len(chosen),
        distinct_rows=len(chosen) if rows is None else len(np.unique(rows)),
        distinct_1=_core.distinct_n(*sequences, 1),
        distinct_n=_core.distinct_n(*sequences, n),
        self_bleu=_mean(_core.self_bleu(*sequences, n)),
        vendi=vendi_ngrams(*sequences, n, order=2),
        entropy_nats=_core.entropy(weights),
        evenness=_core.evenness(weights),
        effective_categories=_core.effective_number(weights),
        gini=_core.gini(weights),
        coverage=_core.coverage(weights),
        mutual_nats=_mutual(chosen.prompts, chosen.categories),
    )


def compare(before: Profile, after: Profile) -> Comparison:
    """Two profiles of the same columns, such as before and after a draw, side by side.

    ```text
    ratio = after / before, of each measure
    ```

    Args:
        before: of all rollouts, or of a draw of equal size that heeds no reward.
        after: of the draw.

    Returns:
        Both, with their ratios; ``print`` shows a table.

    Raises:
        Nothing.

    Reference: none; a quotient.
    """
    return Comparison(before, after)


def _check(column: Column, name: str) -> None:
    if not isinstance(column, np.ndarray):
        raise DTypeError(f"{name} is a {type(column).__name__}, wanted a NumPy array of int64")
    if column.dtype != np.int64:
        raise DTypeError(f"{name} has dtype {column.dtype}, wanted int64")
    if column.ndim != 1:
        raise LayoutError(f"{name} has {column.ndim} dimensions, wanted 1")


def _mutual(prompts: Column | None, categories: Column | None) -> float:
    if prompts is None or categories is None:
        return float("nan")
    return mutual_information(prompts, categories).mutual_nats


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _values(measured: Profile) -> dict[str, float]:
    return {field.name: getattr(measured, field.name) for field in fields(measured)}


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4f}"
