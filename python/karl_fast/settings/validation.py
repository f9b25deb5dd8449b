"""Allowed values, ranges and conflicts of settings."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, get_args

from karl_fast._core import formats
from karl_fast._suggest import nearest, question
from karl_fast.errors import UsageError
from karl_fast.settings.shaping import AsymmetricScale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karl_fast.settings.fields import SampleFields

Score = Literal["raw", "centre", "zscore", "leave-one-out"]
Sampler = Literal["gumbel", "weighted-reservoir", "reservoir", "systematic", "multinomial", "all"]
Shape = Literal["chat", "prompt-completion", "text", "raw"]
Rate = Literal["log", "result", "karl-v1", "karl-v2"]


class Signal(TypedDict):
    """A component of the reward that a function makes: ``my.py:score``, or one of ``karl_fast.reward.SIGNALS``."""

    fn: str
    weight: NotRequired[float]


class Stored(str):
    """The name of a function in a manifest: it is run only if the user names it again."""

    __slots__ = ()


def refuse_empty(wanted: str = "a path", **values: object) -> None:
    """Refuse an empty text: as a path it would be the folder where one is.

    Raises:
        UsageError: the first that is empty.
    """
    for name, value in values.items():
        if value == "":
            raise UsageError(f"{name} is empty, wanted {wanted}", name)


def weight_of(component: float | Signal) -> float:
    """Return the weight of a component, 1 for a function without one."""
    return component.get("weight", 1.0) if isinstance(component, dict) else component


TEXTS = ("format", "id", "group", "messages", "domain", "partition_by", "tokenizer")
"""Settings that are a text, which is UTF-8 and not empty."""

NO_PATHS = {"partition_by": "global, group, or the path of a field", "tokenizer": "a folder"}
"""Allowed values of settings that are not the path of a field."""

CHOICES = {"score": get_args(Score), "sampler": get_args(Sampler), "shape": get_args(Shape)}

RANGES = (
    ("k", 1, 1 << 32),
    ("max_per_group", 1, 1 << 32),
    ("max_tokens", 2, 1 << 32),
    ("max_line_bytes", 1, 1 << 32),
    ("threads", 1, 1 << 16),
    ("seed", 0, 1 << 64),
)
"""The least that a whole number may be, and the first that is too large."""

REPLACING = ("systematic", "multinomial")
"""Samplers that can draw a row more than once."""

DEALS = ("equal", "proportional", "sqrt")
"""Ways to divide a budget among strata."""

STRATA = ("domain", "group")
"""The columns that can be strata."""

RIVALS = (("k", "fraction"), ("ess", "inverse_temperature"))
"""Alternatives for one thing: given in a stronger layer (a flag over a file), one replaces the other."""

USELESS = {
    ("sampler", "all"): ("k", "fraction", "per"),
    ("sampler", "reservoir"): ("shaping", "score", "ess", "inverse_temperature", "partition_by"),
    ("sampler", "weighted-reservoir"): ("partition_by",),
    **{("sampler", name): ("max_per_group", "per") for name in REPLACING},
    ("shape", "raw"): ("max_tokens", "tokenizer"),
}
"""Settings without effect under a choice: a choice in a stronger layer removes them; in the same it is an error."""


def check(settings: SampleFields) -> None:
    """Raise where settings contradict each other, or lie outside their range.

    Raises:
        UsageError: the first that does.
    """
    for part in (_types, _temperature, _budget, _sampler, _strata, _score, _texts, _words, _ranges, _tokens, _split):
        part(settings)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (lambda value: type(value) is int, "an int"),
    "float": (_is_number, "a float"),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "tuple[float, float, float]": (
        lambda value: isinstance(value, tuple | list) and all(map(_is_number, value)),
        "three shares, like (0.8, 0.1, 0.1)",
    ),
}
"""Check and description of the values of a setting that is not a text, by annotation: values a manifest can hold."""


def _types(settings: SampleFields) -> None:
    for one in fields(settings):
        kind, optional, _ = str(one.type).partition(" | None")
        if kind not in KINDS:
            continue
        (fits, wanted), value = KINDS[kind], getattr(settings, one.name)
        if not (fits(value) or (value is None and optional)):
            raise UsageError(f"{one.name} is {value!r}, wanted {wanted}", one.name)


def _texts(settings: SampleFields) -> None:
    given = [(name, getattr(settings, name)) for name in TEXTS]
    for name, text in [*given, *(("reward", path) for path in settings.reward or {})]:
        if text is not None and not isinstance(text, str):
            raise UsageError(f"{name} is {text!r}, wanted a text", name)
        if text is not None and text.encode("utf-8", "ignore").decode() != text:
            raise UsageError(f"{name} is {text!r}, which is no UTF-8", name)
        if name != "format":  # of formats there is a list
            refuse_empty(NO_PATHS.get(name, "the path of a field"), **{name: text})


def _score(settings: SampleFields) -> None:
    if not isinstance(settings.shaping, AsymmetricScale | None):
        raise UsageError(f"shaping is {settings.shaping!r}, wanted an AsymmetricScale", "shaping")
    if settings.ddof not in (0, 1):
        raise UsageError(f"ddof is {settings.ddof}, wanted 0 (population) or 1 (sample)", "ddof")
    if not 0 <= settings.eps < float("inf"):
        raise UsageError(f"eps is {settings.eps}, wanted a finite number from 0 on", "eps")
    if settings.min_reward is not None and not math.isfinite(settings.min_reward):
        raise UsageError(f"min_reward is {settings.min_reward}, wanted a finite number", "min_reward")
    if settings.reward is not None and not (isinstance(settings.reward, dict) and settings.reward):
        wanted = "a weight for each path, like {'outcome': 1.0}"
        raise UsageError(f"reward is {settings.reward!r}, wanted {wanted}", "reward")
    for path, component in (settings.reward or {}).items():
        weight = _weight(path, component)
        if not math.isfinite(weight):
            raise UsageError(f"the weight of {path} is {weight}, wanted a finite number")
        if settings.functions and not weight:
            raise UsageError(f"the weight of {path} is 0, and beside a function a component has to weigh something")


def _weight(path: str, component: float | Signal) -> float:
    table = component if isinstance(component, dict) else Signal(fn="")
    weight = weight_of(component)
    if not (set(table) <= {"fn", "weight"} and isinstance(table.get("fn"), str) and isinstance(weight, int | float)):
        wanted = "a weight, or a table like {'weight': 0.3, 'fn': 'my.py:score'}"
        raise UsageError(f"reward.{path} is {component!r}, wanted {wanted}", "reward")
    return weight


def _twice(one: str, other: str) -> str:
    return f"{one} and {other} are two ways to say one thing: give one"


def _temperature(settings: SampleFields) -> None:
    if settings.ess is not None and settings.inverse_temperature is not None:
        raise UsageError(_twice("ess", "inverse_temperature"), "ess", "inverse_temperature")
    if settings.ess is not None and not 0 < settings.ess <= 1:
        raise UsageError(f"ess is {settings.ess}, wanted a share above 0 and up to 1", "ess")
    given = settings.inverse_temperature
    if given is not None and not 0 <= given < float("inf"):
        raise UsageError(f"inverse_temperature is {given}, wanted a finite number from 0 on", "inverse_temperature")


def _budget(settings: SampleFields) -> None:
    if settings.k is not None and settings.fraction is not None:
        raise UsageError(_twice("k", "fraction"), "k", "fraction")
    if settings.sampler == "all" and (settings.k is not None or settings.fraction is not None):
        raise UsageError("the sampler all takes every kept row: it has no use for k or fraction", "k", "fraction")
    if settings.fraction is not None and not 0 < settings.fraction <= 1:
        raise UsageError(f"fraction is {settings.fraction}, wanted a share above 0 and up to 1", "fraction")


def _sampler(settings: SampleFields) -> None:
    if settings.sampler == "reservoir":
        given = [name for name in ("shaping", "ess", "inverse_temperature") if getattr(settings, name) is not None]
        given += ["score"] * (settings.score != "raw") + ["partition_by"] * (settings.partition_by != "global")
        if given:
            raise UsageError(
                f"the sampler reservoir draws all rows alike: it has no use for {', '.join(given)}"
                " (weighted-reservoir has)",
                *given,
            )
    if settings.sampler == "weighted-reservoir" and settings.partition_by != "global":
        raise UsageError(
            "the sampler weighted-reservoir weighs a row by itself: it knows partition_by global alone",
            "partition_by",
        )
    if settings.sampler in REPLACING and settings.max_per_group is not None:
        raise UsageError(
            f"the sampler {settings.sampler} draws with replacement, where copies of a row say how much it counts:"
            " max_per_group would break that",
            "max_per_group",
        )


def _strata(settings: SampleFields) -> None:
    if settings.per is None:
        return
    if settings.sampler in (*REPLACING, "all"):
        raise UsageError(
            f"per needs a sampler that draws each row once and leaves some: {settings.sampler} does not", "per"
        )
    if not isinstance(settings.per, dict) or len(settings.per) != 1:
        wanted = "one field and how to deal, like {'domain': 'equal'}"
        raise UsageError(f"per is {settings.per!r}, wanted {wanted}", "per")
    [(field_, deal)] = settings.per.items()
    if field_ not in STRATA:
        error = UsageError(f"per names {field_!r}, wanted {' or '.join(STRATA)}", "per")
        near = question(f"--per {name}={deal}" for name in nearest(field_, STRATA))
        error.hint = near or f"name the path of the field with --{STRATA[0]}"
        raise error
    if deal not in DEALS:
        error = UsageError(f"per deals {deal!r}, wanted {', '.join(DEALS)}", "per")
        error.hint = question(f"--per {field_}={name}" for name in nearest(deal, DEALS))
        raise error


def _words(settings: SampleFields) -> None:
    for name, choices in CHOICES.items():
        among(name, getattr(settings, name), choices)
    if settings.format is not None:
        among("format", spelled(settings.format), [name for name, _ in formats()])


def spelled(format: str) -> str:
    """Return the name of a format as listed: `_` and `-`, upper and lower case are equal."""
    return format.lower().replace("_", "-")


def among(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise UsageError for a value of a setting that is none of its words, with the nearest of them."""
    if value not in choices:
        error = UsageError(f"{name} is {value!r}, wanted {', '.join(choices)}", name)
        error.hint = question(nearest(value, choices))
        raise error


def _ranges(settings: SampleFields) -> None:
    for name, low, high in RANGES:
        value = getattr(settings, name)
        if value is not None and not (isinstance(value, int) and low <= value < high):
            wanted = f"less than {high}" if isinstance(value, int) and value >= high else f"{low} or more"
            raise UsageError(f"{name} is {value}, wanted {wanted}", name)


def _tokens(settings: SampleFields) -> None:
    if (settings.max_tokens is None) != (settings.tokenizer is None):
        raise UsageError(
            "max_tokens and tokenizer go together: tokens are counted with the model's own tokenizer",
            "max_tokens",
            "tokenizer",
        )
    if settings.shape == "raw" and settings.max_tokens is not None:
        raise UsageError("raw rows are no training rows yet: their tokens cannot be counted")


def _split(settings: SampleFields) -> None:
    split = settings.split
    if len(split) != 3 or not (min(split) >= 0 and abs(sum(split) - 1) <= 1e-9):
        shares = ",".join(f"{share:g}" for share in split)
        raise UsageError(f"split is {shares}, wanted three shares that add up to 1", "split")
