"""The chain of `karl-fast sample` by hand, on NumPy arrays: `python examples/columns.py [OUT]`."""

import sys
from pathlib import Path

import numpy as np

import karl_fast

log = karl_fast.read(Path(__file__).with_name("agent-log.jsonl"), seed=5)
scores = karl_fast.zscore(log.rewards, log.groups)  # NaN where the reward is missing
target = karl_fast.boltzmann(scores, ess=0.5)
rows = karl_fast.draw(target.log_weights, 48, seed=5, keys=log.keys)
print(f"inverse temperature {target.inverse_temperature:.4f}, ESS {target.reached_ess:.1f} rows")
print(f"mean reward {np.nanmean(log.rewards):.4f} -> {log.rewards[rows].mean():.4f}")
out = sys.argv[1] if len(sys.argv) > 1 else "data"
karl_fast.export(log, rows, out, scores=scores, log_weights=target.log_weights, force=True)
