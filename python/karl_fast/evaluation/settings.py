"""Settings of an evaluation by rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karl_fast.errors import UsageError

if TYPE_CHECKING:
    from karl_fast.rl.settings import Online


@dataclass(frozen=True)
class RolloutSettings:
    """Settings of attempts at held-out prompts.

    Attributes:
        settings: of an online run: its model, rewards, environment and budgets are used.
        prompts: a file of held-out prompts, like those of a run.
        attempts: n, attempts at each prompt.
        temperature: of the attempts; 0 takes the likeliest token.
        solved_at: the least reward of a solved attempt.
        confidence: level of the intervals.
        seed: of the attempts, and of the resamples.
    """

    settings: Online
    prompts: str
    attempts: int = 8
    temperature: float = 1.0
    solved_at: float = 1.0
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise UsageError(f"attempts is {self.attempts}, wanted 1 or more", "attempts")
        if not 0 <= self.temperature < float("inf"):
            raise UsageError(f"temperature is {self.temperature}, wanted a number from 0 on", "temperature")
        if not 0 < self.confidence < 1:
            raise UsageError(f"confidence is {self.confidence}, wanted a number between 0 and 1", "confidence")
        if self.seed < 0:
            raise UsageError(f"seed is {self.seed}, wanted 0 or more", "seed")
