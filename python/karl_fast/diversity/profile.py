"""All measures of a set of rollouts at once, and a comparison of two sets."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from karl_fast import _core
from karl_fast.errors import ArgumentError, DTypeError, LayoutError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.typing import Integers

    Column: TypeAlias = NDArray[np.int64]
    Order: TypeAlias = Literal[1, 2]
    Matrix: TypeAlias = "NDArray[np.float64] | NDArray[np.float32]"


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
        after = _values(self.after)
        return {name: after[name] / value if value else float("nan") for name, value in _values(self.before).items()}

    def __str__(self) -> str:
        after, ratios = _values(self.after), self.ratios
        lines = [f"{'':22}{'before':>10}{'after':>10}{'ratio':>10}"]
        for name, value in _values(self.before).items():
            lines.append(f"{name:22}{_shown(value):>10}{_shown(after[name]):>10}{_shown(ratios[name]):>10}")
        return "\n".join(lines)


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
    """Compare two profiles of the same columns, such as before and after a draw.

    ```text
    ratio = after / before, of each measure
    ```

    Args:
        before: of all rollouts, or of a draw of equal size that heeds no reward.
        after: of the draw.

    Returns:
        Both, with their ratios; ``print`` shows a table.

    Raises: nothing.
    """
    return Comparison(before, after)


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


# Mutual information of inputs and outputs.


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


# Rollouts in columns.


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
        """Select some rows, in their order, with copies. The categories stay those of the whole.

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


def _check(column: Column, name: str) -> None:
    if not isinstance(column, np.ndarray):
        raise DTypeError(f"{name} is a {type(column).__name__}, wanted a NumPy array of int64")
    if column.dtype != np.int64:
        raise DTypeError(f"{name} has dtype {column.dtype}, wanted int64")
    if column.ndim != 1:
        raise LayoutError(f"{name} has {column.ndim} dimensions, wanted 1")


# The Vendi score: the effective number of different things, from their similarities.
#
# Eigenvalues and products of dense matrices are LAPACK's and BLAS's, through NumPy: the last digits may differ between
# machines. That of order 2 of n-grams is karl_fast's own, and has the same bits everywhere.


BLOCK = 4096
"""Vectors, or their coordinates, that are widened at a time."""

NEGATIVE = 1e-8
"""An eigenvalue of K / B below minus this is not rounding: the similarity is not positive semi-definite."""


def vendi(vectors: Matrix, *, order: Order = 1) -> float:
    """Compute the Vendi score of vectors, by the cosine of each two.

    ```text
    vendi_1 = exp(-sum lambda ln lambda),   vendi_2 = 1 / sum lambda^2 = B^2 / ||K||_F^2
    lambda the eigenvalues of K / B,        K_ij = cos(x_i, x_j)
    ```

    1 where all vectors point one way, B where each two are at right angles; a set repeated has the score of the set
    once. The eigenvalues are those of X^T X / B where E < B, X being the vectors at length one: no matrix is larger
    than the vectors are. Order 2 needs no eigenvalues, and heeds rare vectors less.

    Args:
        vectors: one a row, none of them 0; each is widened to float64. [B, E]
        order: 1 or 2.

    Returns:
        1 to the lesser of B and E; NaN where there is no vector.

    Raises:
        ArgumentError: a vector that is 0, not finite, or beyond the squares of float64.
        UsageError: another order.
        DTypeError, LayoutError: neither float32 nor float64, or not of two dimensions.

    Reference: Friedman and Dieng 2022 (arXiv:2210.02410); Pasarkar and Dieng 2023 (arXiv:2310.12952) for the order.
    """
    _check_matrix(vectors, "vectors")
    return _score(_gram(vectors, _lengths(vectors)), order)


