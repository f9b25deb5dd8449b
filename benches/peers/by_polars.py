"""polars: two columns and a copy of the drawn lines, raw lines held, or every column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from job import BETA, EPS, Job, copy_lines, draw, run

STD = pl.col("reward").std().over("group").fill_null(0.0)
SCORE = ((pl.col("reward") - pl.col("reward").mean().over("group")) / (STD + EPS)).alias("score")
PAIR = pl.Struct({"group": pl.String, "reward": pl.Float64})


def two_columns(job: Job) -> None:
    scores = pl.scan_ndjson(job.log, schema=dict(PAIR)).select(SCORE).collect()
    copy_lines(job, draw(scores["score"].to_numpy(), job.k))


def lines(job: Job) -> None:
    """Every line as one text, from which the two columns are decoded."""
    text = pl.scan_lines(job.log, name="text").collect()
    scores = text.select(pl.col("text").str.json_decode(PAIR).struct.unnest()).select(SCORE)
    rows = draw(scores["score"].to_numpy(), job.k)
    with Path(job.out).open("w", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in text["text"].gather(rows))


def full(job: Job) -> None:
    frame = pl.scan_ndjson(job.log, infer_schema_length=1000).with_columns(SCORE).collect()
    key = BETA * frame["score"].to_numpy() + np.random.default_rng(0).gumbel(size=len(frame))
    frame.with_columns(key=key).top_k(job.k, by="key").drop("score", "key").write_ndjson(job.out)


if __name__ == "__main__":
    run({"two-columns": two_columns, "lines": lines, "full": full})
