"""Keys and values of a file, or of a dictionary, as settings by name."""

from __future__ import annotations

from typing import Any

from karl_fast._suggest import nearest, question
from karl_fast.errors import UsageError
from karl_fast.settings.schema import Setting, command_of, schema, shown


def check_keys(
    kind: type, values: dict[str, Any], also: tuple[str, ...] = (), where: str = "", tables: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return values by the names of a class of settings, checked for their types; None is left out.

    Args:
        kind: the class.
        values: values by key; a table of settings is a dictionary.
        also: further keys, with values of any type.
        where: prefix of keys in errors.
        tables: names of tables that may stand beside the keys, which an unknown table is compared with.

    Raises:
        UsageError: a key that no setting has, the same one twice, or a value of another type.
    """
    known = {one.key: one for one in schema(kind).values()} | schema(kind)
    found: dict[str, Any] = {}
    for key, value in flat(kind, values, where).items():
        name = key.replace("-", "_")
        if name not in known and name not in also:
            near = nearest(name, tables) if isinstance(value, dict) else []
            raise _unknown(kind, f"{where}{key}", name, also, near)
        name = known[name].name if name in known else name
        if name in found:
            raise UsageError(f"{where}{key} is there twice, with - and with _")
        if value is not None:
            found[name] = convert_values(known[name], value, f"{where}{key}") if name in known else value
    return found


def flat(kind: type, values: dict[str, Any], where: str = "") -> dict[str, Any]:
    """Return values with those of tables beside the others, named with the table in front."""
    tables = {one.part for name, one in schema(kind).items() if "." in name}
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key not in tables:
            found[key] = value
        elif isinstance(value, dict):
            found |= {f"{key}.{name}": one for name, one in value.items()}
        else:
            raise UsageError(f"{where}{key} is {shown(value)}, wanted a table", key)
    return found


def convert_values(one: Setting, value: Any, key: str) -> Any:
    """Convert a value of a file to the type of a setting.

    Raises:
        UsageError: another type; the message names the key.
    """
    try:
        return one.from_toml(value)
    except ValueError as error:
        raise one.wrong(value, key, str(error)) from error


def _unknown(kind: Any, key: str, name: str, also: tuple[str, ...], near: list[str]) -> UsageError:
    """Return the error for a key of no setting; ``near`` are the tables that were most likely meant, if any."""
    error = UsageError(f"the key {key} is unknown, wanted the name of an option")
    known = [*schema(kind), *(one.key for one in schema(kind).values()), *also]
    meant = [f"[{table}]" for table in near] or nearest(name, known)
    error.hint = question(meant) or f"karl-fast {command_of(kind)} --help lists the options"
    return error
