"""Every choice of a run, checked when it is made."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, get_args

from karl_fast.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

Score = Literal["raw", "centre", "zscore", "leave-one-out"]
Sampler = Literal["gumbel", "weighted-reservoir", "reservoir", "systematic", "multinomial", "all"]
Shape = Literal["chat", "prompt-completion", "text", "raw"]

TEXTS = ("format", "id", "group", "messages", "domain", "partition_by")
"""Settings that name something in a record, which is UTF-8."""

CHOICES = {"score": get_args(Score), "sampler": get_args(Sampler), "shape": get_args(Shape)}

RANGES = (
    ("k", 1, 1 << 32),
    ("max_per_group", 1, 1 << 32),
    ("max_tokens", 2, 1 << 32),
    ("max_line_bytes", 1, 1 << 32),
    ("threads", 1, 1 << 16),
    ("seed", 0, 1 << 64),
)

DEFAULT_ESS = 0.5
"""The share of the kept rows that the target spreads over, where nothing is said of temperature."""

REPLACING = ("systematic", "multinomial")
"""Samplers that can draw a row more than once."""

DEALS = ("equal", "proportional", "sqrt")
"""How a budget can be dealt over strata."""

STRATA = ("domain", "group")
"""The columns that can be strata."""

PLACES = ("threads", "origins")
"""Settings that change how a run goes and never what comes out of it."""

RIVALS = (("k", "fraction"), ("ess", "inverse_temperature"))
"""Ways to say one thing: said by a stronger voice (a flag over a file), one takes the place of the other."""


@dataclass(frozen=True)
class Settings:
    r"""What to take from a log, how to weigh it, how many rows to draw and how to write them.

    Field paths are dotted (``meta.group``; a dot inside a key is written ``\.``); ``None`` leaves the choice to the
    format. ``reward`` maps the path of each component to its weight. The full story of each is in ``karl-fast sample
    --help``.

    Raises:
        UsageError: for settings that contradict each other or lie outside their range.
    """

    format: str | None = None
    id: str | None = None
    group: str | None = None
    reward: dict[str, float] | None = None
    messages: str | None = None
    domain: str | None = None
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
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    origins: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Who chose what: flag, environment or file, by setting; what is not in it was chosen by a caller in Python."""

    def __post_init__(self) -> None:
        self._check_temperature()
        self._check_budget()
        self._check_sampler()
        self._check_strata()
        self._check_score()
        self._check_texts()
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UsageError(f"{name} is {getattr(self, name)!r}, wanted {', '.join(choices)}")
        for name, low, high in RANGES:
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and low <= value < high):
                wanted = f"less than {high}" if isinstance(value, int) and value >= high else f"{low} or more"
                raise UsageError(f"{name} is {value}, wanted {wanted}")
        if (self.max_tokens is None) != (self.tokenizer is None):
            raise UsageError("max_tokens and tokenizer go together: tokens are counted with the model's own tokenizer")
        if self.shape == "raw" and self.max_tokens is not None:
            raise UsageError("raw rows are no training rows yet: their tokens cannot be counted")
        if len(self.split) != 3 or not (min(self.split) >= 0 and abs(sum(self.split) - 1) <= 1e-9):
            shares = ",".join(f"{share:g}" for share in self.split)
            raise UsageError(f"split is {shares}, wanted three shares that add up to 1")

    def _check_texts(self) -> None:
        given = [(name, getattr(self, name)) for name in TEXTS]
        for name, text in [*given, *(("reward", path) for path in self.reward or {})]:
            if text is not None and text.encode("utf-8", "ignore").decode() != text:
                raise UsageError(f"{name} is {text!r}, which is no UTF-8")

    def _check_score(self) -> None:
        if self.ddof not in (0, 1):
            raise UsageError(f"ddof is {self.ddof}, wanted 0 (population) or 1 (sample)")
        if not 0 <= self.eps < float("inf"):
            raise UsageError(f"eps is {self.eps}, wanted a finite number from 0 on")
        if self.min_reward is not None and not math.isfinite(self.min_reward):
            raise UsageError(f"min_reward is {self.min_reward}, wanted a finite number")
        if self.reward is not None and not (isinstance(self.reward, dict) and self.reward):
            raise UsageError(f"reward is {self.reward!r}, wanted a weight for each path, like {{'outcome': 1.0}}")
        for path, weight in (self.reward or {}).items():
            if not math.isfinite(weight):
                raise UsageError(f"the weight of {path} is {weight}, wanted a finite number")

    def _check_temperature(self) -> None:
        if self.ess is not None and self.inverse_temperature is not None:
            raise UsageError("ess and inverse_temperature are two ways to say one thing: give one")
        if self.ess is not None and not 0 < self.ess <= 1:
            raise UsageError(f"ess is {self.ess}, wanted a share above 0 and up to 1")
        given = self.inverse_temperature
        if given is not None and not 0 <= given < float("inf"):
            raise UsageError(f"inverse_temperature is {given}, wanted a finite number from 0 on")

    def _check_budget(self) -> None:
        if self.k is not None and self.fraction is not None:
            raise UsageError("k and fraction are two ways to say one thing: give one")
        if self.sampler == "all" and (self.k is not None or self.fraction is not None):
            raise UsageError("the sampler all takes every kept row: it has no use for k or fraction")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise UsageError(f"fraction is {self.fraction}, wanted a share above 0 and up to 1")

    def _check_sampler(self) -> None:
        if self.sampler == "reservoir":
            given = [name for name in ("ess", "inverse_temperature") if getattr(self, name) is not None]
            given += ["score"] * (self.score != "raw") + ["partition_by"] * (self.partition_by != "global")
            if given:
                raise UsageError(
                    f"the sampler reservoir draws all rows alike: it has no use for {', '.join(given)}"
                    " (weighted-reservoir has)"
                )
        if self.sampler == "weighted-reservoir" and self.partition_by != "global":
            raise UsageError(
                "the sampler weighted-reservoir weighs a row by itself: it knows partition_by global alone"
            )
        if self.sampler in REPLACING and self.max_per_group is not None:
            raise UsageError(
                f"the sampler {self.sampler} draws with replacement, where copies of a row say how much it counts:"
                " max_per_group would break that"
            )

    def _check_strata(self) -> None:
        if self.per is None:
            return
        if self.sampler in (*REPLACING, "all"):
            raise UsageError(f"per needs a sampler that draws each row once and leaves some: {self.sampler} does not")
        if not isinstance(self.per, dict) or len(self.per) != 1:
            raise UsageError(f"per is {self.per!r}, wanted one field and how to deal, like {{'domain': 'equal'}}")
        [(field_, deal)] = self.per.items()
        if field_ not in STRATA:
            raise UsageError(f"per names {field_!r}, wanted {' or '.join(STRATA)}: name the field with --{STRATA[0]}")
        if deal not in DEALS:
            raise UsageError(f"per deals {deal!r}, wanted {', '.join(DEALS)}")

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
        """Whether a row's place in the draw follows from that row alone, so that one pass over a pipe is enough."""
        by_itself = self.sampler == "weighted-reservoir" and self.score == "raw" and self.partition_by == "global"
        of_others = self.dedup or self.drop_constant_groups or self.per or self.max_per_group
        return by_itself and self.inverse_temperature is not None and self.k is not None and not of_others

    @property
    def weights(self) -> list[float]:
        """The weight of each reward component."""
        return [1.0] if self.reward is None else list(self.reward.values())

    @property
    def partition_field(self) -> str | None:
        """The field that log Z is taken over, where it is neither everything nor the group."""
        return None if self.partition_by in ("global", "group") else self.partition_by

    def count(self, kept: int) -> int:
        """How many rows to draw of those kept; a fraction is rounded up, so that some is never none."""
        if self.k is not None:
            return self.k
        if self.fraction is not None:
            # As it is written: 0.07 of 100 is 7, though 0.07 as a float is a little more.
            return math.ceil(Fraction(str(self.fraction)) * kept)
        if self.sampler == "all":
            return kept
        raise UsageError("say how many rows to draw: -k N or --fraction F, or take all with --sampler all")

    def replace(self, **changes: Any) -> Settings:
        """The same settings with some changed."""
        kept = {name: origin for name, origin in self.origins.items() if name not in changes}
        return replace(self, **({"origins": kept} | changes))

    @classmethod
    def load(cls, path: str | Path, command: str = "sample") -> Settings:
        """Settings from a TOML file, or from the manifest of a data set; `karl_fast.config` has the form.

        Raises:
            FileError: the file cannot be read.
            UsageError: it is neither, or holds a key or a value that means nothing; the message names it.
        """
        from karl_fast.config import load

        return load(path, command).build()

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Settings:
        """Settings from names and values, such as the ``settings`` of a manifest; None stands for the default.

        Raises:
            UsageError: a name that no setting has, or a value that it cannot take.
        """
        from karl_fast.config import checked

        return cls(**checked(values))

    def to_toml(self) -> str:
        """What differs from the defaults as the text of a file that :meth:`load` reads."""
        from karl_fast.config import dumps

        return dumps(self)

    def chosen(self) -> dict[str, str]:
        """Where each setting that differs from its default came from: flag, environment, file or call."""
        return {name: self.origins.get(name, "call") for name in self._changed()}

    def _changed(self) -> list[str]:
        plain = Settings()
        names = [field.name for field in fields(self) if field.name not in PLACES]
        return [name for name in names if getattr(self, name) != getattr(plain, name)]

    def to_dict(self) -> dict[str, Any]:
        """After defaults, without what cannot change the outcome."""
        resolved = asdict(self) | {"ess": self.wanted_ess, "split": list(self.split)}
        return {name: value for name, value in resolved.items() if name not in PLACES}
