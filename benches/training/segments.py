"""Memory, time and gradients of long rows: whole, and in segments.

    python benches/training/segments.py [--longest TOKENS]

Tiny random models in float32 (tests/unit/modeling/model_zoo.py), with a LoRA on every linear layer. A row is one of so
many tokens, all of them learned. Peaks are above the weights; the plan is that of `karl_fast.train.memory`, and the
memory limit of MLX, as in a run. Both gradients are compared where the whole row is short enough. The table goes to
benches/record/segments.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))

import mlx.core as mx
import numpy as np
from tests.unit.modeling import model_zoo
from tests.unit.modeling.parts import adapted

import record
from karl_fast.modeling.memory import estimate_training, limit_memory
from karl_fast.modeling.optimizer import global_norm
from karl_fast.train.batching import PaddedBatch
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.settings import Training

CASES = {"qwen3": 256, "qwen3_5": 128, "gemma3_text": 256}
"""Types of models, and the tokens of a segment."""

LENGTHS = (1024, 4096, 16384)
WHOLE = 1024
"""Maximum tokens of a row that also passes whole."""

RECORD = record.RECORD / "segments.json"


def row_of(tokens: int) -> PaddedBatch:
    """A row of random tokens."""
    random = np.random.default_rng(0).integers(4, model_zoo.VOCABULARY, (1, tokens + 1)).astype(np.int32)
    return PaddedBatch(
        mx.array(random), np.ones((1, tokens), dtype=np.bool_), mx.arange(tokens, dtype=mx.int32), tokens
    )


def step(model: Any, row: PaddedBatch, length: int | None) -> tuple[dict[str, mx.array], int, float]:
    """The gradient of a row, the peak of memory above what was there before, and the seconds."""
    scorer = Scorer(model, length)
    if scorer.long(row):
        _ = scorer.carrier
    gc.collect()
    mx.clear_cache()
    before, begun = mx.get_active_memory(), time.perf_counter()
    mx.reset_peak_memory()
    trace = scorer.trace(row)
    trace.outputs()
    gradient = trace.pull({"logp": np.full(row.places.size, -1 / row.places.size, dtype=np.float32)})
    mx.eval(gradient)
    return gradient, mx.get_peak_memory() - before, time.perf_counter() - begun


def planned(model: Any, tokens: int, length: int) -> dict[str, int]:
    """The plan of a row in segments: all of it above the weights and the adapter, and the states."""
    scorer = Scorer(model)
    memory = estimate_training(model, scorer.body, scorer.vocabulary, Training(), 4, lambda: scorer.carrier)
    need = memory.need_in_segments(1, tokens, length)
    layer = memory.segment_plan()(1, tokens, length).layer
    return {"planned": need.states + need.activations + need.head, "states": need.states, "layer": layer}


def measured(kind: str, tokens: int, length: int) -> dict[str, Any]:
    """One line of the table."""
    model, row = adapted(model_zoo.built(kind)), row_of(tokens)
    plan = planned(model, tokens, length)
    with limit_memory(plan["planned"]):
        gradient, peak, seconds = step(model, row, length)
    found = {"model": kind, "tokens": tokens, "segment": length, "peak": peak, "seconds": round(seconds, 2)} | plan
    if tokens <= WHOLE:
        other, whole_peak, whole_seconds = step(model, row, None)
        far: Any = global_norm({name: gradient[name] - one for name, one in other.items()}) / global_norm(other)
        found |= {"whole_peak": whole_peak, "whole_seconds": round(whole_seconds, 2), "difference": far.item()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longest", type=int, default=max(LENGTHS), help="Tokens of the longest row.")
    longest = parser.parse_args().longest
    facts, table = record.facts(), []
    for kind, length in CASES.items():
        for tokens in (one for one in LENGTHS if one <= longest):
            table.append(measured(kind, tokens, length))
            print(table[-1], flush=True)
            RECORD.write_text(json.dumps({"machine": facts, "table": table}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
