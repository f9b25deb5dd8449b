"""The online loop beside those of mlx-lm-lora and inductive-mlxrl: one model, one task, one budget, a process a run.

    python benches/rl/peers_online.py [--seeds 5] [--first 0] [--rounds 400] [--speed] [--peers PYTHON] [--record]

A transformer (Qwen3 of mlx-lm, 33,000 weights, all of them trained) learns from scratch to reverse two of eight
symbols by GRPO: 8 prompts a round, groups of 8, three tokens, a learning rate of 0.002, temperature 1. A line a run:
exact match over all 64 prompts, greedily; the median time of a round after the first tenth, by the wall and by the
processor; and the peak memory of MLX. What is kept is the exact match of every seed, that of further ones (`--first
10`) beside it; with `--speed` the times, of 60 rounds of seed 0. `--peers` is a Python that has the peers, where this
one does not. A peer that is not installed is left out, and said to be; `--only NAME ...` takes some. `--smoke` makes
three rounds of each, and keeps nothing. On Linux preload OpenBLAS, with one thread, for all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
import record

os.environ.setdefault("MLX_DISABLE_COMPILE", "1")

ENTRIES = ("ours", "ours, 8 rows at a time", "mlx-lm-lora", "ours without kl", "inductive-mlxrl without kl")
"""mlx-lm-lora holds 8 rows in memory, ours 64 unless told. The last two have no reference: that of inductive-mlxrl is
the model without its adapters, and here there are none."""

TIMES = ("round_ms", "round_cpu_ms", "peak_mb")


def one(name: str, seed: int, rounds: int) -> dict[str, Any]:
    """A run, in this process."""
    import loops
    import mlx.core as mx
    from digits import exact

    clock = loops.Clock()
    runs = {
        "ours": lambda: loops.ours(seed, rounds, clock),
        "ours, 8 rows at a time": lambda: loops.ours(seed, rounds, clock, rows=8),
        "ours without kl": lambda: loops.ours(seed, rounds, clock, kl=False),
        "mlx-lm-lora": lambda: loops.mlx_lm_lora(seed, rounds, clock),
        "inductive-mlxrl without kl": lambda: loops.inductive(seed, rounds, clock),
    }
    mx.reset_peak_memory()
    try:
        model = runs[name]()
    except ImportError as error:
        return {"loop": name, "missing": str(error)}
    peak = mx.get_peak_memory()
    return {"loop": name, "seed": seed, "exact": exact(model)} | clock.report() | {"peak_mb": peak / 1e6}


def apart(name: str, seed: int, rounds: int, peers: str) -> dict[str, Any]:
    """A run in a process of its own, by the Python that has the loop."""
    python = sys.executable if name.startswith("ours") else peers
    command = [python, __file__, "--one", name, "--seed", str(seed), "--rounds", str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return found


def keep(found: list[dict[str, Any]], rounds: int, kind: str) -> None:
    """Put runs into the record, in the place of those of the same kind and loops."""
    loops = record.kept("peers_online").get(kind, {}).get("loops", {})
    for name in {run["loop"]: None for run in found if "missing" not in run}:
        runs = [run for run in found if run["loop"] == name]
        loops[name] = {key: runs[0][key] for key in TIMES} if kind == "speed" else [run["exact"] for run in runs]
    record.put("peers_online", kind, {"machine": record.facts(), "rounds": rounds, "loops": loops})


def asked() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rounds", type=int, help="400; 60 with --speed")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--peers", default=sys.executable, help="a Python that has the peers")
    parser.add_argument("--only", nargs="*", choices=ENTRIES, default=ENTRIES)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    given = asked()
    rounds = given.rounds or (3 if given.smoke else 60 if given.speed else 400)
    if given.one:
        print(json.dumps(one(given.one, given.seed, rounds)))
        return
    found = []
    seeds = range(given.first, given.first + (1 if given.speed or given.smoke else given.seeds))
    for seed in seeds:
        for name in given.only:
            found.append(apart(name, seed, rounds, given.peers))
            print(json.dumps(found[-1]), flush=True)
    if given.record and not given.smoke:
        exact = f"exact, seeds {seeds[0]} to {seeds[-1]}" if given.first else "exact"
        keep(found, rounds, "speed" if given.speed else exact)


if __name__ == "__main__":
    main()
