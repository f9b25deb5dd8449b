"""A reward of one's own, made in polars: `python examples/arrow_polars.py [OUT]`."""

import sys
from pathlib import Path

import polars as pl

import karl_fast

log = karl_fast.read(Path(__file__).with_name("agent-log.jsonl"), seed=5)

# Short trajectories are worth more, and of tasks that nobody solves there is nothing to learn.
frame = (
    pl.DataFrame(log)
    .with_columns(best=pl.col("reward").max().over("group"))
    .filter(pl.col("best") > 0.5)
    .with_columns(mine=pl.col("reward") - 0.1 * pl.col("length") / pl.col("length").max())
)
log = log.with_columns(frame, reward="mine")  # matched by the column "row"

out = sys.argv[1] if len(sys.argv) > 1 else "data"
drawn = karl_fast.sample(log, out, k=48, score="zscore", force=True)
print(f"{frame.height} of {len(log)} rows, {drawn.manifest['draw']['rows']} drawn")
