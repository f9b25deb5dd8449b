"""Help of a command in named sections: `--help` has the common options, `--help all` has all of them.

A section is the group of a setting, or the panel of an option of the command itself; `--help WORD` prints one.
Forty lines of 80 columns hold what `--help` prints.
"""

from __future__ import annotations

import re
import sys
from typing import Any, ClassVar

import typer.core

from karl_fast.cli.colour import paint

ALL = "all"
WORD = "karl_fast.help"
"""Key of the word after `--help` in the meta of a context."""

OWN = "Options"
"""The section of options without a panel."""

WIDEST_NAME = 26
"""Longer names of options have a line of their own."""

LONGEST = 60
"""Characters of a sentence above which `--help` leaves out a list at its end."""


class SectionedCommand(typer.core.TyperCommand):
    """A command whose help has sections, and of which `--help` prints the common options, where it has such."""

    common: ClassVar[tuple[str, ...]] = ()

    def sections(self, ctx: Any) -> dict[str, list[Any]]:
        """Return the options by section, those of the command itself first."""
        sections: dict[str, list[Any]] = {OWN: []}
        for param in self.get_params(ctx):
            if param.param_type_name == "option":
                sections.setdefault(getattr(param, "rich_help_panel", None) or OWN, []).append(param)
        return {title: params for title, params in sections.items() if params}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a line; the word after `--help` names a section, or all of them."""
        for place, word in enumerate(args[:-1]):
            if word == "--":
                break
            if word in ctx.help_option_names:
                ctx.meta[WORD] = args[place + 1]
                args = args[: place + 1]
                break
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write a section alone, or the usage, the options that the line asked for, and an example."""
        word, sections = ctx.meta.get(WORD, ""), self.sections(ctx)
        section = {title: params for title, params in sections.items() if word == _word_of(title)}
        if not section:
            super().format_help(ctx, formatter)
            return
        self._write_sections(ctx, formatter, section)
        _write_rest(formatter, sections)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the common options or all of them."""
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        if arguments:
            rows = [
                (param.metavar or str(param.name).upper(), getattr(param, "help", None) or "") for param in arguments
            ]
            _write_section(formatter, "Arguments", rows)
        sections = self.sections(ctx)
        if not self.common or ctx.meta.get(WORD) == ALL:
            self._write_sections(ctx, formatter, sections)
            return
        common = {
            title: [param for param in params if {*self.common, "--help"} & {*param.opts}]
            for title, params in sections.items()
        }
        self._write_sections(ctx, formatter, {title: params for title, params in common.items() if params}, short=True)
        _write_rest(formatter, sections)

    def _write_sections(self, ctx: Any, formatter: Any, sections: dict[str, list[Any]], short: bool = False) -> None:
        for title, params in sections.items():
            rows = [param.get_help_record(ctx) for param in params]
            if short:
                rows = [(name.partition(" / ")[0], _shorten(help)) for name, help in rows]
            _write_section(formatter, title, rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the end of the help; the places of settings stand in the help of all options alone."""
        parts = (self.epilog or "").split("\n\n")
        if self.common and ctx.meta.get(WORD) != ALL:
            parts = [part for part in parts if part.startswith("Example")]
        _write_text(formatter, "\n\n".join(parts))


def with_common(*options: str) -> type[SectionedCommand]:
    """Return the class of a command whose `--help` prints these options."""
    return type("CommandWithCommonOptions", (SectionedCommand,), {"common": options})


class SectionedGroup(typer.core.TyperGroup):
    """The program, whose help lists its commands by what they are for."""

    command_sections: ClassVar[dict[str, tuple[str, ...]]] = {}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by section."""
        for title, names in self.command_sections.items():
            commands = {name: self.get_command(ctx, name) for name in names}
            rows = [(name, command.short_help or "") for name, command in commands.items() if command]
            _write_section(formatter, title, rows, width=max(map(len, self.commands)))


def _word_of(title: str) -> str:
    """Return the word that names a section after `--help`."""
    return title.split()[0].lower()


def _shorten(help: str) -> str:
    """Return the first sentence of a help, without a list that follows it, and the default."""
    text, bracket, default = help.partition(" [default:")
    sentence = text.split(". ")[0].rstrip(". ")
    start = re.split(r"[:;] ", sentence)[0]
    if len(sentence) > LONGEST and " " in start:
        sentence = start
    return f"{sentence}.{bracket}{default}"


def _write_text(formatter: Any, text: str) -> None:
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(text)


def _write_rest(formatter: Any, sections: dict[str, list[Any]]) -> None:
    """Write how the other options are shown."""
    words = ", ".join(_word_of(title) for title in sections)
    count = sum(map(len, sections.values()))
    _write_text(formatter, f"--help {ALL} shows all {count} options, --help with a word one section: {words}.")


def _write_section(formatter: Any, title: str, rows: list[tuple[str, str]], width: int = 0) -> None:
    """Write a heading and a list in two columns, in colour where the terminal has it."""
    with formatter.section(paint(title, "bold", sys.stdout)):
        formatter.write_dl([(paint(name.ljust(width), "cyan", sys.stdout), help) for name, help in rows], WIDEST_NAME)
