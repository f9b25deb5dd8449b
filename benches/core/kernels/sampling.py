"""Draws beside what NumPy, torch, pandas, polars, DataSketches and plain Python offer.

Run on one core (``taskset -c 0``) for ratios of one thread; torch and polars take every core they are given.
"""

from __future__ import annotations

import heapq
import random
from typing import TYPE_CHECKING, Any

import numpy as np
from timing import SMOKE, table

import karl_fast
from karl_fast import sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

ROWS = 100_000 if SMOKE else 10_000_000
FEW = ROWS // 10


def race(logs: NDArray[np.float64], k: int, dtype: Any) -> Callable[[], object]:
    """The fastest NumPy form: weights of f32, an exponential race, a partition."""
    generator = np.random.default_rng(1)
    weights = np.exp(logs - logs.max()).astype(dtype)

    def call() -> object:
        times = generator.standard_exponential(len(weights), dtype=dtype)
        with np.errstate(divide="ignore", over="ignore"):
            np.divide(times, weights, out=times)
        return np.argpartition(times, k)[:k]

    return call


def gumbel(logs: NDArray[np.float64], k: int) -> Callable[[], object]:
    generator = np.random.default_rng(1)
    return lambda: np.argpartition(-(logs + generator.gumbel(size=len(logs))), k)[:k]


def peers(logs: NDArray[np.float64], k: int) -> dict[str, Callable[[], object]]:
    found: dict[str, Callable[[], object]] = {
        "numpy race f32": race(logs, k, np.float32),
        "numpy race f64": race(logs, k, np.float64),
        "numpy gumbel + argpartition": gumbel(logs, k),
    }
    weights = np.exp(logs - logs.max())
    shares = weights / weights.sum()
    generator = np.random.default_rng(1)
    found["numpy choice(p)"] = lambda: generator.choice(len(logs), k, replace=False, p=shares)
    try:
        import pandas as pd

        frame = pd.Series(np.arange(len(logs)))
        if k * shares.max() < 1:
            found["pandas sample(weights)"] = lambda: frame.sample(k, weights=weights, random_state=1)
    except ImportError:
        pass
    try:
        import torch

        torch.set_num_threads(1)
        tensor = torch.from_numpy(weights)
        if len(logs) <= 1 << 24:
            found["torch multinomial"] = lambda: torch.multinomial(tensor, k, replacement=False)
        scores = torch.from_numpy(logs)
        noise = lambda: -torch.log(torch.empty_like(scores).exponential_())  # noqa: E731
        found["torch gumbel + topk"] = lambda: torch.topk(scores + noise(), k)
    except ImportError:
        pass
    try:
        import polars as pl

        series = pl.Series("log", logs)
        found["polars key + top_k"] = lambda: (
            pl.DataFrame({"key": series + pl.Series(generator.gumbel(size=len(logs)))})
            .with_row_index()
            .top_k(k, by="key")
        )
    except ImportError:
        pass
    return found


def a_res(pairs: Iterable[tuple[object, float]], k: int) -> list[object]:
    """What most would write."""
    held: list[tuple[float, int, object]] = []
    for at, (item, weight) in enumerate(pairs):
        key = random.random() ** (1 / weight)
        if len(held) < k:
            heapq.heappush(held, (key, at, item))
        elif key > held[0][0]:
            heapq.heapreplace(held, (key, at, item))
    return [item for _, _, item in held]


def algorithm_r(items: Iterable[object], k: int) -> list[object]:
    held: list[object] = []
    for at, item in enumerate(items):
        if at < k:
            held.append(item)
        elif (slot := random.randrange(at + 1)) < k:
            held[slot] = item
    return held


def sketch(weights: list[float], k: int) -> object:
    import datasketches

    found = datasketches.var_opt_sketch(k)
    for row, weight in enumerate(weights):
        found.update(row, weight)
    return found


def draws() -> None:
    rewards = np.clip(np.random.default_rng(0).normal(0.6, 0.09, ROWS), 0, 1)
    advantages = (rewards - rewards.mean()) / rewards.std()
    for k, logs, name in ((ROWS // 1000, 15 * rewards, "15 * reward"), (ROWS // 100, advantages, "1 * advantage")):
        ours = {"karl_fast.draw": lambda logs=logs, k=k: karl_fast.draw(logs, k, seed=7)}
        table(f"k of n without replacement: n = {ROWS:,}, k = {k:,}, log w = {name}", ours | peers(logs, k))


def reservoirs() -> None:
    logs = np.random.default_rng(0).normal(size=FEW)
    weights, k = np.exp(logs), FEW // 100
    pairs = list(enumerate(weights.tolist()))
    items = list(range(FEW))
    table(
        f"weighted reservoir: n = {FEW:,}, k = {k:,}",
        {
            "weighted_reservoir (array)": lambda: karl_fast.weighted_reservoir(logs, k, seed=7),
            "weighted_reservoir_of (pairs)": lambda: sampling.weighted_reservoir_of(pairs, k, seed=7),
            "A-Res in Python": lambda: a_res(pairs, k),
        },
    )
    table(
        f"uniform reservoir: n = {FEW:,}, k = {k:,}",
        {
            "reservoir (numbers)": lambda: karl_fast.reservoir(FEW, k, seed=7),
            "reservoir_of (items)": lambda: sampling.reservoir_of(items, k, seed=7),
            "Algorithm R in Python": lambda: algorithm_r(items, k),
        },
    )


def totals() -> None:
    weights = np.random.default_rng(0).pareto(1.5, FEW) + 0.01
    k, plain = FEW // 100, weights.tolist()
    contenders: dict[str, Callable[[], object]] = {
        "draw_var_opt": lambda: sampling.draw_var_opt(weights, k, seed=7),
        "draw_priority": lambda: sampling.draw_priority(weights, k, seed=7),
    }
    try:
        import datasketches  # noqa: F401

        contenders["DataSketches var_opt_sketch"] = lambda: sketch(plain, k)
    except ImportError:
        pass
    table(f"totals: n = {FEW:,}, k = {k:,}", contenders)


def tables() -> None:
    logs = np.random.default_rng(0).normal(size=FEW)
    alias = sampling.Alias(logs)
    shares = np.exp(logs) / np.exp(logs).sum()
    generator = np.random.default_rng(1)
    table(
        f"with replacement: {FEW:,} draws of {FEW:,} rows",
        {
            "Alias.draw": lambda: alias.draw(FEW, seed=7),
            "Alias built and drawn": lambda: sampling.Alias(logs).draw(FEW, seed=7),
            "numpy choice(p)": lambda: generator.choice(FEW, FEW, p=shares),
        },
    )


if __name__ == "__main__":
    draws()
    reservoirs()
    totals()
    tables()
