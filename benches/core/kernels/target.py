"""Log partitions beside NumPy, SciPy, torch and polars: whole, and by segments of eight.

Contenders run on the threads they find; ``taskset -c 0`` gives one to each.
"""

from __future__ import annotations

import os

import numpy as np
import timing

from karl_fast import kl, target

ROWS = 100_000 if timing.SMOKE else 10_000_000
GROUP = 8


def numpy_whole(values: np.ndarray) -> float:
    top = values.max()
    return float(top + np.log(np.exp(values - top).sum()))


def numpy_rows(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    tops = np.maximum.reduceat(values, starts)
    weights = np.exp(values - np.repeat(tops, GROUP))
    return tops + np.log(np.add.reduceat(weights, starts))


def whole(values: np.ndarray) -> None:
    single = values.astype(np.float32)
    contenders = {
        "karl_fast f64": lambda: target.log_sum_exp(values),
        "karl_fast f32": lambda: target.log_sum_exp(single),
        "numpy": lambda: numpy_whole(values),
    }
    try:
        import torch

        torch.set_num_threads(len(os.sched_getaffinity(0)))
        tensor = torch.from_numpy(values)
        contenders["torch"] = lambda: float(torch.logsumexp(tensor, 0))
    except ImportError:
        pass
    try:
        from scipy.special import logsumexp

        contenders["scipy"] = lambda: float(logsumexp(values))
    except ImportError:
        pass
    found = [call() for call in contenders.values()]
    np.testing.assert_allclose(found, found[0], rtol=1e-6)
    timing.table(f"log-sum-exp of {ROWS:,} values", contenders)


def rows(values: np.ndarray) -> None:
    offsets = np.arange(0, ROWS + 1, GROUP, dtype=np.int64)
    ids = np.repeat(np.arange(ROWS // GROUP, dtype=np.int64), GROUP)
    starts = offsets[:-1].copy()
    contenders = {
        "karl_fast offsets": lambda: target.log_sum_exp_by(values, offsets=offsets),
        "karl_fast ids": lambda: target.log_sum_exp_by(values, ids),
        "numpy reduceat": lambda: numpy_rows(values, starts),
    }
    try:
        import torch

        table = torch.from_numpy(values).view(-1, GROUP)
        contenders["torch view"] = lambda: torch.logsumexp(table, 1).numpy()
    except ImportError:
        pass
    try:
        import polars as pl

        frame = pl.DataFrame({"id": ids, "x": values})
        shifted = pl.col("x").max() + (pl.col("x") - pl.col("x").max()).exp().sum().log()
        contenders["polars group_by"] = lambda: frame.group_by("id", maintain_order=True).agg(shifted)["x"].to_numpy()
    except ImportError:
        pass
    first, *others = [call() for call in contenders.values()]
    for other in others:
        np.testing.assert_allclose(first, other, rtol=1e-9)
    timing.table(f"log-sum-exp of {ROWS // GROUP:,} groups of {GROUP}", contenders)


def divergences(values: np.ndarray) -> None:
    logits, reference = (values[: ROWS // 2], values[ROWS // 2 :])
    vocabulary = 50_000
    shape = (len(logits) // vocabulary, vocabulary)
    logits, reference = logits.reshape(shape), reference.reshape(shape)
    contenders = {"karl_fast": lambda: kl.categorical(logits, reference)}
    try:
        import torch

        p, q = torch.from_numpy(logits), torch.from_numpy(reference)

        def by_torch() -> np.ndarray:
            log_p, log_q = torch.log_softmax(p, 1), torch.log_softmax(q, 1)
            return (log_p.exp() * (log_p - log_q)).sum(1).numpy()

        contenders["torch"] = by_torch
    except ImportError:
        pass
    found = [call() for call in contenders.values()]
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, rtol=1e-9)
    timing.table(f"exact divergence of {shape[0]:,} rows of {vocabulary:,}", contenders)


def main() -> None:
    values = np.random.default_rng(0).normal(0, 3, ROWS)
    whole(values)
    rows(values)
    divergences(values)


if __name__ == "__main__":
    main()
