"""How token reversal is learned online: the reward by round, ours beside the same loop in PyTorch.

    python benches/rl/learning.py [--smoke]

The two loops of online.py on five seeds: three of eight symbols, 400 rounds. What is kept, in record/online.json, is
the mean reward of each stretch of ten rounds, and the exact match at the end; the figure is learning.svg. Seeds
are not paired: the same one begins at other weights in each of the two. `--smoke` makes two rounds of two seeds.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import online
from by_torch import by_torch
from reversing import Task

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
import trials

import record

SEEDS, ROUNDS = (2, 2) if trials.SMOKE else (5, 400)
SYMBOLS, STRETCH, LEARNED = 3, 10, 0.95


class CachedPrefix:
    """A viewer that keeps the reward of each round."""

    def __init__(self) -> None:
        self.rewards: list[float] = []

    def on_start(self, run: Any) -> None:
        """Nothing to keep yet."""

    def on_round(self, metrics: dict[str, Any], *_: Any) -> None:
        """A round is over."""
        self.rewards.append(metrics["outcome"])


def learned(loop: str, seed: int) -> dict[str, Any]:
    """The rewards of a run by stretch, when they reach 0.95, and its exact match."""
    task, heard = Task(ROUNDS, SYMBOLS, wide=False), CachedPrefix()
    if loop == "karl-fast":
        exact = online.ours(seed, task, heard)
    else:
        *heard.rewards, exact = by_torch(seed, task)
    rewards = trials.stretches(heard.rewards, STRETCH)
    there = np.flatnonzero(np.array(rewards) >= LEARNED)
    rounds = (int(there[0]) + 1) * STRETCH if len(there) else None
    return {"loop": loop, "seed": seed, "exact": exact, "rounds_to_learn": rounds, "rewards": rewards}


def main() -> None:
    sys.path.insert(0, str(online.REVERSAL.parent))
    loops = ["karl-fast", *(["PyTorch"] if importlib.util.find_spec("torch") else [])]
    lines = []
    for seed in range(SEEDS):
        for loop in loops:
            lines.append(learned(loop, seed))
            print(json.dumps(lines[-1]), flush=True)
    setting = {"rounds": ROUNDS, "symbols": SYMBOLS, "rounds_a_stretch": STRETCH, "learned_at": LEARNED}
    if not trials.SMOKE:
        record.put("online", "learning", {"machine": record.facts(), **setting, "lines": lines})
    trials.figure("learning", lambda axis: picture(lines, axis), 1)


def picture(lines: list[dict[str, Any]], axis: Any) -> None:
    """Every seed, and the mean of each loop."""
    for colour, loop in zip(trials.COLOURS, dict.fromkeys(line["loop"] for line in lines), strict=False):
        trials.seeds(axis, [line["rewards"] for line in lines if line["loop"] == loop], STRETCH, colour, loop)
    axis.set_title("reward", fontsize=10)
    axis.set_xlabel("round")
    axis.set_ylim(0, 1)
    axis.legend(frameon=False, fontsize=8)


if __name__ == "__main__":
    main()
