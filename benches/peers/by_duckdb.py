"""DuckDB: two columns and a copy of the drawn lines, one statement over the raw text, or every column."""

from __future__ import annotations

import duckdb
import numpy as np
from job import BETA, EPS, Job, advantages, copy_lines, draw, run

OPTIONS = "format = 'newline_delimited', maximum_object_size = 67108864"
TOP = f"""select {{columns}} from records join
    (select "group", avg(reward) as mean, coalesce(stddev_samp(reward), 0) + {EPS} as std from records group by "group")
    using ("group") order by {BETA} * (reward - mean) / std - ln(-ln(random())) desc limit {{k}}"""


def two_columns(job: Job) -> None:
    read = f"read_json('{job.log}', {OPTIONS}, columns = {{'group': 'VARCHAR', 'reward': 'DOUBLE'}})"
    columns = duckdb.sql(f'select hash("group") as name, reward from {read}').fetchnumpy()
    _, codes = np.unique(columns["name"], return_inverse=True)
    copy_lines(job, draw(advantages(codes, np.asarray(columns["reward"])), job.k))


def statement(job: Job) -> None:
    """One scan: the text of every record goes through the join, which is faster than a second scan."""
    raw = f"""select json, json->>'group' as "group", (json->>'reward')::double as reward
        from read_json_objects('{job.log}', {OPTIONS})"""
    form = "format csv, header false, quote '', escape '', delimiter '\x01'"
    top = TOP.format(columns="json", k=job.k)
    duckdb.sql(f"copy (with records as ({raw}) {top}) to '{job.out}' ({form})")


def full(job: Job) -> None:
    whole = f"select * from read_json('{job.log}', {OPTIONS})"
    top = TOP.format(columns="records.*", k=job.k)
    duckdb.sql(f"copy (with records as ({whole}) {top}) to '{job.out}' (format json)")


if __name__ == "__main__":
    run({"two-columns": two_columns, "statement": statement, "full": full})
