"""From rewards to a draw, on plain NumPy arrays and no log: `python examples/numpy_advantages.py`."""

import numpy as np

import karl_fast
from karl_fast import diversity

# Six prompts, eight rollouts each. Prompt 0 is always solved, prompt 1 never; one reward is missing.
random = np.random.default_rng(5)
prompts = np.repeat(np.arange(6), 8)
chance = np.array([1.0, 0.0, 0.2, 0.4, 0.6, 0.8])[prompts]
rewards = (random.random(48) < chance).astype(np.float64)
rewards[20] = np.nan

advantages = karl_fast.zscore(rewards, prompts, ddof=1, eps=1e-4)  # as TRL has it
print(f"advantage of the missing reward: {advantages[20]}, of prompts 0 and 1: {np.unique(advantages[:16])}")

advantages[advantages == 0] = np.nan  # nothing is learnt where all attempts are alike: these are not drawn
target = karl_fast.boltzmann(advantages, ess=0.5)  # half of the rows, in effective size
print(f"inverse temperature {target.inverse_temperature:.3f} for an ESS of {target.reached_ess:.1f} rows")

rows = karl_fast.draw(target.log_weights, 16, seed=7)
learnt = ~np.isnan(advantages)
print(f"mean reward of those that differ {rewards[learnt].mean():.2f} -> {rewards[rows].mean():.2f}")

solved = np.bincount(prompts, weights=np.nan_to_num(rewards)).astype(np.int64)
known = np.bincount(prompts[~np.isnan(rewards)])
print("pass@4 by prompt:", np.round(diversity.pass_at_k(known, solved, 4), 2))

drawn = np.bincount(prompts[rows], minlength=6).astype(np.float64)
print(f"rows drawn of each prompt: {drawn.astype(int)}, evenness {diversity.evenness(drawn):.2f}")
