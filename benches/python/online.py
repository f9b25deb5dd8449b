"""The online loop on token reversal, over several seeds, beside the same loop in PyTorch where that is installed.

    python benches/python/online.py [--seeds 5] [--rounds 400] [--symbols 3] [--wide] [--loop ours|torch|both]

A line a seed: exact match at the end (every prompt, greedily), rounds a second by the wall and by the processor's time.
Ours logs, measures and checkpoints as `karl-fast rl` does; the other loop does none of it, and has the same model,
batch, optimizer and number of forward passes. On Linux preload OpenBLAS, with one thread, for both.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("MLX_DISABLE_COMPILE", "1")

ROOT = Path(__file__).parents[2]
REVERSAL = ROOT / "examples" / "rl" / "reversal.py"
SYMBOLS, ARROW, END = 8, 8, 9
LAYERS, HEADS, LONGEST, GROUP = 2, 4, 32, 8


@dataclass(frozen=True)
class Task:
    """How large the model, the batch and the prompts are."""

    rounds: int
    symbols: int
    wide: bool

    @property
    def size(self) -> int:
        return 64 if self.wide else 32

    @property
    def prompts(self) -> int:
        return 16 if self.wide else 8

    @property
    def rate(self) -> float:
        return 1e-3 if self.wide else 2e-3


def ours(seed: int, task: Task) -> float:
    """The share of prompts that are answered exactly."""
    sys.path.insert(0, str(REVERSAL.parent))
    import reversal

    from karl_fast.rl import Online, rl
    from karl_fast.rl.draw import draw
    from karl_fast.rl.run import prepare
    from karl_fast.train.settings import Training

    with tempfile.TemporaryDirectory() as folder:
        reversal.write_prompts(f"{folder}/prompts.jsonl", task.symbols)
        settings = Online(
            model=f"{REVERSAL}:{'wide' if task.wide else 'policy'}",
            prompts=f"{folder}/prompts.jsonl",
            out=f"{folder}/out",
            rewards={f"{REVERSAL}:reward": 1.0},
            recipe="grpo",
            rounds=task.rounds,
            prompts_per_round=task.prompts,
            group_size=GROUP,
            max_tokens=task.symbols + 1,
            micro_batch=task.prompts * GROUP,
            save_every=task.rounds,
            training=Training(learning_rate=task.rate, seed=seed),
        )
        rl(settings)
        run = prepare(settings, resume=True)
        contexts = [run.policy.encode(prompt.messages) for prompt in run.asked.prompts]
        budgets = [task.symbols + 1] * len(contexts)
        turns = draw(run.policy, contexts, budgets, temperature=0.01, rows=512, seed=0)
        run.close()
    wanted = [[*reversed(context[:-1]), END] for context in contexts]
    return float(np.mean([turn.tokens.tolist() == one for turn, one in zip(turns, wanted, strict=True)]))


def by_torch(seed: int, task: Task) -> float:
    """The same loop in PyTorch: GRPO with k3 at 0.04, the old and the reference forward, Adam, the norm at most 1."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    symbols, prompts = task.symbols, task.prompts
    model, reference = _model(torch, task.size), _model(torch, task.size)
    reference.load_state_dict(model.state_dict())
    adam = torch.optim.Adam(model.parameters(), lr=task.rate)
    numbers = torch.arange(SYMBOLS**symbols)
    every = torch.stack([numbers // SYMBOLS**place % SYMBOLS for place in range(symbols)], 1)
    every = torch.cat([every, torch.full((len(every), 1), ARROW)], 1)
    for _ in range(task.rounds):
        chosen = every[torch.randperm(len(every))[:prompts]].repeat_interleave(GROUP, 0)
        tokens = _drawn(torch, model, chosen, symbols + 1, greedy=False)
        said = tokens[:, symbols + 1 :]
        ended = (said == END).cumsum(1) - (said == END).int()
        mask = (ended == 0).float()
        wanted = torch.cat([chosen[:, :symbols].flip(1), torch.full((len(chosen), 1), END)], 1)
        rewards = ((said == wanted) * mask).sum(1) / (symbols + 1)
        groups = rewards.view(prompts, GROUP)
        advantages = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-6)).view(-1, 1)
        with torch.no_grad():
            old, ref = (_logp(torch, one, tokens, symbols) for one in (model, reference))
        logp = _logp(torch, model, tokens, symbols)
        ratio, far = (logp - old).exp(), ref - logp
        loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages) + 0.04 * (far.exp() - far - 1)
        adam.zero_grad()
        ((loss * mask).sum(1) / mask.sum(1)).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
    said = _drawn(torch, model, every, symbols + 1, greedy=True)[:, symbols + 1 :]
    wanted = torch.cat([every[:, :symbols].flip(1), torch.full((len(every), 1), END)], 1)
    return float((said == wanted).all(1).float().mean())


