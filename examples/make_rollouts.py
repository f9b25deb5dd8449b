"""Writes the rollouts of a made-up RL run, to be audited: sums, each tried eight times, over ten steps.

`python examples/make_rollouts.py [FILE [FAULT]]`, by default rollouts.jsonl and none.
The same fault gives the same bytes on every machine. Faults:

    none       nothing is wrong
    length     a bonus for each token: the reward follows the length
    scope      advantages are z-scores over the step, not over the group
    mismatch   the sampler has other weights than the trainer
"""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
from pathlib import Path
from typing import Any

STEPS, PROMPTS, ATTEMPTS = 10, 8, 8
THOUGHTS = ("first the tens", "then the ones", "carry one", "no carry here", "check it again", "that is all", "so")


def attempt(rng: random.Random, step: int, prompt: int, number: int, fault: str) -> dict[str, Any]:
    """Return one rollout without its advantage."""
    numbers = random.Random(1000 * step + prompt)
    first, second, skill = numbers.randint(10, 99), numbers.randint(10, 99), numbers.uniform(0.2, 0.8)
    is_right = rng.random() < min(1.0, skill + 0.02 * step)
    answer = first + second + (0 if is_right else rng.choice((-10, -1, 1, 10)))
    words = [*rng.choices(THOUGHTS, k=rng.randint(2, 8)), f"the answer is {answer}"]
    completion = ", ".join(words)
    tokens = len(completion.split())
    drawn = [-rng.expovariate(2) for _ in range(tokens)]
    spread = 0.4 if fault == "mismatch" else 0.005
    return {
        "id": f"{step}-{prompt}-{number}",
        "group": f"{step}-{prompt}",
        "step": step,
        "policy_version": step - 1,
        "prompt": f"What is {first} + {second}?",
        "completion": completion,
        "completion_tokens": tokens,
        "correct": is_right,
        "reward": float(is_right) + (0.02 * tokens if fault == "length" else 0.0),
        "rollout_log_probs": [round(logp, 6) for logp in drawn],
        "old_log_probs": [round(logp + rng.gauss(0, spread), 6) for logp in drawn],
    }


def add_advantages(rollouts: list[dict[str, Any]]) -> None:
    """Log z-scores of some rollouts, as TRL computes them."""
    rewards = [rollout["reward"] for rollout in rollouts]
    mean, spread = statistics.fmean(rewards), statistics.stdev(rewards)
    for rollout in rollouts:
        rollout["advantage"] = round((rollout["reward"] - mean) / (spread + 1e-4), 9)


def main(path: str = "rollouts.jsonl", fault: str = "none") -> None:
    """Write a run with one fault."""
    if fault not in ("none", "length", "scope", "mismatch"):
        sys.exit(f"there is no fault {fault}: wanted none, length, scope or mismatch")
    rng, rollouts = random.Random(7), []
    for step in range(1, STEPS + 1):
        groups = [[attempt(rng, step, prompt, n, fault) for n in range(ATTEMPTS)] for prompt in range(PROMPTS)]
        for own in [[row for group in groups for row in group]] if fault == "scope" else groups:
            add_advantages(own)
        rollouts += [row for group in groups for row in group]
    assert all(math.isfinite(rollout["advantage"]) for rollout in rollouts)
    Path(path).write_text("".join(json.dumps(rollout) + "\n" for rollout in rollouts), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
