"""Generation of rollouts beside `BatchGenerator` of mlx-lm: one model, the same contexts and budgets, in one process.

    python benches/rl/generation.py [--large] [--repeats 5] [--only NAME ...] [--record] [--smoke]

Random models of Qwen3: of 0.7 million weights, and with `--large` of 0.47 billion. 32 rollouts each:

| job | contexts | tokens |
|---|---|---|
| equal | 32 of 128 tokens | 256 |
| shared | 4 of 512 tokens, each for a group of 8 | 256 |
| ragged | 32 of 16 to 512 tokens | 256 |
| turns | 32 of 16 to 256 tokens; after two of three turns results of tools of 16 to 96 tokens | 16 to 64 a turn |

With `--large` contexts and tokens are a quarter. Both draw at temperature 1, 32 at a time. `BatchGenerator` takes the
caches of a turn for the next, as ours does; `anew` is `BatchGenerator` without them. Ours returns the log-probability
and entropy of each token; of `BatchGenerator` only the tokens are taken. The runs take turns; what is kept is the
median of each, by the wall and by the processor, and the medians of their ratios to ours. On Linux preload OpenBLAS,
with one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))
import record

if TYPE_CHECKING:
    from collections.abc import Callable

os.environ.setdefault("MLX_DISABLE_COMPILE", "1")

ROWS = 32

SMALL = {"hidden_size": 128, "num_hidden_layers": 4, "intermediate_size": 384, "num_attention_heads": 4, "head_dim": 32}
LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "intermediate_size": 4864,
    "num_attention_heads": 16,
    "head_dim": 64,
}
SHARED = {"model_type": "qwen3", "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "max_position_embeddings": 4096}


@dataclass(frozen=True)
class Job:
    """Contexts, and for each turn of each rollout its budget and the tokens of the tools after it."""

    contexts: list[list[int]]
    budgets: list[list[int]]
    results: list[list[list[int]]]

    @property
    def tokens(self) -> int:
        """Number of tokens drawn."""
        return sum(map(sum, self.budgets))


def jobs(vocabulary: int, part: int) -> dict[str, Job]:
    """Return the jobs; `part` divides all lengths."""
    random = np.random.default_rng(7)

    def text(length: int) -> list[int]:
        return [int(token) for token in random.integers(8, vocabulary, max(2, length // part))]

    def between(low: int, high: int) -> int:
        return int(random.integers(low, high + 1))

    once = [[256 // part] for _ in range(ROWS)]
    none: list[list[list[int]]] = [[] for _ in range(ROWS)]
    found = {
        "equal": Job([text(128) for _ in range(ROWS)], once, none),
        "shared": Job([one for one in [text(512) for _ in range(ROWS // 8)] for _ in range(8)], once, none),
        "ragged": Job([text(between(16, 512)) for _ in range(ROWS)], once, none),
    }
    turns = [[between(16, 64) // part for _ in range(3)] for _ in range(ROWS)]
    results = [[text(between(16, 96)) for _ in range(2)] for _ in range(ROWS)]
    return found | {"turns": Job([text(between(16, 256)) for _ in range(ROWS)], turns, results)}


def built(sizes: dict[str, int], vocabulary: int) -> Any:
    """Make a random model."""
    import mlx.core as mx
    from mlx_lm.models import qwen3

    more = {"vocab_size": vocabulary, "rope_theta": 10000.0, "tie_word_embeddings": True}
    mx.random.seed(0)
    model = qwen3.Model(qwen3.ModelArgs.from_dict(SHARED | sizes | more))
    model.eval()
    mx.eval(model.parameters())
    return model


def ours(model: Any) -> Callable[[Job], int]:
    """Return a function that makes a job, and returns the number of tokens."""
    from karl_fast.rl.generate import Decoder, Generation, Turn, TurnRequest, rollout_key
    from karl_fast.rl.language_model import LanguageModel

    policy = LanguageModel(SimpleNamespace(model=model, tokenizer=None, ends=frozenset(), config={}))
    decoder = Decoder(policy, 1.0)
    assert decoder.ragged

    def made(job: Job) -> int:
        count, turns = 0, [0] * ROWS

        def ask(row: int, tokens: list[int], drawn: int) -> TurnRequest:
            budgets = job.budgets[row]
            last = turns[row] + 1 == len(budgets)
            return TurnRequest(row, tokens, budgets[turns[row]], rollout_key(1, row), drawn, last=last)

        def answer(asked: TurnRequest, turn: Turn) -> TurnRequest | None:
            nonlocal count
            count += len(turn.tokens)
            if asked.last:
                return None
            result = job.results[asked.rollout][turns[asked.rollout]]
            turns[asked.rollout] += 1
            return ask(
                asked.rollout, [*asked.tokens, *turn.tokens.tolist(), *result], asked.num_drawn + len(turn.tokens)
            )

        Generation(decoder, ROWS)([ask(row, one, 0) for row, one in enumerate(job.contexts)], answer)
        return count

    return made


def theirs(model: Any, *, carried: bool) -> Callable[[Job], int]:
    """Return the same by `BatchGenerator`, with the caches of a turn carried to the next or not."""
    import mlx.core as mx
    from mlx_lm.generate import BatchGenerator

    def inserted(generator: Any, one: Any, result: list[int], budget: int) -> list[int]:
        if not carried:
            return list(generator.insert([[*one.all_tokens, *result]], max_tokens=[budget]))
        how = {"caches": [one.prompt_cache], "all_tokens": [one.all_tokens]}
        return list(generator.insert([result], max_tokens=[budget], **how))

    def made(job: Job) -> int:
        generator = BatchGenerator(model, sampler=lambda logp: mx.random.categorical(logp), completion_batch_size=ROWS)
        first = generator.insert(job.contexts, max_tokens=[budgets[0] for budgets in job.budgets])
        place, count = {uid: (row, 0) for row, uid in enumerate(first)}, 0
        while place:
            for one in generator.next_generated():
                count += 1
                if one.finish_reason is None:
                    continue
                row, turn = place.pop(one.uid)
                if turn + 1 < len(job.budgets[row]):
                    result, budget = job.results[row][turn], job.budgets[row][turn + 1]
                    (uid,) = inserted(generator, one, result, budget)
                    place[uid] = (row, turn + 1)
        generator.close()
        return count

    return made


def timed(made: Callable[[Job], int], job: Job) -> tuple[float, float]:
    """Return the seconds of a job, by the wall and by the processor."""
    import mlx.core as mx

    wall, cpu = time.perf_counter(), time.process_time()
    count = made(job)
    assert count == job.tokens, (count, job.tokens)
    mx.clear_cache()
    return time.perf_counter() - wall, time.process_time() - cpu


def measured(job: Job, sides: dict[str, Callable[[Job], int]], repeats: int) -> dict[str, Any]:
    """Return the medians of both sides, and of their ratios."""
    runs = np.array([[timed(made, job) for made in sides.values()] for _ in range(repeats)])  # [R, side, clock]
    found: dict[str, Any] = {"tokens": job.tokens}
    for number, clock in enumerate(("wall", "cpu")):
        for side, name in enumerate(sides):
            found[f"{name} {clock}_s"] = round(float(np.median(runs[:, side, number])), 3)
            if side:
                ratios = runs[:, side, number] / runs[:, 0, number]
                found[f"{name} / ours {clock}"] = round(float(np.median(ratios)), 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=("equal", "shared", "ragged", "turns"))
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    vocabulary = 32_000 if given.large else 512
    part = 16 if given.smoke else 4 if given.large else 1
    model = built(LARGE if given.large else SMALL, vocabulary)
    both = {"ours": ours(model), "BatchGenerator": theirs(model, carried=True)}
    found = {}
    for name, job in jobs(vocabulary, part).items():
        if given.only and name not in given.only:
            continue
        sides = both | ({"anew": theirs(model, carried=False)} if name == "turns" else {})
        if not given.large:
            measured(job, sides, 1)  # the first calls are slower
        found[name] = measured(job, sides, 1 if given.smoke else given.repeats)
        print(json.dumps({name: found[name]}), flush=True)
        if given.record and not given.smoke:
            kind = "large" if given.large else "small"
            kept = record.kept("generation").get(kind, {}).get("jobs", {})
            entry = found[name] | {"repeats": given.repeats}
            record.put("generation", kind, {"machine": record.facts(), "jobs": kept | {name: entry}})


if __name__ == "__main__":
    main()
