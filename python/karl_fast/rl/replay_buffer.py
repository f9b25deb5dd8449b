"""Groups of earlier rounds for replay, newer ones more likely; their log-probabilities are computed again.

What comes back has ``version`` of the round that drew it, so that an objective sees its age. The behaviour policy of
its tokens is the one that drew them: `Rollout.logp` takes the place of the recomputed ``logp_old``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.replay import Exponential, Window, age_distribution
from karl_fast.sampling.draw import draw

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karl_fast.rl.rollout import Rollout
    from karl_fast.rl.settings import Replay


@dataclass
class Buffer:
    """Groups of earlier rounds.

    Attributes:
        settings: how many come back, and how old they may be.
        groups: the oldest first.
    """

    settings: Replay
    groups: dict[int, list[Rollout]] = field(default_factory=dict)

    def add(self, rollouts: Iterable[Rollout]) -> None:
        """Keep the groups with different rewards, which have a gradient."""
        if not self.settings.groups:
            return
        fresh: dict[int, list[Rollout]] = {}
        for rollout in rollouts:
            fresh.setdefault(rollout.group, []).append(rollout)
        self.groups |= {group: members for group, members in fresh.items() if _differ(members)}
        for group in list(self.groups)[: -self.settings.capacity]:
            del self.groups[group]

    def take(self, version: int, seed: int) -> tuple[list[Rollout], dict[str, float]]:
        """Draw some groups without replacement by their age, and return the statistics of ages."""
        self._forget(version)
        if not self.groups or not self.settings.groups:
            return [], {}
        ages = np.array([version - members[0].version for members in self.groups.values()], dtype=np.int64)
        weights = Exponential(self.settings.rate)(ages) + Window(self.settings.max_age)(ages)
        chosen = draw(weights, min(self.settings.groups, len(ages)), seed=seed)
        found = age_distribution(ages, weights)
        members = list(self.groups.values())
        report = {"replay_groups": float(len(chosen)), "replay_age": found.mean_age, "replay_ess": found.ess}
        return [rollout for place in sorted(chosen) for rollout in members[int(place)]], report

    def _forget(self, version: int) -> None:
        for group, members in list(self.groups.items()):
            if version - members[0].version > self.settings.max_age:
                del self.groups[group]


def _differ(members: Sequence[Rollout]) -> bool:
    rewards = [rollout.reward for rollout in members if not np.isnan(rollout.reward)]
    return len(rewards) > 1 and min(rewards) < max(rewards)
