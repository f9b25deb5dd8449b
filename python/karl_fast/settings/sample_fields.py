"""Declarations of the settings of `sample` and `inspect`, checked when they are made; and their types as keywords."""

from __future__ import annotations

import inspect
import math
import os
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar

from karl_fast._core import formats
from karl_fast._suggest import ask_whether, nearest
from karl_fast.errors import UsageError
from karl_fast.settings import values
from karl_fast.settings.schema import (
    COUNT,
    FROM_ZERO,
    MISSING,
    SEED,
    SHARE,
    BaselineBy,
    BaselineKind,
    Range,
    Sampler,
    Score,
    Shape,
    Signal,
    schema,
    setting,
    weight_of,
)
from karl_fast.settings.values import AsymmetricScale  # noqa: TC001  (kinds are read while it runs)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

READ, TARGET, RULES, DRAW = "Fields of a record", "Target", "Filters", "Draw"
EXPORT, RUN = "Data set", "Run"

DEFAULT_ESS = 0.5
"""Default share of the kept rows that the target spreads over, if no temperature is set."""

PLACES = ("threads", "origins")
"""Settings that change how a run is done, and never its result."""


@dataclass(frozen=True)
class SampleFields:
    """Fields, defaults and checks of `karl_fast.Settings`."""

    format: str | None = setting(
        None,
        READ,
        "Format of the log: trajectory (what convert writes), tau-bench, prime-rl, verifiers, verl, trl, karl or "
        "generic; detected from the records by default.",
        proposals=lambda: [name for name, _ in formats()],
    )
    id: str | None = setting(None, READ, "Path of the record's id; several, with commas, are joined.")
    group: str | None = setting(
        None, READ, "Path of what rollouts share: the task or the prompt. Also A,B (joined), hash(PATH), PATH//8."
    )
    reward: dict[str, float | Signal] | None = setting(
        None,
        READ,
        "Path of the reward, or components with weights: outcome=0.5,cost=-0.1,style=0.3:my.py:score.",
        form=values.REWARD,
    )
    messages: str | None = setting(None, READ, "Path of the conversation.")
    prompt: str | None = setting(
        None, READ, "Path of the prompt, a text or messages, of records with a prompt and its completion."
    )
    completion: str | None = setting(None, READ, "Path of the completion of that prompt, a text or messages.")
    system: str | None = setting(None, READ, "Path of the system prompt, where it is not in the conversation.")
    tools: str | None = setting(None, READ, "Path of the tools that the model was offered.")
    domain: str | None = setting(None, READ, "Path of a category to report by.")
    order_by: str | None = setting(
        None, READ, "Path of what orders records in time: a number or an RFC 3339 time, in every record."
    )
    shaping: AsymmetricScale | None = setting(
        None,
        TARGET,
        "Score a shaped reward: what is above a centre is scaled by one number, what is below by another. Filters "
        "and reports use the reward itself.",
        form=values.SHAPING,
    )
    score: Score = setting(
        "raw",
        TARGET,
        "Score that rows are weighed by: the reward (raw), the reward relative to its group (centre, zscore, "
        "leave-one-out), or relative to a --baseline (advantage).",
    )
    baseline: BaselineKind = setting(
        "mean",
        TARGET,
        "What --score advantage subtracts from a reward: the mean reward; partition, (1/b) log mean exp(b r) at "
        "--inverse-temperature b; ema, a moving mean of the rewards before it by --order-by.",
    )
    baseline_by: BaselineBy = setting("group", TARGET, "Rows that share a baseline, with --score advantage.")
    ema_alpha: float = setting(
        0.1, TARGET, "Weight of the newest reward, with --baseline ema.", bounds=Range(low=0, high=1)
    )
    ema_start: float = setting(0.5, TARGET, "Baseline of the first row of a group or domain, with --baseline ema.")
    ddof: int = setting(
        0,
        TARGET,
        "Divide the variance by n - ddof, with --score zscore.",
        bounds=Range(low=0, high=1, words="0 (population) or 1 (sample)"),
    )
    eps: float = setting(1e-6, TARGET, "Number added to the standard deviation, with --score zscore.", bounds=FROM_ZERO)
    ess: float | None = setting(
        None,
        TARGET,
        "Effective sample size wanted, as a share of the kept rows. [default: 0.5, unless a temperature is given]",
        bounds=SHARE,
    )
    inverse_temperature: float | None = setting(
        None, TARGET, "b of exp(b * score), instead of --ess.", bounds=FROM_ZERO
    )
    parent: str | None = setting(
        None,
        TARGET,
        "Path of the id of the trajectory that called a row, parent.id in converted transcripts: rows of a tree of "
        "calls have the reward of its root, and together the weight of one row.",
    )
    recency_half_life: str | None = setting(
        None,
        TARGET,
        "Halve the weight of a row with each such age, from the newest by --order-by: 14d (s, m, h, d, w), or a number "
        "in the field's own unit.",
        form=values.RECENCY,
    )
    partition_by: str = setting(
        "global",
        TARGET,
        "Rows that log Z is computed over: all (global), those of a group, or those with one value of a field, by its "
        "path.",
        proposals=lambda: ["global", "group"],
    )
    min_reward: float | None = setting(None, RULES, "Drop rows with a smaller reward.")
    drop_constant_groups: bool = setting(False, RULES, "Drop groups whose rewards are all equal.")
    variance_top_p: float | None = setting(
        None,
        RULES,
        "Keep the fewest groups that hold this share of the variance of rewards; groups without any are dropped.",
        bounds=SHARE,
    )
    max_per_group: int | None = setting(None, RULES, "Draw at most so many rows of a group.", bounds=COUNT)
    dedup: bool = setting(False, RULES, "Keep one of the records of a group that have equal training rows.")
    exclude: str | None = setting(
        None,
        RULES,
        "File with prompts of a benchmark: drop rows whose prompt is or contains one. JSON Lines, or lines of text.",
    )
    sampler: Sampler = setting(
        "gumbel",
        DRAW,
        "gumbel, weighted-reservoir: k without replacement, by weight. reservoir: k without replacement, all alike. "
        "systematic, multinomial: k with replacement, by weight. all: every kept row, with its weight.",
    )
    per: dict[str, str] | None = setting(
        None,
        DRAW,
        "Deal k over the values of domain or group: equal, proportional to their rows, or to the root of them (sqrt).",
        form=values.PER,
    )
    k: int | None = setting(None, DRAW, "How many rows to draw, all splits together.", flag="-k", bounds=COUNT)
    fraction: float | None = setting(None, DRAW, "Instead of -k: a share of the rows that can be drawn.", bounds=SHARE)
    seed: int = setting(0, RUN, "Same seed, records and settings: same bytes.", bounds=SEED)
    shape: Shape = setting(
        "chat",
        EXPORT,
        "What a row looks like. raw: the record's own bytes. preference: with a rejected answer of a lower reward from "
        "the group. verl, prime-rl: Parquet.",
        flag="--as",
    )
    split: tuple[float, float, float] = setting(
        (0.9, 0.1, 0.0),
        EXPORT,
        "Shares of train, valid and test, dealt by group, or by prompt without one.",
        form=values.SPLIT,
    )
    allow_secrets: bool = setting(False, EXPORT, "Do not replace keys and passwords.")
    pseudonyms: str | None = setting(
        None,
        EXPORT,
        "File with the key of pseudonyms, made if missing: replace e-mail addresses, and names of users and hosts.",
    )
    max_tokens: int | None = setting(
        None, EXPORT, "Drop longer rows; needs --tokenizer.", bounds=Range(low=2, below=1 << 32)
    )
    tokenizer: str | None = setting(None, EXPORT, "Folder of the model's tokenizer.")
    hash_inputs: bool = setting(False, EXPORT, "Hash whole inputs, not only their first and last MiB.")
    strict: bool = setting(False, RUN, "Parse every record in full; fail (exit 3) at the first that is damaged.")
    max_line_bytes: int = setting(64 << 20, RUN, "Longer records are dropped and counted.", bounds=COUNT)
    threads: int = setting(
        lambda: os.cpu_count() or 1,
        RUN,
        "Threads to read with. [default: all cores]",
        bounds=Range(low=1, below=1 << 16),
        compare=False,
    )
    origins: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Source of each setting: flag, environment or file; absent for settings from Python."""

    _command = "sample"

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
        of_groups = self.drop_constant_groups or self.variance_top_p or self.max_per_group
        of_others = (
            of_groups or self.dedup or self.per or self.functions or self.order_by or self.exclude or self.parent
        )
        of_others = of_others or self.shape in ("preference", "kto")
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
        of_baseline = self.score == "advantage" and self.baseline_by == "domain"
        return self.domain is not None or of_baseline or "domain" in (self.per or {})

    @property
    def score_by(self) -> str | None:
        """The column whose rows are scored together; None where each is scored by itself."""
        return self.baseline_by if self.score == "advantage" else "group" if self.score != "raw" else None

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

    def replace(self, **changes: Unpack[SampleKeywords]) -> Self:
        """Return a copy with some settings changed.

        Raises:
            UsageError: for one that there is not, or as when they are made.
        """
        known = [declared.name for declared in fields(self)]
        for name in sorted(changes.keys() - {*known}):
            raise UsageError(f"there is no setting {name}", hint=ask_whether(nearest(name, known)))
        remaining = {name: origin for name, origin in self.origins.items() if name not in changes}
        arguments: dict[str, Any] = {"origins": remaining, **changes}
        return replace(self, **arguments)

    def chosen(self) -> dict[str, str]:
        """Return the source of each setting that differs from its default: flag, environment, file or call."""
        return {name: self.origins.get(name, "call") for name in self._changed()}

    def _changed(self) -> list[str]:
        plain = type(self)()
        names = [field.name for field in fields(self) if field.name not in PLACES]
        return [name for name in names if getattr(self, name) != getattr(plain, name)]

    def to_dict(self) -> dict[str, Any]:
        """Return all settings that can change the outcome; `from_dict` is the inverse."""
        values = asdict(self) | {"split": list(self.split)}
        return {name: value for name, value in values.items() if name not in PLACES}


F = TypeVar("F", bound="Callable[..., Any]")


# For type checkers and editors. Written from the declarations above by `KARL_FAST_UPDATE=1 pytest tests/unit/settings`.
class SampleKeywords(TypedDict, total=False):
    """Settings of `sample` and `inspect` by name."""

    format: str | None
    id: str | None
    group: str | None
    reward: dict[str, float | Signal] | None
    messages: str | None
    prompt: str | None
    completion: str | None
    system: str | None
    tools: str | None
    domain: str | None
    order_by: str | None
    shaping: AsymmetricScale | None
    score: Score
    baseline: BaselineKind
    baseline_by: BaselineBy
    ema_alpha: float
    ema_start: float
    ddof: int
    eps: float
    ess: float | None
    inverse_temperature: float | None
    parent: str | None
    recency_half_life: str | None
    partition_by: str
    min_reward: float | None
    drop_constant_groups: bool
    variance_top_p: float | None
    max_per_group: int | None
    dedup: bool
    exclude: str | None
    sampler: Sampler
    per: dict[str, str] | None
    k: int | None
    fraction: float | None
    seed: int
    shape: Shape
    split: tuple[float, float, float]
    allow_secrets: bool
    pseudonyms: str | None
    max_tokens: int | None
    tokenizer: str | None
    hash_inputs: bool
    strict: bool
    max_line_bytes: int
    threads: int


def show_keywords(kind: type) -> Callable[[F], F]:
    """Show the settings of a class as keywords in the signature of a function that takes them as ``**choices``."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *own, _ = signature.parameters.values()
        keywords = [
            inspect.Parameter(
                setting.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=... if setting.default is MISSING else setting.default,
                annotation=setting.annotation,
            )
            for name, setting in schema(kind).items()
            if "." not in name  # settings in a table are passed as one
        ]
        function.__signature__ = signature.replace(parameters=[*own, *keywords])  # type: ignore[attr-defined]
        return function

    return decorate
