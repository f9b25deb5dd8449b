"""All measures of the diversity of a set of rollouts at once, and a comparison of two sets.

```text
Rollouts (columns) -> profile -> Profile -> compare(before, after) -> ratios of what a draw kept
```

Mutual information of prompts and answers is one of the measures, and stands here for itself too.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from karl_fast import _core
from karl_fast.diversity.vendi import vendi_ngrams
from karl_fast.errors import ArgumentError, DTypeError, LayoutError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.typing import Integers

    Column: TypeAlias = NDArray[np.int64]
    Order: TypeAlias = Literal[1, 2]
    Matrix: TypeAlias = "NDArray[np.float64] | NDArray[np.float32]"


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Rollouts in columns.

    Attributes:
        tokens: ids of tokens, tools or actions of all rollouts, concatenated, 0 or more. [T]
        offsets: where each rollout begins, and where the last one ends. [B + 1]
        categories: the strategy, domain or cluster of each rollout, from 0 up; negative for none. [B]
        category_count: K; by default one more than the largest category.
        prompts: the prompt of each rollout, negative for none. [B]

    Raises:
        ArgumentError: categories or prompts that are not one a rollout, or a negative ``category_count``.
        DTypeError, LayoutError: a column that is not a one-dimensional NumPy array of int64.
    """

    tokens: Column
    offsets: Column
    categories: Column | None = None
    category_count: int | None = None
    prompts: Column | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "offsets", "categories", "prompts"):
            if (column := getattr(self, name)) is not None:
                _check_column(column, name)
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
        """Select some rows, in their order, with copies. The categories stay those of the whole.

        Args:
            rows: row numbers, not a mask. [rows]

        Returns:
            As many rollouts as there are rows.

        Raises:
            ArgumentError: a row that there is not.
            DTypeError, LayoutError: rows that are not a one-dimensional NumPy array of int64.
        """
        _check_column(rows, "rows")
        invalid = np.flatnonzero((rows < 0) | (rows >= len(self)))
        if len(invalid):
            raise ArgumentError(
                f"row at index {invalid[0]} is {rows[invalid[0]]}, wanted one of 0 to {len(self)} exclusive"
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
        """Return the number of rollouts of each category.

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


@dataclass(frozen=True)
class Profile:
    """The diversity of a set of rollouts; NaN where there was nothing to measure.

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
        mutual_nats: I(prompt; category), with its bias.
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
        return "\n".join(f"{name:22}{_format(value):>10}" for name, value in _by_name(self).items())


def profile(rollouts: Rollouts, rows: Column | None = None, *, n: int = 2) -> Profile:
    """Measure the diversity of rollouts, or of those that a draw chose.

    ```text
    distinct_1, distinct_n, mean self-BLEU, Vendi of order 2           of the sequences
    H, H / ln K, exp(H), Gini, coverage                                of the categories
    I(prompt; category)                                                of both
    ```

    The distinct shares, self-BLEU and Vendi depend on the size of a set: compare a draw with a uniform one of the same
    size.

    Args:
        rollouts: columns of the rollouts, as NumPy arrays of int64.
        rows: numbers of the rollouts to measure, repeated for copies; all by default. [rows]
        n: the length of an n-gram, and the longest one of self-BLEU; 1 or more.

    Returns:
        One number a measure.

    Raises:
        ArgumentError: a row or a category out of range, a token id below 0, columns that differ in length, or an n
            below 1.
        DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.

    Reference: those of the functions called here.
    """
    # Refuses tokens and offsets that are out of place before rows are taken by them.
    _core.distinct_n(rollouts.tokens, rollouts.offsets, 1)
    selected = rollouts if rows is None else rollouts.take(rows)
    sequences = selected.tokens, selected.offsets
    weights = selected.weights()
    return Profile(
        rows=len(selected),
        distinct_rows=len(selected) if rows is None else len(np.unique(rows)),
        distinct_1=_core.distinct_n(*sequences, 1),
        distinct_n=_core.distinct_n(*sequences, n),
        self_bleu=_mean(_core.self_bleu(*sequences, n)),
        vendi=vendi_ngrams(*sequences, n, order=2),
        entropy_nats=_core.entropy(weights),
        evenness=_core.evenness(weights),
        effective_categories=_core.effective_number(weights),
        gini=_core.gini(weights),
        coverage=_core.coverage(weights),
        mutual_nats=float("nan")
        if selected.prompts is None or selected.categories is None
        else mutual_information(selected.prompts, selected.categories).mutual_nats,
    )


@dataclass(frozen=True)
class Comparison:
    """Profiles of two sets of rollouts; ``print`` shows them as a table.

    Attributes:
        before: the set that was drawn from.
        after: the draw.
    """

    before: Profile
    after: Profile

    @property
    def ratios(self) -> dict[str, float]:
        """Ratio of after to before, by the name of the measure; NaN where before is 0."""
        after = _by_name(self.after)
        return {name: after[name] / value if value else float("nan") for name, value in _by_name(self.before).items()}

    def __str__(self) -> str:
        after, ratios = _by_name(self.after), self.ratios
        lines = [f"{'':22}{'before':>10}{'after':>10}{'ratio':>10}"]
        for name, value in _by_name(self.before).items():
            lines.append(f"{name:22}{_format(value):>10}{_format(after[name]):>10}{_format(ratios[name]):>10}")
        return "\n".join(lines)


def compare(before: Profile, after: Profile) -> Comparison:
    """Compare two profiles of the same columns, such as before and after a draw.

    ```text
    ratio = after / before, of each measure
    ```

    Args:
        before: of all rollouts, or of a draw of equal size that ignores rewards.
        after: of the draw.

    Returns:
        Both, with their ratios; ``print`` shows a table.

    Raises: nothing.
    """
    return Comparison(before, after)


@dataclass(frozen=True)
class Information:
    """Mutual information and entropies of inputs X and outputs Y; all but the rows in nats.

    Attributes:
        rows: number of rows with both.
        mutual_nats: I(X; Y) = H(Y) - H(Y | X).
        input_entropy_nats: H(X).
        output_entropy_nats: H(Y).
        within_entropy_nats: H(Y | X), the variety of outputs within one input.
        bias_nats: upward bias of the estimate, which matters where few rows fill many pairs.
    """

    rows: int
    mutual_nats: float
    input_entropy_nats: float
    output_entropy_nats: float
    within_entropy_nats: float
    bias_nats: float

    @property
    def share(self) -> float:
        """I(X; Y) / H(Y), 0 to 1: how much of the variety of outputs answers to the input; NaN where there is none."""
        return self.mutual_nats / self.output_entropy_nats if self.output_entropy_nats > 0 else float("nan")


def mutual_information(inputs: Integers, outputs: Integers) -> Information:
    """Estimate the mutual information of inputs and outputs, over the rows with both.

    ```text
    I(X; Y) = sum p(x, y) ln (p(x, y) / (p(x) p(y))) = H(Y) - H(Y | X)
    bias    = (K_xy - K_x - K_y + 1) / (2 B),   K the numbers of different pairs, inputs and outputs
    ```

    Entropy cannot tell a policy that answers each input in its own way from one that answers all from one varied
    template. The second has a high H(Y | X), and I near 0: template collapse. The estimate is the plug-in one, which is
    too high; take the bias from it (Miller and Madow) before runs of different size are compared. A shuffled column of
    outputs shows what chance alone gives.

    Args:
        inputs: the prompt of each row, negative for none; or names, in an Arrow column. [B]
        outputs: what it was answered by, as a number: a cluster, a plan, an exact text; negative for none. [B]

    Returns:
        The entropies, their difference and its bias; NaN where no row has both.

    Raises:
        ArgumentError: columns that differ in length.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    Reference: RAGEN-2 (arXiv:2604.06268), which estimates it from log-probabilities; Miller 1955 for the bias.
    """
    return Information(**_core.mutual_information(inputs, outputs))


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _by_name(profile: Profile) -> dict[str, float]:
    return {field.name: getattr(profile, field.name) for field in fields(profile)}


def _format(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def _check_column(column: Column, name: str) -> None:
    if not isinstance(column, np.ndarray):
        raise DTypeError(f"{name} is a {type(column).__name__}, wanted a NumPy array of int64")
    if column.dtype != np.int64:
        raise DTypeError(f"{name} has dtype {column.dtype}, wanted int64")
    if column.ndim != 1:
        raise LayoutError(f"{name} has {column.ndim} dimensions, wanted 1")
