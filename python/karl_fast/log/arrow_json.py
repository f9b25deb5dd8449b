"""JSON text of the values of Arrow arrays.

A text depends on the value alone: not on the width of an integer, the kind of string or list, dictionary encoding,
chunks, nulls elsewhere or the version of pyarrow. What JSON has no form for is refused by its type.

All structs of a list have the same fields, with null for those that a record did not have. Such fields are left
out, so that messages are those of the record; null as ``content`` stays, which messages with tool calls have.

Needs pyarrow, which the extra ``arrow`` installs.
"""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial
from itertools import pairwise
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow
from pyarrow import types

from karl_fast.log.times import clock, day, moment, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Texts = list[str]
    Writer = Callable[[Any], Texts]

NULL = "null"

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Ticks in a second, by the unit of a type."""


class FormlessError(ValueError):
    """A type or a value that JSON has no form for."""


def writer(kind: Any, *, binary: bool, listed: bool = False) -> Writer:
    """Return the function that gives the JSON text of each value of an array of this type.

    Args:
        kind: the type.
        binary: write binary values as the UTF-8 text that they have to be; without it, refuse their types.
        listed: leave out null fields of structs: the values are in a list.

    Raises:
        FormlessError: JSON has no form for the type. The function raises it for a binary value that is not UTF-8, and
            ValueError or ArrowException for a value that its type does not allow.
    """
    simple: list[tuple[Callable[[Any], bool], Writer]] = [
        (types.is_null, lambda array: [NULL] * len(array)),
        (types.is_boolean, _write_simple),
        (types.is_integer, _write_simple),
        (types.is_floating, _write_floats),
        (types.is_decimal, _write_decimals),
        (_is_string, _write_strings),
        (types.is_date32, partial(_write_ticks, write=lambda days: f'"{day(days)}"')),
        (types.is_date64, partial(_write_ticks, write=_date_of_milliseconds)),
        (types.is_time, partial(_write_ticks, write=lambda ticks: f'"{clock(ticks, PER_SECOND[kind.unit])}"')),
        (types.is_timestamp, partial(_write_ticks, write=partial(_timestamp, kind=kind))),
        (types.is_duration, partial(_write_ticks, write=lambda ticks: seconds(ticks, PER_SECOND[kind.unit]))),
    ]
    for fits, write in simple:
        if fits(kind):
            return write
    return _nested_writer(kind, binary, listed)


def _write_simple(array: Any) -> Texts:
    """Write booleans and integers."""
    return [NULL if text is None else text for text in array.cast("string").to_pylist()]


def _write_floats(array: Any) -> Texts:
    """Write numbers of any width as the float64 that they are; NaN and infinities as Python's json does."""
    # One call for the column, taken apart again: a call a value is many times slower.
    return json.dumps(array.cast("float64").to_pylist())[1:-1].split(", ") if len(array) else []


def _write_decimals(array: Any) -> Texts:
    """Write numbers with all the digits that their type has, never with an exponent."""
    texts = array.cast("string").to_pylist()
    return [NULL if text is None else f"{Decimal(text):f}" if "E" in text else text for text in texts]


def _write_strings(array: Any) -> Texts:
    return [NULL if text is None else quoted(text) for text in array.to_pylist()]


def _write_ticks(array: Any, write: Callable[[int], str]) -> Texts:
    """Write times as counts of units since some moment."""
    width = f"int{array.type.bit_width}"
    return [NULL if ticks is None else write(ticks) for ticks in array.view(width).to_pylist()]


def _date_of_milliseconds(milliseconds: int) -> str:
    days, rest = divmod(milliseconds, 86_400_000)
    if rest:
        raise ValueError(f"the date of {milliseconds} ms is not a whole day")
    return f'"{day(days)}"'


def _timestamp(ticks: int, kind: Any) -> str:
    # Arrow stores a timestamp with a zone in UTC, whatever the zone.
    return f'"{moment(ticks, PER_SECOND[kind.unit], "" if kind.tz is None else "+00:00")}"'


def _nested_writer(kind: Any, binary: bool, listed: bool) -> Writer:
    """Return the writer of a type that is made of others, or of bytes."""
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _extension_writer(kind, binary, listed)
    if types.is_dictionary(kind):
        values = writer(kind.value_type, binary=binary, listed=listed)
        return lambda array: values(array.dictionary_decode())
    if types.is_struct(kind):
        return _struct_writer(kind, binary, listed)
    if types.is_map(kind):
        return _map_writer(kind, binary, listed)
    if hasattr(kind, "value_field"):
        return partial(_write_lists, write=writer(kind.value_type, binary=binary, listed=True))
    if _is_binary(kind) and binary:
        return _write_binaries
    raise FormlessError(str(kind))


