"""Group advantages beside NumPy, torch, numba, polars, pandas and loops, on the same arrays.

Run: python benches/core/kernels/advantage.py [--smoke]
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numba
import numpy as np
import pandas as pd
import polars as pl
import torch
from timing import SMOKE, table

from karl_fast import advantage

SIZE = 8  # rollouts a group
EPS = 1e-6
ROWS = 80_000 if SMOKE else 10_000_000
LOOPED = 800 if SMOKE else 20_000  # a row of a loop takes microseconds
CLOSE = 1e-9


def numpy_view(rewards: Any) -> Any:
    table = rewards.reshape(-1, SIZE)
    about = table.mean(axis=1, keepdims=True)
    return ((table - about) / (table.std(axis=1, ddof=1, keepdims=True) + EPS)).ravel()


def numpy_bincount(rewards: Any, ids: Any) -> Any:
    count = np.bincount(ids)
    about = np.bincount(ids, weights=rewards) / count
    far = rewards - about[ids]
    scale = np.sqrt(np.bincount(ids, weights=far * far) / (count - 1))
    return far / (scale[ids] + EPS)


def torch_view(rewards: Any) -> Any:
    table = rewards.view(-1, SIZE)
    return ((table - table.mean(1, keepdim=True)) / (table.std(1, keepdim=True) + EPS)).view(-1)


def torch_index_add(rewards: Any, ids: Any, groups: int) -> Any:
    zeros = torch.zeros(groups, dtype=rewards.dtype)
    count = zeros.index_add(0, ids, torch.ones_like(rewards))
    about = zeros.index_add(0, ids, rewards) / count
    far = rewards - about[ids]
    scale = (zeros.index_add(0, ids, far * far) / (count - 1)).sqrt()
    return far / (scale[ids] + EPS)


@numba.njit
def numba_loop(rewards: Any, ids: Any, groups: int) -> Any:
    count, about, squares = np.zeros(groups), np.zeros(groups), np.zeros(groups)
    for row in range(len(rewards)):
        count[ids[row]] += 1
        about[ids[row]] += rewards[row]
    about /= count
    out = np.empty_like(rewards)
    for row in range(len(rewards)):
        squares[ids[row]] += (rewards[row] - about[ids[row]]) ** 2
    for row in range(len(rewards)):
        group = ids[row]
        out[row] = (rewards[row] - about[group]) / (np.sqrt(squares[group] / (count[group] - 1)) + EPS)
    return out


def polars_over(frame: Any) -> Any:
    reward = pl.col("reward")
    return frame.select((reward - reward.mean().over("group")) / (reward.std().over("group") + EPS))


def pandas_transform(frame: Any) -> Any:
    groups = frame.groupby("group")["reward"]
    return (frame["reward"] - groups.transform("mean")) / (groups.transform("std") + EPS)


def per_record(rewards: Any, ids: Any) -> Any:
    """The form of verl: a dictionary of lists of tensors."""
    seen = defaultdict(list)
    for row in range(len(ids)):
        seen[ids[row]].append(rewards[row])
    about = {group: torch.mean(torch.stack(members)) for group, members in seen.items()}
    scale = {group: torch.std(torch.stack(members)) for group, members in seen.items()}
    out = torch.empty_like(rewards)
    for row in range(len(ids)):
        out[row] = (rewards[row] - about[ids[row]]) / (scale[ids[row]] + EPS)
    return out


def plain(rewards: Any, ids: Any) -> Any:
    """Lists of floats."""
    seen = defaultdict(list)
    for reward, group in zip(rewards, ids, strict=True):
        seen[group].append(reward)
    fits = {}
    for group, members in seen.items():
        about = sum(members) / len(members)
        fits[group] = about, (sum((r - about) ** 2 for r in members) / (len(members) - 1)) ** 0.5 + EPS
    return [(reward - fits[group][0]) / fits[group][1] for reward, group in zip(rewards, ids, strict=True)]


def agree(contenders: dict[str, Any], wanted: Any) -> dict[str, Any]:
    for name, call in contenders.items():
        np.testing.assert_allclose(np.asarray(call()).ravel(), wanted, rtol=CLOSE, atol=CLOSE, err_msg=name)
    return contenders


def contiguous(rewards: Any) -> None:
    offsets = np.arange(0, ROWS + 1, SIZE)
    tensor, single = torch.from_numpy(rewards), rewards.astype(np.float32)
    contenders = {
        "karl-fast": lambda: advantage.zscore(rewards, offsets=offsets, ddof=1, eps=EPS),
        "numpy view": lambda: numpy_view(rewards),
        "torch view": lambda: torch_view(tensor),
    }
    agree(contenders, numpy_view(rewards))
    contenders["karl-fast, f32"] = lambda: advantage.zscore(single, offsets=offsets, ddof=1, eps=EPS)
    table(f"groups of {SIZE} end to end, {ROWS} rows", contenders)


def shuffled(rewards: Any) -> None:
    groups = ROWS // SIZE
    ids = np.random.default_rng(2).permutation(np.repeat(np.arange(groups), SIZE))
    tensor, numbers = torch.from_numpy(rewards), torch.from_numpy(ids)
    columns = {"reward": rewards, "group": ids}
    frame, rows = pl.DataFrame(columns), pd.DataFrame(columns)
    contenders = {
        "karl-fast": lambda: advantage.zscore(rewards, ids, ddof=1, eps=EPS),
        "numba loop": lambda: numba_loop(rewards, ids, groups),
        "torch index_add": lambda: torch_index_add(tensor, numbers, groups),
        "numpy bincount": lambda: numpy_bincount(rewards, ids),
        "polars over": lambda: polars_over(frame),
        "pandas transform": lambda: pandas_transform(rows),
    }
    table(f"groups of {SIZE} shuffled, {ROWS} rows", agree(contenders, numpy_bincount(rewards, ids)), rounds=3)


def records(rewards: Any) -> None:
    """Per record: the loops are linear, so a part of the rows is enough for them."""
    rewards, ids = rewards[:LOOPED], np.repeat(np.arange(LOOPED // SIZE), SIZE)
    tensor, names = torch.from_numpy(rewards), ids.tolist()
    contenders = {
        "karl-fast": lambda: advantage.zscore(rewards, ids, ddof=1, eps=EPS),
        "Python lists": lambda: plain(rewards.tolist(), names),
        "a tensor a record, as verl": lambda: per_record(tensor, names),
    }
    table(f"groups of {SIZE}, {LOOPED} records", agree(contenders, numpy_view(rewards)), rounds=3)


def main() -> None:
    rewards = np.random.default_rng(1).random(ROWS)
    contiguous(rewards)
    shuffled(rewards)
    records(rewards)


if __name__ == "__main__":
    main()
