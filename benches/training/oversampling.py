"""Copies by threshold beside draws in proportion: what a model keeps of several right answers, at one budget.

    LD_PRELOAD=.../libopenblas.so.0 OPENBLAS_NUM_THREADS=1 python benches/training/oversampling.py [--graded] [--smoke]

The log is made up: each prompt has four right answers, which the behaviour policy gives with unlike frequency, and four
wrong ones; rewards are noisy, and prompts differ in difficulty. KARL's rule copies a rollout once, twice or three times
by its advantage; its number of copies is the budget of every arm. A small model that has learned the behaviour policy
is trained on each draw by `karl_fast.train`, and judged by the chance that it gives to each answer, which is exact. The
draws in proportion are those of `karl_fast.sample`, with replacement, as copies are. With `--graded` no two answers are
worth the same. `--smoke` makes one short run an arm. Needs the extra `train`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
import trials

os.environ.setdefault("MLX_DISABLE_COMPILE", "1")

ROOT = Path(__file__).resolve().parents[2]
PROMPTS, ROLLOUTS = 8, 60
SEEDS, EPOCHS, PASSES = (2, 1, 1) if trials.SMOKE else (5, 4, 16)
RIGHT = 4
BEHAVIOUR = np.array([0.16, 0.10, 0.06, 0.04, 0.28, 0.18, 0.12, 0.06])
GRADED = "--graded" in sys.argv
WORTH = np.array([0.6, 0.7, 0.8, 0.9, 0.2, 0.3, 0.4, 0.5] if GRADED else [0.7] * RIGHT + [0.3] * RIGHT)
NAME = "oversampling-graded" if GRADED else "oversampling"
NOISE, DIFFICULTY = 0.15, 0.1
WORDS = ["question", "flight", "booking", "airline", "reservation", "cancel", "tool", "answer"]
THRESHOLDS = np.array([0.0, 0.1, 0.3])
SETTING = {"prompts": PROMPTS, "rollouts_per_prompt": ROLLOUTS, "noise": NOISE, "difficulty": DIFFICULTY}
SETTING |= {"behaviour": BEHAVIOUR.tolist(), "mean_reward": WORTH.tolist()}
SETTING |= {"seeds": SEEDS, "epochs": EPOCHS, "epochs_of_the_behaviour_policy": PASSES}


def made(seed: int) -> list[dict[str, Any]]:
    """A log: rows with their prompt, answer and reward."""
    random, rows = np.random.default_rng(seed), []
    for prompt in range(PROMPTS):
        shift = random.uniform(-DIFFICULTY, DIFFICULTY)
        for number, answer in enumerate(random.choice(len(BEHAVIOUR), ROLLOUTS, p=BEHAVIOUR)):
            reward = float(np.clip(WORTH[answer] + shift + random.normal(0, NOISE), 0, 1))
            rows.append({"id": f"{prompt}/{number}", "group": str(prompt), "reward": reward, "answer": int(answer)})
            rows[-1]["messages"] = messages(prompt, int(answer))
    return rows


def messages(prompt: int, answer: int) -> list[dict[str, str]]:
    """A prompt and an answer of two words; which words answer is another matter for each prompt."""
    words = np.random.default_rng([prompt, 7]).permutation(len(WORDS) ** 2)[answer]
    said = f"the {WORDS[words // len(WORDS)]} {WORDS[words % len(WORDS)]}"
    asked = "the" + f" {WORDS[prompt]}" * 4
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]


def advantages(rows: list[dict[str, Any]]) -> np.ndarray:
    """Rewards less the mean of their prompt."""
    rewards = np.array([row["reward"] for row in rows]).reshape(PROMPTS, ROLLOUTS)
    return (rewards - rewards.mean(1, keepdims=True)).ravel()


def copies(rows: list[dict[str, Any]]) -> np.ndarray:
    """KARL's rule: none up to 0, one up to 0.1, two up to 0.3, three above."""
    return np.searchsorted(THRESHOLDS, advantages(rows), side="left")


