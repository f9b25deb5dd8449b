"""pyarrow: two columns and a copy of the drawn lines."""

from __future__ import annotations

import pyarrow as pa
from job import Job, advantages, copy_lines, draw, run
from pyarrow import json as reader

BLOCK = 16 << 20


def two_columns(job: Job) -> None:
    schema = pa.schema([("group", pa.string()), ("reward", pa.float64())])
    parse = reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    table = reader.read_json(job.log, reader.ReadOptions(block_size=BLOCK), parse)
    codes = table["group"].combine_chunks().dictionary_encode().indices.to_numpy()
    copy_lines(job, draw(advantages(codes, table["reward"].to_numpy()), job.k))


if __name__ == "__main__":
    run({"two-columns": two_columns})
