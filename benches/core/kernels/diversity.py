"""Measures of diversity beside plain Python and NumPy: `python benches/core/kernels/diversity.py [--smoke]`."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
from timing import SMOKE, table

from karl_fast import diversity

SEQUENCES = 200 if SMOKE else 20_000
TOOLS = 30
COMPARED = 20 if SMOKE else 400
"""Sequences of the contenders that compare each two."""


def sequences(count: int, length: int, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(7)
    lengths = generator.poisson(length, count)
    return generator.integers(0, tokens, lengths.sum()), np.cumsum([0, *lengths])


def rows(tokens: np.ndarray, offsets: np.ndarray) -> list[list[int]]:
    plain, ends = tokens.tolist(), offsets.tolist()
    return [plain[start:end] for start, end in itertools.pairwise(ends)]


def ngrams(row: list[int], n: int) -> list[tuple[int, ...]]:
    return list(zip(*(row[at:] for at in range(n)), strict=False))


def distinct(lists: list[list[int]], n: int) -> float:
    grams = [gram for row in lists for gram in ngrams(row, n)]
    return len(set(grams)) / len(grams)


def self_bleu(lists: list[list[int]], n: int) -> float:
    """BLEU of each with all others, as NLTK counts it: every reference is looked at for every sequence."""
    counts = [[Counter(ngrams(row, order)) for order in range(1, n + 1)] for row in lists]
    scores = []
    for at, row in enumerate(lists):
        others = [other for other in range(len(lists)) if other != at]
        closest = min((abs(len(lists[other]) - len(row)), len(lists[other])) for other in others)[1]
        log = min(0.0, 1 - closest / len(row))
        for order, mine in enumerate(counts[at]):
            best = [max(counts[other][order][gram] for other in others) for gram in mine]
            matched = sum(map(min, mine.values(), best))
            log += math.log(matched / mine.total()) / n if matched else -math.inf
        scores.append(math.exp(log))
    return sum(scores) / len(scores)


def vendi(vectors: np.ndarray) -> float:
    """Order 2 by the whole matrix of cosines."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    kernel = unit @ unit.T
    return float(len(kernel) ** 2 / np.vdot(kernel, kernel))


def counted(tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Counts of pairs of tools, dense."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    inside = owner[1:] == owner[:-1]
    counts = np.zeros((len(offsets) - 1, TOOLS * TOOLS))
    np.add.at(counts, (owner[1:][inside], (tokens[:-1] * TOOLS + tokens[1:])[inside]), 1.0)
    return counts


def main() -> None:
    tools, texts = sequences(SEQUENCES, 25, TOOLS), sequences(SEQUENCES // 20, 500, 100_000)
    for name, columns in (("tools", tools), ("texts", texts)):
        lists = rows(*columns)
        assert diversity.distinct_n(*columns, 2) == distinct(lists, 2)
        table(
            f"distinct-2 of {name}, {len(columns[0]):,} tokens",
            {"karl_fast": lambda c=columns: diversity.distinct_n(*c, 2), "set": lambda rows=lists: distinct(rows, 2)},
        )
    few = tools[0][: tools[1][COMPARED]], tools[1][: COMPARED + 1]
    lists = rows(*few)
    assert math.isclose(diversity.self_bleu(*few).mean(), self_bleu(lists, 4), rel_tol=1e-9)
    table(
        f"self-BLEU-4 of {COMPARED} of them; of all {SEQUENCES:,}",
        {
            "karl_fast": lambda: diversity.self_bleu(*few),
            "each with all": lambda: self_bleu(lists, 4),
            "karl_fast, all": lambda: diversity.self_bleu(*tools),
        },
    )
    part = tools[0][: tools[1][SEQUENCES // 5]], tools[1][: SEQUENCES // 5 + 1]
    assert math.isclose(diversity.vendi_ngrams(*part, order=2), vendi(counted(*part)), rel_tol=1e-9)
    table(
        f"Vendi of tool pairs, {SEQUENCES // 5:,} sequences; of all {SEQUENCES:,}",
        {
            "order 2": lambda: diversity.vendi_ngrams(*part, order=2),
            "order 2, NumPy's n x n": lambda: vendi(counted(*part)),
            "order 1": lambda: diversity.vendi_ngrams(*part),
            "order 2, all": lambda: diversity.vendi_ngrams(*tools, order=2),
        },
    )
    vectors = np.random.default_rng(3).normal(size=(SEQUENCES // 5, 256)).astype(np.float32)
    assert math.isclose(diversity.vendi(vectors, order=2), vendi(vectors.astype(float)), rel_tol=1e-9)
    table(
        f"Vendi of {len(vectors):,} vectors of 256",
        {
            "order 2": lambda: diversity.vendi(vectors, order=2),
            "order 2, NumPy's n x n": lambda: vendi(vectors.astype(float)),
            "order 1": lambda: diversity.vendi(vectors),
        },
    )
    rewards, groups = np.random.default_rng(4).random(SEQUENCES * 50), np.repeat(np.arange(SEQUENCES * 50 // 16), 16)
    rewards = rewards[: len(groups)]
    weights = np.array([math.comb(i - 1, 3) for i in range(1, 17)]) / math.comb(16, 4)
    assert np.allclose(diversity.best_at_k(rewards, groups, k=4), np.sort(rewards.reshape(-1, 16)) @ weights)
    table(
        f"best@4 of {len(rewards):,} rewards in groups of 16",
        {
            "karl_fast, any groups": lambda: diversity.best_at_k(rewards, groups, k=4),
            "NumPy, equal groups": lambda: np.sort(rewards.reshape(-1, 16)) @ weights,
        },
    )


if __name__ == "__main__":
    main()
