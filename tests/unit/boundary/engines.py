"""What makes a table of a log, and whether two logs have the same columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    import karl_fast

ROWS = 64


def by_duckdb(log: karl_fast.Log) -> pa.Table:
    return duckdb.connect().sql("select * from log").to_arrow_table()


ENGINES: dict[str, Callable[[karl_fast.Log], Any]] = {
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "duckdb": by_duckdb,
    "pandas": lambda log: pa.table(log).to_pandas(),
}


def same(one: karl_fast.Log, other: karl_fast.Log) -> None:
    np.testing.assert_array_equal(one.rewards, other.rewards)
    for codes, names in (("groups", "group_names"), ("domains", "domain_names")):
        np.testing.assert_array_equal(getattr(one, codes), getattr(other, codes))
        assert getattr(one, names) == getattr(other, names)
