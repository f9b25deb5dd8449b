"""The five ablations of `karl-fast ablate` on a small task, with a figure: what each choice alone does to the reward.

    python examples/rl/reversal.py runs/three.jsonl 3
    karl-fast ablate --config examples/rl/ablation.toml --out runs/ablations
    python benches/rl/ablation.py runs/ablations

The second line makes the runs and prints the table; this reads their metrics, writes record/ablation.json and draws it.
Every number is of the outcome, which is the reward before any shaping. `--smoke`, in the place of a folder, makes two
short runs of each arm itself and writes nothing. Needs the extra `train`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
import trials

os.environ.setdefault("MLX_DISABLE_COMPILE", "1")

CONFIG = Path(__file__).resolve().parents[2] / "examples" / "rl" / "ablation.toml"
LAST = 10
SAID = ("outcome", "reward", "entropy", "draws", "clip_high", "groups_mixed")
SETTING = (
    *("rounds", "prompts_per_round", "group_size", "epochs", "minibatches", "max_tokens", "overlong_tokens"),
    "recipe",
)


def said(folder: Path) -> dict[str, Any]:
    """Some numbers of each round of a run."""
    from karl_fast.modeling.checkpoint import METRICS_FILE

    lines = [json.loads(line) for line in (folder / METRICS_FILE).read_text("utf-8").splitlines()]
    return {name: np.array([line.get(name, np.nan) for line in lines]) for name in SAID}


def measured(over: dict[str, Any]) -> dict[str, float]:
    """Of the last rounds, and of all."""
    return {
        "outcome": float(over["outcome"][-LAST:].mean()),
        "outcome_of_all_rounds": float(over["outcome"].mean()),
        "shaped_reward": float(over["reward"][-LAST:].mean()),
        "entropy": float(over["entropy"][-LAST:].mean()),
        "clipped_above": float(np.nanmean(over["clip_high"])),
        "mixed": float(over["groups_mixed"].mean()),
        "draws": float(over["draws"].mean()),
    }


def smoke(out: Path) -> None:
    """Two rounds of each arm on two seeds."""
    sys.path.insert(0, str(CONFIG.parent))
    from reversal import write_prompts

    from karl_fast.rl import ablate, load

    write_prompts(out / "three.jsonl")
    ablate(replace(load(CONFIG, rounds=2), prompts=str(out / "three.jsonl")), out / "runs", seeds=(0, 1))


def main() -> None:
    with tempfile.TemporaryDirectory() as held:
        if trials.SMOKE:
            smoke(Path(held))
        folder = Path(held) / "runs" if trials.SMOKE else Path(sys.argv[1])
        show(folder)


def show(folder: Path) -> None:
    """The table, the record and the figure of a folder of runs."""
    from karl_fast.rl import load
    from karl_fast.rl.ablation import arms

    there = [{int(place.name) for place in (folder / arm).iterdir() if place.is_dir()} for arm in arms()]
    seeds = sorted(set.intersection(*there))
    found = {arm: [said(folder / arm / str(seed)) for seed in seeds] for arm in arms()}
    runs = {arm: [measured(over) for over in each] for arm, each in found.items()}
    trials.show(runs, "baseline")
    settings = load(CONFIG)
    setting = {name: getattr(settings, name) for name in SETTING}
    setting |= {"learning_rate": settings.training.learning_rate, "seeds": seeds}
    rounds = {arm: np.round([over["outcome"] for over in each], 4).tolist() for arm, each in found.items()}
    trials.keep("ablation", setting, runs, "baseline", outcomes=rounds)
    trials.figure("ablation", lambda *axes: picture(rounds, runs, axes), 2)


def picture(rounds: dict[str, Any], runs: trials.Runs, axes: tuple[Any, ...]) -> None:
    """Outcomes by round, the mean over seeds; and the outcome of all rounds, seed by seed, with its interval."""
    own = trials.intervals(runs)
    for place, (colour, (arm, seeds)) in enumerate(zip(trials.COLOURS, rounds.items(), strict=False)):
        axes[0].plot(trials.smooth(np.mean(seeds, axis=0)), color=colour, linewidth=1.4, label=arm)
        each = [seed["outcome_of_all_rounds"] for seed in runs[arm]]
        mean, low, high = own[arm]["outcome_of_all_rounds"]
        axes[1].plot([low, high], [place, place], color=colour, linewidth=1.4)
        axes[1].plot(each, [place] * len(each), "o", color=colour, markersize=3, alpha=0.5)
        axes[1].plot([mean], [place], "|", color=colour, markersize=12)
    axes[0].set_title("outcome", fontsize=10)
    axes[0].set_xlabel("round")
    axes[0].set_ylim(0, 1)
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].set_title("mean outcome of all rounds", fontsize=10)
    axes[1].set_yticks(range(len(rounds)), list(rounds))
    axes[1].invert_yaxis()


if __name__ == "__main__":
    main()