def _is_string(kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_binary(kind: Any) -> bool:
    large = types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(types.is_binary(kind) or types.is_fixed_size_binary(kind) or large)


def _write_binaries(array: Any) -> Texts:
    try:
        return _write_strings(array.cast("binary").cast("string"))
    except pyarrow.ArrowInvalid as error:
        raise FormlessError("binary that is not UTF-8") from error


def _extension_writer(kind: Any, binary: bool, listed: bool) -> Writer:
    """Return the writer of the storage of an extension type; identifiers and booleans have their own."""
    if kind.extension_name == "arrow.uuid":
        return lambda array: [
            NULL if value is None else f'"{UUID(bytes=value)}"' for value in array.storage.to_pylist()
        ]
    if kind.extension_name == "arrow.bool8":
        return lambda array: _write_simple(array.storage.cast("bool"))
    write = writer(kind.storage_type, binary=binary, listed=listed)
    return lambda array: write(array.storage)


def _struct_writer(kind: Any, binary: bool, listed: bool) -> Writer:
    names = [field.name for field in kind]
    if len({*names}) < len(names):
        raise FormlessError(f"{kind}, which has two fields of one name")
    fields = [writer(field.type, binary=binary, listed=listed) for field in kind]
    form = objects_without_nulls if listed else objects

    def write(array: Any) -> Texts:
        columns = [field(array.field(at)) for at, field in enumerate(fields)]
        return _with_nulls(array, form(names, columns, len(array)))

    return write


def objects(names: Iterable[str], columns: list[Texts], rows: int) -> Texts:
    """Return one object a row, of the texts of columns with these names."""
    template = "{" + ", ".join(quoted(name).replace("%", "%%") + ": %s" for name in names) + "}"
    return [template % row for row in zip(*columns, strict=True)] if columns else ["{}"] * rows


def objects_without_nulls(names: list[str], columns: list[Texts], rows: int) -> Texts:
    """Return one object a row, as ``objects``, without the fields that are null."""
    if not any(NULL in column for name, column in zip(names, columns, strict=True) if name != "content"):
        return objects(names, columns, rows)
    heads = [(quoted(name) + ": ", name == "content") for name in names]
    fields = (zip(heads, row, strict=True) for row in zip(*columns, strict=True))
    return [
        "{" + ", ".join(head + text for (head, is_content), text in row if is_content or text != NULL) + "}"
        for row in fields
    ]


def _map_writer(kind: Any, binary: bool, listed: bool) -> Writer:
    """Return the writer of maps: an object where keys are strings, a list of pairs where they are not."""
    keys, items = writer(kind.key_type, binary=binary), writer(kind.item_type, binary=binary, listed=listed)
    shape = "{%s}" if _is_string(kind.key_type) else "[%s]"
    pair = "%s: %s" if _is_string(kind.key_type) else "[%s, %s]"

    def write(array: Any) -> Texts:
        first, ends = _bounds(array.offsets.to_pylist())
        names, values = keys(_slice(array.keys, first, ends)), items(_slice(array.items, first, ends))
        pairs = [pair % item for item in zip(names, values, strict=True)]
        for start, end in pairwise(ends):
            if shape == "{%s}" and len({*names[start:end]}) < end - start:
                raise ValueError("a map has a key twice")
        return _with_nulls(array, [shape % ", ".join(pairs[start:end]) for start, end in pairwise(ends)])

    return write


def _write_lists(array: Any, write: Writer) -> Texts:
    """Write lists of any kind."""
    starts, ends = _list_ends(array)
    first, last = min(starts, default=0), max(ends, default=0)
    texts = write(array.values.slice(first, last - first))
    spans = zip(starts, ends, strict=True)
    return _with_nulls(array, ["[" + ", ".join(texts[start - first : end - first]) + "]" for start, end in spans])


def _list_ends(array: Any) -> tuple[list[int], list[int]]:
    """Return where the values of each list begin and end; nothing of those that are null."""
    kind = array.type
    if types.is_fixed_size_list(kind):
        starts = [(array.offset + row) * kind.list_size for row in range(len(array))]
        return starts, [start + kind.list_size for start in starts]
    offsets = array.offsets.to_pylist()
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return offsets, [start + size for start, size in zip(offsets, array.sizes.to_pylist(), strict=True)]
    return offsets[:-1], offsets[1:]


def _bounds(offsets: list[int]) -> tuple[int, list[int]]:
    """Return where the values of lists begin, and each offset from there."""
    first = offsets[0] if offsets else 0
    return first, [offset - first for offset in offsets]


def _slice(values: Any, first: int, ends: list[int]) -> Any:
    return values.slice(first, ends[-1] if ends else 0)


def _with_nulls(array: Any, texts: Texts) -> Texts:
    """Set null where an array has nulls."""
    if not array.null_count:
        return texts
    return [text if valid else NULL for text, valid in zip(texts, array.is_valid().to_pylist(), strict=True)]
