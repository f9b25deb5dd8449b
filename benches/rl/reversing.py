"""Token reversal as an array job: how large it is, its prompts, and what a rollout earns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SYMBOLS, ARROW, END = 8, 8, 9
LAYERS, HEADS, LONGEST, GROUP = 2, 4, 32, 8


@dataclass(frozen=True)
class Task:
    """How large the model, the batch and the prompts are."""

    rounds: int
    symbols: int
    wide: bool

    @property
    def size(self) -> int:
        return 64 if self.wide else 32

    @property
    def prompts(self) -> int:
        return 16 if self.wide else 8

    @property
    def rate(self) -> float:
        return 1e-3 if self.wide else 2e-3


def all_prompts(symbols: int) -> Any:
    numbers = np.arange(SYMBOLS**symbols)
    return np.stack(
        [*(numbers // SYMBOLS**place % SYMBOLS for place in range(symbols)), 0 * numbers + ARROW], 1
    ).astype("i4")


def answers(prompts: Any, symbols: int) -> Any:
    return np.concatenate([prompts[:, :symbols][:, ::-1], np.full((len(prompts), 1), END)], 1)


def judged(prompts: Any, tokens: Any, task: Task) -> tuple[Any, Any]:
    """Which tokens count, and the advantage of each rollout."""
    mask, rewards = earned(prompts, tokens, task)
    return mask, compared(rewards)


def earned(prompts: Any, tokens: Any, task: Task) -> tuple[Any, Any]:
    """Which tokens count, and the reward of each rollout."""
    said = tokens[:, task.symbols + 1 :]
    ends = said == END
    mask = np.cumsum(ends, 1) - ends == 0
    return mask.astype("f4"), ((said == answers(prompts, task.symbols)) * mask).sum(1) / (task.symbols + 1)


def compared(rewards: Any) -> Any:
    """The advantage of each rollout, within its group."""
    groups = rewards.reshape(-1, GROUP)
    advantages = (groups - groups.mean(1, keepdims=True)) / (groups.std(1, keepdims=True) + 1e-6)
    return advantages.reshape(-1, 1).astype("f4")
