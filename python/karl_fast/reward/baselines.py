"""Baselines of rewards by domain, as objects that are filled in parts, merged and stored; and weights of skills.

| class | baseline of a domain d | scale |
|---|---|---|
| `FixedBaseline` | a number | 1 |
| `MeanBaseline` | mean_d, of all its rewards so far | 1 |
| `EmaBaseline` | b <- (1 - alpha) b + alpha r, for each reward | 1 |
| `ShrunkBaseline` | (n_d mean_d + strength mean) / (n_d + strength) | max(std_d, floor), of all for small n_d |
| `PartitionBaseline` | (1/b) log mean exp(b r) | 1 |

They are immutable: ``update`` and ``merge`` return a new one. ``advantages`` is (r - baseline) / scale; a missing
reward stays missing, and a row without a domain (None) has no advantage. An unseen domain has the baseline ``start``.
Those that are `Mergeable` are filled on shards without knowledge of each other, and merged exactly.
`save` writes any of them as JSON with a version, whole or not at all, and `load` reads it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np

from karl_fast import _core
from karl_fast.advantage import Ema, ema_baseline
from karl_fast.errors import ArgumentError, FileError, LogError, OutputForeignError
from karl_fast.reward.karl_store import Sums

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
            ArgumentError: as `update`.
        """
        advantages = np.full(len(rewards), np.nan)
        for domain, rows in rows_by_domain(rewards, domains).items():
            advantages[rows] = (rewards[rows] - self.of(domain)) / self.scale(domain)
        return advantages


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

    Reference: `karl_fast.advantage.ema_baseline`.
    """

    kind = "ema"
    alpha: float = 0.1
    means: dict[str, float] = field(default_factory=dict)

    def of(self, domain: str) -> float:
        """Return the running mean, or ``start``."""
        return self.means.get(domain, self.start)

    def update(self, rewards: NDArray[np.float64], domains: Sequence[str | None]) -> Self:
        """Return the baselines after more rewards, row after row, as `Baseline.update`."""
        rows_by_domain(rewards, domains)
        names = list(dict.fromkeys([*self.means, *(domain for domain in domains if domain is not None)]))
        codes = {name: code for code, name in enumerate(names)}
        ids = np.array([-1 if domain is None else codes[domain] for domain in domains], dtype=np.int64)
        known = np.arange(len(self.means), dtype=np.int64)
        state = Ema(known, np.array(list(self.means.values()), dtype=np.float64))
        after = ema_baseline(rewards, ids, alpha=self.alpha, start=self.start, state=state).state
        means = zip(after.ids.tolist(), after.baselines.tolist(), strict=True)
        return replace(self, means={names[code]: mean for code, mean in means})


@dataclass(frozen=True, eq=False)
class Mergeable(Baseline):
    """A baseline that keeps a state of each domain, which is merged exactly.

    Attributes:
        states: the state of each domain that was seen.
    """

    state: ClassVar[Any]
    states: dict[str, Any] = field(default_factory=dict)

    def update(self, rewards: NDArray[np.float64], domains: Sequence[str | None]) -> Self:
        """Return the baselines after more rewards, as `Baseline.update`."""
        states = {domain: copy_state(state) for domain, state in self.states.items()}
        for domain, rows in rows_by_domain(rewards, domains).items():
            values = rewards[rows]
            if (present := values[~np.isnan(values)]).size:
                states.setdefault(domain, self.state()).update(self.taken(present))
        return replace(self, states=states)

    def merge(self, other: Self) -> Self:
        """Return the baselines of the rewards of both.

        Raises:
            ArgumentError: another kind, or other settings.
        """
        if type(other) is not type(self) or other.settings() != self.settings():
            raise ArgumentError(f"other is {other!r}, wanted a {type(self).__name__} of the same settings")
        states = {domain: copy_state(state) for domain, state in self.states.items()}
        for domain, state in other.states.items():
            states.setdefault(domain, self.state()).merge(state)
        return replace(self, states=states)

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
        own: _core.Moments | None = self.states.get(domain)
        return self.start if own is None else own.mean


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
        own: _core.LogSumExp | None = self.states.get(domain)
        return self.start if own is None else own.mean / self.inverse_temperature


def copy_state(state: Any) -> Any:
    """Return a copy of a state."""
    return type(state).from_bytes(state.to_bytes())


@dataclass(frozen=True)
class SkillWeights:
    """Weight of each skill, moved towards its rewards.

        target = low + mean (high - low),    w <- clip((1 - alpha) w + alpha target, low, high)

    One call is one move by the mean of its rewards, added from left to right, as in KARL; a skill without a weight
    begins at ``start``.

    Attributes:
        weights: by skill.
        alpha: the share of the target, 0 to 1.
        low, high: the bounds, with low below high.
        start: the weight of a skill that is new.

    Raises:
        ArgumentError: an alpha outside 0 to 1, or bounds out of order.

    Reference: Diomandeee/karl, ``karl/weight_updater.py``, commit 7d5ef32.
    """

    weights: dict[str, float] = field(default_factory=dict)
    alpha: float = 0.1
    low: float = 0.5
    high: float = 1.5
    start: float = 1.0

    def __post_init__(self) -> None:
        if not (0 <= self.alpha <= 1 and self.low < self.high):
            raise ArgumentError(
                f"alpha is {self.alpha} and the bounds {self.low} and {self.high}, wanted 0 to 1 and low below high"
            )

    def update(self, rewards: NDArray[np.float64], skills: Sequence[str | None]) -> SkillWeights:
        """Return the weights after more rewards; missing ones (NaN), and rows without a skill, are ignored.

        Raises:
            ArgumentError: an infinite reward, or columns that differ in rows.
        """
        weights = dict(self.weights)
        for skill, rows in rows_by_domain(rewards, skills).items():
            sums = Sums()
            for reward in rewards[rows].tolist():
                if reward == reward:
                    sums.add(reward)
            if sums.count:
                target = self.low + sums.mean() * (self.high - self.low)
                moved = weights.get(skill, self.start) * (1 - self.alpha) + target * self.alpha
                weights[skill] = max(self.low, min(self.high, moved))
        return replace(self, weights=weights)


def rows_by_domain(rewards: NDArray[np.float64], domains: Sequence[str | None]) -> dict[str, NDArray[np.int64]]:
    """Return the rows of each domain.

    Raises:
        ArgumentError: rewards that are not float64 of one dimension, an infinite one, or as many domains were wanted.
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


