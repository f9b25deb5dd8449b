"""Tables of settings for the reference page, in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast.settings.schema import MISSING, schema

if TYPE_CHECKING:
    from karl_fast.settings.schema import Setting

HEAD = "| option | key of a file | variable | values | default | |\n|---|---|---|---|---|---|\n"


def page(kind: type) -> str:
    """Return the settings of a class: a heading and a table for each group."""
    settings = list(schema(kind).values())
    groups = dict.fromkeys(one.group for one in settings)
    return "\n".join(f"**{group}**\n\n{_table([one for one in settings if one.group == group])}" for group in groups)


def _table(settings: list[Setting]) -> str:
    return HEAD + "".join(f"| {' | '.join(_cells(one))} |\n" for one in settings)


def _cells(one: Setting) -> list[str]:
    default = "" if one.default in (MISSING, None, "") else f"`{_shown(one)}`"
    cells = [f"`{one.flag}`", f"`{one.key}`", f"`{one.variable}`", one.wanted, default, one.help]
    return [cell.replace("|", "\\|") for cell in cells]


def _shown(one: Setting) -> str:
    if isinstance(one.default, tuple):
        return ",".join(f"{share:g}" for share in one.default)
    return str(one.default).lower() if one.kind is bool else str(one.default)
