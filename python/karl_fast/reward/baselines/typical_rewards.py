"""Typical rewards of each domain."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karl_fast.reward.engine.records import Version

NEUTRAL = 0.5  # code: karl/reward_engine.py, both versions
STRENGTH = 10  # code: karl/reward_engine.py of c41d1c5: records of the global mean that a domain is blended with
FEW = 5  # code: the same: fewer rewards have no deviation of their own
LARGEST = 1e100  # as in logs
FLOOR = 0.02  # code: the same: the least deviation


@dataclass
class Sums:
    """Count of numbers, and their sum from left to right."""

    count: int = 0
    total: float = 0

    def add(self, value: float) -> None:
        """Add one value."""
        self.count += 1
        self.total += value

    def mean(self) -> float:
        """Return the mean; .5 without values."""
        return self.total / self.count if self.count else NEUTRAL


@dataclass
class Baselines:
    """Baselines and deviations by domain.

        v1: b_d = mean_d,                              s = 1
        v2: b_d = (n_d mean_d + 10 mean) / (n_d + 10), s = max(std_d, .02), of all rewards where n_d < 5

    A domain without rewards has the baseline .5 and the deviation 1. Deviations have ddof 0.
    """

    means: dict[Hashable, float] = field(default_factory=dict)
    deviations: dict[Hashable, float] = field(default_factory=dict)


def measured(rewards: Iterable[tuple[Hashable, float]], version: Version) -> Baselines:
    """Compute baselines from rewards by domain; v2 reads them twice."""
    domains: dict[Hashable, Sums] = {}
    for domain, reward in rewards:
        domains.setdefault(domain, Sums()).add(reward)
    if version == "v1":
        return Baselines({domain: sums.mean() for domain, sums in domains.items()})
    whole = Sums(sum(sums.count for sums in domains.values()), sum(sums.total for sums in domains.values()))
    means = {
        domain: (sums.count * sums.mean() + STRENGTH * whole.mean()) / (sums.count + STRENGTH)
        for domain, sums in domains.items()
    }
    return Baselines(means, deviations(rewards, domains, whole.mean()))


def deviations(
    rewards: Iterable[tuple[Hashable, float]], domains: dict[Hashable, Sums], mean: float
) -> dict[Hashable, float]:
    """Compute the standard deviation of each domain, by a second reading."""
    around, whole = {domain: Sums() for domain in domains}, Sums()
    for domain, reward in rewards:
        around[domain].add((reward - domains[domain].mean()) ** 2)
        whole.add((reward - mean) ** 2)
    own = {domain: sums if sums.count >= FEW else whole for domain, sums in around.items()}
    return {domain: max(sums.mean() ** 0.5, FLOOR) for domain, sums in own.items()}


def counts(domain: object, reward: object) -> bool:
    """Return whether a stored reward counts: a number that can be squared, with a domain that is a name."""
    return isinstance(reward, (int, float)) and abs(reward) <= LARGEST and isinstance(domain, Hashable)
