"""Twins of the samplers: lists, loops, and nothing kept from one row to the next."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterator

ALIAS, DROP, STREAM = 6, 7, 5


def uniform(seed: int, index: int, ordinal: int, purpose: int) -> float:
    key = b"".join(word.to_bytes(8, "little") for word in (index, 0, ordinal, purpose))
    return ((xxhash.xxh3_64_intdigest(key, seed=seed) >> 12) + 0.5) * 2.0**-52


def stream(seed: int) -> Iterator[float]:
    index = 0
    while True:
        yield uniform(seed, index, 0, STREAM)
        index += 1


def threshold(weights: list[float], k: int) -> float:
    """The one tau among those of 0, 1, ... certain rows at which the certain rows are those above it."""
    falling = sorted((weight for weight in weights if weight > 0), reverse=True)
    if len(falling) <= k:
        return 0.0
    for certain in range(k):
        tau = math.fsum(falling[certain:]) / (k - certain)
        if falling[certain] <= tau:
            return tau
    raise AssertionError("one of them has to do")


def priority(weights: list[float], k: int, uniforms: list[float]) -> tuple[list[int], float]:
    ranks = {row: weights[row] / uniforms[row] for row in range(len(weights)) if weights[row] > 0}
    falling = sorted(ranks, key=lambda row: (-ranks[row], row))
    return falling[:k], ranks[falling[k]] if len(falling) > k else 0.0


def var_opt(weights: list[float], k: int, uniforms: list[float]) -> tuple[dict[int, float], float]:
    """What each row held counts for, and tau."""
    heavy: list[tuple[float, int]] = []
    light: list[int] = []
    total = tau = 0.0
    for row, (weight, u) in enumerate(zip(weights, uniforms, strict=True)):
        if weight == 0:
            continue
        if len(heavy) + len(light) < k:
            heavy.append((weight, row))
            continue
        fresh = [] if weight > tau else [(weight, row)]
        heavy = sorted(heavy + ([(weight, row)] if weight > tau else []))
        total += math.fsum(one for one, _ in fresh)
        while heavy and total >= (len(light) + len(fresh) - 1) * heavy[0][0]:
            fresh.append(heavy.pop(0))
            total += fresh[-1][0]
        tau = total / (len(light) + len(fresh) - 1)
        drop(fresh, light, tau, u)
        light += [item for _, item in fresh]
    found = {row: weight for weight, row in heavy} | dict.fromkeys(light, tau)
    return found, tau


def drop(fresh: list[tuple[float, int]], light: list[int], tau: float, u: float) -> None:
    """Takes one away: the last stands where it stood."""
    left = u
    for at, (weight, _) in enumerate(fresh):
        left -= 1 - weight / tau
        if left < 0:
            fresh[at] = fresh[-1]
            fresh.pop()
            return
    rest = 1 - sum(1 - weight / tau for weight, _ in fresh)
    at = min(int(left / rest * len(light)), len(light) - 1)
    light[at] = light[-1]
    light.pop()


def weighted_reservoir(pairs: list[tuple[object, float]], k: int, uniforms: Iterator[float]) -> list[object]:
    """A-ExpJ with a list in place of a heap."""
    held: list[tuple[float, object]] = []
    ahead = 0.0
    for item, weight in pairs:
        if weight == 0 or k == 0:
            continue
        if len(held) < k:
            held.append((math.log(next(uniforms)) / weight, item))
            if len(held) == k:
                ahead = math.log(next(uniforms)) / min(held)[0]
            continue
        ahead -= weight
        if ahead <= 0:
            smallest = min(range(k), key=lambda at: held[at][0])
            t = math.exp(weight * held[smallest][0])
            held[smallest] = (math.log(t + (1 - t) * next(uniforms)) / weight, item)
            ahead = math.log(next(uniforms)) / min(key for key, _ in held)
    return [item for _, item in sorted(held, key=lambda one: -one[0])]