def best(rows: list[dict[str, Any]], budget: int) -> np.ndarray:
    """The best tenth of each prompt, each as often as the budget allows."""
    gain = advantages(rows).reshape(PROMPTS, ROLLOUTS)
    top = np.argsort(-gain, axis=1, kind="stable")[:, : ROLLOUTS // 10] + np.arange(PROMPTS)[:, None] * ROLLOUTS
    return np.bincount(np.resize(top.T.ravel(), budget), minlength=len(rows))


def written(folder: Path, rows: list[dict[str, Any]], counts: np.ndarray) -> None:
    """A data set of copies."""
    folder.mkdir()
    chosen = [rows[row] for row in np.repeat(np.arange(len(rows)), counts)]
    text = "".join(json.dumps({"messages": row["messages"]}) + "\n" for row in chosen)
    (folder / "train.jsonl").write_text(text, encoding="utf-8")


def drawn(folder: Path, log: Path, budget: int, ess: float, seed: int) -> None:
    """A data set in proportion: with replacement, as copies are."""
    import karl_fast

    how = {"score": "centre", "sampler": "systematic", "split": (1.0, 0.0, 0.0)}
    karl_fast.sample(log, folder, k=budget, ess=ess, seed=seed, **how)


def data_sets(folder: Path, seed: int) -> dict[str, Path]:
    """A folder for each arm."""
    rows, log = made(seed), folder / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    counts = copies(rows)
    budget = int(counts.sum())
    by_hand = {"best tenth": best(rows, budget), "copies by threshold": counts}
    for name, chosen in by_hand.items():
        written(folder / name, rows, chosen)
    like = float(budget**2 / (counts**2).sum() / len(rows))
    in_proportion = {"as logged": 1.0, "ESS 0.5": 0.5, "ESS of the copies": like, "ESS 0.2": 0.2}
    for name, ess in in_proportion.items():
        drawn(folder / name, log, budget, ess, seed)
    return {name: folder / name for name in ("as logged", *by_hand, *list(in_proportion)[1:])}


def behaviour(folder: Path) -> None:
    """A small model that answers as the log does, learned as a whole from 100 rows a prompt."""
    import mlx.core as mx
    import mlx_lm
    from mlx.utils import tree_flatten

    maker = [sys.executable, str(ROOT / "examples" / "make_tiny_model.py"), str(folder)]
    subprocess.run(maker, check=True, capture_output=True)
    model, tokenizer = mlx_lm.load(str(folder))
    often = np.repeat(np.arange(len(BEHAVIOUR)), np.rint(100 * BEHAVIOUR).astype(int))
    fit(model, [encoded(tokenizer, messages(prompt, int(one))) for prompt in range(PROMPTS) for one in often])
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})


def fit(model: Any, texts: list[tuple[list[int], int]]) -> None:
    """Maximum likelihood of the answers, embeddings included."""
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optimizers

    adam, order = optimizers.Adam(2e-3, bias_correction=True), np.random.default_rng(0)
    slope = nn.value_and_grad(model, loss)
    for _ in range(PASSES):
        for rows in np.array_split(order.permutation(len(texts)), len(texts) // 32):
            gradient = optimizers.clip_grad_norm(slope(model, [texts[row] for row in rows])[1], 5.0)[0]
            adam.update(model, gradient)
            mx.eval(model.parameters(), adam.state)


def loss(model: Any, rows: list[tuple[list[int], int]]) -> Any:
    """-log p of an answer, the mean over rows."""
    import mlx.core as mx
    import mlx.nn as nn

    longest = max(len(tokens) for tokens, _ in rows)
    tokens = mx.array([one + [0] * (longest - len(one)) for one, _ in rows])
    learned = mx.array([[start <= place < len(one) for place in range(1, longest)] for one, start in rows])
    return (nn.losses.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:]) * learned).sum() / len(rows)


