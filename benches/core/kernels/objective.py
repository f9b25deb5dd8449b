"""Every recipe of `karl_fast.objective` on 8 M tokens beside the floor of its memory traffic.

The floor reads the inputs of the recipe twice and writes the coefficients once, with NumPy on one core. ``--accuracy``
prints the largest difference of float32 from float64 instead, as a share of the largest coefficient.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from timing import SMOKE, table

from karl_fast.objective import Batch, OnPolicy, Scored, recipe
from karl_fast.objective.recipes import RECIPES

ROWS, WIDTH = (64, 128) if SMOKE else (8192, 1024)
GROUP = 8


def batch(dtype: Any) -> tuple[Batch, Any]:
    """Rollouts of a quarter to all of the width, in groups of 8; log ratios of a few hundredths."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(WIDTH // 4, WIDTH + 1, ROWS)
    mask = np.arange(WIDTH)[None, :] < lengths[:, None]
    old = -rng.exponential(1.0, mask.shape)
    turns = np.where(mask, np.arange(WIDTH)[None, :] // (WIDTH // 8), -1)
    counts = turns.max(1) + 1
    rewards = rng.integers(0, 2, ROWS).astype(np.float64)
    held = Batch(
        mask=mask,
        rewards=rewards,
        group_ids=np.repeat(np.arange(ROWS // GROUP), GROUP),
        logp_old=old.astype(dtype),
        logp_ref=(old + rng.normal(0, 0.05, old.shape)).astype(dtype),
        advantages=rng.normal(0, 1, ROWS),
        truncated=np.zeros(ROWS, dtype=np.bool_),
        turns=turns,
        turn_rewards=rng.normal(0, 1, counts.sum()),
        turn_offsets=np.concatenate([[0], np.cumsum(counts)]),
        state_ids=rng.integers(0, 50, counts.sum()),
        set_ids=np.arange(ROWS) // 2,
        reward_vectors=rng.uniform(size=(ROWS, 3)),
        ages=np.arange(ROWS) % 5,
        token_rewards=rng.integers(0, 2, mask.shape).astype(dtype),
        tokens=rng.integers(0, 50, mask.shape),
    )
    return held, (old + rng.normal(0, 0.05, old.shape)).astype(dtype)


def inputs(name: str, scored: Scored, logp: Any) -> list[Any]:
    """The arrays [B, T] that a recipe reads."""
    objective: Any = recipe(name).objective
    points = objective.axes()
    anchor = getattr(points.get("anchor"), "column", None)
    found = [logp, scored.mask]
    if not isinstance(points.get("ratio"), OnPolicy | None) or anchor == "logp_old" or "weight" in points:
        found.append(scored.logp_old)
    if getattr(points.get("kl"), "in_loss", False) or anchor == "logp_ref":
        found.append(scored.logp_ref)
    if scored.advantages is not None and scored.advantages.shape[1] > 1:
        found.append(scored.advantages)
    return [array for array in found if array is not None]


def floor(arrays: list[Any], out: Any) -> None:
    """Read the arrays twice and write another once."""
    for _ in range(2):
        for array in arrays:
            np.bitwise_or.reduce(array.view(np.uint8).reshape(-1).view(np.uint64))
    out.fill(0.5)


def seen(scored: Scored) -> Scored:
    """A scored batch without the behaviour policy, which costs a likelihood a pass for its statistics."""
    return replace(scored, logp_old=None)


def main() -> None:
    held, logp = batch(np.float32)
    out = np.empty_like(logp)
    for name, found in RECIPES.items():
        objective = found.objective
        scored = objective.score(held)
        if type(objective).__name__ == "WeightedLikelihood" or isinstance(getattr(objective, "ratio", None), OnPolicy):
            scored = seen(scored)
        more: dict[str, Any] = {"log_z": np.zeros(ROWS)} if objective.learns_log_z else {}
        mine = partial(objective, logp, scored, **more)
        table(
            f"objective {found.name}, {ROWS * WIDTH} tokens, float32",
            {"karl_fast": mine, "floor": partial(floor, inputs(name, scored, logp), out)},
        )


def accuracy() -> None:
    (single, logp), (double, _) = batch(np.float32), batch(np.float64)
    double = replace(double, logp_old=single.logp_old.astype(np.float64), logp_ref=single.logp_ref.astype(np.float64))
    print("| recipe | loss | coefficients |\n|---|---|---|")
    for found in RECIPES.values():
        objective = found.objective
        more: dict[str, Any] = {"log_z": np.zeros(ROWS)} if objective.learns_log_z else {}
        one = objective(logp, objective.score(single), **more)
        other = objective(logp.astype(np.float64), objective.score(double), **more)
        scale = np.abs(other.coefficients).max()
        apart = np.abs(one.coefficients - other.coefficients).max() / scale
        print(f"| {found.name} | {abs(one.loss - other.loss) / abs(other.loss):.1e} | {apart:.1e} |")


if __name__ == "__main__":
    if "--accuracy" in sys.argv:
        accuracy()
    else:
        main()
