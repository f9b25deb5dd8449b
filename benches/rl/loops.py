"""GRPO on digits by three loops: ours, that of mlx-lm-lora, and that of inductive-mlxrl. Each gives its model."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from digits import END, LENGTH, Digits, asked, share, transformer

PROMPTS, GROUP, RATE, KL = 8, 8, 2e-3, 0.04
DIGITS = Path(__file__).resolve().parent / "digits.py"


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


def ours(seed: int, rounds: int, clock: Clock, *, kl: bool = True, rows: int = PROMPTS * GROUP) -> Any:
    """The model after so many rounds of karl-fast."""
    from karl_fast.objective import recipe, to_toml
    from karl_fast.objective.axes.kl import K3, NoKL
    from karl_fast.rl import Alarms, Online, rl
    from karl_fast.rl.setup import prepare
    from karl_fast.train.settings import Training

    class Viewer:
        def on_start(self, run: Any) -> None:
            clock.tick()

        def on_round(self, *_: Any) -> None:
            clock.tick()

    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in asked())
        Path(folder, "prompts.jsonl").write_text(lines, encoding="utf-8")
        point = K3(KL) if kl else NoKL()
        Path(folder, "recipe.toml").write_text(to_toml(recipe("grpo").but("same", "bench", kl=(point, "bench [code]"))))
        settings = Online(
            model=f"{DIGITS}:policy",
            prompts=f"{folder}/prompts.jsonl",
            out=f"{folder}/out",
            rewards={f"{DIGITS}:reward": 1.0},
            recipe=f"{folder}/recipe.toml",
            rounds=rounds,
            prompts_per_round=PROMPTS,
            group_size=GROUP,
            max_tokens=LENGTH + 1,
            micro_batch=rows,
            rollouts_in_flight=rows,
            save_every=rounds,
            alarms=Alarms(flat_rounds=0),  # the others do not stop of themselves
            training=Training(learning_rate=RATE, seed=seed),
        )
        rl(settings, viewer=Viewer())
        run = prepare(settings, resume=True)
        run.close()
        return run.policy.model


def mlx_lm_lora(seed: int, rounds: int, clock: Clock) -> Any:
    """The same, by the loop of mlx-lm-lora with the optimizer that its command makes.

    Its own way of sampling takes the 20 likeliest tokens, of a vocabulary that has 10 here.
    """
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
            temperature=1.0,
            top_p=1.0,
            top_k=0,
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
