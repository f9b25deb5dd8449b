"""Tokens that a router sends to other experts in segments than in a whole pass.

    python benches/training/router_flips.py [--record]

Tiny random models in float32 (tests/unit/modeling/model_zoo.py), 1,024 tokens, segments of 64. A flip is a token in a
layer with another set of experts. MLX computes experts on a CPU in float32 alone. The table goes to
benches/record/router_flips.json.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))

import mlx.core as mx
import numpy as np
from segments import row_of
from tests.unit.modeling import model_zoo
from tests.unit.modeling.parts import adapted

import record
from karl_fast.train.model_logprobs import Scorer

KINDS = ("qwen3_moe", "gpt_oss", "mixtral", "lfm2_moe", "olmoe")
TOKENS, LENGTH = 1024, 64


def routed(scorer: Scorer, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """The log-probabilities of a pass, and the experts of each token in each layer, sorted. [T], [layers, T, k]"""
    if scorer.segment_length is not None:
        _ = scorer.carrier
    plain, calls = mx.argpartition, list[np.ndarray]()

    def noting(gates: mx.array, kth: int, axis: int = -1) -> mx.array:
        order = np.argsort(np.array(gates).reshape(-1, gates.shape[-1]), axis=-1)
        calls.append(np.sort(order[:, kth:] if kth < 0 else order[:, : kth + 1], axis=-1))
        return plain(gates, kth=kth, axis=axis)

    with mock.patch.object(mx, "argpartition", noting):
        logp = np.array(scorer.trained_logp(row_of(TOKENS)))
    return logp, np.stack([np.concatenate(calls[layer::layers]) for layer in range(layers)])


def flips(kind: str) -> dict[str, Any]:
    """A line of the table."""
    model = adapted(model_zoo.built(kind))
    whole = Scorer(model)
    with mock.patch.object(mx, "argpartition", wraps=mx.argpartition) as counted:
        model(mx.array([[1, 2, 3]]))
        layers = counted.call_count
    (logp, wanted), (parts, found) = routed(whole, layers), routed(Scorer(model, LENGTH), layers)
    count = int((wanted != found).any(-1).sum())
    far = round(float(np.abs(logp - parts).max()), 7)
    return {"model": kind, "routed": wanted.shape[0] * TOKENS, "flips": count, "logp_difference": far}


def main() -> None:
    """Print and record the table."""
    mx.disable_compile()
    table = []
    for kind in KINDS:
        table.append(flips(kind))
        print(table[-1], flush=True)
    if sys.argv[1:] == ["--record"]:
        record.put("router_flips", "machine", record.facts())
        record.put("router_flips", "table", table)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
