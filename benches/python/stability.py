"""A search over several turns, online: SAMPO beside GRPO, by reward, entropy and ratios.

    LD_PRELOAD=.../libopenblas.so.0 OPENBLAS_NUM_THREADS=1 python benches/python/stability.py [--smoke]

A number below 8 is hidden. In each of three turns the policy names one, and is told whether the hidden one is lower or
higher; a hit earns 1. Halving the range finds 7 of the 8: 0.875 is the most there is. The policy is the transformer of
examples/rl/reversal.py, from scratch. Every arm has the same rollouts a round, four passes over them in two steps each,
so that ratios leave 1, the same optimizer and the same seeds. `--smoke` makes two rounds of one seed. Needs the extra
`train`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import trials

os.environ.setdefault("MLX_DISABLE_COMPILE", "1")

HERE = Path(__file__).resolve()
EXAMPLES = HERE.parents[2] / "examples" / "rl"
NUMBERS, TURNS = 8, 3
SEEDS, ROUNDS = (2, 2) if trials.SMOKE else (4, 80)
PROMPTS, GROUP, RATE, EPOCHS, MINIBATCHES = 8, 8, 3e-3, 4, 2
LAST, FLOOR, LOST = 10, 0.05, 0.1
SETTING = {
    "prompts_per_round": PROMPTS,
    "group_size": GROUP,
    "rounds": ROUNDS,
    "epochs": EPOCHS,
    "minibatches": MINIBATCHES,
    "learning_rate": RATE,
    "seeds": SEEDS,
}


class Search:
    """The environment."""

    def reset(self, prompt: Any) -> None:
        self.hidden, self.hit = prompt["hidden"], False

    def step(self, text: str) -> tuple[str | None, bool]:
        guess = int(text) if text else NUMBERS
        self.hit = guess == self.hidden
        if self.hit or guess >= NUMBERS:
            return None if self.hit else "nothing", self.hit
        return "lower" if self.hidden < guess else "higher", False

    def score(self) -> float:
        return float(self.hit)


def policy(seed: int) -> Any:
    """The transformer, which hears a symbol and an arrow after each turn."""
    sys.path.insert(0, str(EXAMPLES))
    from reversal import ARROW, Reversal

    heard = {"lower": [0, ARROW], "higher": [NUMBERS - 1, ARROW], "nothing": [ARROW, ARROW]}

    class Searcher(Reversal):
        def encode(self, messages: Any) -> list[int]:
            return [ARROW]

        def answer(self, messages: Any, last: int | None) -> list[int]:
            return heard[messages[-1]["content"]]

    return Searcher()


def arms() -> dict[str, Any]:
    """The recipe of each arm."""
    from karl_fast.objective import recipe
    from karl_fast.objective.kl import NoKL

    free = recipe("grpo").but("GRPO without its penalty", "ours", kl=(NoKL(), "[ours]"))
    return {"GRPO": recipe("grpo"), "GRPO without its penalty": free, "SAMPO": recipe("sampo")}


def run(folder: Path, recipe: Any, seed: int) -> list[dict[str, Any]]:
    """The metrics of each round."""
    from karl_fast.rl import Alarms, Online
    from karl_fast.train.settings import Training

    folder.mkdir(parents=True)
    every = (json.dumps({"prompt": "search", "hidden": number}) + "\n" for number in range(NUMBERS))
    (folder / "prompts.jsonl").write_text("".join(every), encoding="utf-8")
    settings = Online(
        model=f"{HERE}:policy",
        prompts=str(folder / "prompts.jsonl"),
        out=str(folder / "out"),
        environment=f"{HERE}:Search",
        recipe=str(folder / "recipe.toml"),
        rounds=ROUNDS,
        prompts_per_round=PROMPTS,
        group_size=GROUP,
        max_tokens=TURNS,
        max_turns=TURNS,
        max_turn_tokens=1,
        epochs=EPOCHS,
        minibatches=MINIBATCHES,
        micro_batch=PROMPTS * GROUP,
        alarms=Alarms(flat_rounds=0),
        save_every=ROUNDS,
        training=Training(learning_rate=RATE, seed=seed),
    )
    return trials.online(settings, recipe)[1]


def measured(lines: list[dict[str, Any]]) -> dict[str, float]:
    """Of the last rounds, where nothing else is said.

    A run has collapsed where its entropy ends below 0.05 nats a token and its reward 0.1 or more below the best that it
    had over as many rounds.
    """
    over = {name: np.array([line.get(name, np.nan) for line in lines]) for name in WANTED}
    reward, entropy = over["outcome"][-LAST:].mean(), over["entropy"][-LAST:].mean()
    best = trials.smooth(over["outcome"], LAST).max()
    return {
        "reward": float(reward),
        "best_reward": float(best),
        "entropy": float(entropy),
        "ratio_std": float(np.nanmean(over["ratio_std"])),
        "ratio_max": float(np.nanmax(over["ratio_max"])),
        "clipped": float(np.nanmean(over["clip_low"] + over["clip_high"])),
        "kl_old": float(np.nanmean(over["kl_old"])),
        "collapsed": float(entropy < FLOOR and reward < best - LOST),
    }


WANTED = ("outcome", "entropy", "ratio_std", "ratio_max", "clip_low", "clip_high", "kl_old")


def main() -> None:
    runs: trials.Runs = {}
    said: dict[str, list[list[dict[str, Any]]]] = {}
    with tempfile.TemporaryDirectory() as held:
        for seed in range(SEEDS):
            for arm, recipe in arms().items():
                lines = run(Path(held) / arm / str(seed), recipe, seed)
                runs.setdefault(arm, []).append(measured(lines))
                said.setdefault(arm, []).append(lines)
                print(arm, seed, runs[arm][-1], file=sys.stderr, flush=True)
    trials.show(runs, "GRPO")
    rounds = {name: means(said, name) for name in ("outcome", "entropy", "kl_old")}
    trials.keep("stability", SETTING, runs, "GRPO", rounds=rounds)
    trials.figure("stability", lambda *axes: picture(rounds, axes), 3)


def means(said: dict[str, list[list[dict[str, Any]]]], name: str) -> dict[str, list[float]]:
    """The mean over seeds of a measure of each round, by arm."""
    values = {arm: [[line.get(name, 0.0) for line in lines] for lines in each] for arm, each in said.items()}
    return {arm: np.round(np.mean(seeds, axis=0), 4).tolist() for arm, seeds in values.items()}


def picture(rounds: dict[str, dict[str, list[float]]], axes: tuple[Any, ...]) -> None:
    """A panel a measure, the mean over seeds."""
    titles = ("reward", "entropy, nats a token", "KL, nats a token")
    for one, title, found in zip(axes, titles, rounds.values(), strict=True):
        for colour, (arm, values) in zip(trials.COLOURS, found.items(), strict=False):
            one.plot(trials.smooth(values), color=colour, linewidth=1.4, label=arm)
        one.set_title(title, fontsize=10)
        one.set_xlabel("round")
        one.set_ylim(bottom=0)
    axes[1].legend(frameon=False, fontsize=8)


if __name__ == "__main__":
    main()
