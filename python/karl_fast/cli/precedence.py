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
"""Settings with another name on the command line."""


class Layer(NamedTuple):
    """Values from one source of settings.

    Attributes:
        origin: flag, environment or file.
        values: settings by name.
        place: the name that errors use for each setting.
    """

    origin: str
    values: dict[str, Any]
    place: dict[str, str]


def flag(setting: str) -> str:
    """Return the name of a setting on the command line."""
    return FLAGS.get(setting, "--" + setting.replace("_", "-"))


def variable(option: str) -> str:
    """Return the environment variable of an option: KARL_FAST_MAX_TOKENS of --max-tokens."""
    return "KARL_FAST_" + option.lstrip("-").replace("-", "_").upper()


def typed(ctx: typer.Context, values: dict[str, Any], options: dict[str, str]) -> Iterator[Layer]:
    """Yield the values from the environment and the command line, the stronger last."""
    for origin in ("environment", "flag"):
        said = {name: value for name, value in values.items() if _source(ctx, name) == origin}
        word = variable if origin == "environment" else str
        yield Layer(origin, said, {name: word(options[name]) for name in said})


def _source(ctx: typer.Context, name: str) -> str | None:
    source = ctx.get_parameter_source(name)
    return SOURCES.get(source.name) if source else None


def settled(layers: Iterable[Layer]) -> Settings:
    """Merge layers into one `Settings`, each stronger than the one before.

    Raises:
        UsageError: the settings conflict; the message names the source, if it is one.
    """
    layers = list(layers)
    origins = {name: layer.origin for layer in layers for name in layer.values}
    return resolved(layers, Settings, _beaten, origins=origins)


def resolved(
    layers: list[Layer], kind: Callable[..., S], beaten: Callable[[dict[str, Any]], set[str]], **more: Any
) -> S:
    """Merge layers into settings of a kind, each stronger than the one before.

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
    """Return the settings that these override in weaker layers: alternatives to them, and those they make useless."""
    rivals = {name for names in RIVALS if values.keys() & set(names) for name in names}
    return rivals | {
        name for (chooser, choice), names in USELESS.items() if values.get(chooser) == choice for name in names
    }


def _blamed(layers: list[Layer], error: UsageError, kind: Callable[..., Any]) -> UsageError:
    """Return the error with the name of the file or variable that alone causes it.

    A value is the cause if it gives the same message alone; so is a layer. Flags are not named: the user typed them.
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
