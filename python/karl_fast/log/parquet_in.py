"""Rows of Parquet files as lines of JSON, through pyarrow, which the extra ``arrow`` installs."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from datetime import date
from decimal import Decimal
from functools import lru_cache, partial
from itertools import pairwise
from json.encoder import encode_basestring as quoted
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote
from uuid import UUID

from karl_fast._safe_text import clean
from karl_fast.errors import ColumnError, LogChangedError, RewardError
from karl_fast.log.parquet_out import _pyarrow, damage, refuse_doubled, unreadable
from karl_fast.log.spool import temporary

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    Needed = Callable[[list[str]], Collection[str] | None]
    """Function from the columns of a table to those that have to be kept; None for all."""
    Texts = list[str]
    Writer = Callable[[Any], Texts]

ROWS, BATCH_BYTES, BUFFER_BYTES = 1024, 1 << 22, 1 << 20
"""Limits of what is in memory at a time: rows, and about how many bytes of them, and of a column of the file."""

PROBE = 8
"""Rows of a row group that the size of the others is estimated from: a dictionary stores repeated values once."""

TRL = ("step", "prompt", "completion", "advantage")
"""The columns of TRL's completions that are no rewards."""

TRL_REWARD = "trl_reward"
"""The column that the sum of TRL's reward functions is put in."""

MEASURES = {
    *("entropy", "kl", "loss", "logp", "logprob", "logps", "logprobs", "perplexity", "ratio", "epsilon", "rate", "lr"),
    *("length", "len", "tokens", "time", "seconds", "latency", "cost", "temperature", "step", "grad", "norm", "count"),
}
"""Words in the names of columns that are hardly rewards; a function named after one may yet say `length_reward`."""

STATISTICS = {
    *("std", "stdev", "stddev", "var", "variance", "min", "max", "median", "quantile", "baseline", "count", "time"),
    *("seconds", "latency", "norm", "normed", "normalized", "normalised", "weight", "coef", "coefficient", "scale"),
}
"""Words in the names of columns that are made of rewards or say how they came, and are none: `reward_std`."""

TOTALS = {"total", "sum", "mean", "avg", "average", "overall", "final", "combined", "weighted", "aggregate", "all"}
"""Words in the names of rewards that may be made of the others."""


class ParquetLines(NamedTuple):
    """The path of a file of JSON lines, the columns that are not in it, and the reward that is a sum of columns."""

    path: str
    left_out: list[LeftOut]
    summed: SummedReward | None


@contextlib.contextmanager
def lines(path: str, needed: Needed | None = None, *, rewarded: bool = False) -> Iterator[ParquetLines]:
    """Write a line of JSON for each row, with a key for each column, to a temporary file that is removed afterwards.

    Args:
        path: the Parquet file.
        needed: the columns that have to be kept; all by default. Others are left out if their type has no JSON form.
        rewarded: True if the rewards are not those of the table, or are named: none is computed of its columns.

    Raises:
        RewardError: it is not known which columns of TRL's completions are rewards.
        MissingExtraError: pyarrow is not installed.
        ColumnError: a column that has to be kept cannot be, or two columns have one name.
        FileError: the file cannot be read, is damaged, or is not Parquet; or the lines cannot be written.
    """
    with temporary(path) as copy:
        with _unchanged(path):
            left_out, summed = _written(path, copy, needed, rewarded=rewarded)
        yield ParquetLines(copy, left_out, summed)


@contextlib.contextmanager
def _unchanged(path: str) -> Iterator[None]:
    """Raise if a file changed while it was read, whatever else was found in it."""
    before, changed = _state(path), LogChangedError(f"{path}: it changed while it was read")
    try:
        yield
    except Exception as error:
        if _state(path) != before:
            raise changed from error
        raise
    if _state(path) != before:
        raise changed


