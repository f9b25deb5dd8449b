"""The Vendi score: the effective number of different things, from their similarities.

```text
vendi_1 = exp(-sum lambda ln lambda),   vendi_2 = 1 / sum lambda^2,   lambda the eigenvalues of K / B
K = identity: B different things        K = all ones: one thing B times, score 1
```

Eigenvalues and products of dense matrices are LAPACK's and BLAS's, through NumPy: the last digits may differ between
machines. That of order 2 of n-grams is karl_fast's own, and has the same bits everywhere.

Reference: Friedman and Dieng 2022 (arXiv:2210.02410); Pasarkar and Dieng 2023 (arXiv:2310.12952) for the order.
"""

from __future__ import annotations

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


def vendi(vectors: Matrix, *, order: Order = 1) -> float:
    """Compute the Vendi score of vectors, by the cosine of each two.

    ```text
    vendi_1 = exp(-sum lambda ln lambda),   vendi_2 = 1 / sum lambda^2 = B^2 / ||K||_F^2
    lambda the eigenvalues of K / B,        K_ij = cos(x_i, x_j)
    ```

    1 where all vectors point one way, B where each two are at right angles; a set repeated has the score of the set
    once. The eigenvalues are those of X^T X / B where E < B, X being the vectors at length one: no matrix is larger
    than the vectors are. Order 2 needs no eigenvalues, and gives less weight to rare vectors.

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
    # A NaN is not close to anything, itself included, so the first test refuses it too.
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


BLOCK = 4096
"""Vectors, or their coordinates, that are widened at a time."""

NEGATIVE = 1e-8
"""An eigenvalue of K / B below minus this is not rounding: the similarity is not positive semi-definite."""


def _check_matrix(matrix: Matrix, name: str) -> None:
    if not isinstance(matrix, np.ndarray) or matrix.dtype not in (np.float32, np.float64):
        got = matrix.dtype if isinstance(matrix, np.ndarray) else type(matrix).__name__
        raise DTypeError(f"{name} is {got}, wanted a NumPy array of float32 or float64")
    if matrix.ndim != 2:
        raise LayoutError(f"{name} has {matrix.ndim} dimensions, wanted 2")


def _lengths(vectors: Matrix) -> NDArray[np.float64]:
    """Return the length of each vector; it has to be finite and above 0."""
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("be,be->b", vectors, vectors, dtype=np.float64))
    invalid = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(invalid):
        raise ArgumentError(f"vector {invalid[0]} has length {lengths[invalid[0]]}, wanted a finite one above 0")
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
    positive = values[values > 0]
    return float(np.exp(-np.sum(positive * np.log(positive))))