def encoded(tokenizer: Any, row: list[dict[str, str]]) -> tuple[list[int], int]:
    """The tokens of a row up to the end of its answer, and where the answer begins."""
    ask = tokenizer.apply_chat_template(row[:1], add_generation_prompt=True, tokenize=False)
    start = tokenizer.encode(ask, add_special_tokens=False)
    answer = tokenizer.encode(row[1]["content"] + tokenizer.eos_token, add_special_tokens=False)
    return start + answer, len(start)


def trained(data: Path, model: Path, seed: int) -> np.ndarray:
    """The chance that the trained model gives to each answer. [prompts, answers]"""
    from karl_fast.modeling.load import load
    from karl_fast.train import Training, train

    settings = Training(
        fine_tune_type="full",
        num_layers=-1,
        epochs=EPOCHS,
        batch_size=16,
        learning_rate=1e-3,
        lr_schedule="cosine",
        max_seq_length=64,
        save_every=100_000,
        seed=seed,
    )
    adapter = data.parent / f"{data.name} adapter"
    train(data, model, adapter, settings)
    return chances(load(str(model), str(adapter)))


def chances(loaded: Any) -> np.ndarray:
    """Exactly: the answer and the token that ends it, given the prompt."""
    answers = range(len(BEHAVIOUR))
    return np.array([[chance(loaded, messages(prompt, one)) for one in answers] for prompt in range(PROMPTS)])


def chance(loaded: Any, row: list[dict[str, str]]) -> float:
    import mlx.core as mx

    tokens, start = encoded(loaded.tokenizer, row)
    logits = loaded.model(mx.array([tokens[:-1]]))[0, start - 1 :].astype(mx.float32)
    logp = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    return float(mx.exp(mx.take_along_axis(logp, mx.array(tokens[start:])[:, None], axis=1).sum()).item())


def measured(shares: np.ndarray) -> dict[str, float]:
    """Reward and variety of a policy, on average over prompts."""
    from karl_fast.diversity import effective_number

    right = shares[:, :RIGHT]
    return {
        "expected_reward": float((shares @ WORTH).mean()),
        "right": float(right.sum(1).mean()),
        "right_answers": float(np.mean([effective_number(one.copy(), order=1) for one in right])),
        "kept": float((right >= BEHAVIOUR[:RIGHT] / 2).mean()),
    }


def main() -> None:
    from karl_fast.modeling.load import load

    runs: trials.Runs = {}
    with tempfile.TemporaryDirectory() as held:
        model = Path(held) / "model"
        behaviour(model)
        runs["before"] = [measured(chances(load(str(model))))] * SEEDS
        for seed in range(SEEDS):
            folder = Path(held) / str(seed)
            folder.mkdir()
            for arm, data in data_sets(folder, seed).items():
                runs.setdefault(arm, []).append(measured(trained(data, model, seed)))
                print(arm, seed, runs[arm][-1], file=sys.stderr, flush=True)
    trials.show(runs, "copies by threshold")
    trials.keep(NAME, SETTING, runs, "copies by threshold")
    trials.figure(NAME, lambda left, right: picture(runs, left, right), 2)


def picture(runs: trials.Runs, left: Any, right: Any) -> None:
    """Reward against variety, and the share of right answers that are kept."""
    table = trials.intervals(runs)
    for number, (arm, found) in enumerate(table.items()):
        x, y = found["expected_reward"], found["right_answers"]
        bars = {"xerr": [[x[0] - x[1]], [x[2] - x[0]]], "yerr": [[y[0] - y[1]], [y[2] - y[0]]]}
        left.errorbar(x[0], y[0], **bars, fmt="o", color=trials.COLOURS[number], capsize=2, label=arm)
        kept = found["kept"]
        error = [[kept[0] - kept[1]], [kept[2] - kept[0]]]
        right.barh(arm, kept[0], xerr=error, color=trials.COLOURS[number], capsize=2, height=0.6)
    left.set_xlabel("expected reward")
    left.set_ylabel("effective right answers, of 4")
    left.legend(frameon=False, fontsize=8)
    right.set_xlabel("right answers kept, share")
    right.invert_yaxis()


if __name__ == "__main__":
    main()