def _state(path: str) -> tuple[int, ...] | None:
    """Return a stamp that differs between states of a file; None if it is missing."""
    try:
        facts = Path(path).stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _written(
    path: str, copy: str, needed: Needed | None, *, rewarded: bool
) -> tuple[list[LeftOut], SummedReward | None]:
    """Write the rows of a Parquet file as lines; return the columns that are left out, and those that are summed."""
    _, parquet = _pyarrow()
    with damage(path, writing=True):
        # By default pyarrow fetches whole row groups ahead of the reader.
        how = {"pre_buffer": False, "buffer_size": BUFFER_BYTES, "page_checksum_verification": True}
        with Path(copy).open("w", encoding="utf-8") as out, parquet.ParquetFile(path, **how) as file:
            columns, left_out = _columns(path, file.schema_arrow, needed, wrapped(path, file, how))
            rewards = _rewards(path, file.schema_arrow, rewarded=rewarded)
            folders = _folders(path, file.schema_arrow.names, needed)
            rows = 0
            for batch in _batches(path, file, list(columns)):
                out.writelines(f"{line}\n" for line in _lines(path, batch, columns, rewards, folders, rows))
                rows += batch.num_rows
            if rows != file.metadata.num_rows:
                raise ValueError(f"it has {rows} rows, and its footer says {file.metadata.num_rows}")
    return left_out, SummedReward(TRL_REWARD, rewards) if rewards else None


def _columns(
    path: str, schema: Any, needed: Needed | None, beyond: set[str]
) -> tuple[dict[str, Writer], list[LeftOut]]:
    """Return the writer of each column that is kept, and the columns that are left out.

    ``beyond`` names columns that cannot be kept for the range of their timestamps.
    """
    refuse_doubled(path, schema.names)
    wanted = needed(schema.names) if needed else None
    kept, left_out = {}, []
    for field in schema:
        asked = wanted is None or field.name in wanted
        try:
            if field.name in beyond:
                raise FormlessError("INT96 timestamps in lists or structs, or beyond the years 1677 to 2262")
            kept[field.name] = writer(field.type, binary=asked)
        except FormlessError as error:
            if asked:
                raise _formless(path, field.name, error) from error
            left_out.append(LeftOut(field.name, str(error)))
    return kept, left_out


def _formless(path: str, column: str, error: FormlessError) -> ColumnError:
    return ColumnError(f"{path}: the column {column} holds {clean(str(error))}, for which JSON has no form")


def _batches(path: str, file: Any, columns: list[str]) -> Iterator[Any]:
    """Yield the rows of a table in order, fewer at a time if they are long."""
    for at in range(file.num_row_groups):
        try:
            for batch in file.iter_batches(_fitting(file, at, columns), row_groups=[at], columns=columns):
                # A name with dots in it may have brought a part of another column along.
                yield batch.select(columns)
        except Exception as error:
            raise unreadable(path, error, f"row group {at}{_culprit(file, at, columns)}") from error


