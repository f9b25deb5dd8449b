"""Errors of the command-line parser in the form of all others: a sentence and a hint."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import TYPE_CHECKING, Any

import typer

from karl_fast._safe_text import clean
from karl_fast._suggest import nearest, question
from karl_fast.cli.precedence import SOURCES
from karl_fast.errors import UsageError
from karl_fast.settings.sample import Settings
from karl_fast.settings.schema import flag_of, schema, variable

if TYPE_CHECKING:
    from collections.abc import Iterator

# The parser's own error, which typer does not name: it once came from click, and now from a copy in typer.
TyperUsageError: Any = typer.BadParameter.__base__

KINDS = {"int": "a whole number", "integer": "a whole number"}
KINDS |= {"float": "a number", "number": "a number", "boolean": "true or false"}
"""The parser's names of types, and ours."""


FLAGS = {"data": "DATA"}
"""Arguments that errors name as settings."""


def typed(error: UsageError) -> str:
    """Return the message of an error, with options in place of the names of settings."""
    sentence = str(error)
    for name in error.settings:
        sentence = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", _flag(name), sentence, count=1)
    return sentence


def _flag(name: str) -> str:
    """Return the option of a setting; only those of sampling have flags of another name."""
    known = schema(Settings).get(name)
    return FLAGS.get(name) or (known.flag if known else flag_of(name))


@contextlib.contextmanager
def flags(*settings: str) -> Iterator[None]:
    """Replace names of settings in errors by options, but only these; all others are in the file of the command."""
    try:
        yield
    except UsageError as error:
        error.settings = tuple(name for name in error.settings if name in settings)
        raise


def said(error: Any, command: str) -> int:
    """Print an error on stderr and return the exit code; ``command`` is the name called, which some errors lack."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error.format_message()}\n")
        return 2
    sentence, hint = _sentence(error), _hint(error, command)
    sys.stderr.write(f"error: {clean(sentence)}\nhint: {clean(hint)}\n")
    return 2


def _sentence(error: Any) -> str:
    if error.message.endswith(" requires an argument."):
        return f"{error.option_name} has no value"
    head, _, _ = _message(error).partition(". Did you mean ")
    text = head.rstrip(".")
    param = getattr(error, "param", None)
    if param is None:
        return text[:1].lower() + text[1:]
    return f"{_place(error.ctx, param)} is {_wanted(text) if text else 'missing'}"


def _message(error: Any) -> str:
    """Return the parser's message; pydantic's, which typer has since 0.29, in the form of those before it."""
    text = str(error.message).removeprefix("Value error, ")
    _, found, rest = text.partition("Input should be a valid ")
    return f"{error.__cause__.errors()[0]['input']!r} is not a valid {rest.partition(',')[0]}" if found else text


def _wanted(text: str) -> str:
    """Rewrite `'x' is not a valid int` as `'x', wanted a whole number`; karl-fast's own parsers already do so."""
    value, kind, word = text.partition(" is not a valid ")
    if kind:
        word = word.partition(".")[0]  # a list of values may follow
        return f"{value}, wanted {KINDS.get(word, word)}"
    value, choice, words = text.partition(" is not one of ")
    return f"{value}, wanted {words.replace(chr(39), '')}" if choice else text


def _place(ctx: typer.Context | None, param: Any) -> str:
    """Return the name of an option to the user: its flag, or the variable that set it."""
    flag = param.opts[0] if param.param_type_name == "option" else param.metavar or param.name.upper()
    source = ctx.get_parameter_source(param.name) if ctx else None
    return variable(flag) if source and SOURCES.get(source.name) == "environment" else str(flag)


def _hint(error: Any, command: str) -> str:
    command = error.ctx.command_path if error.ctx else command
    if hasattr(error, "possibilities"):
        return _of_options(error.option_name, error.ctx, command)
    value, choice, words = _message(error).partition(" is not one of ")
    if choice and (meant := question(nearest(value.strip("'"), words.rstrip(".").replace("'", "").split(", ")))):
        return meant
    unknown = re.search(r"^No such command '(.*?)'", error.message)
    near = nearest(unknown[1], error.ctx.command.list_commands(error.ctx)) if unknown and error.ctx else []
    return question(near) or f"{command} --help lists what it takes"


def _of_options(given: str, ctx: Any, command: str) -> str:
    lists = f"{command} --help lists what it takes"
    options = [name for param in ctx.command.get_params(ctx) for name in param.opts] if ctx else []
    near = nearest(given, [name for name in options if name.startswith("--")])
    if not near and given in [one.flag for one in schema(Settings).values()]:
        return f"{given} is an option of sample; {lists}"
    return question(near) or lists
