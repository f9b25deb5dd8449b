"""Curriculum: the choice of the next prompts.

| name | result |
|---|---|
| `mixed_group_probability`, `expected_mixed_groups` | probability and expected number of mixed groups |
| `outcome_variance` | p (1 - p), a priority |
| `nearest_rate` | the prompts nearest to a target rate |
| `BetaPosterior` | what is known of success rates; a Thompson draw |
| `Stage`, `Schedule` | a fixed order of levels; `EASY_TO_HARD` is one that was used |
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from karl_fast._core import BetaPosterior, mixed_group_probability, nearest_rate, outcome_variance
from karl_fast.errors import ArgumentError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.typing import Reals

__all__ = [
    "EASY_TO_HARD",
    "BetaPosterior",
    "Schedule",
    "Stage",
    "expected_mixed_groups",
    "mixed_group_probability",
    "nearest_rate",
    "outcome_variance",
]


def expected_mixed_groups(rates: Reals, *, size: int, budget: int) -> NDArray[np.float64]:
    """Compute the expected number of mixed groups for each prompt, if it had the whole budget of rollouts.

    ```text
    E = (budget / K) M(q, K),   M of mixed_group_probability
    ```

    Large groups are mixed more often, and there are fewer of them.

    Args:
        rates: success rates q from 0 to 1; NaN is missing and stays so. float64 or float32. [P]
        size: K, rollouts a group, 1 or more.
        budget: rollouts in all, 0 or more.

    Returns:
        float64. [P]

    Raises:
        ArgumentError: a rate outside [0, 1], a size below 1, or a negative budget.
        DTypeError, LayoutError: an array that would have to be cast or copied.
    """
    if budget < 0:
        raise ArgumentError(f"budget is {budget}, wanted zero or more")
    return mixed_group_probability(rates, size=size) * (budget / size)


@dataclass(frozen=True)
class Stage:
    """Levels of difficulty for a part of the training.

    Attributes:
        levels: what is trained on.
        epochs: passes over those levels; or
        steps: optimizer steps. One of the two is given.
    """

    levels: tuple[str, ...]
    epochs: int | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.levels, tuple):
            raise ArgumentError(f"levels is {self.levels!r}, wanted a tuple of names")
        if (self.epochs is None) == (self.steps is None):
            raise UsageError("give a stage either epochs or steps")
        if not self.levels or (self.epochs or self.steps or 0) < 1:
            lasts = self.steps if self.epochs is None else self.epochs
            raise ArgumentError(f"stage has levels {self.levels} and lasts {lasts}, wanted one or more of each")

    def length(self, epoch_steps: int | None = None) -> int:
        """Return the number of steps of the stage, with this many steps an epoch.

        Raises:
            UsageError: a stage in epochs without ``epoch_steps``.
            ArgumentError: fewer than one step an epoch.
        """
        if self.steps is not None:
            return self.steps
        if epoch_steps is None:
            raise UsageError("stage is given in epochs, wanted epoch_steps")
        if epoch_steps < 1:
            raise ArgumentError(f"epoch_steps is {epoch_steps}, wanted one or more")
        return (self.epochs or 0) * epoch_steps


@dataclass(frozen=True)
class Schedule:
    """Stages one after the other; the stage depends on the step alone, not on time.

    Attributes:
        stages: in their order.
    """

    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not self.stages:
            raise ArgumentError("schedule has no stages, wanted one or more")

    def steps(self, epoch_steps: int | None = None) -> int:
        """Return the number of steps of all stages; raises as `Stage.length`."""
        return sum(stage.length(epoch_steps) for stage in self.stages)

    def stage_at(self, step: int, *, epoch_steps: int | None = None) -> Stage:
        """Return the stage of an optimizer step.

        Args:
            step: from 0 on.
            epoch_steps: steps an epoch, where a stage is given in epochs.

        Raises:
            ArgumentError: a step that the schedule does not have.
            UsageError: as `Stage.length`.
        """
        ends = list(accumulate(stage.length(epoch_steps) for stage in self.stages))
        if not 0 <= step < ends[-1]:
            raise ArgumentError(f"step is {step}, wanted one of 0 to {ends[-1]} exclusive")
        return self.stages[bisect_right(ends, step)]


EASY_TO_HARD = Schedule(  # code: curriculum_scheduler.py of Archer222arc/LLM-for-OR, two epochs a stage
    (
        Stage(("easy",), epochs=2),
        Stage(("easy", "medium"), epochs=2),
        Stage(("medium", "hard"), epochs=2),
        Stage(("hard",), epochs=2),
    )
)
"""Four stages of two epochs, each overlapping with the next, from easy to hard."""