def _fitting(file: Any, group: int, columns: list[str]) -> int:
    """Return the number of rows of a row group in a batch."""
    about: Any = file.metadata.row_group(group)
    size: int = about.total_byte_size // max(about.num_rows, 1)
    if about.num_rows > PROBE:
        probe: Any = next(file.iter_batches(PROBE, row_groups=[group], columns=columns), None)
        size = max(size, probe.nbytes // max(probe.num_rows, 1) if probe else 0)
    return min(max(BATCH_BYTES // max(size, 1), 1), ROWS)


def _culprit(file: Any, group: int, columns: list[str]) -> str:
    """Return `, column reward` if one column of a row group cannot be read."""
    for name in columns:
        try:
            for _ in file.iter_batches(ROWS, row_groups=[group], columns=[name]):
                pass
        except Exception:
            return f", column {name}"
    return ""


def _rewards(path: str, schema: Any, *, rewarded: bool) -> list[str] | None:
    """Return the columns of TRL's reward functions, none where rewards come from elsewhere; None for other tables.

    TRL writes one column a reward function after the completion, then those that functions log beside the rewards,
    then the advantage, and nothing in the table tells the first two apart. A number is a reward where its place or its
    name says so and it is the only one, or where the names of all say so and none may be made of the others.
    """
    from pyarrow import types

    if not set(TRL) <= set(schema.names) or TRL_REWARD in schema.names:
        return None
    numbers = [field.name for field in schema if field.name not in TRL and types.is_floating(field.type)]
    if rewarded:
        return []
    if not numbers or _are_rewards(numbers, schema.names):
        return numbers
    raise _unclear(path, numbers)


def _are_rewards(numbers: list[str], names: list[str]) -> bool:
    """Return whether all numbers of a table of TRL are rewards to be summed."""
    if len(numbers) == 1:
        in_place = names.index("completion") + 1 == names.index(numbers[0]) < names.index("advantage")
        return _is_reward(numbers[0], ("reward", "score")) or (in_place and not _is_measure(numbers[0]))
    return all(_is_reward(name) and not _is_total(name) for name in numbers)


def _words(name: str) -> set[str]:
    """Return the words of a name, in whatever way they are joined: `rewardStd`, `reward/std`."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return {*re.split(r"[^a-z0-9]+", apart.lower())} - {""}


def _is_reward(name: str, says: tuple[str, ...] = ("reward",)) -> bool:
    """Return whether a name says that a column holds rewards, and not what is made of them."""
    return any(word in name.lower() for word in says) and not STATISTICS & _words(name)


def _is_total(name: str) -> bool:
    """Return whether a reward may be made of the others beside it."""
    words = _words(name)
    return bool(TOTALS & words) or words <= {"reward", "rewards", "score", "scores"}


def _is_measure(name: str) -> bool:
    """Return whether a name is that of a measure of the text or of the training, or of what is made of rewards."""
    return bool((MEASURES | STATISTICS) & _words(name))


def _unclear(path: str, numbers: list[str]) -> RewardError:
    """Return the error for a table of TRL with numbers that may be rewards or not."""
    error = RewardError(
        f"{path}: TRL's completions do not say which of their numbers are rewards: {', '.join(map(clean, numbers))}"
    )
    rewards = [name for name in numbers if _is_reward(name)]
    total = next(([name] for name in rewards if _is_total(name)), [])
    likely = total or rewards or [name for name in numbers if not _is_measure(name)]
    if len(total) == 1 < len(rewards):
        error.hint = (
            f"{clean(total[0])} may be made of the others: --reward {shlex.quote(clean(total[0]))} takes it alone"
        )
    elif likely:
        error.hint = f"name those that are, which are then summed: --reward {shlex.quote(','.join(map(clean, likely)))}"
    else:
        error.hint = "none has the name of a reward: name the column that is one with --reward NAME"
    return error


def _folders(path: str, names: list[str], needed: Needed | None) -> dict[str, str]:
    """Return the columns in the names of folders (`task=7/part.parquet`), with each value as JSON text."""
    pairs = (part.partition("=") for part in Path(path).parent.parts)
    found = {unquote(key): value for key, sign, value in pairs if sign and key and unquote(key) not in names}
    wanted = needed([*names, *found]) if needed and found else None
    return {key: _folder_value(value) for key, value in found.items() if wanted is None or key in wanted}


ABSENT = "__HIVE_DEFAULT_PARTITION__"
"""Folder name of a partition without a value."""


def _folder_value(text: str) -> str:
    if text == ABSENT:
        return "null"
    return text if re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", text) else json.dumps(unquote(text))


def _lines(
    path: str, batch: Any, columns: dict[str, Writer], rewards: list[str] | None, folders: dict[str, str], first: int
) -> Texts:
    """Return the rows of a batch as lines; the number is that of the first row."""
    names, texts = list(columns), []
    for at, (name, write) in enumerate(columns.items()):
        texts.append(_texts(path, name, write, batch.column(at), first))
    if rewards is not None:
        names.append(TRL_REWARD)
        texts.append(_totals([batch.column(name).to_pylist() for name in rewards], batch.num_rows))
    for name, value in folders.items():
        names.append(name)
        texts.append([value] * batch.num_rows)
    return objects(names, texts, batch.num_rows)


def _texts(path: str, name: str, write: Writer, column: Any, first: int) -> Texts:
    """Write a column; an error names the first row that cannot be written."""
    try:
        return write(column)
    except Exception:
        for row in range(len(column)):
            try:
                write(column.slice(row, 1))
            except FormlessError as error:
                raise _formless(path, f"{name} of row {first + row}", error) from error
            except Exception as error:
                raise unreadable(path, error, f"column {name}, row {first + row}") from error
        raise


def _totals(rewards: list[list[float | None]], rows: int) -> Texts:
    """Return the sum of each row's rewards.

    A function that does not apply to a row has no say in its sum, and a row to which none applies has no reward.
    """
    if not rewards:
        return ["null"] * rows
    said = [[one for one in row if one is not None and one == one] for row in zip(*rewards, strict=True)]
    return [json.dumps(sum(row) if row else None) for row in said]


# Timestamps of Parquet's older type INT96, which pyarrow wraps around where nanoseconds since 1970 have no room.


ROOM = 2**63 // 10**9
"""Seconds before and after 1970 that a timestamp in nanoseconds has room for."""

INT96_ROWS = 1 << 16
"""Rows that are looked at together."""


def wrapped(path: str, file: Any, how: dict[str, Any]) -> set[str]:
    """Return the columns with timestamps that would change, or may: those inside lists and structs.

    Args:
        path: path of the file.
        file: the open file.
        how: the options it was opened with.
    """
    old = [file.schema.column(at) for at in range(len(file.schema))]
    paths = {column.path for column in old if column.physical_type == "INT96"}
    if not paths:
        return set()
    names = [field.name for field in file.schema_arrow]
    inside = {name for name in names if any(one.startswith(f"{name}.") for one in paths - {*names})}
    return inside | _beyond(path, [name for name in names if name in paths], how)


def _beyond(path: str, names: list[str], how: dict[str, Any]) -> set[str]:
    """Return the columns that hold a timestamp beyond nanoseconds."""
    import pyarrow.compute
    from pyarrow import parquet

    found = set()
    with parquet.ParquetFile(path, coerce_int96_timestamp_unit="s", **how) as file:
        for batch in file.iter_batches(INT96_ROWS, columns=names):
            for name in names:
                ends = pyarrow.compute.min_max(batch.column(name).view("int64"))
                least, most = ends["min"].as_py() or 0, ends["max"].as_py() or 0
                if least < -ROOM or most >= ROOM:
                    found.add(name)
    return found


# Columns of Parquet files that are kept in their records, and those that are not.


class SummedReward(NamedTuple):
    """A reward that is no column of a table, and the columns that it is the sum of."""

    name: str
    columns: list[str]


class LeftOut(NamedTuple):
    """A column that is not needed and has a type without a JSON form."""

    column: str
    type: str


# JSON text of the values of Arrow arrays.
#
# A text depends on the value alone: not on the width of an integer, the kind of string or list, dictionary encoding,
# chunks, nulls elsewhere or the version of pyarrow. What JSON has no form for is refused by its type.
#
# All structs of a list have the same fields, with null for those that a record did not have. Such fields are left
# out, so that messages are those of the record; null as ``content`` stays, which messages with tool calls have.


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
    from pyarrow import types

    simple: list[tuple[Callable[[Any], bool], Writer]] = [
        (types.is_null, lambda array: [NULL] * len(array)),
        (types.is_boolean, _cast),
        (types.is_integer, _cast),
        (types.is_floating, _floats),
        (types.is_decimal, _decimals),
        (_is_string, _strings),
        (types.is_date32, partial(_ticks, write=lambda days: f'"{day(days)}"')),
        (types.is_date64, partial(_ticks, write=_date64)),
        (types.is_time, partial(_ticks, write=_time_of(kind))),
        (types.is_timestamp, partial(_ticks, write=_timestamp_of(kind))),
        (types.is_duration, partial(_ticks, write=_duration_of(kind))),
    ]
    for fits, write in simple:
        if fits(kind):
            return write
    return _nested(kind, binary, listed)


def _nested(kind: Any, binary: bool, listed: bool) -> Writer:
    """Return the writer of a type that is made of others, or of bytes."""
    import pyarrow
    from pyarrow import types

    if isinstance(kind, pyarrow.BaseExtensionType):
        return _extension(kind, binary, listed)
    if types.is_dictionary(kind):
        values = writer(kind.value_type, binary=binary, listed=listed)
        return lambda array: values(array.dictionary_decode())
    if types.is_struct(kind):
        return _struct(kind, binary, listed)
    if types.is_map(kind):
        return _map(kind, binary, listed)
    if hasattr(kind, "value_field"):
        return partial(_lists, write=writer(kind.value_type, binary=binary, listed=True))
    if _is_binary(kind) and binary:
        return _binaries
    raise FormlessError(str(kind))


def _is_string(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_binary(kind: Any) -> bool:
    from pyarrow import types

    large = types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(types.is_binary(kind) or types.is_fixed_size_binary(kind) or large)


def _cast(array: Any) -> Texts:
    """Write booleans and integers."""
    return [NULL if text is None else text for text in array.cast("string").to_pylist()]


def _floats(array: Any) -> Texts:
    """Write numbers of any width as the float64 that they are; NaN and infinities as Python's json does."""
    return json.dumps(array.cast("float64").to_pylist())[1:-1].split(", ") if len(array) else []


def _nulled(array: Any, texts: Texts) -> Texts:
    """Set null where an array has nulls."""
    if not array.null_count:
        return texts
    return [text if valid else NULL for text, valid in zip(texts, array.is_valid().to_pylist(), strict=True)]


def _decimals(array: Any) -> Texts:
    """Write numbers with all the digits that their type has, never with an exponent."""
    texts = array.cast("string").to_pylist()
    return [NULL if text is None else f"{Decimal(text):f}" if "E" in text else text for text in texts]


def _strings(array: Any) -> Texts:
    return [NULL if text is None else quoted(text) for text in array.to_pylist()]


def _binaries(array: Any) -> Texts:
    import pyarrow

    try:
        return _strings(array.cast("binary").cast("string"))
    except pyarrow.ArrowInvalid as error:
        raise FormlessError("binary that is not UTF-8") from error


def _ticks(array: Any, write: Callable[[int], str]) -> Texts:
    """Write times as counts of units since some moment."""
    width = f"int{array.type.bit_width}"
    return [NULL if ticks is None else write(ticks) for ticks in array.view(width).to_pylist()]


def _date64(milliseconds: int) -> str:
    days, rest = divmod(milliseconds, 86_400_000)
    if rest:
        raise ValueError(f"the date of {milliseconds} ms is not a whole day")
    return f'"{day(days)}"'


def _time_of(kind: Any) -> Callable[[int], str]:
    return lambda ticks: f'"{clock(ticks, PER_SECOND[kind.unit])}"'


def _timestamp_of(kind: Any) -> Callable[[int], str]:
    return lambda ticks: f'"{moment(ticks, PER_SECOND[kind.unit], "" if kind.tz is None else "+00:00")}"'


def _duration_of(kind: Any) -> Callable[[int], str]:
    return lambda ticks: seconds(ticks, PER_SECOND[kind.unit])


def _extension(kind: Any, binary: bool, listed: bool) -> Writer:
    """Return the writer of the storage of an extension type; identifiers and booleans have their own."""
    if kind.extension_name == "arrow.uuid":
        return lambda array: [NULL if one is None else f'"{UUID(bytes=one)}"' for one in array.storage.to_pylist()]
    if kind.extension_name == "arrow.bool8":
        return lambda array: _cast(array.storage.cast("bool"))
    write = writer(kind.storage_type, binary=binary, listed=listed)
    return lambda array: write(array.storage)


def _struct(kind: Any, binary: bool, listed: bool) -> Writer:
    names = [field.name for field in kind]
    if len({*names}) < len(names):
        raise FormlessError(f"{kind}, which has two fields of one name")
    fields = [writer(field.type, binary=binary, listed=listed) for field in kind]
    form = present if listed else objects

    def write(array: Any) -> Texts:
        columns = [field(array.field(at)) for at, field in enumerate(fields)]
        return _nulled(array, form(names, columns, len(array)))

    return write


def objects(names: Iterable[str], columns: list[Texts], rows: int) -> Texts:
    """Return one object a row, of the texts of columns with these names."""
    template = "{" + ", ".join(quoted(name).replace("%", "%%") + ": %s" for name in names) + "}"
    return [template % row for row in zip(*columns, strict=True)] if columns else ["{}"] * rows


def present(names: list[str], columns: list[Texts], rows: int) -> Texts:
    """Return one object a row, as ``objects``, without the fields that are null."""
    if not any(NULL in column for name, column in zip(names, columns, strict=True) if name != "content"):
        return objects(names, columns, rows)
    heads = [(quoted(name) + ": ", name == "content") for name in names]
    fields = (zip(heads, row, strict=True) for row in zip(*columns, strict=True))
    return ["{" + ", ".join(head + text for (head, kept), text in row if kept or text != NULL) + "}" for row in fields]


def _map(kind: Any, binary: bool, listed: bool) -> Writer:
    """Return the writer of maps: an object where keys are strings, a list of pairs where they are not."""
    keys, items = writer(kind.key_type, binary=binary), writer(kind.item_type, binary=binary, listed=listed)
    shape = "{%s}" if _is_string(kind.key_type) else "[%s]"
    pair = "%s: %s" if _is_string(kind.key_type) else "[%s, %s]"

    def write(array: Any) -> Texts:
        first, ends = _bounds(array.offsets.to_pylist())
        names, values = keys(_cut(array.keys, first, ends)), items(_cut(array.items, first, ends))
        pairs = [pair % both for both in zip(names, values, strict=True)]
        for start, end in pairwise(ends):
            if shape == "{%s}" and len({*names[start:end]}) < end - start:
                raise ValueError("a map has a key twice")
        return _nulled(array, [shape % ", ".join(pairs[start:end]) for start, end in pairwise(ends)])

    return write


def _bounds(offsets: list[int]) -> tuple[int, list[int]]:
    """Return where the values of lists begin, and each offset from there."""
    first = offsets[0] if offsets else 0
    return first, [offset - first for offset in offsets]


def _cut(values: Any, first: int, ends: list[int]) -> Any:
    return values.slice(first, ends[-1] if ends else 0)


def _lists(array: Any, write: Writer) -> Texts:
    """Write lists of any kind."""
    starts, ends = _places(array)
    first, last = min(starts, default=0), max(ends, default=0)
    texts = write(array.values.slice(first, last - first))
    both = zip(starts, ends, strict=True)
    return _nulled(array, ["[" + ", ".join(texts[start - first : end - first]) + "]" for start, end in both])


def _places(array: Any) -> tuple[list[int], list[int]]:
    """Return where the values of each list begin and end; nothing of those that are null."""
    from pyarrow import types

    kind = array.type
    if types.is_fixed_size_list(kind):
        starts = [(array.offset + row) * kind.list_size for row in range(len(array))]
        return starts, [start + kind.list_size for start in starts]
    offsets = array.offsets.to_pylist()
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return offsets, [start + size for start, size in zip(offsets, array.sizes.to_pylist(), strict=True)]
    return offsets[:-1], offsets[1:]


# Dates, times, timestamps and durations of Arrow as text, for any number that their types can hold.


EPOCH, CYCLE = date(1970, 1, 1).toordinal(), 146_097
"""The ordinal of day 0, and the days of 400 years, after which the calendar repeats itself."""

SECONDS_A_DAY = 86_400


@lru_cache(4096)
def day(days: int) -> str:
    """Return the ISO 8601 date so many days after 1970-01-01; years outside 0 to 9999 carry a sign."""
    cycles, within = divmod(days + EPOCH - 1, CYCLE)
    inside = date.fromordinal(within + 1)
    year = inside.year + 400 * cycles
    text = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{text}-{inside.month:02}-{inside.day:02}"


def clock(ticks: int, per_second: int) -> str:
    """Return the time of day after so many ticks: no fraction where it is zero, else six digits, or nine.

    Raises:
        ValueError: the ticks are not within a day.
    """
    if not 0 <= ticks < SECONDS_A_DAY * per_second:
        raise ValueError(f"the time {ticks / per_second:g} s is outside a day")
    seconds, rest = divmod(ticks, per_second)
    nanoseconds = rest * (10**9 // per_second)
    fraction = f".{nanoseconds:09}".removesuffix("000") if nanoseconds else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def moment(ticks: int, per_second: int, zone: str) -> str:
    """Return the ISO 8601 timestamp so many ticks after the epoch, followed by its zone."""
    days, rest = divmod(ticks, SECONDS_A_DAY * per_second)
    return f"{day(days)}T{clock(rest, per_second)}{zone}"


def seconds(ticks: int, per_second: int) -> str:
    """Return a duration as a decimal number of seconds: every digit, and at least one after the point."""
    whole, rest = divmod(abs(ticks), per_second)
    fraction = f"{rest * (10**9 // per_second):09}".rstrip("0") or "0"
    return f"{'-' if ticks < 0 else ''}{whole}.{fraction}"
