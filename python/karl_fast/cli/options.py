"""Options of the commands, made from the declarations of settings."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from karl_fast.cli.precedence import SettingsLayer, resolved, typed
from karl_fast.settings.schema import MISSING, Setting, schema, variable
from karl_fast.settings.validation import refuse_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

VARIABLES = (
    "Options from --config on may also stand in a variable, as {option} in {variable}, or in {file}: a flag counts "
    "over a variable, a variable over the file."
)

Logs = Annotated[
    list[str] | None,
    typer.Argument(metavar="LOG", help="Files, folders, globs, or - for standard input.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on stderr but errors.")]


def epilog(option: str, file: str, example: str) -> str:
    """Return the end of a command's help: other places of settings, shown on one option, and an example."""
    places = VARIABLES.format(option=option, variable=variable(option), file=file)
    return f"{places}\n\nExample: {example}"


def takes(
    kind: type, load: Callable[[str, str], Any], config: str, groups: Iterable[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add an option for each setting of a class to a command, and pass them as one `settings`.

    The file of ``--config`` is passed as ``config``, None without one.

    Args:
        kind: the class.
        load: reader of a file for a command, with attributes ``path`` and ``settings``.
        config: help of ``--config``.
        groups: groups of settings that the command has, in the order of its help; all by default.
    """
    settings = _chosen(kind, tuple(groups))

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def parsed(ctx: typer.Context, config: str | None, **given: Any) -> None:
            values = {one.name: given.pop(_parameter(one)) for one in settings}
            refuse_empty("a file of settings", config=config)
            file = load(config, str(ctx.info_name)) if config else None
            known = {name: value for name, value in file.settings.items() if name in values} if file else {}
            layers = [SettingsLayer("file", known, dict.fromkeys(known, file.path if file else ""))]
            layers += typed(ctx, values, {one.name: (_parameter(one), one.flag) for one in settings})
            command(settings=resolved(layers, kind), config=file, **given)

        own = inspect.signature(command, eval_str=True).parameters.values()
        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = [context, *(one for one in own if one.name not in ("settings", "config")), _config(config)]
        parameters += map(_option, settings)
        parsed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        parsed.__annotations__ = {one.name: one.annotation for one in parameters}
        return parsed

    return decorate


def names(kind: type, groups: Iterable[str]) -> tuple[str, ...]:
    """Return the settings of some groups."""
    return tuple(one.name for one in _chosen(kind, tuple(groups)))


def _chosen(kind: type, groups: tuple[str, ...]) -> list[Setting]:
    every = list(schema(kind).values())
    return [one for group in groups for one in every if one.group == group] if groups else every


def _config(help: str) -> inspect.Parameter:
    option = typer.Option("--config", help=help, envvar=variable("--config"), show_envvar=False)
    annotation = Annotated[str | None, option]
    return inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _parameter(one: Setting) -> str:
    """Return the name of the parameter of a setting."""
    return one.name.replace(".", "_")


def _option(one: Setting) -> inspect.Parameter:
    """Return the parameter of a setting, with the annotation that typer reads."""
    default = _default(one)
    how: dict[str, Any] = {"show_default": one.kind is not bool and bool(default is not None and default != "")}
    if one.form or (one.words and one.kind is not str):
        how |= {"parser": _reader(one), "metavar": one.form.metavar if one.form else _metavar(one)}
    if one.proposals:
        how["autocompletion"] = one.proposals
    names = [] if one.kind is bool and one.flag == "--" + _parameter(one).replace("_", "-") else [one.flag]
    option = typer.Option(*names, help=one.help, envvar=one.variable, show_envvar=False, **how)
    kind: Any = Literal[one.words] if one.words and one.kind is str else str if "parser" in how else one.kind
    annotation: Any = Annotated[kind if default is not None else kind | None, option]
    return inspect.Parameter(_parameter(one), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def option(kind: type, name: str, help: str | None = None) -> Any:
    """Return the option for one setting of a class, for a command without the others; its help may differ."""
    found = _option(schema(kind)[name]).annotation.__metadata__[0]
    found.help = found.help if help is None else help
    return found


def _metavar(one: Setting) -> str:
    return f"<{'|'.join([one.kind.__name__, *one.words])}>"


def _default(one: Setting) -> Any:
    """Return the default as the parser takes it: text for shares, None for what the settings compute."""
    if isinstance(one.default, tuple):
        return ",".join(f"{share:g}" for share in one.default)
    return None if one.default is MISSING else one.default


def _reader(one: Setting) -> Callable[[str], Any]:
    def parsed(text: str) -> Any:
        try:
            return one.from_text(text)
        except ValueError as error:
            raise typer.BadParameter(f"{text!r}, wanted {error}") from error

    parsed.__name__ = one.name  # typer asks for a name
    return parsed
