"""The options that commands share, each said once; defaults are those of `Settings`."""

from __future__ import annotations

import functools
import inspect
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karl_fast.settings import Sampler, Score, Settings, Shape

if TYPE_CHECKING:
    from collections.abc import Callable

READ = ("format", "id", "group", "reward", "messages", "domain")
TARGET = ("score", "ddof", "eps", "ess", "inverse_temperature", "partition_by")
RULES = ("min_reward", "drop_constant_groups", "max_per_group", "dedup")
DRAW = ("k", "fraction", "sampler", "per")
EXPORT = ("shape", "split", "max_tokens", "tokenizer", "allow_secrets", "hash_inputs")
RUN = ("seed", "strict", "max_line_bytes", "threads")

Logs = Annotated[list[str], typer.Argument(metavar="LOG", help="Files, folders, globs, or - for standard input.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on stderr but errors.")]


def weights(text: str) -> dict[str, float]:
    """`outcome=0.5,cost=-0.1` to weights by path; a path alone has weight 1."""
    parts = [part.strip().partition("=") for part in text.split(",")]
    try:
        found = {path: float(weight) if equals else 1.0 for path, equals, weight in parts}
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no path and no list of path=weight") from error
    if len(found) < len(parts) or not all(found):
        raise typer.BadParameter(f"{text!r} does not name each component once")
    return found


def shares(text: str) -> tuple[float, float, float]:
    """`0.9,0.1,0` to three numbers."""
    try:
        train, valid, test = map(float, text.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not three numbers like 0.9,0.1,0") from error
    return train, valid, test


def deal(text: str) -> dict[str, str]:
    """`domain=sqrt` to how a budget is dealt over which field."""
    field, equals, how = text.partition("=")
    if not (field and equals and how):
        raise typer.BadParameter(f"{text!r} is no field=how, like domain=equal")
    return {field: how}


def _option(kind: Any, help: str, *names: str, **more: Any) -> Any:
    return Annotated[kind, typer.Option(*names, help=help, **more)]


OPTIONS = {
    "format": _option(str | None, "generic or tau-bench; found by looking at a record if absent."),
    "id": _option(str | None, "Path of the record's id; several, with commas, are joined."),
    "group": _option(str | None, "Path of what rollouts share: the task or the prompt."),
    "reward": _option(
        dict | None,
        "Path of the reward, or components with weights: outcome=0.5,cost=-0.1.",
        parser=weights,
        metavar="PATH[=WEIGHT],...",
    ),
    "messages": _option(str | None, "Path of the conversation."),
    "domain": _option(str | None, "Path of a category to report by."),
    "score": _option(Score, "What is tempered: the reward, or its advantage within the group."),
    "ddof": _option(int, "zscore: the variance is divided by n - ddof."),
    "eps": _option(float, "zscore: added to the standard deviation."),
    "ess": _option(
        float | None,
        "Effective sample size wanted, as a share of the kept rows. [default: 0.5, unless a temperature is given]",
    ),
    "inverse_temperature": _option(float | None, "b of exp(b * score), instead of --ess."),
    "partition_by": _option(str, "What log Z is taken over: global, group, or the path of a field."),
    "min_reward": _option(float | None, "Drop rows with a smaller reward."),
    "drop_constant_groups": _option(bool, "Drop groups whose rewards are all equal.", "--drop-constant-groups"),
    "max_per_group": _option(int | None, "Draw at most so many rows of a group."),
    "dedup": _option(bool, "Of trajectories in a group that are equal byte for byte, keep one.", "--dedup"),
    "k": _option(int | None, "How many rows to draw, all splits together.", "-k"),
    "fraction": _option(float | None, "Instead of -k: a share of the rows that can be drawn."),
    "sampler": _option(
        Sampler,
        "gumbel, weighted-reservoir: k without replacement, by weight. reservoir: k without replacement, all alike. "
        "systematic, multinomial: k with replacement, by weight. all: every kept row, with its weight.",
    ),
    "per": _option(
        dict | None,
        "Deal k over the values of domain or group: equal, proportional to their rows, or to the root of them (sqrt).",
        parser=deal,
        metavar="FIELD=HOW",
    ),
    "shape": _option(Shape, "What a row looks like; raw is the record's own bytes.", "--as"),
    "split": _option(tuple, "Shares of train, valid and test, dealt by group.", parser=shares, metavar="A,B,C"),
    "max_tokens": _option(int | None, "Drop longer rows; needs --tokenizer."),
    "tokenizer": _option(str | None, "Folder of the model's tokenizer."),
    "allow_secrets": _option(bool, "Do not replace keys and passwords.", "--allow-secrets"),
    "hash_inputs": _option(bool, "Hash whole inputs, not only their first and last MiB.", "--hash-inputs"),
    "seed": _option(int, "Same seed, records and settings: same bytes."),
    "strict": _option(bool, "Parse every record in full; fail (exit 3) at the first that is damaged.", "--strict"),
    "max_line_bytes": _option(int, "Longer records are dropped and counted."),
    "threads": _option(int | None, "Threads to read with. [default: all cores]"),
}


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the named options, and hand them to it as one `settings`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def parsed(**given: Any) -> None:
            chosen = {name: given.pop(name) for name in names}
            settings = Settings(**{name: value for name, value in chosen.items() if value is not None})
            command(settings=settings, **given)

        own = inspect.signature(command, eval_str=True).parameters.values()
        shared = [_parameter(name) for name in names]
        parameters = [own_one for own_one in own if own_one.name != "settings"] + shared
        parsed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        parsed.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return parsed

    return decorate


DEFAULTS = {field.name: field.default for field in fields(Settings) if field.default is not MISSING}


def _parameter(name: str) -> inspect.Parameter:
    default = DEFAULTS.get(name)
    if isinstance(default, tuple):  # a parser takes text
        default = ",".join(f"{share:g}" for share in default)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=OPTIONS[name])
