"""Rows of Parquet files as lines of JSON, through pyarrow, which the extra ``arrow`` installs."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from karl_fast._safe_text import clean
from karl_fast.errors import ColumnError, LogChangedError, RewardError
from karl_fast.log.arrow_json import FormlessError, objects, writer
from karl_fast.log.parquet_columns import LeftOut, SummedReward
from karl_fast.log.parquet_int96 import wrapped
from karl_fast.log.parquet_out import _pyarrow, damage, refuse_doubled, unreadable
from karl_fast.log.spool import temporary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.log.arrow_json import Texts, Writer
    from karl_fast.log.parquet_columns import Needed


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
