"""What 8-bit caches in generation do to learning, and what a correction makes of it: the same run three ways.

    python benches/rl/rollout_arithmetic.py MODEL prompts.jsonl rewards.py:solved --seeds 3 --record out.json

Each seed is run with full caches, with 8-bit caches without a correction, and with 8-bit caches and the correction that
is the default there. The record has the outcome of every round, the mismatch, and the weights. Needs the extra `train`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("MLX_DISABLE_COMPILE", "1")

ARMS: dict[str, dict[str, str]] = {
    "full": {"kv_cache": "full", "correction": "off"},
    "8-bit": {"kv_cache": "8-bit", "correction": "off"},
    "8-bit, corrected": {"kv_cache": "8-bit", "correction": "auto"},
}
KEPT = (
    *("outcome", "entropy", "grad_norm", "ratio", "kl_old", "mismatch", "mismatch_max", "mismatch_k3", "mismatch_chi2"),
    *("correction_low", "correction_high", "correction_ess"),
)


def run(arm: str, seed: int, given: argparse.Namespace, out: Path) -> dict[str, list[float | None]]:
    """Make one run, and return its numbers by round."""
    from karl_fast.modeling.checkpoint import METRICS_FILE
    from karl_fast.rl import rl
    from karl_fast.rl.settings import Online
    from karl_fast.train.settings import Training

    how: dict[str, Any] = dict(ARMS[arm])
    rl(
        Online(
            model=given.model,
            prompts=given.prompts,
            rewards={given.reward: 1.0},
            out=str(out),
            recipe=given.recipe,
            rounds=given.rounds,
            prompts_per_round=given.prompts_per_round,
            group_size=given.group_size,
            max_tokens=given.max_tokens,
            epochs=given.epochs,
            training=Training(seed=seed, learning_rate=given.learning_rate),
            **how,
        )
    )
    lines = [json.loads(line) for line in (out / METRICS_FILE).read_text("utf-8").splitlines()]
    return {name: [line.get(name) for line in lines] for name in KEPT if any(name in line for line in lines)}


def summary(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the mean of the last quarter of the rounds over seeds, with the deviation of seeds."""
    found: dict[str, dict[str, float]] = {}
    for arm in ARMS:
        mine = [one["by_round"]["outcome"] for one in runs if one["arm"] == arm]
        last = [float(np.mean(values[-max(1, len(values) // 4) :])) for values in mine]
        apart = [one["by_round"]["mismatch"] for one in runs if one["arm"] == arm]
        found[arm] = {
            "outcome": float(np.mean(last)),
            "outcome_std": float(np.std(last)),
            "mismatch": float(np.mean(np.concatenate(apart))),
        }
    return found


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model")
    parser.add_argument("prompts")
    parser.add_argument("reward", help="file.py:function")
    parser.add_argument("--recipe", default="grpo")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--prompts-per-round", type=int, default=4)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--record", type=Path, help="file of JSON to write")
    given = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.seeds):
            for number, arm in enumerate(ARMS):
                held = run(arm, seed, given, Path(folder) / f"{seed}-{number}")
                runs.append({"arm": arm, "seed": seed, "by_round": held})
                print(f"seed {seed}  {arm:<17} outcome of the last round {held['outcome'][-1]}", flush=True)
    found = summary(runs)
    for arm, values in found.items():
        spread = f"{values['outcome']:.3f} +- {values['outcome_std']:.3f}"
        print(f"{arm:<17} outcome {spread}  mismatch {values['mismatch']:.2g}")
    if given.record is not None:
        settings = {name: value for name, value in vars(given).items() if name != "record"}
        given.record.write_text(json.dumps({"settings": settings, "summary": found, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
