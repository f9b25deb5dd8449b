"""Weights of one's own, by way of pyarrow and Parquet: `python examples/arrow_pyarrow.py [OUT]`."""

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import karl_fast

log = karl_fast.read(Path(__file__).with_name("agent-log.jsonl"), seed=5)

# In proportion to reward itself rather than to its exponential: the logarithm of the weight is handed back, and the
# logarithm of 0 is never drawn.
table = pa.table(log)
table = table.append_column("ln_reward", pc.ln(table["reward"]))

with tempfile.TemporaryDirectory() as folder:
    scores = Path(folder, "scores.parquet")
    pq.write_table(table.select(["row", "ln_reward"]), scores)
    log = log.with_columns(scores, log_weight="ln_reward")

out = sys.argv[1] if len(sys.argv) > 1 else "data"
drawn = karl_fast.sample(log, out, k=48, force=True)
print(f"ESS {drawn.manifest['target']['ess_rows']:.1f} rows, dropped {drawn.manifest['accounting']['dropped']}")
