"""A table of the model types of mlx-lm: how well memory is planned, and whether rl draws as it learns.

    python benches/training/architectures.py [TYPE ...]

A model is tiny (tests/unit/train/zoo.py). The plan is held against the peak of a gradient of two rows of 96
tokens; the difference is between the log-probabilities of drawn tokens and those of the forward pass.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import mlx.core as mx
import numpy as np
from tests.unit.train import zoo
from tests.unit.train.parts import adapted

from karl_fast.errors import KarlError
from karl_fast.modeling.chunked_logp import backward
from karl_fast.modeling.views import checkpointed
from karl_fast.rl.generate import draw
from karl_fast.rl.language_model import LanguageModel
from karl_fast.rl.logprobs import Forward
from karl_fast.rl.rollout import Packed
from karl_fast.train.memory import of_model
from karl_fast.train.scorer import Scorer
from karl_fast.train.settings import Training

ROWS, TOKENS = 2, 96
CONTEXTS = [list(range(5, 5 + length)) for length in (4, 4, 20, 7)]


def trained(kind: str, grad_checkpoint: bool) -> str:
    """The plan over the measured peak."""
    model = adapted(zoo.built(kind))
    scorer = Scorer(model)
    memory = of_model(
        model, scorer.body, scorer.vocabulary, Training(grad_checkpoint=grad_checkpoint), len(model.layers)
    )
    planned = memory.need(ROWS, TOKENS).total
    tokens, places = mx.zeros((ROWS, TOKENS + 1), mx.int32) + 5, mx.arange(ROWS * TOKENS, dtype=mx.int32)
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory() - memory.shape.weights
    mx.reset_peak_memory()
    with checkpointed(model, grad_checkpoint):
        slope = {"logp": -mx.ones(places.size)}
        mx.eval(backward(model, scorer.body, scorer.head, tokens, places, scorer.rows, slope))
    return f"{planned / (mx.get_peak_memory() - before):.2f}x"


def drawn(kind: str) -> str:
    """The largest difference of a log-probability."""
    loaded: Any = SimpleNamespace(
        model=adapted(zoo.built(kind)).eval(), tokenizer=None, ends=frozenset([3]), config=zoo.config(kind)
    )
    policy = LanguageModel(loaded)
    turns = draw(policy, CONTEXTS, [24] * 4, temperature=0.9, rows=8, seed=1)
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
    print("| type | plan / peak | with checkpoints | drawn - forward |\n|---|---|---|---|")
    for kind in sys.argv[1:] or zoo.types():
        print(
            f"| {kind} | {said(trained, kind, False)} | {said(trained, kind, True)} | {said(drawn, kind)} |", flush=True
        )


if __name__ == "__main__":
    main()
