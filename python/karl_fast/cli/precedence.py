"""Settings from four places: a flag counts over the environment, that over a file, that over the default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from karl_fast.errors import UsageError
from karl_fast.settings.sample import Settings
from karl_fast.settings.validation import RIVALS, USELESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import typer

S = TypeVar("S")

SOURCES = {"COMMANDLINE": "flag", "ENVIRONMENT": "environment"}
"""The parser's words for where a value came from, and ours."""


FLAGS = {"k": "-k", "shape": "--as", "data": "DATA"}
"""What is called otherwise on the command line than its setting."""


class Layer(NamedTuple):
    """What one place says.

    Attributes:
        origin: flag, environment or file.
        values: settings by name.
        place: what an error calls it, by setting.
    """

    origin: str
    values: dict[str, Any]
    place: dict[str, str]


def flag(setting: str) -> str:
    """What the command calls a setting."""
    return FLAGS.get(setting, "--" + setting.replace("_", "-"))


def variable(option: str) -> str:
    """The environment variable of an option: KARL_FAST_MAX_TOKENS of --max-tokens."""
    return "KARL_FAST_" + option.lstrip("-").replace("-", "_").upper()


def typed(ctx: typer.Context, values: dict[str, Any], options: dict[str, str]) -> Iterator[Layer]:
    """What the command line and the environment say, the stronger one last."""
    for origin in ("environment", "flag"):
        said = {name: value for name, value in values.items() if _source(ctx, name) == origin}
        word = variable if origin == "environment" else str
        yield Layer(origin, said, {name: word(options[name]) for name in said})


def _source(ctx: typer.Context, name: str) -> str | None:
    source = ctx.get_parameter_source(name)
    return SOURCES.get(source.name) if source else None


def settled(layers: Iterable[Layer]) -> Settings:
    """One `Settings` of layers, each stronger than the one before.

    Raises:
        UsageError: the whole makes no sense; the message names the place where it was said, if it was one.
    """
    layers = list(layers)
    origins = {name: layer.origin for layer in layers for name in layer.values}
    return resolved(layers, Settings, _beaten, origins=origins)


def resolved(
    layers: list[Layer], kind: Callable[..., S], beaten: Callable[[dict[str, Any]], set[str]], **more: Any
) -> S:
    """Settings of a kind, of layers each stronger than the one before.

    Args:
        layers: the weakest first.
        kind: of settings.
        beaten: what weaker layers may not say beside the values of a stronger one.
        more: what else the kind takes.

    Raises:
        UsageError: as `settled`.
    """
    values: dict[str, Any] = {}
    for layer in layers:
        weaker = beaten(layer.values)
        values = {name: value for name, value in values.items() if name not in weaker} | layer.values
    try:
        return kind(**values, **more)
    except UsageError as error:
        raise _blamed(layers, error, kind) from error


def _beaten(values: dict[str, Any]) -> set[str]:
    """What weaker layers may not say beside these: the other way to say it, and what they have no use for."""
    rivals = {name for names in RIVALS if values.keys() & set(names) for name in names}
    return rivals | {
        name for (chooser, choice), names in USELESS.items() if values.get(chooser) == choice for name in names
    }


def _blamed(layers: list[Layer], error: UsageError, kind: Callable[..., Any]) -> UsageError:
    """The error with the name of the file or the variable that has it alone.

    A value is to blame that fails in the same words when it stands alone; so is a layer. Flags need no name: who typed
    them sees them.
    """
    for layer in layers:
        alone = [{name: value} for name, value in layer.values.items()]
        for values in [*alone, layer.values]:
            if layer.origin != "flag" and _fault(kind, values) == str(error):
                places = dict.fromkeys(layer.place[name] for name in values)
                placed = UsageError(f"{', '.join(places)}: {error}")
                placed.hint = error.hint
                return placed
    return error


def _fault(kind: Callable[..., Any], values: dict[str, Any]) -> str | None:
    try:
        kind(**values)
    except UsageError as error:
        return str(error)
    return None
