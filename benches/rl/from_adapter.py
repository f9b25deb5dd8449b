"""Arithmetic with a tool, online from an adapter of `train`: the reward on held-out sums before and after.

    python benches/rl/from_adapter.py [--smoke]

A random Qwen3 of 0.1 million weights (`examples/make_tiny_model.py`) is first trained on a log of an agent that asks a
calculator in half of its rows, `calc(3 + 4)`, and guesses in the others: `karl_fast.train`, LoRA on all layers. The run
of `karl_fast.rl` starts from that adapter, with the environment of `examples/rl/tools.py`, which gives 1 for the right
answer and .1 for having asked. 80 of the 100 sums of two digits are in the log and the rounds; the other 20 are asked
before the first round and after the last. Three seeds, in record/from_adapter.json; `--smoke` makes few steps of one.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benches" / "record"), str(ROOT / "examples")]
import make_tiny_model  # noqa: E402
import trials  # noqa: E402

SEEDS, ITERS, ROUNDS = (1, 20, 2) if trials.SMOKE else (3, 1000, 80)
ROWS, HELD_OUT, ARM = 2000, 20, "GRPO from the adapter"
ADAPTER = {"num_layers": -1, "lora_rank": 32, "lora_scale": 8.0}
"""Settings of the adapter, which both runs share."""

OFFLINE = ADAPTER | {"learning_rate": 3e-3, "batch_size": 16, "grad_accumulation_steps": 4, "lr_schedule": "cosine"}
ONLINE = {"recipe": "grpo", "prompts_per_round": 8, "group_size": 8, "temperature": 0.7, "max_context": 96}
ONLINE |= {"max_turns": 2, "max_turn_tokens": 14, "max_tokens": 24, "eval_attempts": 16}
RATE = 5e-4


def sums() -> list[dict[str, Any]]:
    """Every sum of two digits, as lines of prompts."""
    pairs = [divmod(number, 10) for number in range(100)]
    return [{"id": f"{a}+{b}", "prompt": f"{a} + {b}", "answer": a + b} for a, b in pairs]


def write(path: Path, rows: list[Any]) -> str:
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def logged(asked: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """The log of an agent that asks the tool in half of its rows, and guesses in the others."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(ROWS):
        line = asked[int(random.integers(len(asked)))]
        messages = [{"role": "user", "content": line["prompt"]}]
        answer = str(line["answer"] if number % 2 else random.integers(19))
        if number % 2:
            messages += [{"role": "assistant", "content": f"calc({line['prompt']})"}]
            messages += [{"role": "tool", "content": answer}]
        rows.append({"messages": [*messages, {"role": "assistant", "content": answer}]})
    return rows


def model(folder: Path) -> str:
    """Make the random model."""
    folder.mkdir()
    make_tiny_model.tokenizer(folder)
    config = make_tiny_model.SHAPE | {"model_type": "qwen3", "vocab_size": 512} | make_tiny_model.KINDS["qwen3"]
    make_tiny_model.weights(folder, config, None)
    return str(folder)


def run(folder: Path, base: str, seed: int) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Train offline, then online from that adapter: the measures of the seed, and the lines of metrics.jsonl."""
    from karl_fast.rl import Online, rl
    from karl_fast.train import Training, train

    asked = [sums()[place] for place in np.random.default_rng(seed).permutation(100)]
    write(folder / "data" / "train.jsonl", logged(asked[HELD_OUT:], seed))
    train(folder / "data", base, folder / "sft", Training(**OFFLINE, iters=ITERS, seed=seed))
    settings = Online(
        model=base,
        adapter=str(folder / "sft"),
        prompts=write(folder / "prompts.jsonl", asked[HELD_OUT:]),
        eval_prompts=write(folder / "held_out.jsonl", asked[:HELD_OUT]),
        environment=f"{ROOT / 'examples' / 'rl' / 'tools.py'}:Calculator",
        out=str(folder / "rl"),
        rounds=ROUNDS,
        eval_every=ROUNDS,
        training=Training(**ADAPTER, learning_rate=RATE, seed=seed),
        **ONLINE,
    )
    rl(settings)
    before, after = lines(folder / "rl" / "held_out.jsonl")
    rounds = lines(folder / "rl" / "metrics.jsonl")
    ends = max(1, ROUNDS // 10)
    turns = {"turns_first": rounds[:ends], "turns_last": rounds[-ends:]}
    found = {"before": before["reward"], "after": after["reward"], "gain": after["reward"] - before["reward"]}
    return found | {name: float(np.mean([one["turns"] for one in some])) for name, some in turns.items()}, rounds


def lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines."""
    return [json.loads(text) for text in path.read_text("utf-8").splitlines()]


def main() -> None:
    runs: trials.Runs = {ARM: []}
    outcomes = []
    with tempfile.TemporaryDirectory() as held:
        base = model(Path(held) / "model")
        for seed in range(SEEDS):
            found, rounds = run(Path(held) / str(seed), base, seed)
            runs[ARM].append(found)
            outcomes.append(trials.stretches([one["outcome"] for one in rounds], 10))
            print(seed, found, file=sys.stderr, flush=True)
    setting = {"offline": OFFLINE | {"iters": ITERS}, "online": ONLINE | {"rounds": ROUNDS, "learning_rate": RATE}}
    trials.keep("from_adapter", setting, runs, ARM, outcomes=outcomes)


if __name__ == "__main__":
    main()
