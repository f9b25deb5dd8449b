"""The rollouts of a round: once, or until enough groups have rewards that differ (DAPO's dynamic sampling)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.filter import constant_groups, soft_overlong_penalty

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.rl.collect_rollouts import Collector
    from karl_fast.rl.curriculum import Curriculum
    from karl_fast.rl.finished_rollouts import FinishedRollouts
    from karl_fast.rl.rollout import Rollout
    from karl_fast.rl.settings import Online


@dataclass
class RoundRollouts:
    """Rollouts of a round.

    Attributes:
        rollouts: all of them.
        chosen: the numbers of the groups to learn from.
        draws: number of times that P groups were drawn.
        said: failures, in sentences.
    """

    rollouts: list[Rollout] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)
    draws: int = 0
    said: list[str] = field(default_factory=list)

    def learned(self) -> list[Rollout]:
        """Return the rollouts to learn from."""
        chosen = set(self.chosen)
        return [rollout for rollout in self.rollouts if rollout.group in chosen]

    def mixed(self) -> list[int]:
        """Return the groups with different outcomes, in the order they were drawn."""
        groups = np.array([rollout.group for rollout in self.rollouts], dtype=np.int64)
        outcomes = np.array([rollout.outcome for rollout in self.rollouts], dtype=np.float64)
        return list(dict.fromkeys(groups[constant_groups(outcomes, groups).keep].tolist()))


def draw_round(
    collector: Collector,
    curriculum: Curriculum,
    settings: Online,
    *,
    round: int,
    first: int,
    version: int,
    drawn: Callable[[list[Rollout]], None],
    finished: FinishedRollouts | None = None,
) -> RoundRollouts:
    """Draw the groups of a round.

    Args:
        collector, curriculum, settings: those of the run.
        round: its number, from 0.
        first: the number of its first group.
        version: number of steps that the policy has taken.
        drawn: called with the rollouts to learn from before they are rewarded, if rewards do not decide the choice.
        finished: record of rollouts that a run was resumed with.

    Returns:
        All rollouts. With ``draws`` above 1, P groups with different outcomes are chosen, or fewer when the draws are
        used up; if there are none, or ``draws`` is 1, the groups of the first draw.
    """
    found, wanted, chooses = RoundRollouts(), settings.prompts_per_round, settings.draws > 1
    told: dict[str, Any] = {"finished": finished} | ({} if chooses else {"drawn": drawn})
    while found.draws < settings.draws and (not found.draws or len(found.mixed()) < wanted):
        prompts = curriculum.choose(wanted, round, found.draws)
        start = first + found.draws * wanted
        stream = np.random.SeedSequence([settings.training.seed, round, found.draws]).generate_state(1, np.uint64)
        rollouts, said = collector(prompts, first=start, seed=int(stream[0]), version=version, **told)
        found.rollouts += _add_length_penalty(rollouts, settings)
        found.said += said
        found.draws += 1
    plain = list(range(first, first + wanted))
    found.chosen = (found.mixed()[:wanted] or plain) if chooses else plain
    return found


def _add_length_penalty(rollouts: list[Rollout], settings: Online) -> list[Rollout]:
    if not settings.overlong_tokens:
        return rollouts
    lengths = np.array([rollout.length for rollout in rollouts], dtype=np.int64)
    added = soft_overlong_penalty(lengths, max_tokens=settings.max_tokens, cache_tokens=settings.overlong_tokens)
    return [one.but(reward=one.reward + float(more)) for one, more in zip(rollouts, added, strict=True)]
