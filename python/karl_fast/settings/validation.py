"""Conflicts of the settings of `sample`, and checks of their values beyond type and range."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from karl_fast._core import formats
from karl_fast._suggest import ask_whether, nearest
from karl_fast.errors import UsageError
from karl_fast.settings.schema import STARTED_AT, Signal, is_a, validate, weight_of
from karl_fast.settings.values import parse_half_life

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karl_fast.settings.sample_fields import SampleFields


def refuse_empty(wanted: str = "a path", **values: object) -> None:
    """Refuse an empty text: as a path it would be the folder where one is.

    Raises:
        UsageError: the first that is empty.
    """
    for name, value in values.items():
        if value == "":
            raise UsageError(f"{name} is empty, wanted {wanted}", name)


TEXTS = (
    *("format", "id", "group", "messages", "prompt", "completion", "system", "tools", "domain"),
    *("order_by", "partition_by", "parent"),
    *("tokenizer", "pseudonyms", "exclude"),
)
"""Settings that are a text, which is UTF-8 and not empty."""

FILES = {"tokenizer", "pseudonyms", "exclude"}
"""Settings that are a path of the disk."""

NO_PATHS = {
    "partition_by": "global, group, or the path of a field",
    **{"tokenizer": "a folder", "pseudonyms": "a file", "exclude": "a file"},
}
"""Allowed values of settings that are not the path of a field."""

REPLACING = ("systematic", "multinomial")
"""Samplers that can draw a row more than once."""

DEALS = ("equal", "proportional", "sqrt")
"""Ways to divide a budget among strata."""

STRATA = ("domain", "group")
"""The columns that can be strata."""

RIVALS = (("k", "fraction"), ("ess", "inverse_temperature"))
"""Alternatives for one thing: given in a stronger layer (a flag over a file), one replaces the other."""

EMA = ("ema_alpha", "ema_start")
"""Settings of the baseline ema."""

BASELINE = ("baseline", "baseline_by", *EMA)
"""Settings of the score advantage."""

UNWEIGHED = ("shaping", "ess", "inverse_temperature", "recency_half_life")
"""Settings of weights, which a draw of all rows alike has no use for."""

USELESS = {
    ("sampler", "all"): ("k", "fraction", "per"),
    ("sampler", "reservoir"): (*UNWEIGHED, "score", *BASELINE, "partition_by"),
    **{("score", name): BASELINE for name in ("raw", "centre", "zscore", "leave-one-out")},
    **{("baseline", name): EMA for name in ("mean", "partition")},
    ("sampler", "weighted-reservoir"): ("partition_by",),
    **{("sampler", name): ("max_per_group", "per") for name in REPLACING},
    ("shape", "raw"): ("max_tokens", "tokenizer"),
}
"""Settings without effect under a choice: a choice in a stronger layer removes them; in the same it is an error."""


def displaced_settings(values: dict[str, Any]) -> set[str]:
    """Return the settings that these override in weaker layers: alternatives to them, and those they make useless."""
    rivals = {name for names in RIVALS if values.keys() & set(names) for name in names}
    return rivals | {
        name for (chooser, choice), names in USELESS.items() if values.get(chooser) == choice for name in names
    }


def check_settings(settings: SampleFields) -> None:
    """Raise where settings contradict each other, or lie outside their range.

    Raises:
        UsageError: the first that does.
    """
    validate(settings)
    for part in (
        _check_temperature,
        _check_baseline,
        _check_order,
        _check_budget,
        _check_sampler,
        _check_strata,
        _check_reward,
        _check_texts,
        _check_format,
        _check_tokens,
        _check_split,
    ):
        part(settings)


def _check_texts(settings: SampleFields) -> None:
    given = [(name, getattr(settings, name)) for name in TEXTS]
    for name, text in [*given, *(("reward", path) for path in settings.reward or {})]:
        if text is not None and not isinstance(text, str):  # a path of the reward
            raise UsageError(f"{name} is {text!r}, wanted a text", name)
        if text is not None and text.encode("utf-8", "ignore").decode() != text:
            raise UsageError(f"{name} is {text!r}, which is not UTF-8", name)
        if name != "format":  # of formats there is a list
            refuse_empty(NO_PATHS.get(name, "the path of a field"), **{name: text})


def _check_reward(settings: SampleFields) -> None:
    if settings.reward == {}:
        raise UsageError("reward is {}, wanted a weight for each path, like {'outcome': 1.0}", "reward")
    for path, component in (settings.reward or {}).items():
        weight = _check_weight(path, component)
        if not math.isfinite(weight):
            raise UsageError(f"the weight of {path} is {weight}, wanted a finite number")
        if settings.functions and not weight:
            raise UsageError(f"the weight of {path} is 0, a component with a function needs a weight other than 0")


def _check_weight(path: str, component: float | Signal) -> float:
    table = component if isinstance(component, dict) else Signal(fn="")
    weight = weight_of(component)
    if not (set(table) <= {"fn", "weight"} and isinstance(table.get("fn"), str) and isinstance(weight, int | float)):
        wanted = "a weight, or a table like {'weight': 0.3, 'fn': 'my.py:score'}"
        raise UsageError(f"reward.{path} is {component!r}, wanted {wanted}", "reward")
    return weight


def _describe_rivals(first: str, second: str) -> str:
    return f"{first} and {second} cannot be combined; use one of them"


def _check_temperature(settings: SampleFields) -> None:
    if settings.ess is not None and settings.inverse_temperature is not None:
        raise UsageError(_describe_rivals("ess", "inverse_temperature"), "ess", "inverse_temperature")


def _check_baseline(settings: SampleFields) -> None:
    if settings.score != "advantage":
        if given := _changed_names(settings, BASELINE):
            raise UsageError(
                f"{given[0]} applies only to the score advantage, and score is {settings.score}", given[0], "score"
            )
    elif settings.baseline == "partition" and not settings.inverse_temperature:
        raise UsageError(
            "the baseline partition is taken at an inverse temperature above 0",
            "baseline",
            hint="give --inverse-temperature, which is that of the target too",
        )
    elif settings.baseline != "ema" and (given := _changed_names(settings, EMA)):
        raise UsageError(
            f"{given[0]} applies only to the baseline ema, and baseline is {settings.baseline}", given[0], "baseline"
        )


def _changed_names(settings: SampleFields, names: Sequence[str]) -> list[str]:
    """Return the names of settings that differ from their defaults."""
    return [name for name in names if getattr(settings, name) != getattr(type(settings), name)]


def _check_order(settings: SampleFields) -> None:
    """Check the settings that need an order of the records: their places in files are none."""
    if settings.recency_half_life is not None:
        try:
            parse_half_life(settings.recency_half_life)
        except ValueError as error:
            value = settings.recency_half_life
            raise UsageError(f"recency_half_life is {value!r}, wanted {error}", "recency_half_life") from error
    needs = {"baseline": settings.baseline == "ema", "recency_half_life": settings.recency_half_life is not None}
    name = next((name for name, needed in needs.items() if needed), None)
    if name is not None and settings.order_by is None:
        raise UsageError(
            f"{name} is {getattr(settings, name)}, which needs an order of the records",
            name,
            hint=f"name the field of their time: --order-by {STARTED_AT}",
        )


def _check_budget(settings: SampleFields) -> None:
    if settings.k is not None and settings.fraction is not None:
        raise UsageError(_describe_rivals("k", "fraction"), "k", "fraction")
    if settings.sampler == "all" and (settings.k is not None or settings.fraction is not None):
        raise UsageError("the sampler all takes every kept row: it has no use for k or fraction", "k", "fraction")


def _check_sampler(settings: SampleFields) -> None:
    if settings.sampler == "reservoir":
        given = [name for name in UNWEIGHED if getattr(settings, name) is not None]
        given += ["score"] * (settings.score != "raw") + ["partition_by"] * (settings.partition_by != "global")
        if given:
            raise UsageError(
                f"the sampler reservoir draws all rows alike: it has no use for {', '.join(given)}"
                " (weighted-reservoir has)",
                *given,
            )
    if settings.sampler == "weighted-reservoir" and settings.partition_by != "global":
        raise UsageError(
            "the sampler weighted-reservoir weights each row alone: it takes partition_by global only",
            "partition_by",
        )
    if settings.sampler in REPLACING and settings.max_per_group is not None:
        raise UsageError(
            f"the sampler {settings.sampler} draws with replacement, where copies of a row say how much it counts:"
            " max_per_group would break that",
            "max_per_group",
        )


def _check_strata(settings: SampleFields) -> None:
    if settings.per is None:
        return
    if settings.sampler in (*REPLACING, "all"):
        raise UsageError(
            f"per needs a sampler that draws each row once and leaves some: {settings.sampler} does not", "per"
        )
    if len(settings.per) != 1:
        wanted = "one field and how to deal, like {'domain': 'equal'}"
        raise UsageError(f"per is {settings.per!r}, wanted {wanted}", "per")
    [(field_, deal)] = settings.per.items()
    if field_ not in STRATA:
        error = UsageError(f"per names {field_!r}, wanted {' or '.join(STRATA)}", "per")
        near = ask_whether(f"--per {name}={deal}" for name in nearest(field_, STRATA))
        error.hint = near or f"name the path of the field with --{STRATA[0]}"
        raise error
    if deal not in DEALS:
        raise UsageError(
            f"per has {deal!r}, wanted {', '.join(DEALS)}",
            "per",
            hint=ask_whether(f"--per {field_}={name}" for name in nearest(deal, DEALS)),
        )


def _check_format(settings: SampleFields) -> None:
    if settings.format is not None:
        check_choice("format", normalize_format(settings.format), [name for name, _ in formats()])


def normalize_format(format: str) -> str:
    """Return the name of a format as listed: `_` and `-`, upper and lower case are equal."""
    return format.lower().replace("_", "-")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise UsageError for a value of a setting that is none of its words, with the nearest of them."""
    if value not in choices:
        raise UsageError(
            f"{name} is {value!r}, wanted {', '.join(choices)}", name, hint=ask_whether(nearest(value, choices))
        )


def _check_tokens(settings: SampleFields) -> None:
    if (settings.max_tokens is None) != (settings.tokenizer is None):
        raise UsageError(
            "max_tokens and tokenizer go together: tokens are counted with the model's own tokenizer",
            "max_tokens",
            "tokenizer",
        )
    if settings.shape == "raw" and settings.max_tokens is not None:
        raise UsageError("raw rows are not training rows yet: their tokens cannot be counted")


def _check_split(settings: SampleFields) -> None:
    split = settings.split
    if not all(is_a(share, float) for share in split):
        raise UsageError(f"split is {split!r}, wanted three shares, like (0.8, 0.1, 0.1)", "split")
    if len(split) != 3 or not (min(split) >= 0 and abs(sum(split) - 1) <= 1e-9):
        shares = ",".join(f"{share:g}" for share in split)
        raise UsageError(f"split is {shares}, wanted three shares that add up to 1", "split")
