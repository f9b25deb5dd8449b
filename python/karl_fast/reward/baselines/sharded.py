"""Baselines by domain that are filled on shards that know nothing of each other, and merged."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from karl_fast import _core
from karl_fast.errors import ArgumentError
from karl_fast.reward.baselines.moving import Baseline, rows_by_domain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Mergeable(Baseline):
    """A baseline that keeps a state of each domain, which is merged exactly.

    Attributes:
        states: the state of each domain that was seen.
    """

    state: ClassVar[Any]
    states: dict[str, Any] = field(default_factory=dict)

    def update(self, rewards: NDArray[np.float64], domains: Sequence[str | None]) -> Self:
        """Return the baselines after more rewards, as :meth:`Baseline.update`."""
        found = {domain: copy(state) for domain, state in self.states.items()}
        for domain, rows in rows_by_domain(rewards, domains).items():
            values = rewards[rows]
            if (present := values[~np.isnan(values)]).size:
                found.setdefault(domain, self.state()).update(self.taken(present))
        return replace(self, states=found)

    def merge(self, other: Self) -> Self:
        """Return the baselines of the rewards of both.

        Raises:
            ArgumentError: another kind, or other settings.
        """
        if type(other) is not type(self) or other.settings() != self.settings():
            raise ArgumentError(f"other is {other!r}, wanted a {type(self).__name__} of the same settings")
        found = {domain: copy(state) for domain, state in self.states.items()}
        for domain, state in other.states.items():
            found.setdefault(domain, self.state()).merge(state)
        return replace(self, states=found)

    def taken(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values that a state takes of rewards."""
        return rewards

    def settings(self) -> dict[str, float]:
        """Return everything but the states."""
        return {name: value for name, value in vars(self).items() if name != "states"}


@dataclass(frozen=True, eq=False)
class MeanBaseline(Mergeable):
    """The mean of a domain's rewards, exact however they were cut into parts.

    Attributes:
        states: the state of each domain that was seen.
        start: the baseline of a domain without rewards.
    """

    kind = "mean"
    state = _core.Moments

    def of(self, domain: str) -> float:
        """Return the mean, or ``start``."""
        found: _core.Moments | None = self.states.get(domain)
        return self.start if found is None else found.mean


@dataclass(frozen=True, eq=False)
class ShrunkBaseline(Mergeable):
    """A mean between the domain's own and that of all, by how many rewards the domain has.

    Attributes:
        strength: how many rewards at the mean of all a domain is given on top of its own.
        floor: the least scale, above 0.
        min_count: the least rewards for a domain to have a deviation of its own; ddof is 0.
        states: the state of each domain that was seen.
        start: the baseline where there is no reward at all.

    Raises:
        ArgumentError: a negative strength, or a floor that is not above 0.

    Reference: Diomandeee/karl, ``karl/reward_engine.py``, commit c41d1c5, which has these defaults.
    """

    kind = "shrunk"
    state = _core.Moments
    strength: float = 10.0
    floor: float = 0.02
    min_count: int = 5

    def __post_init__(self) -> None:
        if not (self.strength >= 0 and self.floor > 0):
            raise ArgumentError(f"strength is {self.strength} and floor {self.floor}, wanted 0 or more, and above 0")

    def of(self, domain: str) -> float:
        """Return the shrunk mean; that of all for a domain without rewards."""
        if not self.states:
            return self.start
        own: _core.Moments | None = self.states.get(domain)
        whole = self.whole().mean
        if own is None:
            return whole
        return (len(own) * own.mean + self.strength * whole) / (len(own) + self.strength)

    def scale(self, domain: str) -> float:
        """Return the deviation, that of all if the domain has few rewards; 1 without rewards."""
        if not self.states:
            return 1.0
        own: _core.Moments | None = self.states.get(domain)
        counted = own if own is not None and len(own) >= self.min_count else self.whole()
        return max(math.sqrt(counted.variance(ddof=0)), self.floor)

    def whole(self) -> _core.Moments:
        """Return the moments of all domains."""
        whole = _core.Moments()
        for state in self.states.values():
            whole.merge(state)
        return whole


@dataclass(frozen=True, eq=False)
class PartitionBaseline(Mergeable):
    """Soft maximum of a domain's rewards: the normaliser of its Boltzmann target.

    Attributes:
        inverse_temperature: b, above 0.
        states: the state of each domain that was seen.
        start: the baseline of a domain without rewards.

    Raises:
        ArgumentError: an inverse temperature that is not above 0.
    """

    kind = "partition"
    state = _core.LogSumExp
    inverse_temperature: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.inverse_temperature < float("inf"):
            raise ArgumentError(f"inverse_temperature is {self.inverse_temperature}, wanted a number above 0")

    def taken(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return b r."""
        return self.inverse_temperature * rewards

    def of(self, domain: str) -> float:
        """Return (1/b) log mean exp(b r), or ``start``."""
        found: _core.LogSumExp | None = self.states.get(domain)
        return self.start if found is None else found.mean / self.inverse_temperature


def copy(state: Any) -> Any:
    """Return a copy of a state."""
    return type(state).from_bytes(state.to_bytes())
