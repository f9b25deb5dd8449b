"""The online loop on token reversal, over several seeds, beside the same loop in PyTorch and in bare MLX.

    python benches/python/online.py [--seeds 5] [--rounds 400] [--wide] [--loop ours torch bare] [--record]

A line a seed: exact match at the end (every prompt, greedily), and the median time of a round after the first tenth, by
the wall and by the processor. Ours logs, measures and checkpoints as `karl-fast rl` does; the other two do none of it,
and have the same model, batch, optimizer and forward passes: what MLX costs is bare over torch, what we cost is ours
over bare. ``--abreast`` makes the rounds of all three in turn, in one process, and gives the medians of their ratios:
what else the machine does then meets all of them. On Linux preload OpenBLAS, with one thread, for all.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import record

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@dataclass
class Clock:
    """The time of each round, by the wall and by the processor."""

    rounds: list[tuple[float, float]] = field(default_factory=list)
    begun: tuple[float, float] = (0.0, 0.0)

    def begin(self) -> None:
        """A round begins."""
        self.begun = (time.perf_counter(), time.process_time())

    def end(self) -> None:
        """It is over."""
        self.rounds.append((time.perf_counter() - self.begun[0], time.process_time() - self.begun[1]))

    @property
    def warm(self) -> Any:
        """Milliseconds, without the first tenth. [N, 2]"""
        return np.array(self.rounds[len(self.rounds) // 10 :]) * 1e3


def each(loop: Iterator[float], clock: Clock) -> Iterator[float]:
    """The rounds of a loop, timed."""
    while True:
        clock.begin()
        found = next(loop)
        clock.end()
        yield found


class Viewer:
    """Times our rounds, and makes one of each of the others after each of them."""

    def __init__(self, clock: Clock, others: list[Iterator[float]]) -> None:
        self.clock, self.others = clock, others

    def started(self, run: Any) -> None:
        """The first round begins."""
        self.clock.begin()

    def said(self, *_: Any) -> None:
        """A round is over."""
        self.clock.end()
        for other in self.others:
            next(other)
        self.clock.begin()


def ours(seed: int, task: Task, viewer: Viewer) -> float:
    """The share of prompts that are answered exactly."""
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
        rl(settings, viewer=viewer)
        run = prepare(settings, resume=True)
        contexts = [run.policy.encode(prompt.messages) for prompt in run.asked.prompts]
        budgets = [task.symbols + 1] * len(contexts)
        turns = draw(run.policy, contexts, budgets, temperature=0.01, rows=512, seed=0)
        run.close()
    wanted = [[*reversed(context[:-1]), END] for context in contexts]
    return float(np.mean([turn.tokens.tolist() == one for turn, one in zip(turns, wanted, strict=True)]))


def by_torch(seed: int, task: Task) -> Iterator[float]:
    """The same loop in PyTorch, and at its end the exact match: GRPO with k3 at 0.04, Adam, the norm at most 1."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    symbols, prompts = task.symbols, task.prompts
    model, reference = _model(torch, task.size), _model(torch, task.size)
    reference.load_state_dict(model.state_dict())
    adam = torch.optim.Adam(model.parameters(), lr=task.rate)
    every = torch.tensor(_every(symbols)).long()
    for _ in range(task.rounds):
        chosen = every[torch.randperm(len(every))[:prompts]].repeat_interleave(GROUP, 0)
        tokens = _drawn(torch, model, chosen, symbols + 1, greedy=False)
        mask, advantages = map(torch.from_numpy, _judged(chosen.numpy(), tokens.numpy(), task))
        with torch.no_grad():
            ref = _logp(torch, reference, tokens, symbols)
        logp = _logp(torch, model, tokens, symbols)
        ratio, far = (logp - logp.detach()).exp(), ref - logp
        loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages) + 0.04 * (far.exp() - far - 1)
        adam.zero_grad()
        ((loss * mask).sum(1) / mask.sum(1)).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        yield 0.0
    said = _drawn(torch, model, every, symbols + 1, greedy=True)[:, symbols + 1 :]
    yield float((said.numpy() == _wanted(every.numpy(), symbols)).all(1).mean())


def by_mlx(seed: int, task: Task) -> Iterator[float]:
    """The same loop in MLX."""
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optim
    import reversal

    mx.random.seed(seed)
    symbols, order = task.symbols, np.random.default_rng(seed)
    policy, reference = reversal.Reversal(size=task.size), reversal.Reversal(size=task.size)
    reference.model.update(policy.model.parameters())
    adam = optim.Adam(task.rate, bias_correction=True)
    adam.init(policy.model.trainable_parameters())
    mx.eval(policy.model.parameters(), adam.state)
    every = _every(symbols)
    for _ in range(task.rounds):
        chosen = np.repeat(every[order.permutation(len(every))[: task.prompts]], GROUP, 0)
        tokens = _said(mx, policy, mx.array(chosen), symbols + 1, greedy=False)
        mask, advantages = map(mx.array, _judged(chosen, np.array(tokens), task))
        ref = _logps(mx, reference, tokens, symbols)
        mx.eval(ref)

        def loss(tokens: Any, ref: Any, mask: Any, advantages: Any) -> Any:
            logp = _logps(mx, policy, tokens, symbols)
            ratio, far = mx.exp(logp - mx.stop_gradient(logp)), ref - logp
            terms = -mx.minimum(ratio * advantages, mx.clip(ratio, 0.8, 1.2) * advantages)
            return (((terms + 0.04 * (mx.exp(far) - far - 1)) * mask).sum(1) / mask.sum(1)).mean()

        value, gradient = nn.value_and_grad(policy.model, loss)(tokens, ref, mask, advantages)
        adam.update(policy.model, optim.clip_grad_norm(gradient, 1.0)[0])
        mx.eval(value, policy.model.parameters(), adam.state)
        yield 0.0
    said = np.array(_said(mx, policy, mx.array(every), symbols + 1, greedy=True))[:, symbols + 1 :]
    yield float((said == _wanted(every, symbols)).all(1).mean())


