"""Tables of settings for the reference page, in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast.settings.schema import MISSING, schema

if TYPE_CHECKING:
    from karl_fast.settings.schema import Setting

HEAD = "| option | values | default | |\n|---|---|---|---|\n"


def page(kind: type) -> str:
    """Return the settings of a class: a heading and a table for each group."""
    settings = list(schema(kind).values())
    groups: dict[str, list[Setting]] = {}
    for setting in settings:
        groups.setdefault(setting.group, []).append(setting)
    return "\n".join(f"**{group}**\n\n{_format_table(own)}" for group, own in groups.items())


def _format_table(settings: list[Setting]) -> str:
    return HEAD + "".join(f"| {' | '.join(_format_cells(setting))} |\n" for setting in settings)


def _format_cells(setting: Setting) -> list[str]:
    default = "" if setting.default in (MISSING, None, "") else f"`{_format_default(setting)}`"
    cells = [f"`{setting.flag}`", setting.wanted, default, setting.help]
    return [cell.replace("|", "\\|") for cell in cells]


def _format_default(setting: Setting) -> str:
    if isinstance(setting.default, tuple):
        return ",".join(f"{share:g}" for share in setting.default)
    return str(setting.default).lower() if setting.kind is bool else str(setting.default)
