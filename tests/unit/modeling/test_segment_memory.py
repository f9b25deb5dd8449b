"""Memory of a reverse sweep: planned beside measured, and what keeps the peak at the plan."""

from __future__ import annotations

import gc

import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

import mlx.core as mx

from karl_fast.modeling.graph_memory import _evaluation_order, _Operation
from karl_fast.modeling.layers import recompute_in_backward
from karl_fast.modeling.memory import estimate_training, limit_memory
from karl_fast.train.batching import PaddedBatch
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.settings import Training
from tests.external_gradients import pulled
from tests.unit.modeling import model_zoo
from tests.unit.modeling.parts import adapted

PLANNED = ["qwen3", "qwen3_5", "gemma3_text", "kimi_linear", "falcon_h1", "nemotron_h", "olmo_hybrid"]


@pytest.mark.parametrize("kind", PLANNED)
def test_the_plan_of_segments_is_what_is_measured(kind: str) -> None:
    """Within 25 %, above the weights, where the plan is the memory limit of MLX, as in a run."""
    model, tokens, length = adapted(model_zoo.built(kind)), 1024, 256
    scorer = Scorer(model, length)
    settings = Training(segment_length=length)
    memory = estimate_training(model, scorer.body, scorer.vocabulary, settings, 4, lambda: scorer.carrier)
    need = memory.need(1, tokens)
    mask = np.ones((1, tokens), dtype=np.bool_)
    batch = PaddedBatch(mx.zeros((1, tokens + 1), mx.int32) + 5, mask, mx.arange(tokens, dtype=mx.int32), tokens)
    sweep = scorer.trace(batch)
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    plan = need.states + need.activations + need.head
    with limit_memory(plan):
        mx.eval(pulled(sweep, lambda logp: -logp.sum()))
    measured = mx.get_peak_memory() - before
    assert 0.8 * measured <= plan <= 1.25 * measured


def test_layer_with_extra_outputs_is_planned() -> None:
    model = adapted(model_zoo.built("rwkv7"))
    scorer = Scorer(model, 16)
    memory = estimate_training(model, scorer.body, scorer.vocabulary, Training(), 4, lambda: scorer.carrier)
    assert memory.need_in_segments(1, 64, 16).activations > 0


def test_operations_are_planned_in_the_order_of_mlx() -> None:
    """From the result back by breadth: both arguments are there before the first of two results is computed."""
    operations = [
        _Operation("Sin", ("argument",), (("p", 1),)),
        _Operation("Concatenate", ("p",), (("x", 1),)),
        _Operation("Sin", ("argument",), (("q", 1),)),
        _Operation("Concatenate", ("q",), (("y", 1),)),
        _Operation("Add", ("x", "y"), (("result", 1),)),
    ]
    assert [one.makes[0][0] for one in _evaluation_order(operations, ["result"])] == ["q", "p", "y", "x", "result"]
    deep = [_Operation("Sin", (f"{n}",), ((f"{n + 1}", 1),)) for n in range(30)]
    many = [*deep, _Operation("Concatenate", tuple(f"{n + 1}" for n in range(30)), (("result", 1),))]
    assert [one.makes[0][0] for one in _evaluation_order(many, ["result"])] == [
        *(f"{n + 1}" for n in range(30)),
        "result",
    ]


def test_one_layer_is_recomputed_at_a_time() -> None:
    """What twice as many layers take more than their inputs is little beside what one takes."""
    weights = [mx.random.normal((256, 256)) for _ in range(16)]

    def layer(weight: mx.array, hidden: mx.array) -> mx.array:
        for _ in range(8):
            hidden = mx.tanh(hidden @ weight)
        return hidden

    def peak(count: int) -> int:
        def loss(some: list[mx.array], hidden: mx.array) -> mx.array:
            for weight in some:
                hidden = recompute_in_backward(layer)(weight, hidden)
            return hidden.sum()

        hidden = mx.ones((1024, 256))
        mx.eval(hidden, weights)
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        mx.eval(mx.grad(loss)(weights[:count], hidden))
        return mx.get_peak_memory() - before - count * (hidden.nbytes + weights[0].nbytes)

    assert peak(16) < peak(8) + 1024 * 256 * 4 * 2


def test_mlx_memory_limit_is_the_plan_during_runs() -> None:
    before = mx.set_memory_limit(1 << 40)
    try:
        active = mx.get_active_memory()
        with limit_memory(1 << 20):
            assert mx.set_memory_limit(active + (1 << 20)) == active + (1 << 20)
        assert mx.set_memory_limit(1 << 40) == 1 << 40
    finally:
        mx.set_memory_limit(before)
