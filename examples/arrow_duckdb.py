"""Groups of one's own, joined in SQL: `python examples/arrow_duckdb.py [OUT]`."""

import sys
from pathlib import Path

import duckdb

import karl_fast

log = karl_fast.read(Path(__file__).with_name("agent-log.jsonl"), seed=5)

# DuckDB finds `log` by its name. Tasks of one domain that are equally long are compared with each other.
frame = duckdb.sql("""
    with tasks as (select "group", avg(length) > 2500 as long from log group by all)
    select log.row, log.domain || if(tasks.long, ', long', ', short') as peers
    from log join tasks using ("group")
    where log.reward is not null
""")
log = log.with_columns(frame, group="peers")  # matched by the column "row"

out = sys.argv[1] if len(sys.argv) > 1 else "data"
drawn = karl_fast.sample(log, out, k=48, score="centre", force=True)
print(f"{len(log.group_names)} groups, {drawn.manifest['draw']['distinct_groups']} of them drawn from")
