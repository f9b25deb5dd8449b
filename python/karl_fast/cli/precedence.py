"""Settings from four places: a flag counts over the environment, that over a file, that over the default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from karl_fast.errors import UsageError
from karl_fast.settings.schema import build, displaced_names, variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import typer

S = TypeVar("S")

SOURCES = {"COMMANDLINE": "flag", "ENVIRONMENT": "environment"}
"""The parser's words for where a value came from, and ours."""


class SettingsLayer(NamedTuple):
    """Values from one source of settings.

    Attributes:
        origin: flag, environment or file.
        values: settings by name.
        place: the name that errors use for each setting.
    """

    origin: str
    values: dict[str, Any]
    place: dict[str, str]


def split_by_source(
    ctx: typer.Context, values: dict[str, Any], options: dict[str, tuple[str, str]]
) -> Iterator[SettingsLayer]:
    """Yield the values from the environment and the command line, the stronger last.

    Args:
        ctx: the command's context.
        values: values by setting.
        options: parameter of the command and flag of each setting.
    """
    sources = {name: ctx.get_parameter_source(parameter) for name, (parameter, _) in options.items()}
    for origin in ("environment", "flag"):
        own = {
            name: value for name, value in values.items() if (of := sources[name]) and SOURCES.get(of.name) == origin
        }
        place = variable if origin == "environment" else str
        yield SettingsLayer(origin, own, {name: place(options[name][1]) for name in own})


def merge_layers(layers: Iterable[SettingsLayer], kind: type[S]) -> S:
    """Merge layers into settings of a class, each stronger than the one before.

    A stronger layer removes the settings of weaker ones that its own displace (`displaced`).

    Raises:
        UsageError: the settings conflict; the message names the source, if it is one.
    """
    layers = list(layers)
    values: dict[str, Any] = {}
    for layer in layers:
        weaker = displaced_names(kind, layer.values)
        values = {name: value for name, value in values.items() if name not in weaker} | layer.values
    origins = {name: layer.origin for layer in layers for name in layer.values}
    more = {"origins": origins} if hasattr(kind, "chosen") else {}  # only those of sampling keep them
    try:
        return build(kind, values, **more)
    except UsageError as error:
        raise _name_source(layers, error, kind) from error


def _name_source(layers: list[SettingsLayer], error: UsageError, kind: type) -> UsageError:
    """Return the error with the name of the file or variable that alone causes it.

    A value is the cause if it gives the same message alone; so is a layer. Flags are not named: the user typed them.
    """
    for layer in layers:
        alone = [{name: value} for name, value in layer.values.items()]
        for values in [*alone, layer.values]:
            if layer.origin != "flag" and _message(kind, values) == str(error):
                places = dict.fromkeys(layer.place[name] for name in values)
                return UsageError(f"{', '.join(places)}: {error}", hint=error.hint)
    return error


def _message(kind: type, values: dict[str, Any]) -> str | None:
    try:
        build(kind, values)
    except UsageError as error:
        return str(error)
    return None