Storable: TypeAlias = FixedBaseline | MeanBaseline | EmaBaseline | ShrunkBaseline | PartitionBaseline | SkillWeights

FORMAT = "karl-fast baselines"
SCHEMA = 1
"""Raised when a field changes its meaning or goes."""

KINDS: dict[str, type[Any]] = {
    **{kind.kind: kind for kind in (FixedBaseline, MeanBaseline, EmaBaseline, ShrunkBaseline, PartitionBaseline)},
    "skills": SkillWeights,
}


def save(kept: Storable, path: str | Path) -> None:
    """Write baselines or skill weights atomically as JSON.

    Args:
        kept: baselines or skill weights.
        path: the file; an existing file of this format is replaced, any other is refused.

    Returns:
        Nothing.

    Raises:
        OutputForeignError: the path is a symbolic link, or a file of another format.
        FileError: the file cannot be written; the old one is kept.
    """
    kind = next(kind for kind, cls in KINDS.items() if cls is type(kept))
    values = {setting.name: getattr(kept, setting.name) for setting in fields(kept)}
    if isinstance(kept, Mergeable):
        values["states"] = {name: base64.b64encode(state.to_bytes()).decode() for name, state in kept.states.items()}
    text = json.dumps({"format": FORMAT, "schema": SCHEMA, "kind": kind, **values}, indent=1, allow_nan=False)
    try:
        _refuse_foreign(Path(path))
        _replace(Path(path), text.encode() + b"\n")
    except OutputForeignError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}", error.errno, str(path)) from error


def load(path: str | Path) -> Storable:
    """Read a file that `save` wrote.

    Args:
        path: the file.

    Returns:
        What was written, of the class that it had.

    Raises:
        FileError: it cannot be read.
        LogError: it is something else, or of another version, or damaged.

    Reference: the form is our own, ``schema`` 1.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"cannot open {path}: {error.strerror}", error.errno, str(path)) from error
    try:
        return _parse_file(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LogError(f"{path} holds no baselines that this version can read: {error}") from error


def _parse_file(values: dict[str, Any]) -> Storable:
    form, schema = values.pop("format"), values.pop("schema")
    if (form, schema) != (FORMAT, SCHEMA):
        raise ValueError(f"it is of the form {form!r}, schema {schema!r}")
    kind = KINDS[values.pop("kind")]
    if issubclass(kind, Mergeable):
        states = values.pop("states").items()
        values["states"] = {
            name: kind.state.from_bytes(base64.b64decode(state, validate=True)) for name, state in states
        }
    numbers = [number for value in values.values() for number in (value.values() if type(value) is dict else [value])]
    if any(isinstance(number, str | bool | list) or number is None for number in numbers):
        raise ValueError("a number has another type")
    baseline: Storable = kind(**values)
    return baseline


def _refuse_foreign(path: Path) -> None:
    """Raise if a file exists that `save` did not write; an empty file may be replaced."""
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_file():
        raise OutputForeignError(f"{path}: it exists and is not a regular file")
    with contextlib.suppress(ValueError):
        text = path.read_bytes()
        content = json.loads(text) if text else {"format": FORMAT}
        if isinstance(content, dict) and content.get("format") == FORMAT:
            return
    raise OutputForeignError(f"{path}: it exists and holds something else than baselines or skill weights")


def _replace(path: Path, text: bytes) -> None:
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        new = Path(file.name)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
