"""The largest row that a Mac can train on, by the plan of memory: in segments, and by mlx-lm's trainer.

    python benches/training/largest_rows.py [--record]

Models have the sizes of the published ones, in 4 bits with a LoRA on their last 16 layers, and weights that take no
memory: nothing is computed. A row has to fit in two thirds of the machine's memory, as Metal recommends. In segments
the plan is `karl_fast.train.memory`. For mlx-lm with gradient checkpointing it is the same arithmetic of its own
graphs: the input of each trained layer, and the larger of one layer over the whole row, and of all logits with the
loss. The table goes to benches/record/largest_rows.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "record"))

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map

import record
from karl_fast.modeling import graph_memory, model_views
from karl_fast.modeling.load import adapt
from karl_fast.modeling.memory import estimate_training, largest, parabola
from karl_fast.modeling.model_views import training_mode
from karl_fast.modeling.parameters import flatten_tree
from karl_fast.modeling.segments import StatefulModel
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.settings import GB, Training

QWEN3 = {
    "model_type": "qwen3",
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151_936,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "max_position_embeddings": 40_960,
    "tie_word_embeddings": True,
}
ROPE = {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}
MODELS: dict[str, dict[str, Any]] = {
    "Qwen3-0.6B": QWEN3
    | {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16},
    "Qwen3-4B": QWEN3
    | {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32},
    "Qwen3-8B": QWEN3
    | {"hidden_size": 4096, "intermediate_size": 12_288, "num_hidden_layers": 36, "num_attention_heads": 32}
    | {"tie_word_embeddings": False},
    "Qwen3.5-4B": {
        "model_type": "qwen3_5",
        "text_config": {
            "model_type": "qwen3_5_text",
            "hidden_size": 2560,
            "intermediate_size": 9216,
            "num_hidden_layers": 32,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "full_attention_interval": 4,
            "linear_num_key_heads": 16,
            "linear_num_value_heads": 32,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4,
            "vocab_size": 248_320,
            "rms_norm_eps": 1e-6,
            "rope_parameters": ROPE,
            "max_position_embeddings": 262_144,
            "tie_word_embeddings": True,
        },
    },
}
"""Sizes by their configs on the Hugging Face hub."""

MEMORIES = (16, 32, 64)
SHARE = 2 / 3
SEGMENTS = (512, 64)
MOST = 1 << 20
GROWING = (8, 16, 32)
"""Tokens of graphs of mlx-lm's loop over tokens; beyond, their bytes go on as a parabola."""


def built(config: dict[str, Any]) -> Any:
    """A model in bfloat16 and 4 bits with adapters; each array is one number that is shown as many."""
    module = import_module(f"mlx_lm.models.{config['model_type']}")
    model = module.Model(module.ModelArgs.from_dict(config))
    model.set_dtype(mx.bfloat16)
    nn.quantize(model, group_size=64, bits=4)
    adapt(model, Training())
    model.update(tree_map(lambda one: mx.broadcast_to(mx.zeros(1, one.dtype), one.shape), model.parameters()))
    mx.eval(model.parameters())
    model.train()
    return model


def ours(model: Any, scorer: Scorer, limit: int, length: int) -> int:
    """Tokens of the longest row in segments: the plan is a straight line of them."""
    plan = estimate_training(
        model, scorer.body, scorer.vocabulary, Training(), 16, lambda: StatefulModel(model, scorer.body)
    )
    low, high = 8192, 16_384
    first, second = (plan.need_in_segments(1, tokens, length).total for tokens in (low, high))
    if first > limit:
        return (
            largest(low // length, lambda count: plan.need_in_segments(1, count * length, length).total <= limit)
            * length
        )
    slope = (second - first) / (high - low)
    return int((limit - first) / slope + low) // length * length


class Theirs:
    """The arithmetic of mlx-lm's trainer: layers are computed again one at a time, over whole rows."""

    def __init__(self, model: Any, scorer: Scorer) -> None:
        self.model, self.scorer = model, scorer
        trained = flatten_tree(model.trainable_parameters()).values()
        weights = sum(one.nbytes for one in flatten_tree(model.parameters()).values())
        self.base = weights + 5 * sum(one.nbytes for one in trained)
        self.size = int(scorer.body(mx.array([[1]])).shape[-1])
        self.layers = {type(getattr(one, "linear_attn", one)).__name__: one for one in model.layers[-16:]}
        self.known: dict[tuple[str, int], int] = {}

    def need(self, tokens: int) -> int:
        """Bytes of a step on one row."""
        inputs = 16 * tokens * self.size * 2
        layer = max(self.layer(name, tokens) for name in self.layers)
        return self.base + inputs + max(self.head(tokens), layer)

    def layer(self, name: str, tokens: int) -> int:
        """Bytes of the gradient of one layer over the whole row, which may have an operation for each token."""
        if "Delta" not in name:
            return self.traced(name, tokens)
        return parabola(tokens, {few: self.traced(name, few) for few in GROWING})

    def traced(self, name: str, tokens: int) -> int:
        if (name, tokens) not in self.known:
            layer = self.layers[name]
            kept = list(flatten_tree(layer.trainable_parameters()).items())

            def call(hidden: mx.array, *arrays: mx.array) -> mx.array:
                layer.load_weights([(one, array) for (one, _), array in zip(kept, arrays, strict=True)], strict=False)
                mask = None if "Delta" in name else "causal"
                found: mx.array = layer(hidden, mask, None)
                return found

            def gradient(*arrays: mx.array) -> list[mx.array]:
                return mx.vjp(call, list(arrays), [mx.zeros_like(arrays[0])])[1]

            hidden = mx.zeros((1, tokens, self.size), mx.bfloat16)
            with training_mode(self.model):
                self.known[name, tokens] = graph_memory.trace_graph(gradient, hidden, *(array for _, array in kept))[0]
            layer.load_weights(kept, strict=False)
        return self.known[name, tokens]

    def head(self, tokens: int) -> int:
        """Bytes of the loss and its gradient in the hidden states: all logits at once."""
        targets = mx.zeros((1, tokens), mx.int32)

        def loss(hidden: mx.array) -> mx.array:
            entropy: mx.array = nn.losses.cross_entropy(self.scorer.head(hidden), targets)
            return entropy.astype(mx.float32).sum()

        return graph_memory.trace_graph(
            lambda hidden: mx.grad(loss)(hidden), mx.zeros((1, tokens, self.size), mx.bfloat16)
        )[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    mx.disable_compile()
    model_views._check_halves = lambda *_: None  # the halves are checked on tiny models of the same types, by the tests
    model_views._same_with_caches = lambda *_: True
    table = []
    for name, config in MODELS.items():
        model = built(config)
        scorer = Scorer(model)
        theirs = Theirs(model, scorer)
        for memory_gb in MEMORIES:
            limit = int(SHARE * memory_gb * GB)
            line: dict[str, Any] = {"model": name, "memory_gb": memory_gb}
            line |= {f"segments_{length}": ours(model, scorer, limit, length) for length in SEGMENTS}
            line["mlx_lm"] = 64 * largest(MOST // 64, lambda count: theirs.need(64 * count) <= limit)  # noqa: B023
            table.append(line)
            print(line, flush=True)
    if given.record:
        found = json.dumps({"machine": record.facts(), "share": SHARE, "table": table}, indent=1)
        (record.RECORD / "largest_rows.json").write_text(f"{found}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