def vendi_similarity(similarity: Matrix, *, order: Order = 1) -> float:
    """Compute the Vendi score of a given similarity: symmetric, positive semi-definite, 1 on its diagonal.

    ```text
    vendi_1 = exp(-sum lambda ln lambda),   vendi_2 = 1 / sum lambda^2,   lambda the eigenvalues of K / B
    ```

    A similarity made of edit distances often has negative eigenvalues. Order 1 refuses them: clipped, they would make
    the score that of another similarity; those within rounding of 0 count as 0. Order 2 does not look at them.

    Args:
        similarity: K. [B, B]
        order: 1 or 2.

    Returns:
        1 to B; NaN where B = 0.

    Raises:
        ArgumentError: a K that is not finite, not symmetric, not 1 on its diagonal, beyond -1 or 1 elsewhere, or, for
            order 1, has an eigenvalue below 0.
        UsageError: another order.
        DTypeError, LayoutError: neither float32 nor float64, or not square.

    Reference: Friedman and Dieng 2022 (arXiv:2210.02410).
    """
    _check_matrix(similarity, "similarity")
    rows, columns = similarity.shape
    if rows != columns:
        raise LayoutError(f"similarity has shape [{rows}, {columns}], wanted as many rows as columns")
    kernel = similarity.astype(np.float64)
    # A NaN is close to nothing, itself included.
    if not np.allclose(kernel, kernel.T, rtol=0, atol=1e-6) or not np.isfinite(kernel).all():
        raise ArgumentError("similarity is not symmetric and finite")
    if not np.allclose(np.diagonal(kernel), 1.0, rtol=0, atol=1e-6):
        raise ArgumentError("similarity is not 1 on its diagonal")
    beyond = np.argwhere(np.abs(kernel) > 1 + 1e-6)
    if len(beyond):
        row, column = beyond[0]
        raise ArgumentError(f"similarity at [{row}, {column}] is {kernel[row, column]}, wanted a number in [-1, 1]")
    return _score(kernel / max(rows, 1), order)


def vendi_ngrams(tokens: Integers, offsets: Integers, n: int = 2, *, order: Order = 1) -> float:
    """Compute the Vendi score of sequences, by the cosine of their n-gram counts.

    ```text
    vendi_1 = exp(-sum lambda ln lambda),   vendi_2 = 1 / sum lambda^2 = B^2 / ||K||_F^2
    lambda the eigenvalues of K / B,        K_ij = cos(counts of n-grams of i, counts of n-grams of j)
    ```

    1 where all sequences have the same n-grams in the same proportions, B where no two share one. Sequences shorter
    than n have no direction and are left out. Order 2 holds one row of a matrix at a time, and suits any number of
    sequences; order 1 needs the eigenvalues of a matrix as large as the lesser of B and the number of different
    n-grams.

    Args:
        tokens: ids of tokens, tools or actions, end to end, none below 0; or names, in an Arrow column. [T]
        offsets: where each sequence begins, and where the last one ends. [B + 1]
        n: the length of an n-gram, 1 or more.
        order: 1 or 2.

    Returns:
        1 to B; NaN where no sequence has n tokens.

    Raises:
        ArgumentError: a token id below 0 or null, or an n below 1.
        UsageError: another order.
        DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.

    Reference: Friedman and Dieng 2022 (arXiv:2210.02410); Pasarkar and Dieng 2023 (arXiv:2310.12952) for the order.
    """
    if order == 2:
        return _core.vendi_ngrams(tokens, offsets, n)
    return _score(_core.ngram_gram(tokens, offsets, n), order)


def _check_matrix(matrix: Matrix, name: str) -> None:
    if not isinstance(matrix, np.ndarray) or matrix.dtype not in (np.float32, np.float64):
        got = matrix.dtype if isinstance(matrix, np.ndarray) else type(matrix).__name__
        raise DTypeError(f"{name} is {got}, wanted a NumPy array of float32 or float64")
    if matrix.ndim != 2:
        raise LayoutError(f"{name} has {matrix.ndim} dimensions, wanted 2")


def _lengths(vectors: Matrix) -> NDArray[np.float64]:
    """Return the length of each vector; it has to be finite and above 0."""
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("be,be->b", vectors, vectors, dtype=np.float64))
    wrong = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(wrong):
        raise ArgumentError(f"vector {wrong[0]} has length {lengths[wrong[0]]}, wanted a finite one above 0")
    return lengths


def _gram(vectors: Matrix, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the smaller of X^T X / B and X X^T / B, X being the vectors at length one. [m, m]"""
    count, width = vectors.shape
    total = np.zeros((min(count, width),) * 2)
    if count <= width:
        for start in range(0, width, BLOCK):
            part = vectors[:, start : start + BLOCK] / lengths[:, None]
            total += part @ part.T
    else:
        for start in range(0, count, BLOCK):
            part = vectors[start : start + BLOCK] / lengths[start : start + BLOCK, None]
            total += part.T @ part
    total /= max(count, 1)
    return total


def _score(gram: NDArray[np.float64], order: Order) -> float:
    """Return the Vendi score of a matrix with the eigenvalues of K / B."""
    if order not in (1, 2):
        raise UsageError(f"order is {order!r}, wanted 1 or 2")
    if not len(gram):
        return float("nan")
    if order == 2:
        return float(1 / np.vdot(gram, gram))
    values = np.linalg.eigvalsh(gram)
    if values[0] < -NEGATIVE:
        raise ArgumentError(f"similarity / B has an eigenvalue of {values[0]:.3g}, wanted zero or more")
    used = values[values > 0]
    return float(np.exp(-np.sum(used * np.log(used))))
