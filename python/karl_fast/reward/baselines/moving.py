"""Baselines of rewards by domain, as objects that are filled in parts, merged and stored.

| class | baseline of a domain d | scale |
|---|---|---|
| :class:`FixedBaseline` | a number | 1 |
| :class:`MeanBaseline` | mean_d, of all its rewards so far | 1 |
| :class:`EmaBaseline` | b <- (1 - alpha) b + alpha r, for each reward | 1 |
| :class:`ShrunkBaseline` | (n_d mean_d + strength mean) / (n_d + strength) | max(std_d, floor), of all for small n_d |
| :class:`PartitionBaseline` | (1/b) log mean exp(b r) | 1 |

They are immutable: ``update`` and ``merge`` return a new one. ``advantages`` is (r - baseline) / scale; a missing
reward stays missing, and a row without a domain (None) has no advantage. An unseen domain has the baseline ``start``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from karl_fast.advantage import Ema, ema_baseline
from karl_fast.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Baseline:
    """Base class of baselines.

    Attributes:
        start: the baseline of a domain without rewards.
    """

    kind: ClassVar[str]
    start: float = 0.5

    def of(self, domain: str) -> float:
        """Return the baseline of a domain."""
        return self.start

    def scale(self, domain: str) -> float:
        """Return the divisor of advantages in a domain."""
        return 1.0

    def update(self, rewards: NDArray[np.float64], domains: Sequence[str | None]) -> Self:
        """Return the baselines after more rewards; missing ones (NaN) and those without a domain are ignored.

        Args:
            rewards: float64. [B]
            domains: the domain of each. [B]

        Raises:
            ArgumentError: an infinite reward, or columns that differ in rows.
        """
        rows_by_domain(rewards, domains)
        return self

    def advantages(self, rewards: NDArray[np.float64], domains: Sequence[str | None]) -> NDArray[np.float64]:
        """Compute (r - baseline) / scale of each row; NaN without a reward or a domain. [B]

        Raises:
            ArgumentError: as :meth:`update`.
        """
        found = np.full(len(rewards), np.nan)
        for domain, rows in rows_by_domain(rewards, domains).items():
            found[rows] = (rewards[rows] - self.of(domain)) / self.scale(domain)
        return found


@dataclass(frozen=True, eq=False)
class FixedBaseline(Baseline):
    """Fixed baseline for all domains.

    Attributes:
        start: the number.
    """

    kind = "fixed"


@dataclass(frozen=True, eq=False)
class EmaBaseline(Baseline):
    """A running mean of each domain, in the order in which rewards come, which is time: two of them cannot be merged.

    Attributes:
        alpha: the share of the newest reward, 0 to 1.
        means: the running mean of each domain that was seen.
        start: the baseline of a domain without rewards, and where its mean begins.

    Reference: :func:`karl_fast.advantage.ema_baseline`.
    """

    kind = "ema"
    alpha: float = 0.1
    means: dict[str, float] = field(default_factory=dict)

    def of(self, domain: str) -> float:
        """Return the running mean, or ``start``."""
        return self.means.get(domain, self.start)

    def update(self, rewards: NDArray[np.float64], domains: Sequence[str | None]) -> Self:
        """Return the baselines after more rewards, row after row, as :meth:`Baseline.update`."""
        rows_by_domain(rewards, domains)
        names = list(dict.fromkeys([*self.means, *(domain for domain in domains if domain is not None)]))
        codes = {name: code for code, name in enumerate(names)}
        ids = np.array([-1 if domain is None else codes[domain] for domain in domains], dtype=np.int64)
        known = np.arange(len(self.means), dtype=np.int64)
        state = Ema(known, np.array(list(self.means.values()), dtype=np.float64))
        after = ema_baseline(rewards, ids, alpha=self.alpha, start=self.start, state=state).state
        means = zip(after.ids.tolist(), after.baselines.tolist(), strict=True)
        return replace(self, means={names[code]: mean for code, mean in means})


def rows_by_domain(rewards: NDArray[np.float64], domains: Sequence[str | None]) -> dict[str, NDArray[np.int64]]:
    """Return the rows of each domain.

    Raises:
        ArgumentError: rewards that are no float64 of one dimension, an infinite one, or as many domains were wanted.
    """
    if not isinstance(rewards, np.ndarray) or rewards.dtype != np.float64 or rewards.ndim != 1:
        raise ArgumentError("rewards has another type, wanted a one-dimensional NumPy array of float64")
    if len(domains) != len(rewards):
        raise ArgumentError(f"there are {len(domains)} domains, wanted one for each of {len(rewards)} rewards")
    if np.isinf(rewards).any():
        raise ArgumentError(f"rewards is infinite in row {int(np.isinf(rewards).argmax())}")
    places: dict[str, list[int]] = {}
    for row, domain in enumerate(domains):
        if domain is not None:
            places.setdefault(domain, []).append(row)
    return {domain: np.array(rows, dtype=np.int64) for domain, rows in places.items()}
