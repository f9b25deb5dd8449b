"""What is left of several good answers: a balance beside a policy gradient, on a task with eight of them a prompt.

    python benches/python/modes.py [--seeds 5] [--rounds 300] [--recipes balance,dr-grpo,grpo,flowrl-vargrad,flowrl]

A prompt is a symbol p; an answer is two symbols a, b with (a + b) mod 8 = p, so that eight are right. A line a run: the
share of right answers among 256 of each prompt, how many different ones there are, and how even they are (1: all alike
often). Then a line a recipe, with the mean and its 95 % interval over seeds.

``balance`` is ours: FlowRL's residual on raw rewards, of whole rollouts, at the inverse temperature 10, which puts
0.997 of the target on right answers, evenly.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("MLX_DISABLE_COMPILE", "1")

REVERSAL = Path(__file__).parents[2] / "examples" / "rl" / "reversal.py"
SYMBOLS, END = 8, 9
MOST, GROUP, DRAWN = 3, 32, 256


def reward(prompts: Any, completions: Any, completion_ids: Any = None, **columns: Any) -> list[float]:
    """0.2 for two symbols and an end, 1 if their sum is right."""
    wanted = [int(prompt[-1]["content"]) for prompt in prompts]
    return [0.2 * formed(ids) + 0.8 * right(ids, one) for ids, one in zip(completion_ids, wanted, strict=True)]


def formed(ids: list[int]) -> bool:
    return len(ids) == MOST and ids[-1] == END and max(ids[:2]) < SYMBOLS


def right(ids: list[int], wanted: int) -> bool:
    return formed(ids) and sum(ids[:2]) % SYMBOLS == wanted


def run(recipe: str, seed: int, rounds: int) -> dict[str, float]:
    """Train, and look at what the policy says then."""
    from karl_fast.rl import Alarms, Online, rl
    from karl_fast.rl.draw import draw
    from karl_fast.rl.run import prepare
    from karl_fast.train.settings import Training

    with tempfile.TemporaryDirectory() as folder:
        lines = [json.dumps({"prompt": str(symbol)}) for symbol in range(SYMBOLS)]
        Path(folder, "prompts.jsonl").write_text("\n".join(lines), encoding="utf-8")
        settings = Online(
            model=f"{REVERSAL}:policy",
            prompts=f"{folder}/prompts.jsonl",
            out=f"{folder}/out",
            rewards={f"{__file__}:reward": 1.0},
            recipe=_recipe(recipe, folder),
            rounds=rounds,
            prompts_per_round=SYMBOLS,
            group_size=GROUP,
            max_tokens=MOST,
            micro_batch=SYMBOLS * GROUP,
            alarms=Alarms(flat_rounds=0),
            training=Training(learning_rate=5e-4, save_every=rounds, seed=seed),
        )
        rl(settings)
        trained = prepare(settings, resume=True)
        contexts = [trained.policy.encode(prompt.messages) for prompt in trained.asked.prompts for _ in range(DRAWN)]
        turns = draw(trained.policy, contexts, [MOST] * len(contexts), temperature=1.0, rows=2048, seed=1)
        trained.close()
    said = [turn.tokens.tolist() for turn in turns]
    return _judged([said[start : start + DRAWN] for start in range(0, len(said), DRAWN)])


def _recipe(name: str, folder: str) -> str:
    from karl_fast.objective import recipe, to_toml
    from karl_fast.objective.advantage import Raw
    from karl_fast.objective.balance import InverseTemperature, TokenSumLength, Unweighted

    if name != "balance":
        return name
    mine = recipe("flowrl-vargrad").but(
        "balance",
        "ours",
        reward=(Raw(), "[ours]"),
        length=(TokenSumLength(), "the Boltzmann target of whole rollouts [ours]"),
        scale=(InverseTemperature(10.0), "8 e^10 over 8 e^10 + 56 e^2 + 936: 0.997 right [ours]"),
        weight=(Unweighted(), "[ours]"),
    )
    place = Path(folder, "balance.toml")
    place.write_text(to_toml(mine), encoding="utf-8")
    return str(place)


def _judged(by_prompt: list[list[list[int]]]) -> dict[str, float]:
    from karl_fast.diversity import evenness

    shares, modes, even = [], [], []
    for wanted, said in enumerate(by_prompt):
        counts = np.bincount([ids[0] for ids in said if right(ids, wanted)], minlength=SYMBOLS).astype(np.float64)
        shares.append(counts.sum() / len(said))
        modes.append(float((counts > 0).sum()))
        even.append(evenness(counts) if counts.sum() else 0.0)
    return {"right": float(np.mean(shares)), "modes": float(np.mean(modes)), "evenness": float(np.mean(even))}


def main() -> None:
    from karl_fast.rl.ablation import interval

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--recipes", default="balance,dr-grpo,grpo,flowrl-vargrad,flowrl")
    given = parser.parse_args()
    for recipe in given.recipes.split(","):
        found = []
        for seed in range(given.seeds):
            found.append(run(recipe, seed, given.rounds))
            print(json.dumps({"recipe": recipe, "seed": seed} | found[-1]), file=sys.stderr, flush=True)
        means = {name: [round(one, 3) for one in interval([line[name] for line in found])] for name in found[0]}
        print(json.dumps({"recipe": recipe, "seeds": given.seeds} | means), flush=True)


if __name__ == "__main__":
    main()
