"""A table of the model types of mlx-lm: how well memory is planned, and whether rl draws as it learns.

    python benches/training/architectures.py [--segments] [TYPE ...]

A model is tiny (tests/unit/modeling/model_zoo.py). The plan is held against the peak of a gradient of two rows of 96
tokens; the difference is between the log-probabilities of drawn tokens and those of the forward pass.
With --segments the plan is held against the peak of a row of 1,024 tokens in segments of 256, and of one of 512 in
segments of 64, above the weights, with the memory limit of a run; it goes to benches/record/segment_memory.json.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))

import mlx.core as mx
import numpy as np
from segments import row_of, step
from tests.unit.modeling import model_zoo
from tests.unit.modeling.parts import adapted

import record
from karl_fast.errors import KarlError
from karl_fast.modeling.chunked_logp import backward
from karl_fast.modeling.memory import estimate_training, limit_memory
from karl_fast.modeling.model_views import checkpoint_layers
from karl_fast.rl.generate import generate_turns
from karl_fast.rl.language_model import LanguageModel
from karl_fast.rl.logprobs import Forward
from karl_fast.rl.rollout import Packed
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.settings import Training

ROWS, TOKENS = 2, 96
CONTEXTS = [list(range(5, 5 + length)) for length in (4, 4, 20, 7)]


def trained(kind: str, grad_checkpoint: bool) -> str:
    """The plan over the measured peak."""
    model = adapted(model_zoo.built(kind))
    scorer = Scorer(model)
    memory = estimate_training(
        model, scorer.body, scorer.vocabulary, Training(grad_checkpoint=grad_checkpoint), len(model.layers)
    )
    plan = memory.need(ROWS, TOKENS).total
    tokens, places = mx.zeros((ROWS, TOKENS + 1), mx.int32) + 5, mx.arange(ROWS * TOKENS, dtype=mx.int32)
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory() - memory.shape.weights
    mx.reset_peak_memory()
    with checkpoint_layers(model, grad_checkpoint):
        slope = {"logp": -mx.ones(places.size)}
        mx.eval(backward(model, scorer.body, scorer.head, tokens, places, scorer.rows, slope))
    return f"{plan / (mx.get_peak_memory() - before):.2f}x"


def in_segments(kind: str, tokens: int, length: int) -> dict[str, Any]:
    """The planned bytes of a row, the measured ones, and the quotient of both."""
    model = adapted(model_zoo.built(kind))
    scorer = Scorer(model, length)
    settings, layers = Training(segment_length=length), len(model.layers)
    memory = estimate_training(model, scorer.body, scorer.vocabulary, settings, layers, lambda: scorer.carrier)
    need, shape = memory.need(1, tokens), memory.shape
    summed = 2 * shape.trainable + shape.wider  # a gradient and its sum; there is no optimizer
    plan = need.total - shape.weights - shape.adapter + summed
    with limit_memory(need.total - shape.weights):
        _, peak, _ = step(model, row_of(tokens), length)
    return {"model": kind, "tokens": tokens, "segment": length, "planned": plan, "peak": peak, "ratio": plan / peak}


def swept(kinds: list[str]) -> None:
    """Print and record a line for each type that passes in segments."""
    table = []
    for kind in kinds:
        for tokens, length in ((1024, 256), (512, 64)):
            try:
                table.append(in_segments(kind, tokens, length))
                print(table[-1], flush=True)
            except KarlError as error:
                print(f"{kind} is refused: {error}", flush=True)
                break
    record.put("segment_memory", "machine", record.facts())
    record.put("segment_memory", "table", table)


def drawn(kind: str) -> str:
    """The largest difference of a log-probability."""
    loaded: Any = SimpleNamespace(
        model=adapted(model_zoo.built(kind)).eval(),
        tokenizer=None,
        ends=frozenset([3]),
        config=model_zoo.config(kind),
    )
    policy = LanguageModel(loaded)
    turns = generate_turns(policy, CONTEXTS, [24] * 4, temperature=0.9, rows=8, seed=1)
    tokens, logp = np.zeros((4, 64), np.int32), np.zeros((4, 64), np.float32)
    mask = np.zeros((4, 64), np.bool_)
    for row, (context, turn) in enumerate(zip(CONTEXTS, turns, strict=True)):
        place = slice(len(context), len(context) + len(turn.tokens))
        tokens[row, : place.stop] = [*context, *turn.tokens]
        logp[row, place], mask[row, place] = turn.logp, True
    packed = Packed(tokens, mask[:, 1:], np.where(mask, 0, -1)[:, 1:], logp[:, 1:])
    return f"{np.abs(Forward(policy, 0.9).logp(packed) - packed.logp).max():.0e}"


def said(cell: Any, *arguments: Any) -> str:
    """A cell, or why there is none."""
    try:
        return str(cell(*arguments))
    except KarlError as error:
        return f"refused: {error}"


def main() -> None:
    """Print a row a type."""
    mx.disable_compile()
    if sys.argv[1:2] == ["--segments"]:
        swept(sys.argv[2:] or model_zoo.types())
        return
    print("| type | plan / peak | with checkpoints | drawn - forward |\n|---|---|---|---|")
    for kind in sys.argv[1:] or model_zoo.types():
        print(
            f"| {kind} | {said(trained, kind, False)} | {said(trained, kind, True)} | {said(drawn, kind)} |", flush=True
        )


if __name__ == "__main__":
    main()
