"""Groups of earlier rounds for replay; their log-probabilities are computed again.

| priority | takes |
|---|---|
| age | groups at random, log weight ``-rate * age`` |
| accuracy-error | the largest ``abs(mean outcome - estimate)``, with the curriculum's estimate before the draw |

What comes back has ``version`` of the round that drew it, so that an objective sees its age. The behaviour policy of
its tokens is the one that drew them: `Rollout.logp` takes the place of the recomputed ``logp_old``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from karl_fast.filter.groups import differ
from karl_fast.replay import ExponentialDecay, Window, age_distribution, largest
from karl_fast.sampling.draw import draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from karl_fast.rl.rollout import Prompt, Rollout
    from karl_fast.rl.settings import Replay


@dataclass
class ReplayBuffer:
    """Groups of earlier rounds.

    Attributes:
        settings: how many come back, and how old they may be.
        groups: the oldest first.
        errors: accuracy error of each group.
    """

    settings: Replay
    groups: dict[int, list[Rollout]] = field(default_factory=dict)
    errors: dict[int, float] = field(default_factory=dict)

    def add(self, rollouts: Iterable[Rollout], estimate: Callable[[Prompt], float]) -> None:
        """Keep the groups with different rewards, which have a gradient.

        `estimate` is that of the mean outcome of a prompt before its rollouts were drawn.
        """
        if not self.settings.groups:
            return
        fresh: dict[int, list[Rollout]] = {}
        for rollout in rollouts:
            fresh.setdefault(rollout.group, []).append(rollout)
        for group, members in fresh.items():
            if _have_different_rewards(members):
                self.groups[group] = members
                self.errors[group] = _accuracy_error(members, estimate(members[0].prompt))
        for group in list(self.groups)[: -self.settings.capacity]:
            self._drop(group)

    def _drop(self, group: int) -> None:
        del self.groups[group], self.errors[group]

    def take(self, version: int, seed: int) -> tuple[list[Rollout], dict[str, float]]:
        """Choose some groups by their priority, each at most once, and return the statistics of ages."""
        self._forget(version)
        if not self.groups or not self.settings.groups:
            return [], {}
        ages = np.array([version - members[0].version for members in self.groups.values()], dtype=np.int64)
        weights = ExponentialDecay(self.settings.rate)(ages) + Window(self.settings.max_age)(ages)
        count = min(self.settings.groups, len(ages))
        if self.settings.priority == "age":
            chosen = draw(weights, count, seed=seed)
        else:
            chosen = largest(np.array([self.errors[group] for group in self.groups]), count)
        found = age_distribution(ages, weights)
        members = list(self.groups.values())
        report = {"replay_groups": float(len(chosen)), "replay_age": found.mean_age, "replay_ess": found.ess}
        return [rollout for place in sorted(chosen) for rollout in members[int(place)]], report

    def _forget(self, version: int) -> None:
        for group, members in list(self.groups.items()):
            if version - members[0].version > self.settings.max_age:
                self._drop(group)


def _accuracy_error(members: Sequence[Rollout], estimate: float) -> float:
    """Return the accuracy error of a group, 0 without an outcome."""
    outcomes = [one.outcome for one in members if not np.isnan(one.outcome)]
    return abs(float(np.mean(outcomes)) - estimate) if outcomes else 0.0


def _have_different_rewards(members: Sequence[Rollout]) -> bool:
    rewards = [rollout.reward for rollout in members if not np.isnan(rollout.reward)]
    return len(rewards) > 1 and differ(min(rewards), max(rewards))
