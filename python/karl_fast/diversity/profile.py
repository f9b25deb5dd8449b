"""All measures of a set of rollouts at once, and a comparison of two sets."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from karl_fast import _core
from karl_fast.diversity.mutual_information import mutual_information
from karl_fast.diversity.vendi import vendi_ngrams

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.diversity.rollouts import Column, Rollouts


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

    Reference: none; a quotient.
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
