"""Advantages as a polars expression, over Arrow: `python examples/polars_expression.py [OUT]`."""

import sys
from pathlib import Path

import polars as pl

import karl_fast


def zscore(rewards: str, groups: str) -> pl.Expr:
    """The group z-score of two columns; null rewards are missing, and groups may be names."""
    return pl.map_batches(
        [rewards, groups],
        lambda columns: pl.Series(karl_fast.zscore(*columns, ddof=1, eps=1e-4)),
        return_dtype=pl.Float64,
    )


log = karl_fast.read(Path(__file__).with_name("agent-log.jsonl"), seed=5)
frame = (
    pl.DataFrame(log)
    .lazy()
    .with_columns(advantage=zscore("reward", "group"))
    .with_columns(log_weight=1.5 * pl.col("advantage"))  # an inverse temperature of one's own
    .filter(pl.col("advantage").is_not_nan() & (pl.col("advantage") != 0))
    .collect()
)
print(frame.group_by("domain").agg(pl.len(), pl.col("advantage").max().round(3)).sort("domain"))

log = log.with_columns(frame, log_weight="log_weight")  # handed back, matched by the column "row"
drawn = karl_fast.sample(log, sys.argv[1] if len(sys.argv) > 1 else "data", k=48, force=True)
reward = drawn.manifest["reward"]
print(f"{frame.height} of {len(log)} rows have an advantage, {drawn.manifest['draw']['rows']} drawn")
print(f"mean reward {reward['before']['mean']:.4f} -> {reward['after']['mean']:.4f}")
