"""A task with eight right answers to each prompt, online: how many of them FlowRL and GRPO keep, and what they earn.

    LD_PRELOAD=.../libopenblas.so.0 OPENBLAS_NUM_THREADS=1 python benches/rl/modes.py [--smoke]

A prompt is a number below 8, an answer two of them whose sum it is, modulo 8. The policy is the transformer of
examples/rl/reversal.py, from scratch; every arm has the same rollouts a round, optimizer and seeds, and differs in its
recipe alone. At the end the chance of each of the 64 answers is computed exactly. `--smoke` makes three rounds of one
seed. Needs the extra `train`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
import trials

os.environ.setdefault("MLX_DISABLE_COMPILE", "1")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "rl"
SYMBOLS, ARROW, ANSWER = 8, 8, 2
SEEDS, ROUNDS = (2, 3) if trials.SMOKE else (5, 150)
PROMPTS, GROUP, RATE = 8, 16, 2e-3
SETTING = {
    "prompts_per_round": PROMPTS,
    "group_size": GROUP,
    "rounds": ROUNDS,
    "learning_rate": RATE,
    "seeds": SEEDS,
}


def reward(prompts: Any, completions: Any, completion_ids: Any = None, **columns: Any) -> list[float]:
    """1 for two symbols whose sum is asked for, else 0."""
    asked = [int(prompt[-1]["content"]) for prompt in prompts]
    return [float(is_right(wanted, list(ids))) for wanted, ids in zip(asked, completion_ids, strict=True)]


def is_right(wanted: int, said: list[int]) -> bool:
    return len(said) == ANSWER and max(said) < SYMBOLS and sum(said) % SYMBOLS == wanted


def arms() -> dict[str, Any]:
    """The recipe of each arm."""
    from karl_fast.objective import recipe
    from karl_fast.objective.axes.advantage import Raw
    from karl_fast.objective.axes.balance import InverseTemperature, TokenSumLength, Unweighted
    from karl_fast.objective.axes.kl import NoKL

    free = recipe("grpo").but("GRPO without its penalty", "ours", kl=(NoKL(), "[ours]"))
    plain = recipe("flowrl-vargrad").but(
        "balance of the reward",
        "ours",
        reward=(Raw(), "0 or 1, as it is [ours]"),
        length=(TokenSumLength(), "[ours]"),
        scale=(InverseTemperature(6.0), "97 % right at its target, from 8 % [ours]"),
        weight=(Unweighted(), "[ours]"),
    )
    return {
        "GRPO": recipe("grpo"),
        "GRPO without its penalty": free,
        "FlowRL": recipe("flowrl"),
        "FlowRL VarGrad": recipe("flowrl-vargrad"),
        "balance of the reward": plain,
    }


def run(folder: Path, recipe: Any, seed: int) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """The measures of the policy at the end, and the metrics of each round."""
    from karl_fast.rl import Alarms, Online
    from karl_fast.train.settings import Training

    folder.mkdir(parents=True)
    lines = "".join(json.dumps({"prompt": str(number)}) + "\n" for number in range(SYMBOLS))
    (folder / "prompts.jsonl").write_text(lines, encoding="utf-8")
    settings = Online(
        model=f"{EXAMPLES / 'reversal.py'}:policy",
        prompts=str(folder / "prompts.jsonl"),
        out=str(folder / "out"),
        rewards={f"{Path(__file__).resolve()}:reward": 1.0},
        recipe=str(folder / "recipe.toml"),
        rounds=ROUNDS,
        prompts_per_round=PROMPTS,
        group_size=GROUP,
        max_tokens=ANSWER,
        micro_batch=PROMPTS * GROUP,
        alarms=Alarms(flat_rounds=0),
        save_every=ROUNDS,
        training=Training(learning_rate=RATE, seed=seed),
    )
    policy, lines_said = trials.online(settings, recipe)
    return measured(chances(policy)), lines_said


def chances(policy: Any) -> np.ndarray:
    """Of each answer of two symbols to each prompt. [prompts, first, second]"""
    import mlx.core as mx

    every = np.stack(np.meshgrid(*[np.arange(SYMBOLS)] * 3, indexing="ij"), -1).reshape(-1, 3)
    tokens = np.insert(every, 1, ARROW, axis=1)
    logits = policy.head(policy.body(mx.array(tokens[:, :-1])))[:, 1:]
    logp = np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True), dtype=np.float64)
    said = np.take_along_axis(logp, tokens[:, 2:, None], axis=2).sum((1, 2))
    return np.exp(said).reshape(SYMBOLS, SYMBOLS, SYMBOLS)


def measured(shares: np.ndarray) -> dict[str, float]:
    """Reward and variety of a policy, on average over prompts; an answer is kept at half of its even share or more."""
    from karl_fast.diversity import effective_number

    first = np.arange(SYMBOLS)
    right = np.array([shares[wanted, first, (wanted - first) % SYMBOLS] for wanted in range(SYMBOLS)])
    return {
        "expected_reward": float(right.sum(1).mean()),
        "right_answers": float(np.mean([effective_number(one.copy(), order=1) for one in right])),
        "kept": float((right >= 0.5 / SYMBOLS).mean()),
    }


def main() -> None:
    runs: trials.Runs = {}
    said: dict[str, list[list[dict[str, Any]]]] = {}
    with tempfile.TemporaryDirectory() as held:
        for arm, recipe in arms().items():
            for seed in range(SEEDS):
                found, lines = run(Path(held) / arm / str(seed), recipe, seed)
                runs.setdefault(arm, []).append(found)
                said.setdefault(arm, []).append(lines)
                print(arm, seed, found, file=sys.stderr, flush=True)
    trials.show(runs, "GRPO")
    outcomes = {arm: rewards(each) for arm, each in said.items()}
    trials.keep("modes", SETTING, runs, "GRPO", outcomes=outcomes)
    trials.figure("modes", lambda left, right: picture(runs, outcomes, left, right), 2)


def rewards(seeds: list[list[dict[str, Any]]]) -> list[float]:
    """The mean reward of the rollouts of each round, over seeds."""
    return np.round(np.mean([[line["outcome"] for line in lines] for lines in seeds], axis=0), 3).tolist()


def picture(runs: trials.Runs, outcomes: dict[str, list[float]], left: Any, right: Any) -> None:
    """The reward of rollouts as it is learned, and each seed's policy at the end."""
    for colour, (arm, curve) in zip(trials.COLOURS, outcomes.items(), strict=False):
        left.plot(trials.smooth(curve), color=colour, linewidth=1.4, label=arm)
        where = [[seed[name] for seed in runs[arm]] for name in ("expected_reward", "right_answers")]
        right.scatter(*where, color=colour, s=18)
    left.set_xlabel("round")
    left.set_ylabel("mean reward over seeds")
    left.legend(frameon=False, fontsize=8)
    right.set_xlabel("expected reward at the end")
    right.set_ylabel("effective right answers, of 8")
    right.set_ylim(0, SYMBOLS + 0.3)


if __name__ == "__main__":
    main()
