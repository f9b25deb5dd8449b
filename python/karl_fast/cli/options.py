"""Options of the commands, made from the declarations of settings."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from karl_fast.cli.precedence import SettingsLayer, merge_layers, split_by_source
from karl_fast.settings.sample import Settings
from karl_fast.settings.schema import MISSING, Setting, schema, variable
from karl_fast.settings.toml import load
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
Index = Annotated[
    bool, typer.Option("--index", help="Keep the columns of logs beside them, and read only what was appended since.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors on stderr.")]


def epilog(option: str, file: str, example: str) -> str:
    """Return the end of a command's help: other places of settings, shown on one option, and an example."""
    places = VARIABLES.format(option=option, variable=variable(option), file=file)
    return f"{places}\n\nExample: {example}"


def add_settings(
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
    settings = _settings_of(kind, tuple(groups))

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def parse(ctx: typer.Context, config: str | None, **arguments: Any) -> None:
            values = {setting.name: arguments.pop(_parameter_name(setting)) for setting in settings}
            refuse_empty("a file of settings", config=config)
            file = load(config, str(ctx.info_name)) if config else None
            of_file = {name: value for name, value in file.settings.items() if name in values} if file else {}
            layers = [SettingsLayer("file", of_file, dict.fromkeys(of_file, file.path if file else ""))]
            options = {setting.name: (_parameter_name(setting), setting.flag) for setting in settings}
            layers += split_by_source(ctx, values, options)
            command(settings=merge_layers(layers, kind), config=file, **arguments)

        own = inspect.signature(command, eval_str=True).parameters.values()
        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        config_option = typer.Option("--config", help=config, envvar=variable("--config"), show_envvar=False)
        parameters = [context, *(parameter for parameter in own if parameter.name not in ("settings", "config"))]
        parameters.append(_parameter("config", Annotated[str | None, config_option], None))
        parameters += map(_option, settings)
        parse.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        parse.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return parse

    return decorate


def add_log_settings(*groups: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add an option for each setting of some groups of `sample`, for a command that reads logs and draws nothing."""
    names = tuple(setting.name for setting in _settings_of(Settings, groups))
    config = "Options from a TOML file, or from the manifest.json of a data set."
    return add_settings(Settings, functools.partial(load, names=names), config, groups)


def option(kind: type, name: str, help: str | None = None, section: str | None = None) -> Any:
    """Return the option for one setting of a class, for a command without the others.

    Its help may differ, and it stands in a section of that command, by default with the command's own options.
    """
    declared = _option(schema(kind)[name]).annotation.__metadata__[0]
    declared.help = declared.help if help is None else help
    declared.rich_help_panel = section
    return declared


def _settings_of(kind: type, groups: tuple[str, ...]) -> list[Setting]:
    every = list(schema(kind).values())
    return [setting for group in groups for setting in every if setting.group == group] if groups else every


def _parameter_name(setting: Setting) -> str:
    return setting.name.replace(".", "_")


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option(setting: Setting) -> inspect.Parameter:
    """Return the parameter of a setting, with the annotation that typer reads."""
    default = _default(setting)
    how: dict[str, Any] = {"show_default": setting.kind is not bool and bool(default is not None and default != "")}
    if setting.form or (setting.words and setting.kind is not str):
        how["parser"] = _parser(setting)
        how["metavar"] = (
            setting.form.metavar if setting.form else f"<{'|'.join([setting.kind.__name__, *setting.words])}>"
        )
    if setting.proposals:
        how["autocompletion"] = setting.proposals
    name = _parameter_name(setting)
    # Of a switch without a name typer makes --no-..., too.
    names = [] if setting.kind is bool and setting.flag == "--" + name.replace("_", "-") else [setting.flag]
    option = typer.Option(
        *names, help=setting.help, envvar=setting.variable, show_envvar=False, rich_help_panel=setting.group, **how
    )
    kind: Any = str if "parser" in how else setting.kind
    if setting.words and setting.kind is str:
        kind = Literal[setting.words]
    return _parameter(name, Annotated[kind if default is not None else kind | None, option], default)


def _default(setting: Setting) -> Any:
    """Return the default as the parser takes it: text for shares, None for what the settings compute."""
    if isinstance(setting.default, tuple):
        return ",".join(f"{share:g}" for share in setting.default)
    return None if setting.default is MISSING else setting.default


def _parser(setting: Setting) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return setting.from_text(text)
        except ValueError as error:
            raise typer.BadParameter(f"{text!r}, wanted {error}") from error

    parse.__name__ = setting.name  # typer asks for a name
    return parse
