"""Rollouts of the model by karl-fast's generator and by `BatchGenerator` of mlx_lm: speed, memory, and the same tokens.

Speed is of as many tokens from each rollout, drawn at temperature 1 without a token that ends one. Then both take the
likeliest token: the same but where two are equal up to rounding, after which texts go apart.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from karl_fast.doctor.model import load_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.doctor import Job, Save

    Generate = Callable[[int, float], list[list[int]]]

GREEDY = "greedy.json"
"""File with the likeliest tokens of karl-fast, for the comparison."""

MARGIN = 10.0
"""Seconds that a check leaves of its time."""

SHORT, LONG = 2, 6
"""Tokens of each rollout in two runs that tell how many there is time for."""

SLOW = 5.0
"""Seconds of the first run above which compiling kernels is little of it."""

SPENT = 0.8
"""Share of the time left that two runs may take by estimate."""

QUESTIONS = (
    "What is {a} times {b}?",
    "List the numbers from {a} to {b}.",
    "Write a function in Python that adds {a} to each item of a list, and explain each line of it to a beginner.",
    "A train leaves at {a} and arrives at {b}. How long is it on its way?",
)


def check_rollouts(job: Job, save: Save) -> dict[str, Any]:
    """Draw rollouts by karl-fast."""
    end = time.monotonic() + job.seconds - MARGIN
    loaded = load_model(job)
    from karl_fast.rl.generate import generate_turns
    from karl_fast.rl.language_model import LanguageModel

    endless = SimpleNamespace(
        model=loaded.model, tokenizer=loaded.tokenizer, ends=frozenset[int](), config=loaded.config
    )
    policy = LanguageModel(endless)
    contexts = _contexts(job, policy, loaded.tokenizer)

    def generate(tokens: int, temperature: float) -> list[list[int]]:
        budgets = [tokens] * len(contexts)
        turns = generate_turns(policy, contexts, budgets, temperature=temperature, rows=len(contexts), seed=1)
        return [turn.tokens.tolist() for turn in turns]

    result, greedy = _measure(end, save, generate, job.sizes.tokens)
    if greedy:
        Path(job.folder, GREEDY).write_text(json.dumps(greedy), encoding="utf-8")
    return result | {"prompt_tokens": sum(map(len, contexts))}


def check_mlx_lm(job: Job, save: Save) -> dict[str, Any]:
    """Draw the same rollouts by mlx_lm, and compare the likeliest tokens."""
    end = time.monotonic() + job.seconds - MARGIN
    loaded = load_model(job)
    import mlx.core as mx
    from mlx_lm.generate import BatchGenerator

    from karl_fast.rl.language_model import LanguageModel

    contexts = _contexts(job, LanguageModel(loaded), loaded.tokenizer)

    def generate(tokens: int, temperature: float) -> list[list[int]]:
        sampler: Any = None if temperature == 0 else (lambda logp: mx.random.categorical(logp))
        generator: Any = BatchGenerator(loaded.model, sampler=sampler, completion_batch_size=len(contexts))
        turns: dict[int, list[int]] = {
            uid: [] for uid in generator.insert(contexts, max_tokens=[tokens] * len(contexts))
        }
        left = len(contexts)
        while left:
            for response in generator.next_generated():
                turns[response.uid].append(int(response.token))
                left -= response.finish_reason is not None
        generator.close()
        return list(turns.values())

    file = Path(job.folder, GREEDY)
    ours: list[list[int]] = json.loads(file.read_text("utf-8")) if file.is_file() else []
    result, greedy = _measure(end, save, generate, len(ours[0]) if ours else job.sizes.tokens)
    return result | (compare_texts(ours, greedy, loaded) if ours and greedy else {})


def compare_texts(ours: list[list[int]], theirs: list[list[int]], loaded: Any) -> dict[str, Any]:
    """Return how many rollouts have the same text, and how many tokens are the same until the first that is not."""
    length = min(len(ours[0]), len(theirs[0]))
    pairs = [[_before_end(tokens[:length], loaded.ends) for tokens in pair] for pair in zip(ours, theirs, strict=True)]
    equal = [loaded.tokenizer.decode(first) == loaded.tokenizer.decode(second) for first, second in pairs]
    same = [_common_prefix(first, second) for first, second in pairs]
    return {
        "equal_texts": sum(equal),
        "texts": len(equal),
        "equal_tokens": sum(same),
        "compared_tokens": sum(min(len(first), len(second)) for first, second in pairs),
    }


def _measure(end: float, save: Save, generate: Generate, most: int) -> tuple[dict[str, Any], list[list[int]]]:
    """Return speed and peak memory of rollouts, and the likeliest tokens of each, if there is time for them.

    Args:
        end: time until which it has to be done.
        save: keeps the speed.
        generate: draws so many tokens of each rollout at a temperature.
        most: tokens of each.
    """
    import mlx.core as mx

    short = _timed(generate, SHORT)
    if short < SLOW:
        short = _timed(generate, SHORT)  # without compiling kernels
    fitting = SHORT
    if (LONG / SHORT + 2) * short < end - time.monotonic():
        long = _timed(generate, LONG)
        step = max(1e-6, (long - short) / (LONG - SHORT))
        fitting = LONG + int((SPENT * (end - time.monotonic()) / 2 - long) / step)
    tokens = max(SHORT, min(most, fitting))
    mx.clear_cache()
    mx.reset_peak_memory()
    start = time.perf_counter()
    turns = generate(tokens, 1.0)
    seconds, drawn = time.perf_counter() - start, sum(map(len, turns))
    result = {
        "rollouts": len(turns),
        "tokens": tokens,
        "seconds": round(seconds, 3),
        "tokens_per_second": round(drawn / seconds, 1),
        "peak_bytes": mx.get_peak_memory(),
    }
    save(result)
    return result, generate(tokens, 0.0) if seconds < end - time.monotonic() else []


def _timed(generate: Generate, tokens: int) -> float:
    start = time.perf_counter()
    generate(tokens, 1.0)
    return time.perf_counter() - start


def _contexts(job: Job, policy: Any, tokenizer: Any) -> list[list[int]]:
    """Return the prompts as tokens: questions in the chat template, or alone for a model without one."""
    contexts = []
    for number in range(job.sizes.rollouts):
        text = QUESTIONS[number % len(QUESTIONS)].format(a=number + 2, b=3 * number + 5)
        if getattr(tokenizer, "chat_template", None):
            contexts.append(policy.encode([{"role": "user", "content": text}]))
        else:
            contexts.append([int(token) for token in tokenizer.encode(text)])
    return contexts


def _before_end(tokens: list[int], ends: frozenset[int]) -> list[int]:
    return tokens[: next((place for place, token in enumerate(tokens) if token in ends), len(tokens))]


def _common_prefix(first: list[int], second: list[int]) -> int:
    pairs = zip(first, second, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
