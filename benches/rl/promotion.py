"""Repeated looks at one held-out set, simulated: false promotions by rule, and the power of the gate.

    python benches/rl/promotion.py

prints the tables of docs/guides/evaluation.md. Each prompt has a success rate of its own, uniform from 0 to 1; both
policies make some attempts at each prompt at every look, and prompts stay the same over the looks of a run. For power
the new policy's rates are higher by a gain, cut at 1. `--smoke` makes a hundredth of the runs. Needs NumPy alone.
"""

from __future__ import annotations

import sys

import numpy as np

from karl_fast.evaluation.gate import alpha_at
from karl_fast.resampling import sign_flip

ALPHA, LOOKS = 0.05, 20


def p_values(runs: int, looks: int, prompts: int, attempts: int, gain: float, seed: int) -> np.ndarray:
    """p-value of each look of each run. [runs, looks]"""
    random = np.random.default_rng(seed)
    rates = random.random((runs, 1, prompts))
    old = random.binomial(attempts, rates, (runs, looks, prompts))
    new = random.binomial(attempts, np.clip(rates + gain, 0, 1), (runs, looks, prompts))
    offsets = np.arange(runs * looks + 1, dtype=np.int64) * prompts
    return sign_flip(((new - old) / attempts).ravel(), offsets).reshape(runs, looks)


def false_promotions(runs: int) -> None:
    """Print the share of runs with a false promotion within some looks, by rule."""
    found = p_values(runs, LOOKS, prompts=24, attempts=4, gain=0.0, seed=1)
    spent = np.array([alpha_at(look, ALPHA) for look in range(1, LOOKS + 1)])
    rules = {
        "this gate: alpha / (j (j + 1))": spent,
        "alpha / 20 at every look": ALPHA / LOOKS,
        "alpha at every look": ALPHA,
    }
    bound = ALPHA + 3 * (ALPHA * (1 - ALPHA) / runs) ** 0.5
    print(f"{runs:,} runs; alpha plus 3 standard errors is {bound:.4f}")
    print("| rule | 1 look | 5 looks | 20 looks |\n|---|---|---|---|")
    for name, levels in rules.items():
        false = found <= levels
        shares = " | ".join(f"{false[:, :looks].any(1).mean():.4f}" for looks in (1, 5, LOOKS))
        print(f"| {name} | {shares} |")


def power(runs: int) -> None:
    """Print the share of looks that promote, by gain and by number of the look."""
    print("| prompts, attempts | gain | look 1 | look 5 | look 20 |\n|---|---|---|---|---|")
    for prompts, attempts in ((24, 4), (36, 8)):
        for gain in (0.1, 0.2, 0.3):
            found = p_values(runs, 1, prompts, attempts, gain, seed=2)
            shares = " | ".join(f"{(found <= alpha_at(look, ALPHA)).mean():.2f}" for look in (1, 5, 20))
            print(f"| {prompts}, {attempts} | {gain} | {shares} |")


if __name__ == "__main__":
    share = 100 if "--smoke" in sys.argv else 1
    false_promotions(10_000 // share)
    power(1_000 // share)
