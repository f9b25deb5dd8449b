"""The online loop beside those of mlx-lm-lora and inductive-mlxrl: one model, one task, one budget, a process a run.

    python benches/python/peers_online.py [--seeds 5] [--rounds 400] [--peers PYTHON] [--only NAME ...] [--record FILE]

A transformer (Qwen3 of mlx-lm, 33,000 weights, all of them trained) learns from scratch to reverse two of eight
symbols by GRPO: 8 prompts a round, groups of 8, three tokens, a learning rate of 0.002, temperature 1. A line a run:
exact match over all 64 prompts, greedily; the median time of a round after the first tenth, by the wall and by the
processor; and the peak memory of MLX. ``--peers`` is a Python that has the peers, where this one does not. A peer that
is not installed is left out, and said to be. On Linux preload OpenBLAS, with one thread, for all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import record

os.environ.setdefault("MLX_DISABLE_COMPILE", "1")

SYMBOLS, LENGTH, ARROW, END = 8, 2, 8, 9
PROMPTS, GROUP, RATE, KL = 8, 8, 2e-3, 0.04
ENTRIES = (
    *("ours", "ours, 8 rows at a time", "mlx-lm-lora", "mlx-lm-lora, its sampling"),
    *("ours without kl", "inductive-mlxrl without kl"),
)
"""mlx-lm-lora holds 8 rows in memory, ours 64 unless told. The last two have no reference: that of inductive-mlxrl is
the model without its adapters, and here there are none."""

SPEED = ("loop", "round_ms", "round_cpu_ms", "peak_mb")


def transformer() -> Any:
    """The model, with weights of the seed that MLX has."""
    import mlx.core as mx
    from mlx_lm.models import qwen3

    how = {"model_type": "qwen3", "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 128, "head_dim": 8}
    how |= {"num_attention_heads": 4, "num_key_value_heads": 4, "rms_norm_eps": 1e-6, "vocab_size": SYMBOLS + 2}
    how |= {"max_position_embeddings": 64, "rope_theta": 10_000.0, "tie_word_embeddings": False}
    model = qwen3.Model(qwen3.ModelArgs(**how))
    mx.eval(model.parameters())
    return model


class Digits:
    """A tokenizer, as far as a loop asks for one: a symbol is its digit."""

    eos_token_ids, eos_token_id, pad_token_id = frozenset([END]), END, 0

    def encode(self, text: str, **_: Any) -> list[int]:
        """Symbols, and the arrow."""
        return [*(int(one) for one in text), ARROW] if text else []

    def decode(self, tokens: Any, **_: Any) -> str:
        """A digit a token."""
        return "".join(str(int(token)) for token in tokens)


def asked() -> list[str]:
    """Every prompt."""
    return [f"{number:0{LENGTH}o}" for number in range(SYMBOLS**LENGTH)]


def share(prompt: str, said: str) -> float:
    """The share of symbols that stand where they should, with what ends them, which is not in what is said."""
    ended = said if len(said) > LENGTH else f"{said}{END}"
    wanted = f"{prompt[::-1]}{END}"
    return sum(a == b for a, b in zip(ended, wanted, strict=False)) / max(len(ended), len(wanted))


def exact(model: Any) -> float:
    """The share of prompts that are answered exactly, greedily."""
    import mlx.core as mx

    prompts = np.array([Digits().encode(prompt) for prompt in asked()], dtype=np.int32)
    tokens = mx.array(prompts)
    for _ in range(LENGTH + 1):
        tokens = mx.concatenate([tokens, model(tokens)[:, -1:].argmax(-1).astype(mx.int32)], axis=1)
    wanted = np.concatenate([prompts[:, :LENGTH][:, ::-1], np.full((len(prompts), 1), END)], axis=1)
    return float((np.array(tokens)[:, LENGTH + 1 :] == wanted).all(1).mean())


class Clock:
    """The time of each round."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []

    def tick(self) -> None:
        """A round is over."""
        self.seen.append((time.perf_counter(), time.process_time()))

    def report(self) -> dict[str, float]:
        """Milliseconds a round, without those that warm up."""
        rounds = np.diff(np.array(self.seen[len(self.seen) // 10 :]), axis=0)
        wall, cpu = (float(one) * 1e3 for one in np.median(rounds, axis=0))
        return {"round_ms": wall, "round_cpu_ms": cpu}


def policy(seed: int) -> Any:
    """For `model = "peers_online.py:policy"`; MLX is seeded already."""
    from mlx_lm.models.cache import make_prompt_cache

    from karl_fast.rl.policy import Snapshot

    class Qwen:
        ends, trained_head = Digits.eos_token_ids, True

        def __init__(self) -> None:
            self.model = transformer()
            self.body, self.head = self.model.model, self.model.lm_head
            self.reference = Snapshot(self.model).held

        def caches(self) -> list[Any]:
            return list(make_prompt_cache(self.model))

        def encode(self, messages: Any) -> list[int]:
            return Digits().encode(messages[-1]["content"])

        def answer(self, messages: Any, last: int | None) -> list[int]:
            return []

        def decode(self, tokens: Any) -> str:
            return Digits().decode(token for token in tokens if token != END)

    return Qwen()


def reward(prompts: Any, completions: Any, **_: Any) -> list[float]:
    """For `rewards`, of ours."""
    return [share(prompt[-1]["content"], said) for prompt, said in zip(prompts, completions, strict=True)]


def ours(seed: int, rounds: int, clock: Clock, *, kl: bool = True, rows: int = PROMPTS * GROUP) -> Any:
    """The model after so many rounds of karl-fast."""
    from karl_fast.objective import recipe, to_toml
    from karl_fast.objective.kl import K3, NoKL
    from karl_fast.rl import Online, rl
    from karl_fast.rl.run import prepare
    from karl_fast.train.settings import Training

    class Viewer:
        def started(self, run: Any) -> None:
            clock.tick()

        def said(self, *_: Any) -> None:
            clock.tick()

    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in asked())
        Path(folder, "prompts.jsonl").write_text(lines, encoding="utf-8")
        point = K3(KL) if kl else NoKL()
        Path(folder, "recipe.toml").write_text(to_toml(recipe("grpo").but("same", "bench", kl=(point, "bench [code]"))))
        settings = Online(
            model=f"{Path(__file__).resolve()}:policy",
            prompts=f"{folder}/prompts.jsonl",
            out=f"{folder}/out",
            rewards={f"{Path(__file__).resolve()}:reward": 1.0},
            recipe=f"{folder}/recipe.toml",
            rounds=rounds,
            prompts_per_round=PROMPTS,
            group_size=GROUP,
            max_tokens=LENGTH + 1,
            micro_batch=rows,
            draw_rows=rows,
            training=Training(learning_rate=RATE, save_every=rounds, seed=seed),
        )
        rl(settings, viewer=Viewer())
        run = prepare(settings, resume=True)
        run.close()
        return run.policy.model


def mlx_lm_lora(seed: int, rounds: int, clock: Clock, own: bool) -> Any:
    """The same, by the loop of mlx-lm-lora with the optimizer that its command makes; `own` for its way of sampling."""
    import mlx.core as mx
    import mlx.optimizers as optim
    from mlx_lm_lora.trainer.grpo_trainer import GRPOTrainingArgs, train_grpo

    def shares(prompts: Any, completions: Any, answer: Any, types: Any = None) -> list[float]:
        clock.tick()
        return [share(prompt, said) for prompt, said in zip(prompts, completions, strict=True)]

    np.random.seed(seed)  # its order of batches is drawn from there
    mx.random.seed(seed)
    model, reference = transformer(), transformer()
    reference.update(model.parameters())
    reference.freeze()
    rows = [(Digits().encode(prompt), [END], prompt, prompt[::-1]) for prompt in asked()]
    sampling = {} if own else {"temperature": 1.0, "top_p": 1.0, "top_k": 0}
    with tempfile.TemporaryDirectory() as folder:
        how = GRPOTrainingArgs(
            batch_size=PROMPTS,
            iters=rounds,
            group_size=GROUP,
            beta=KL,
            epsilon=0.2,
            max_completion_length=LENGTH + 1,
            steps_per_report=rounds,
            steps_per_save=rounds,
            adapter_file=f"{folder}/adapters.safetensors",
            **sampling,
        )
        adam = optim.Adam(learning_rate=RATE)
        train_grpo(model, reference, Digits(), adam, rows, None, [shares], how, end_answer_token="")
    return model.eval()


def inductive(seed: int, rounds: int, clock: Clock) -> Any:
    """The same, by the rollout and the step of inductive-mlxrl, in the order of its own command."""
    import mlx.core as mx
    import mlx.optimizers as optim
    from mlxrl.algo import GRPOAlgorithm
    from mlxrl.rollout.naive import SamplingConfig
    from mlxrl.rollout.optimized import generate_prefix_cached_group_rollouts
    from mlxrl.train.grpo import batch_from_rollouts, optimizer_step

    mx.random.seed(seed)
    model, adam, order = transformer(), optim.Adam(learning_rate=RATE), np.random.default_rng(seed)
    model.eval()
    how = SamplingConfig(max_tokens=LENGTH + 1, temperature=1.0, top_p=1.0)
    for _ in range(rounds):
        clock.tick()
        prompts = [str(one) for one in order.choice(asked(), PROMPTS, replace=False)]
        said = generate_prefix_cached_group_rollouts(
            model, Digits(), prompts, GROUP, how, use_chat_template=False, batch_groups=True
        )
        texts = [Digits().decode(token for token in one.completion_tokens if token != END) for one in said]
        rewards = [share(prompts[one.prompt_index], text) for one, text in zip(said, texts, strict=True)]
        batch = batch_from_rollouts(model, said, rewards, GROUP, 0, GRPOAlgorithm(), compute_reference=False)
        optimizer_step(model, adam, batch, 0.0, 0, GRPOAlgorithm())
    clock.tick()
    return model


def one(name: str, seed: int, rounds: int) -> dict[str, Any]:
    """A run, in this process."""
    import mlx.core as mx

    clock = Clock()
    runs = {
        "ours": lambda: ours(seed, rounds, clock),
        "ours, 8 rows at a time": lambda: ours(seed, rounds, clock, rows=8),
        "ours without kl": lambda: ours(seed, rounds, clock, kl=False),
        "mlx-lm-lora": lambda: mlx_lm_lora(seed, rounds, clock, own=False),
        "mlx-lm-lora, its sampling": lambda: mlx_lm_lora(seed, rounds, clock, own=True),
        "inductive-mlxrl without kl": lambda: inductive(seed, rounds, clock),
    }
    mx.reset_peak_memory()
    try:
        model = runs[name]()
    except ImportError as error:
        return {"loop": name, "missing": str(error)}
    peak = mx.get_peak_memory()
    return {"loop": name, "seed": seed, "exact": exact(model)} | clock.report() | {"peak_mb": peak / 1e6}


def _recorded(found: list[dict[str, Any]], rounds: int) -> dict[str, Any]:
    """Exact match by loop and seed, and the speed of the first seed's run."""
    runs = [run for run in found if "missing" not in run]
    seeds = sorted({run["seed"] for run in runs})
    exact = {
        name: [run["exact"] for run in runs if run["loop"] == name] for name in {run["loop"]: None for run in runs}
    }
    speed = [{name: run[name] for name in SPEED} | {"rounds": rounds} for run in runs if run["seed"] == seeds[0]]
    return {"machine": record.facts(), "exact": {"rounds": rounds, "seeds": seeds, **exact}, "speed": speed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--peers", default=sys.executable, help="a Python that has the peers")
    parser.add_argument("--only", nargs="*", choices=ENTRIES, default=ENTRIES)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one, given.seed, given.rounds)))
        return
    found = []
    for seed in range(given.seeds):
        for name in given.only:
            python = sys.executable if name.startswith("ours") else given.peers
            command = [python, __file__, "--one", name, "--seed", str(seed), "--rounds", str(given.rounds)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{name}: {done.stderr[-2000:]}")
            print(said := done.stdout.strip().rpartition("\n")[2], flush=True)
            found.append(json.loads(said))
    if given.record is not None:
        given.record.write_text(json.dumps(_recorded(found, given.rounds), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
