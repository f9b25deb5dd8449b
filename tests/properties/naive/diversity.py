"""Twins of the measures of diversity: definitions written out, no matter the cost."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

Tokens: TypeAlias = "Sequence[Hashable]"
Sequences: TypeAlias = "Sequence[Tokens]"


def ngrams(tokens: Tokens, n: int) -> list[tuple[Hashable, ...]]:
    return [tuple(tokens[at : at + n]) for at in range(len(tokens) - n + 1)]


def distinct_n(sequences: Sequences, n: int) -> float:
    found = [gram for tokens in sequences for gram in ngrams(tokens, n)]
    return len(set(found)) / len(found) if found else math.nan


def bleu(tokens: Tokens, references: Sequences, n: int, smoothing: str) -> float:
    """Papineni et al. 2002: clipped precisions, the closest reference length, the shorter of two."""
    if not tokens:
        return 0.0
    log = 0.0
    for order in range(1, n + 1):
        counts = Counter(ngrams(tokens, order))
        others = [Counter(ngrams(reference, order)) for reference in references]
        matched = sum(min(count, max(other[gram] for other in others)) for gram, count in counts.items())
        more = int(smoothing == "add-one" and order > 1)
        total = sum(counts.values()) + more
        if matched + more == 0 or total == 0:
            return 0.0
        log += math.log((matched + more) / total) / n
    closest = min((abs(len(reference) - len(tokens)), len(reference)) for reference in references)[1]
    return math.exp(log + min(0.0, 1 - closest / len(tokens)))


def self_bleu(sequences: Sequences, n: int, smoothing: str) -> list[float]:
    if len(sequences) < 2:
        return [math.nan] * len(sequences)
    others = [[*sequences[:at], *sequences[at + 1 :]] for at in range(len(sequences))]
    return [bleu(tokens, rest, n, smoothing) for tokens, rest in zip(sequences, others, strict=True)]


def cosine(a: Counter[Hashable], b: Counter[Hashable]) -> float:
    lengths = [math.sqrt(sum(count**2 for count in counts.values())) for counts in (a, b)]
    return sum(count * b[gram] for gram, count in a.items()) / math.prod(lengths)


def similarity(sequences: Sequences, n: int) -> np.ndarray:
    counts = [counted for tokens in sequences if (counted := Counter(ngrams(tokens, n)))]
    return np.array([[cosine(a, b) for b in counts] for a in counts]).reshape(len(counts), len(counts))


def vendi(similarity: np.ndarray, order: int) -> float:
    if not len(similarity):
        return math.nan
    values = np.linalg.eigvalsh(similarity / len(similarity))
    if order == 2:
        return 1 / float(np.sum(values**2))
    return math.exp(-sum(value * math.log(value) for value in values if value > 1e-14))


def pass_at_k(n: int, c: int, k: int) -> float:
    return math.nan if n < k else float(1 - Fraction(math.comb(n - c, k), math.comb(n, k)))


def best_at_k(rewards: Sequence[float], k: int) -> float:
    """The mean of the largest over every set of k."""
    sets = list(itertools.combinations([reward for reward in rewards if not math.isnan(reward)], k))
    return math.fsum(max(chosen) for chosen in sets) / len(sets) if sets else math.nan


def entropy(weights: Sequence[float]) -> float:
    total = math.fsum(weights)
    if total == 0:
        return math.nan
    return -math.fsum(weight / total * math.log(weight / total) for weight in weights if weight)


def gini(weights: Sequence[float]) -> float:
    if math.fsum(weights) == 0:
        return math.nan
    mean = math.fsum(weights) / len(weights)
    return math.fsum(abs(a - b) for a in weights for b in weights) / (2 * len(weights) ** 2 * mean)


def mutual_information(inputs: Sequence[int], outputs: Sequence[int]) -> float:
    """H(Y) - H(Y | X), which is not how the kernel sums it."""
    both = [(x, y) for x, y in zip(inputs, outputs, strict=True) if x >= 0 and y >= 0]
    if not both:
        return math.nan
    within = 0.0
    for x in {x for x, _ in both}:
        answers = Counter(y for other, y in both if other == x)
        within += sum(answers.values()) / len(both) * entropy(list(answers.values()))
    return entropy(list(Counter(y for _, y in both).values())) - within