def _every(symbols: int) -> Any:
    numbers = np.arange(SYMBOLS**symbols)
    return np.stack(
        [*(numbers // SYMBOLS**place % SYMBOLS for place in range(symbols)), 0 * numbers + ARROW], 1
    ).astype("i4")


def _wanted(prompts: Any, symbols: int) -> Any:
    return np.concatenate([prompts[:, :symbols][:, ::-1], np.full((len(prompts), 1), END)], 1)


def _judged(prompts: Any, tokens: Any, task: Task) -> tuple[Any, Any]:
    """Which tokens count, and the advantage of each rollout."""
    said = tokens[:, task.symbols + 1 :]
    ends = said == END
    mask = np.cumsum(ends, 1) - ends == 0
    rewards = ((said == _wanted(prompts, task.symbols)) * mask).sum(1) / (task.symbols + 1)
    groups = rewards.reshape(-1, GROUP)
    advantages = (groups - groups.mean(1, keepdims=True)) / (groups.std(1, keepdims=True) + 1e-6)
    return mask.astype("f4"), advantages.reshape(-1, 1).astype("f4")


def _said(mx: Any, policy: Any, prompts: Any, count: int, *, greedy: bool) -> Any:
    caches, said = policy.caches(), [prompts]
    logits = policy.head(policy.body(prompts, caches)[:, -1:])[:, -1]
    for place in range(count):
        new = logits.argmax(-1) if greedy else mx.random.categorical(logits)
        said.append(new[:, None].astype(mx.int32))
        mx.async_eval(new)
        if place + 1 < count:
            logits = policy.head(policy.body(new[:, None], caches))[:, -1]
    return mx.concatenate(said, 1)


def _logps(mx: Any, policy: Any, tokens: Any, symbols: int) -> Any:
    logits = policy.head(policy.body(tokens[:, :-1])[:, symbols:])
    taken = mx.take_along_axis(logits, tokens[:, symbols + 1 :, None], -1)[..., 0]
    return taken - mx.logsumexp(logits, -1)


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


OTHERS = {"torch": by_torch, "bare": by_mlx}


def alone(name: str, seed: int, task: Task) -> dict[str, Any]:
    """One loop by itself."""
    clock = Clock()
    if name == "ours":
        exact = ours(seed, task, Viewer(clock, []))
    else:
        exact = list(islice(each(OTHERS[name](seed, task), clock), task.rounds + 1))[-1]
    wall, cpu = np.median(clock.warm, axis=0)
    return {"loop": name, "seed": seed, "exact": exact, "round_ms": float(wall), "round_cpu_ms": float(cpu)}


def abreast(names: list[str], seed: int, task: Task) -> dict[str, Any]:
    """All of them round by round; the ratios are medians over rounds."""
    clocks = {name: Clock() for name in ["ours", *names]}
    others = [each(OTHERS[name](seed, task), clocks[name]) for name in names]
    ours(seed, task, Viewer(clocks["ours"], others))
    found: dict[str, Any] = {"seed": seed}
    for name, clock in clocks.items():
        found[f"{name}_ms"], found[f"{name}_cpu_ms"] = (float(one) for one in np.median(clock.warm, axis=0))
    for one, other in (("ours", "bare"), ("bare", "torch"), ("ours", "torch")):
        if one in clocks and other in clocks:
            ratio = np.median(clocks[one].warm / clocks[other].warm, axis=0)
            found[f"{one}/{other}"], found[f"{one}/{other} cpu"] = (float(share) for share in ratio)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--symbols", type=int, default=3)
    parser.add_argument("--wide", action="store_true", help="64 wide, 16 prompts a round")
    parser.add_argument("--loop", nargs="*", choices=("ours", *OTHERS), default=("ours", *OTHERS))
    parser.add_argument("--abreast", action="store_true")
    parser.add_argument("--record", action="store_true", help="keep the lines beside the other records")
    given = parser.parse_args()
    sys.path.insert(0, str(REVERSAL.parent))
    wanted = list(given.loop)
    if "torch" in wanted and importlib.util.find_spec("torch") is None:
        wanted.remove("torch")
        print("torch is not installed: the others alone", file=sys.stderr)
    lines = []
    for line in measured(given, wanted):
        print(json.dumps(line), flush=True)
        lines.append(line)
    if given.record:
        keep(given, lines)


def measured(given: argparse.Namespace, wanted: list[str]) -> Iterator[dict[str, Any]]:
    """A line a seed, and a loop where they do not run abreast."""
    task = Task(given.rounds, given.symbols, given.wide)
    for seed in range(given.seeds):
        if given.abreast:
            yield abreast([name for name in wanted if name != "ours"], seed, task)
        else:
            yield from (alone(name, seed, task) for name in wanted)


def keep(given: argparse.Namespace, lines: list[dict[str, Any]]) -> None:
    """Put the lines into the record, in the place of those of the same kind."""
    file = record.RECORD / "online.json"
    held = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    kind = f"{'abreast' if given.abreast else 'alone'}{', wide' if given.wide else ''}"
    held[kind] = {"machine": record.facts(), "rounds": given.rounds, "symbols": given.symbols, "lines": lines}
    file.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
