"""Errors of a command line in the form of all others, a sentence and a hint, with options in place of settings.

Those of typer are formatted here, by what their classes hold, rather than by classes of our own: typer makes them
itself, and where it has its classes from differs by version.
"""

from __future__ import annotations

import contextlib
import re
import sys
from typing import TYPE_CHECKING, Any

import typer

from karl_fast._safe_text import clean
from karl_fast._suggest import ask_whether, nearest
from karl_fast.cli.colour import paint
from karl_fast.cli.help import ALL, SectionedCommand
from karl_fast.cli.precedence import SOURCES
from karl_fast.errors import UsageError
from karl_fast.settings.sample import Settings
from karl_fast.settings.schema import flag_of, schema, variable

if TYPE_CHECKING:
    from collections.abc import Iterator

ARGUMENTS = {"data": "DATA"}
"""Arguments of commands that errors name as settings."""


def name_options(error: UsageError) -> str:
    """Return the message of an error, with options in place of the names of settings."""
    sentence = str(error)
    for name in error.settings:
        setting = schema(Settings).get(name)  # only those of sampling have flags of another name
        option = ARGUMENTS.get(name) or (setting.flag if setting else flag_of(name))
        sentence = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", option, sentence, count=1)
    return sentence


@contextlib.contextmanager
def only_options(*settings: str) -> Iterator[None]:
    """Replace names of settings in errors by options, but only these; all others are in the file of the command."""
    try:
        yield
    except UsageError as error:
        error.settings = tuple(name for name in error.settings if name in settings)
        raise


TyperUsageError: Any = typer.BadParameter.__base__
"""The root of typer's own errors, which it does not name: it once came from click, and now from a copy in typer."""

KINDS = {"int": "a whole number", "integer": "a whole number"}
KINDS |= {"float": "a number", "number": "a number", "boolean": "true or false"}
"""Typer's names of types, and ours."""


def print_usage_error(error: Any, command: str) -> int:
    """Print an error of typer on stderr and return the exit code; some errors lack the command."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error.format_message()}\n")
        return 2
    sys.stderr.write(f"{paint('error:', 'red', sys.stderr)} {clean(_sentence(error))}\n")
    sys.stderr.write(f"{paint('hint:', 'cyan', sys.stderr)} {clean(_hint(error, command))}\n")
    return 2


def _sentence(error: Any) -> str:
    if error.message.endswith(" requires an argument."):
        return f"{error.option_name} has no value"
    text = _message(error).partition(". Did you mean ")[0].rstrip(".")
    param = getattr(error, "param", None)
    if param is None:
        return text[:1].lower() + text[1:]
    # The flag of an option, or the variable that set it.
    place = param.opts[0] if param.param_type_name == "option" else param.metavar or param.name.upper()
    source = error.ctx.get_parameter_source(param.name) if error.ctx else None
    if source and SOURCES.get(source.name) == "environment":
        place = variable(place)
    return f"{place} is {_wanted(text) if text else 'missing'}"


def _message(error: Any) -> str:
    """Return the message; pydantic's, which typer has since 0.29, in the form of those before it."""
    text = str(error.message).removeprefix("Value error, ")
    _, is_pydantic, rest = text.partition("Input should be a valid ")
    if is_pydantic:
        return f"{error.__cause__.errors()[0]['input']!r} is not a valid {rest.partition(',')[0]}"
    return text


def _wanted(text: str) -> str:
    """Rewrite `'x' is not a valid int` as `'x', wanted a whole number`; karl-fast's own parsers already do so."""
    value, is_kind, word = text.partition(" is not a valid ")
    if is_kind:
        word = word.partition(".")[0]  # a list of values may follow
        return f"{value}, wanted {KINDS.get(word, word)}"
    value, is_choice, words = text.partition(" is not one of ")
    return f"{value}, wanted {words.replace(chr(39), '')}" if is_choice else text


def _hint(error: Any, command: str) -> str:
    """Return the option, value or command that was most likely meant, or where all are listed."""
    typed, known, ctx = "", list[str](), error.ctx
    help = f"--help {ALL}" if isinstance(ctx and ctx.command, SectionedCommand) else "--help"
    lists = f"{ctx.command_path if ctx else command} {help} lists what it takes"
    value, is_choice, words = _message(error).partition(" is not one of ")
    if hasattr(error, "possibilities"):
        typed, params = error.option_name, ctx.command.get_params(ctx) if ctx else []
        known = [name for param in params for name in param.opts if name.startswith("--")]
        if not nearest(typed, known) and typed in [setting.flag for setting in schema(Settings).values()]:
            return f"{typed} is an option of sample; {lists}"
    elif is_choice:
        typed, known = value.strip("'"), words.rstrip(".").replace("'", "").split(", ")
    elif error.message.startswith("No such command '") and ctx:
        typed, known = error.message.split("'")[1], ctx.command.list_commands(ctx)
    return ask_whether(nearest(typed, known)) or lists