def _model(torch: Any, size: int) -> Any:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
            self.joint, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
            self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

        def forward(self, x: Any, cache: dict[str, Any] | None) -> Any:
            rows, length, _ = x.shape
            joint = self.joint(self.norms[0](x)).view(rows, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            keys, values = joint[1], joint[2]
            if cache is not None:
                keys = torch.cat([cache["keys"], keys], 2) if cache else keys
                values = torch.cat([cache["values"], values], 2) if cache else values
                cache.update(keys=keys, values=values)
            heard = nn.functional.scaled_dot_product_attention(joint[0], keys, values, is_causal=length > 1)
            x = x + self.out(heard.transpose(1, 2).reshape(rows, length, size))
            return x + self.narrow(torch.relu(self.wide(self.norms[1](x))))

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(SYMBOLS + 2, size), nn.Embedding(LONGEST, size)
            self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.norm, self.logits = nn.LayerNorm(size), nn.Linear(size, SYMBOLS + 2)

        def forward(self, tokens: Any, caches: list[dict[str, Any]] | None = None, start: int = 0) -> Any:
            x = self.tokens(tokens) + self.places(torch.arange(start, start + tokens.shape[1]))
            for place, block in enumerate(self.blocks):
                x = block(x, None if caches is None else caches[place])
            return self.logits(self.norm(x))

    return Transformer()


def _drawn(torch: Any, model: Any, prompts: Any, count: int, *, greedy: bool) -> Any:
    tokens, caches = prompts, [{} for _ in range(LAYERS)]
    with torch.no_grad():
        logits = model(prompts, caches)[:, -1]
        for place in range(count):
            new = logits.argmax(-1) if greedy else torch.distributions.Categorical(logits=logits).sample()
            tokens = torch.cat([tokens, new[:, None]], 1)
            if place + 1 < count:
                logits = model(new[:, None], caches, tokens.shape[1] - 1)[:, -1]
    return tokens


def _logp(torch: Any, model: Any, tokens: Any, symbols: int) -> Any:
    logits = model(tokens[:, :-1])[:, symbols:]
    return logits.log_softmax(-1).gather(-1, tokens[:, symbols + 1 :, None])[..., 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--symbols", type=int, default=3)
    parser.add_argument("--wide", action="store_true", help="64 wide, 16 prompts a round")
    parser.add_argument("--loop", choices=("ours", "torch", "both"), default="both")
    given = parser.parse_args()
    loops = {"ours": ours, "torch": by_torch}
    wanted = [name for name in loops if given.loop in (name, "both")]
    if importlib.util.find_spec("torch") is None:
        wanted = [name for name in wanted if name != "torch"]
        print("torch is not installed: our loop alone", file=sys.stderr)
    for seed in range(given.seeds):
        for name in wanted:
            wall, cpu = time.perf_counter(), time.process_time()
            exact = loops[name](seed, Task(given.rounds, given.symbols, given.wide))
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            rates = {"rounds_per_second": given.rounds / wall, "rounds_per_cpu_second": given.rounds / cpu}
            print(json.dumps({"loop": name, "seed": seed, "exact": exact} | rates), flush=True)


if __name__ == "__main__":
    main()
