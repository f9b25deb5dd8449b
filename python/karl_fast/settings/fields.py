"""Fields of the settings of `sample` and `inspect`, checked when they are made."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from karl_fast._suggest import nearest, question
from karl_fast.errors import UsageError
from karl_fast.settings.shaping import AsymmetricScale  # noqa: TC001  (kinds are read while it runs)
from karl_fast.settings.validation import Sampler, Score, Shape, Signal, check, weight_of

DEFAULT_ESS = 0.5
"""Default share of the kept rows that the target spreads over, if no temperature is set."""

PLACES = ("threads", "origins")
"""Settings that change how a run is done, and never its result."""


@dataclass(frozen=True)
class SampleFields:
    """Fields, defaults and checks of :class:`karl_fast.Settings`."""

    format: str | None = None
    id: str | None = None
    group: str | None = None
    reward: dict[str, float | Signal] | None = None
    messages: str | None = None
    domain: str | None = None
    shaping: AsymmetricScale | None = None
    score: Score = "raw"
    ddof: int = 0
    eps: float = 1e-6
    ess: float | None = None
    inverse_temperature: float | None = None
    partition_by: str = "global"
    min_reward: float | None = None
    drop_constant_groups: bool = False
    max_per_group: int | None = None
    dedup: bool = False
    sampler: Sampler = "gumbel"
    per: dict[str, str] | None = None
    k: int | None = None
    fraction: float | None = None
    seed: int = 0
    shape: Shape = "chat"
    split: tuple[float, float, float] = (0.9, 0.1, 0.0)
    allow_secrets: bool = False
    max_tokens: int | None = None
    tokenizer: str | None = None
    hash_inputs: bool = False
    strict: bool = False
    max_line_bytes: int = 64 << 20
    threads: int = field(default_factory=lambda: os.cpu_count() or 1, compare=False)
    origins: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Source of each setting: flag, environment or file; absent for settings from Python."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def wanted_ess(self) -> float | None:
        """The share to solve for; None where the inverse temperature is given, or nothing is weighed."""
        if self.tempered_by is not None:
            return None
        return DEFAULT_ESS if self.ess is None else self.ess

    @property
    def tempered_by(self) -> float | None:
        """The inverse temperature where it is known before anything is read."""
        return 0.0 if self.sampler == "reservoir" else self.inverse_temperature

    @property
    def streams(self) -> bool:
        """True if a row's place in the draw depends on that row alone, so that one pass over a pipe suffices."""
        by_itself = self.sampler == "weighted-reservoir" and self.score == "raw" and self.partition_by == "global"
        of_others = self.dedup or self.drop_constant_groups or self.per or self.max_per_group or self.functions
        return by_itself and self.inverse_temperature is not None and self.k is not None and not of_others

    @property
    def weights(self) -> list[float]:
        """The weight of each reward component."""
        return [1.0] if self.reward is None else [weight_of(value) for value in self.reward.values()]

    @property
    def paths(self) -> list[str] | None:
        """The components that are read; None leaves the one to the format."""
        return None if self.reward is None else [name for name in self.reward if name not in self.functions]

    @property
    def functions(self) -> dict[str, str]:
        """Function of each component that is not read from records."""
        return {name: value["fn"] for name, value in (self.reward or {}).items() if isinstance(value, dict)}

    @property
    def domain_asked(self) -> bool:
        """True if records without a valid domain are dropped; otherwise the domain is only for reports."""
        return self.domain is not None or "domain" in (self.per or {})

    @property
    def partition_field(self) -> str | None:
        """The field that log Z is taken over, where it is neither everything nor the group."""
        return None if self.partition_by in ("global", "group") else self.partition_by

    def count(self, kept: int) -> int:
        """Return the number of rows to draw of those kept; a fraction is rounded up, so that it is never 0."""
        if self.k is not None:
            return self.k
        if self.fraction is not None:
            from fractions import Fraction  # with decimal and numbers, which most runs have no use for

            # As it is written: 0.07 of 100 is 7, though 0.07 as a float is a little more.
            return math.ceil(Fraction(str(self.fraction)) * kept)
        if self.sampler == "all":
            return kept
        raise UsageError("say how many rows to draw: k or fraction, or take all with the sampler all", "k", "fraction")

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some settings changed.

        Raises:
            UsageError: for one that there is not, or as when they are made.
        """
        known = [one.name for one in fields(self)]
        for name in sorted(changes.keys() - {*known}):
            error = UsageError(f"there is no setting {name}")
            error.hint = question(nearest(name, known))
            raise error
        kept = {name: origin for name, origin in self.origins.items() if name not in changes}
        return replace(self, **({"origins": kept} | changes))

    def chosen(self) -> dict[str, str]:
        """Return the source of each setting that differs from its default: flag, environment, file or call."""
        return {name: self.origins.get(name, "call") for name in self._changed()}

    def _changed(self) -> list[str]:
        plain = type(self)()
        names = [field.name for field in fields(self) if field.name not in PLACES]
        return [name for name in names if getattr(self, name) != getattr(plain, name)]

    def to_dict(self) -> dict[str, Any]:
        """Return all settings that can change the outcome; :meth:`from_dict` is the inverse."""
        values = asdict(self) | {"split": list(self.split)}
        return {name: value for name, value in values.items() if name not in PLACES}
