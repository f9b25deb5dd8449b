"""Daft: two columns and a copy of the drawn lines."""

from __future__ import annotations

import daft
import numpy as np
from job import Job, advantages, copy_lines, draw, run

SCHEMA = {"group": daft.DataType.string(), "reward": daft.DataType.float64()}


def two_columns(job: Job) -> None:
    table = daft.read_json(job.log, infer_schema=False, schema=SCHEMA).to_arrow()
    codes = table["group"].combine_chunks().dictionary_encode().indices.to_numpy()
    rewards = np.nan_to_num(table["reward"].to_numpy())
    copy_lines(job, draw(advantages(codes, rewards), job.k))


if __name__ == "__main__":
    run({"two-columns": two_columns})
