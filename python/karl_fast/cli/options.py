"""Options shared by several commands, each declared once; defaults are those of `Settings`."""

from __future__ import annotations

import functools
import inspect
from dataclasses import MISSING, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from karl_fast._core import formats
from karl_fast.cli.precedence import FLAGS, Layer, flag, settled, typed, variable
from karl_fast.errors import UsageError
from karl_fast.settings.sample import Settings
from karl_fast.settings.shaping import AsymmetricScale
from karl_fast.settings.toml import Config, deal, load, scale, shares, weights
from karl_fast.settings.validation import Sampler, Score, Shape, refuse_empty

if TYPE_CHECKING:
    from collections.abc import Callable


READ = ("format", "id", "group", "reward", "messages", "domain")
TARGET = ("shaping", "score", "ddof", "eps", "ess", "inverse_temperature", "partition_by")
RULES = ("min_reward", "drop_constant_groups", "max_per_group", "dedup")
DRAW = ("k", "fraction", "sampler", "per")
EXPORT = ("shape", "split", "max_tokens", "tokenizer", "allow_secrets", "hash_inputs")
RUN = ("seed", "strict", "max_line_bytes", "threads")

VARIABLES = (
    "Options from --config on may also stand in a variable, as --max-per-group in KARL_FAST_MAX_PER_GROUP, or in the "
    "file of --config: a flag counts over a variable, a variable over the file."
)

Logs = Annotated[
    list[str] | None,
    typer.Argument(metavar="LOG...", help="Files, folders, globs, or - for standard input.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on stderr but errors.")]


def _parser(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    @functools.wraps(parse)  # click wants a name
    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(f"{text!r}, wanted {error}") from error

    return parsed


class _Option(NamedTuple):
    kind: Any
    help: str
    more: dict[str, Any]

    def annotation(self, name: str) -> Any:
        """Return the annotation that typer reads; the environment variable has the name of the option."""
        option = flag(name)
        names = [option] if name in FLAGS else []
        how = {"show_envvar": False, "show_default": self.kind is not bool} | self.more
        return Annotated[self.kind, typer.Option(*names, help=self.help, envvar=variable(option), **how)]


def _option(kind: Any, help: str, **more: Any) -> _Option:
    return _Option(kind, help, more)


CONFIG = _option(str | None, "Options from a TOML file, or from the manifest.json of a data set to make it again.")

OPTIONS = {
    "format": _option(
        str | None,
        "Who wrote the log: trajectory (what convert writes), tau-bench, prime-rl, verifiers, verl, trl, karl or "
        "generic; found by looking at records.",
        autocompletion=lambda: [name for name, _ in formats()],
    ),
    "id": _option(str | None, "Path of the record's id; several, with commas, are joined."),
    "group": _option(
        str | None,
        "Path of what rollouts share: the task or the prompt. Also A,B (joined), hash(PATH), PATH//8.",
    ),
    "reward": _option(
        dict | None,
        "Path of the reward, or components with weights: outcome=0.5,cost=-0.1,style=0.3:my.py:score.",
        parser=_parser(weights),
        metavar="PATH[=WEIGHT],...",
    ),
    "messages": _option(str | None, "Path of the conversation."),
    "domain": _option(str | None, "Path of a category to report by."),
    "shaping": _option(
        AsymmetricScale | None,
        "Score a shaped reward: what is above a centre scaled by one number, what is below by another. Rules and "
        "reports keep the reward as it is.",
        parser=_parser(scale),
        metavar="up=A[,down=B][,centre=C]",
    ),
    "score": _option(Score, "What is tempered: the reward, or its advantage within the group."),
    "ddof": _option(int, "zscore: the variance is divided by n - ddof."),
    "eps": _option(float, "zscore: added to the standard deviation."),
    "ess": _option(
        float | None,
        "Effective sample size wanted, as a share of the kept rows. [default: 0.5, unless a temperature is given]",
    ),
    "inverse_temperature": _option(float | None, "b of exp(b * score), instead of --ess."),
    "partition_by": _option(
        str,
        "What log Z is taken over: global, group, or the path of a field.",
        autocompletion=lambda: ["global", "group"],
    ),
    "min_reward": _option(float | None, "Drop rows with a smaller reward."),
    "drop_constant_groups": _option(bool, "Drop groups whose rewards are all equal."),
    "max_per_group": _option(int | None, "Draw at most so many rows of a group."),
    "dedup": _option(bool, "Of records in a group that teach the same, keep one."),
    "k": _option(int | None, "How many rows to draw, all splits together."),
    "fraction": _option(float | None, "Instead of -k: a share of the rows that can be drawn."),
    "sampler": _option(
        Sampler,
        "gumbel, weighted-reservoir: k without replacement, by weight. reservoir: k without replacement, all alike. "
        "systematic, multinomial: k with replacement, by weight. all: every kept row, with its weight.",
    ),
    "per": _option(
        dict | None,
        "Deal k over the values of domain or group: equal, proportional to their rows, or to the root of them (sqrt).",
        parser=_parser(deal),
        metavar="FIELD=HOW",
    ),
    "shape": _option(Shape, "What a row looks like; raw is the record's own bytes."),
    "split": _option(
        tuple,
        "Shares of train, valid and test, dealt by group, or by prompt without one.",
        parser=_parser(shares),
        metavar="A,B,C",
    ),
    "max_tokens": _option(int | None, "Drop longer rows; needs --tokenizer."),
    "tokenizer": _option(str | None, "Folder of the model's tokenizer."),
    "allow_secrets": _option(bool, "Do not replace keys and passwords."),
    "hash_inputs": _option(bool, "Hash whole inputs, not only their first and last MiB."),
    "seed": _option(int, "Same seed, records and settings: same bytes."),
    "strict": _option(bool, "Parse every record in full; fail (exit 3) at the first that is damaged."),
    "max_line_bytes": _option(int, "Longer records are dropped and counted."),
    "threads": _option(int | None, "Threads to read with. [default: all cores]"),
}


def epilog(example: str) -> str:
    """Return the end of a command's help."""
    return f"{VARIABLES}\n\nExample: {example}"


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the named options to a command, and pass them as one `settings` with its inputs."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def parsed(ctx: typer.Context, config: str | None, **given: Any) -> None:
            chosen = {name: given.pop(name) for name in names}
            flags = {str(option.name): option.opts[0] for option in ctx.command.params}
            refuse_empty("a TOML file or a manifest", config=config)
            file = load(config, str(ctx.info_name), names) if config else Config("")
            layer = Layer("file", file.settings, dict.fromkeys(file.settings, file.path))
            settings = settled([layer, *typed(ctx, chosen, flags)])
            if given["logs"]:
                file = replace(file, inputs=[])  # those of a manifest are not what is read
            given["logs"] = given["logs"] or file.logs
            if not given["logs"]:
                raise UsageError("no log given: wanted files, folders, globs, or - for standard input")
            command(settings=settings, config=file, **given)

        own = inspect.signature(command, eval_str=True).parameters.values()
        shared = [_parameter("config", CONFIG.annotation("config"), None), *map(_setting, names)]
        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = [context, *(one for one in own if one.name not in ("settings", "config")), *shared]
        parsed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        parsed.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return parsed

    return decorate


DEFAULTS = {field.name: field.default for field in fields(Settings) if field.default is not MISSING}


def _setting(name: str) -> inspect.Parameter:
    default = DEFAULTS.get(name)
    if isinstance(default, tuple):  # a parser takes text
        default = ",".join(f"{share:g}" for share in default)
    return _parameter(name, OPTIONS[name].annotation(name), default)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
