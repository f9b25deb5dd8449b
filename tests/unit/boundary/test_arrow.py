"""Arrow columns in: taken as what they say they are, or refused by name; and what their memory may look like."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import karl_fast
from karl_fast.errors import ArgumentError, DTypeError, LayoutError
from tests.unit.boundary.test_arrays import CALLS, wanted_by

VALUES = [1.0, 0.0, 0.5, 0.25, 0.75]
NAMES = ["b", "a", "b", "a", "c"]
IDS = np.array([0, 1, 0, 1, 2])

FLOATS: dict[str, Any] = {
    "polars": pl.Series(VALUES),
    "polars chunks": pl.concat([pl.Series(VALUES[:2]), pl.Series(VALUES[2:])], rechunk=False),
    "polars slice": pl.Series([9.0, *VALUES, 9.0]).slice(1, 5),
    "pandas": pd.Series(VALUES),
    "pyarrow": pa.array(VALUES),
    "pyarrow chunks": pa.chunked_array([VALUES[:1], [], VALUES[1:]]),
    "pyarrow slice": pa.array([9.0, 9.0, None, *VALUES, 9.0]).slice(3, 5),
    "pyarrow sliced chunks": pa.chunked_array([[9.0, *VALUES[:2]], VALUES[2:]]).slice(1),
}

GROUPS: dict[str, Any] = {
    "polars": pl.Series(NAMES),  # a string view
    "polars categorical": pl.Series(NAMES, dtype=pl.Categorical),
    "polars enum": pl.Series(NAMES, dtype=pl.Enum(["c", "a", "b"])),
    "pandas": pd.Series(NAMES),
    "string": pa.array(NAMES),
    "large string": pa.array(NAMES, pa.large_string()),
    "string view": pa.array(NAMES, pa.string_view()),
    "slice": pa.array(["x", *NAMES]).slice(1),
    "dictionary": pa.array(NAMES).dictionary_encode(),
    "dictionaries that differ": pa.chunked_array(
        [pa.array(NAMES[:2]).dictionary_encode(), pa.array(NAMES[2:]).dictionary_encode()]
    ),
    "dictionary of 8 bits": pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, 0, 2], pa.int8()), ["a", "b", "c"]),
    "integers": pa.array(IDS),
    "polars integers": pl.Series(IDS),
}


@pytest.mark.parametrize("kind", FLOATS)
def test_an_arrow_column_equals_its_numpy_array(kind: str) -> None:
    np.testing.assert_array_equal(karl_fast.zscore(FLOATS[kind], IDS), karl_fast.zscore(np.array(VALUES), IDS))


@pytest.mark.parametrize("kind", GROUPS)
def test_a_column_of_names_groups_like_numbers(kind: str) -> None:
    rewards = np.array(VALUES)
    for score in (karl_fast.centre, karl_fast.zscore, karl_fast.leave_one_out):
        np.testing.assert_array_equal(score(rewards, GROUPS[kind]), score(rewards, IDS))
    found = karl_fast.boltzmann(rewards, GROUPS[kind], inverse_temperature=1.0)
    np.testing.assert_array_equal(found.log_z, karl_fast.boltzmann(rewards, IDS, inverse_temperature=1.0).log_z)


@pytest.mark.parametrize(("call", "name", "right"), CALLS)
def test_every_array_argument_takes_an_arrow_column(call: Any, name: str, right: Any) -> None:
    del name
    whole = pa.array(right)
    for column in (whole, pa.chunked_array([right[:1], right[1:]]), pl.Series(right)):
        found, wanted = call(column), call(right)
        for one, other in zip(_arrays(found), _arrays(wanted), strict=True):
            np.testing.assert_array_equal(one, other)


def _arrays(result: Any) -> list[Any]:
    return [result.log_weights, result.log_z] if isinstance(result, karl_fast.Target) else [result]


@pytest.mark.parametrize(("call", "name", "right"), CALLS)
def test_another_type_is_refused_by_name(call: Any, name: str, right: Any) -> None:
    wanted = wanted_by(name, right)
    for other in (pa.float16(), pa.int32(), pa.bool_(), pa.date32(), pa.list_(pa.float64())):
        column = pa.array([None] * len(right), other)
        with pytest.raises(DTypeError, match=rf"^{name} is an Arrow column of .*, wanted .*{wanted}$"):
            call(column)
    with pytest.raises(DTypeError, match=rf"^{name} is an Arrow column of .*, wanted .*{wanted}$"):
        call(pa.table({"a": right}))


def test_text_is_no_number() -> None:
    for column in (pl.Series(["1.0"]), pa.array(["1.0"]), pa.array(["1.0"]).dictionary_encode()):
        with pytest.raises(DTypeError, match=r"^values is an Arrow column of .*, wanted .* float32 or float64$"):
            karl_fast.log_sum_exp(column)


@pytest.mark.parametrize("missing", [[1.0, None, 0.0], [1.0, math.nan, 0.0]])
@pytest.mark.parametrize("make", [pl.Series, pa.array, lambda values: pa.chunked_array([values[:2], values[2:]])])
def test_null_and_nan_are_the_same_missing_reward(make: Any, missing: Any) -> None:
    found = karl_fast.centre(make(missing), pa.array(["g", "g", "g"]))
    np.testing.assert_array_equal(found, [0.5, np.nan, -0.5])


def test_a_null_group_is_none() -> None:
    rewards = np.array([1.0, 0.0, 0.5, 0.25])
    wanted = karl_fast.centre(rewards, np.array([-1, 0, 0, -1]))
    for names in ([None, "g", "g", None], [None, 7, 7, None]):
        np.testing.assert_array_equal(karl_fast.centre(rewards, pa.array(names)), wanted)
    coded = pa.array([None, "g", "g", None]).dictionary_encode()
    np.testing.assert_array_equal(karl_fast.centre(rewards, coded), wanted)
    # A dictionary may hide its nulls in its values, or have no values at all.
    hidden = pa.DictionaryArray.from_arrays(pa.array([1, 0, 0, 1]), pa.array(["g", None]))
    np.testing.assert_array_equal(karl_fast.centre(rewards, hidden), wanted)
    empty = pa.DictionaryArray.from_arrays(pa.array([None] * 4, pa.int32()), pa.array([], pa.string()))
    assert np.isnan(karl_fast.centre(rewards, empty)).all()


def test_a_null_is_no_log_weight() -> None:
    for call in (karl_fast.log_sum_exp, karl_fast.ess, lambda column: karl_fast.draw(column, 1)):
        with pytest.raises(ArgumentError, match="at index 1 is NaN"):
            call(pa.array([0.0, None]))


def test_nothing_has_no_rows() -> None:
    for nothing in (pl.Series([], dtype=pl.Float64), pa.array([], pa.float64()), pa.chunked_array([], pa.float64())):
        assert karl_fast.zscore(nothing, pa.array([], pa.string())).shape == (0,)
        assert karl_fast.log_sum_exp(nothing) == -math.inf


def test_columns_of_two_lengths_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"length 2, wanted 3|length 3, wanted 2"):
        karl_fast.zscore(pa.array([1.0, 2.0, 3.0]), pa.array(["a", "b"]))


class Once:
    """Hands out the same capsules each time it is asked."""

    def __init__(self, column: Any) -> None:
        for name in ("__arrow_c_array__", "__arrow_c_stream__"):
            if hasattr(column, name):
                capsules = getattr(column, name)()
                # Looked up on the object, as the protocol's methods are here.
                setattr(self, name, lambda requested_schema=None, capsules=capsules: capsules)


@pytest.mark.parametrize("column", [pa.array(VALUES), pa.chunked_array([VALUES])], ids=["array", "stream"])
def test_a_capsule_is_consumed_once(column: Any, capfd: pytest.CaptureFixture[str]) -> None:
    once = Once(column)
    assert karl_fast.log_sum_exp(once) == karl_fast.log_sum_exp(np.array(VALUES))
    with pytest.raises(LayoutError, match=r"^values cannot be read as Arrow data: "):
        karl_fast.log_sum_exp(once)
    capfd.readouterr()


class Broken:
    """Speaks the protocol, badly."""

    def __init__(self, give: Any) -> None:
        self.give = give

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.give()


def test_a_broken_protocol_is_refused_with_its_cause() -> None:
    def fails() -> Any:
        raise RuntimeError("no more memory on the device")

    def stops() -> Any:
        raise KeyboardInterrupt

    with pytest.raises(LayoutError, match=r"^values cannot be read as Arrow data: no more memory") as caught:
        karl_fast.log_sum_exp(Broken(fails))
    assert isinstance(caught.value.__cause__, RuntimeError)
    for wrong in (lambda: 5, pa.array(VALUES).__arrow_c_array__):
        with pytest.raises(LayoutError, match=r"^values cannot be read as Arrow data: "):
            karl_fast.log_sum_exp(Broken(wrong))
    with pytest.raises(KeyboardInterrupt):
        karl_fast.log_sum_exp(Broken(stops))


def test_a_stream_may_need_the_interpreter_and_fail() -> None:
    batch = pa.record_batch({"row": pa.array([0], pa.int64())})

    def batches(fail: bool) -> Any:
        yield batch
        if fail:
            raise ValueError("the disk is gone")

    log = karl_fast.read("examples/agent-log.jsonl")
    reader = pa.RecordBatchReader.from_batches(batch.schema, batches(fail=False))
    assert np.flatnonzero(~np.isnan(log.with_columns(reader).rewards)).tolist() in ([], [0])
    reader = pa.RecordBatchReader.from_batches(batch.schema, batches(fail=True))
    with pytest.raises(LayoutError, match=r"^frame cannot be read as Arrow data: .*the disk is gone"):
        log.with_columns(reader)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_the_memory_of_one_whole_chunk_is_shared() -> None:
    size = 64 << 20
    code = (
        "import pathlib, sys, numpy, pyarrow, karl_fast\n"
        f"whole = pyarrow.array(numpy.ones({size} // 8))\n"
        f"half = pyarrow.array(numpy.ones({size} // 16))\n"
        "column = whole if sys.argv[1] == 'whole' else pyarrow.chunked_array([half, half])\n"
        "status = pathlib.Path('/proc/self/status')\n"
        "peak = lambda: int(status.read_text().split('VmHWM:')[1].split()[0])\n"
        "karl_fast.log_sum_exp(pyarrow.array([1.0]))\n"
        "before = peak(); [karl_fast.log_sum_exp(column) for _ in range(8)]; print(peak() - before)\n"
    )
    grown = {}
    for chunks in ("whole", "chunks"):
        done = subprocess.run([sys.executable, "-c", code, chunks], capture_output=True, text=True, check=True)
        grown[chunks] = int(done.stdout) << 10
    assert grown["whole"] < size // 4
    assert size // 2 < grown["chunks"] < 3 * size


def test_memory_that_was_borrowed_is_given_back() -> None:
    column = pa.array(VALUES * (1 << 17))
    taken = pa.total_allocated_bytes()
    for _ in range(8):
        karl_fast.log_sum_exp(column)
    assert pa.total_allocated_bytes() == taken
    del column
    gc.collect()
    assert pa.total_allocated_bytes() < taken - 4 * (1 << 20)


def test_eight_threads_at_once_get_what_one_gets() -> None:
    rewards = np.random.default_rng(0).random(20_000)
    ids = np.random.default_rng(1).integers(0, 200, 20_000)
    column, names = pl.Series(rewards), pl.Series(ids).cast(pl.String)
    wanted = karl_fast.zscore(rewards, ids)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: karl_fast.zscore(column, names), range(24)):
            np.testing.assert_array_equal(found, wanted)


def test_rows_of_an_export_may_be_arrow(tmp_path: Any) -> None:
    log = karl_fast.read("examples/agent-log.jsonl")
    rows = pl.Series([5, 3, 8], dtype=pl.Int64)
    manifest = karl_fast.export(
        log, rows, tmp_path / "data", scores=pl.Series(log.rewards), rewards=pa.array(log.rewards)
    )
    assert manifest["draw"]["rows"] == 3
    twice = karl_fast.export(log, pa.array([5, 3, 5]), tmp_path / "twice")
    assert (twice["draw"]["rows"], twice["draw"]["distinct_rows"]) == (3, 2)
    with pytest.raises(ArgumentError, match="row at index 1 is -1"):
        karl_fast.export(log, pa.array([5, None]), tmp_path / "null")


def test_arrow_columns_of_polars_need_no_pyarrow() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import polars, karl_fast\n"
        "log = karl_fast.read('examples/agent-log.jsonl')\n"
        "frame = polars.DataFrame(log)\n"
        "assert karl_fast.zscore(frame['reward'], frame['group']).shape == (160,)\n"
        "log.with_columns(frame, reward='reward')\n"
        "try:\n    log.to_parquet('no.parquet')\n"
        "except karl_fast.errors.MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Parquet needs pyarrow, which is not installed\n"), done.stderr
