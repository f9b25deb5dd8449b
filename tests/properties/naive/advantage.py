"""Advantages by their formulas, one group and one row after another, in plain Python."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np

from tests.properties.naive.filter import differ

NAN = math.nan


def members(ids: Any) -> list[list[int]]:
    """The rows of each group; a negative id is none."""
    found: dict[int, list[int]] = defaultdict(list)
    for row, group in enumerate(ids):
        if group >= 0:
            found[int(group)].append(row)
    return list(found.values())


def present(values: Any, rows: Any) -> list[float]:
    return [float(values[row]) for row in rows if not math.isnan(values[row])]


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def std(values: list[float], ddof: int) -> float:
    about = mean(values)
    if len(values) <= ddof:
        return NAN
    return math.sqrt(math.fsum((value - about) ** 2 for value in values) / (len(values) - ddof))


def by_group(rewards: Any, ids: Any, formula: Any) -> Any:
    """`formula(reward, present rewards of its group)` for each row with both; 0 in a group of equal rewards."""
    out = np.full(len(rewards), NAN)
    for rows in members(ids):
        values = present(rewards, rows)
        for row in rows:
            if not math.isnan(rewards[row]):
                out[row] = formula(float(rewards[row]), values) if differ(values) else 0.0
    return out


def centre(rewards: Any, ids: Any) -> Any:
    return by_group(rewards, ids, lambda reward, values: reward - mean(values))


def zscore(rewards: Any, ids: Any, ddof: int, eps: float) -> Any:
    return by_group(rewards, ids, lambda reward, values: (reward - mean(values)) / (std(values, ddof) + eps))


def everyone(rewards: Any, ids: Any) -> list[float]:
    return [float(r) for r, group in zip(rewards, ids, strict=True) if group >= 0 and not math.isnan(r)]


def zscore_batch(rewards: Any, ids: Any, ddof: int, eps: float) -> Any:
    divisor = std(everyone(rewards, ids), ddof) + eps if everyone(rewards, ids) else NAN
    return by_group(rewards, ids, lambda reward, values: (reward - mean(values)) / divisor)


def zscore_global(rewards: Any, ids: Any, ddof: int, eps: float) -> Any:
    return zscore(rewards, np.where(np.asarray(ids) >= 0, 0, -1), ddof, eps)


def leave_one_out(rewards: Any, ids: Any) -> Any:
    def others(reward: float, values: list[float]) -> float:
        return reward - (math.fsum(values) - reward) / (len(values) - 1)

    return by_group(rewards, ids, others)


def maxrl(rewards: Any, ids: Any, eps: float) -> Any:
    def one(reward: float, values: list[float]) -> float:
        about = mean(values)
        return (reward - about) / (about + eps)

    return by_group(rewards, ids, one)


def partition_baseline(rewards: Any, ids: Any, b: float) -> Any:
    def one(reward: float, values: list[float]) -> float:
        return reward - soft_value(values, b)

    return by_group(rewards, ids, one)


def soft_value(values: list[float], b: float) -> float:
    """With the digits that a b near 0 takes from the logarithm of a mean near 1."""
    top = max(values)
    return top + math.log1p(mean([math.expm1(b * (value - top)) for value in values])) / b


def shrunk(rewards: Any, ids: Any, strength: float, floor: float, min_count: int) -> Any:
    out, whole = np.full(len(rewards), NAN), everyone(rewards, ids)
    for rows in members(ids):
        values = present(rewards, rows)
        if not values:
            continue
        baseline = (math.fsum(values) + strength * mean(whole)) / (len(values) + strength)
        scale = max(std(values if len(values) >= min_count else whole, 0), floor)
        for row in rows:
            out[row] = (rewards[row] - baseline) / scale
    return out


def gdpo(columns: list[Any], weights: list[float], ids: Any, ddof: int, eps: float, batch: bool) -> Any:
    sums = np.full(len(ids), NAN)
    for column, weight in zip(columns, weights, strict=True):
        for row, score in enumerate(zscore(column, ids, ddof, eps)):
            if not math.isnan(score):
                sums[row] = weight * score + (0.0 if math.isnan(sums[row]) else sums[row])
    return zscore(sums, np.zeros(len(sums), dtype=int), ddof, eps) if batch else sums


def whiten(values: Any, mask: Any, ddof: int, eps: float) -> Any:
    kept = [float(v) for v, keep in zip(values, mask, strict=True) if keep and not math.isnan(v)]
    out = np.where(np.isnan(values) & mask, NAN, 0.0)
    if differ(kept):
        scale = math.sqrt(std(kept, ddof) ** 2 + eps)
        for at, value in enumerate(values):
            if mask[at]:
                out[at] = (value - mean(kept)) / scale
    return out


def returns(rewards: Any, lengths: list[int], gamma: float) -> Any:
    out, begin = np.zeros(len(rewards)), 0
    for length in lengths:
        for at in range(begin, begin + length):
            ahead = [gamma ** (k - at) * rewards[k] for k in range(at, begin + length) if k == at or gamma > 0]
            out[at] = math.fsum(ahead)
        begin += length
    return out


def ema(rewards: Any, ids: Any, alpha: float, start: float) -> tuple[Any, dict[int, float]]:
    out, state = np.full(len(rewards), NAN), dict[int, float]()
    for row, (reward, group) in enumerate(zip(rewards, ids, strict=True)):
        if group >= 0:
            baseline = state.setdefault(int(group), start)
            out[row] = reward - baseline
            if not math.isnan(reward):
                state[int(group)] = (1 - alpha) * baseline + alpha * float(reward)
    return out, state


def gigpo(rewards: Any, lengths: list[int], groups: Any, states: Any, how: Any) -> tuple[Any, Any]:
    owner = np.repeat(np.arange(len(lengths)), lengths)
    totals = np.array([math.fsum(rewards[owner == n]) if (owner == n).any() else 0.0 for n in range(len(lengths))])
    norm = centre if how["norm"] == "mean" else lambda x, ids: zscore(x, ids, how["ddof"], how["eps"])
    if how["unit"] == "trajectory":
        episode = norm(totals, groups)[owner]
    else:
        episode = norm(totals[owner], np.asarray(groups)[owner])
    pairs = [(int(groups[owner[u]]), int(state)) for u, state in enumerate(states)]
    names = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
    anchors = [names[pair] if pair[0] >= 0 else -1 for pair in pairs]
    return episode, norm(returns(rewards, lengths, how["gamma"]), anchors)


def empg(advantages: Any, entropies: Any, lengths: list[int], fades: tuple[float, ...]) -> Any:
    fade, bonus_fade, bonus, eps = fades
    low, span = min(entropies), max(entropies) - min(entropies)
    levels = [(entropy - low) / (span + eps) if span else 0.0 for entropy in entropies]
    gain = mean([math.exp(-fade * level) for level in levels]) + eps
    out = np.array([a * math.exp(-fade * h) / gain for a, h in zip(advantages, levels, strict=True)])
    end = 0
    for length in lengths:
        end += length
        for at in range(end - length, end - 1):
            out[at] += bonus * math.exp(-bonus_fade * levels[at + 1])
    return out - mean(present(out, range(len(out))))


def trl(values: list[float]) -> list[float]:
    """Unscorable rows are left out and get 0; a deviation of one number is NaN, which becomes 0 too."""
    kept = [value for value in values if not math.isnan(value)]
    if len(kept) < 2:
        return [0.0] * len(values)
    found = [(value - mean(kept)) / (std(kept, 1) + 1e-4) for value in values]
    return [0.0 if math.isnan(value) else value for value in found]


def verl(values: list[float]) -> list[float]:
    """A group of one has mean 0 and deviation 1; a NaN goes through mean and deviation."""
    about, scale = (0.0, 1.0) if len(values) == 1 else (float(np.mean(values)), float(np.std(values, ddof=1)))
    return [(value - about) / (scale + 1e-6) for value in values]


def openrlhf(values: list[float]) -> list[float]:
    """`torch.std` of one number is NaN."""
    scale = float(np.std(values, ddof=1)) if len(values) > 1 else NAN
    return [(value - float(np.mean(values))) / (scale + 1e-9) for value in values]


def mlx_lm_lora(values: list[float]) -> list[float]:
    """A row whose rewards are all NaN raised before."""
    if len(values) == 1:
        return [0.0]
    return [(value - float(np.mean(values))) / (float(np.std(values)) + 1e-4) for value in values]


def centred(values: list[float]) -> list[float]:
    """What tinker-cookbook and prime-rl do."""
    return [value - float(np.mean(values)) for value in values]


CONVENTIONS = {
    "trl": trl,
    "verl": verl,
    "openrlhf": openrlhf,
    "mlx_lm_lora": mlx_lm_lora,
    "tinker": centred,
    "prime_rl": centred,
}


def by_convention(name: str, rewards: Any, ids: Any) -> Any:
    out = np.full(len(rewards), NAN)
    for rows in members(ids):
        out[rows] = CONVENTIONS[name]([float(rewards[row]) for row in rows])
    return out
