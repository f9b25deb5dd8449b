"""The online loop on token reversal, over several seeds, beside the same loop in PyTorch and in bare MLX.

    python benches/rl/online.py [--seeds 5] [--rounds 400] [--wide] [--loop ours torch kept bare] [--record]

A line a seed: exact match at the end (every prompt, greedily), and the median time of a round after the first tenth, by
the wall and by the processor. Ours rewards, logs, measures and checkpoints as `karl-fast rl` does. The others have
the same model, batch, optimizer and forward passes: torch and bare do nothing else, kept is torch with rewards by the
same function, a log and metrics (`journal.py`). What MLX costs is bare over torch, what we cost is ours over bare.
Both of MLX compile their steps, which takes a C++ compiler a minute the first time. ``--abreast`` makes the rounds of
all in turn, in one process, and gives the medians of their ratios: what else the machine does then meets all of them.
On Linux preload OpenBLAS, with one thread, for all.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from by_torch import by_torch
from journal import Journal
from reversing import END, GROUP, Task, all_prompts, answers, judged

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
import record

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
REVERSAL = ROOT / "examples" / "rl" / "reversal.py"


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

    def on_start(self, run: Any) -> None:
        """The first round begins."""
        self.clock.begin()

    def on_round(self, *_: Any) -> None:
        """A round is over."""
        self.clock.end()
        for other in self.others:
            next(other)
        self.clock.begin()


def ours(seed: int, task: Task, viewer: Viewer) -> float:
    """The share of prompts that are answered exactly."""
    import reversal

    from karl_fast.rl import Online, rl
    from karl_fast.rl.generate import generate_turns
    from karl_fast.rl.setup import prepare
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
            compile=True,
            save_every=task.rounds,
            training=Training(learning_rate=task.rate, seed=seed),
        )
        rl(settings, viewer=viewer)
        run = prepare(settings, resume=True)
        contexts = [run.policy.encode(prompt.messages) for prompt in run.prompt_set.prompts]
        budgets = [task.symbols + 1] * len(contexts)
        turns = generate_turns(run.policy, contexts, budgets, temperature=0.01, rows=512, seed=0)
        run.close()
    wanted = [[*reversed(context[:-1]), END] for context in contexts]
    return float(np.mean([turn.tokens.tolist() == one for turn, one in zip(turns, wanted, strict=True)]))


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
    every, state = all_prompts(symbols), [policy.model.state, adam.state]

    def loss(tokens: Any, ref: Any, mask: Any, advantages: Any) -> Any:
        logp = _logps(mx, policy, tokens, symbols)
        ratio, far = mx.exp(logp - mx.stop_gradient(logp)), ref - logp
        terms = -mx.minimum(ratio * advantages, mx.clip(ratio, 0.8, 1.2) * advantages)
        return (((terms + 0.04 * (mx.exp(far) - far - 1)) * mask).sum(1) / mask.sum(1)).mean()

    @partial(mx.compile, inputs=state, outputs=state)
    def step(*known: Any) -> Any:
        value, gradient = nn.value_and_grad(policy.model, loss)(*known)
        adam.update(policy.model, optim.clip_grad_norm(gradient, 1.0)[0])
        return value

    @partial(mx.compile, inputs=reference.model.state)
    def referred(tokens: Any) -> Any:
        return _logps(mx, reference, tokens, symbols)

    for _ in range(task.rounds):
        chosen = np.repeat(every[order.permutation(len(every))[: task.prompts]], GROUP, 0)
        tokens = _said(mx, policy, mx.array(chosen), symbols + 1, greedy=False)
        mask, advantages = map(mx.array, judged(chosen, np.array(tokens), task))
        mx.eval(step(tokens, referred(tokens), mask, advantages), state)
        yield 0.0
    said = np.array(_said(mx, policy, mx.array(every), symbols + 1, greedy=True))[:, symbols + 1 :]
    yield float((said == answers(every, symbols)).all(1).mean())


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


def by_torch_kept(seed: int, task: Task) -> Iterator[float]:
    """The same loop in PyTorch, with rewards by the function, the log and the metrics."""
    import reversal

    with tempfile.TemporaryDirectory() as folder:
        yield from by_torch(seed, task, Journal(folder, reversal.reward))


OTHERS = {"torch": by_torch, "kept": by_torch_kept, "bare": by_mlx}


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
    for one, other in (("ours", "bare"), ("bare", "torch"), ("ours", "torch"), ("ours", "kept"), ("kept", "torch")):
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
    parser.add_argument("--record", action="store_true", help="keep the lines")
    parser.add_argument("--smoke", action="store_true", help="four rounds abreast, nothing kept")
    given = parser.parse_args()
    if given.smoke:
        given.seeds, given.rounds, given.abreast, given.record = 1, 4, True, False
    sys.path.insert(0, str(REVERSAL.parent))
    wanted = list(given.loop)
    if importlib.util.find_spec("torch") is None:
        wanted = [name for name in wanted if name not in ("torch", "kept")]
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
    kind = f"{'abreast' if given.abreast else 'alone'}{', wide' if given.wide else ''}"
    found = {"machine": record.facts(), "rounds": given.rounds, "symbols": given.symbols, "lines": lines}
    record.put("online", kind, found)


if __name__ == "__main__":
    main()
