"""Models and rows made in this process, for tests of single parts of the trainer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map

from karl_fast.modeling import load as models
from karl_fast.train.chat_template import Text
from karl_fast.train.examples import Example
from karl_fast.train.settings import Training

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "rope_local_base_freq": 10000.0,
    "query_pre_attn_scalar": 16,
    "sliding_window": 16,
    "sliding_window_pattern": 2,
}

KINDS = [(kind, bits) for kind in ("qwen3", "gemma3_text") for bits in (None, 4)]


def built(kind: str = "qwen3", bits: int | None = None, vocabulary: int = 97, seed: int = 0, **more: Any) -> Any:
    """A random model."""
    mx.random.seed(seed)
    module = import_module(f"mlx_lm.models.{kind}")
    model = module.Model(module.ModelArgs.from_dict(SHAPE | {"model_type": kind, "vocab_size": vocabulary} | more))
    model.sanitize({})
    if bits is not None:
        nn.quantize(model, group_size=32, bits=bits)
    mx.eval(model.parameters())
    return model


def adapted(model: Any, settings: Training | None = None) -> Any:
    """The model with adapters that are not zero, so that every gradient counts."""
    models.adapt(model, settings or Training(fine_tune_type="lora"))
    return with_adapters(model)


def with_adapters(model: Any) -> Any:
    """The model with the adapters that it has made random."""
    for _, module in model.named_modules():
        if "lora_b" in module:
            module.lora_b = tree_map(lambda one: mx.random.normal(one.shape) * 0.05, module.lora_b)
    model.train()
    mx.eval(model.parameters())
    return model


def examples(count: int, vocabulary: int = 97, seed: int = 0, longest: int = 40, **known: Any) -> list[Example]:
    """Random tokens, of which random spans are learned."""
    random = np.random.default_rng(seed)
    found = []
    for row in range(count):
        length = int(random.integers(6, longest))
        learned = np.zeros(length, dtype=np.bool_)
        learned[int(random.integers(1, length - 3)) :] = True
        tokens = random.integers(4, vocabulary, length).astype(np.int32)
        found.append(Example(Text(tokens, learned), row, **{name: values[row] for name, values in known.items()}))
    return found


def logits_of(model: Any, tokens: np.ndarray) -> mx.array:
    """The plain way: one row, all logits. [T] -> [T - 1, V]"""
    found: mx.array = model(mx.array(tokens[None, :-1]))[0].astype(mx.float32)
    return found


def logp_of(model: Any, example: Example) -> mx.array:
    """The log-probability of each learned token of a row, plainly."""
    logits = logits_of(model, example.text.tokens)
    targets = mx.array(example.text.tokens[1:])
    logp = mx.take_along_axis(logits, targets[:, None], -1)[:, 0] - mx.logsumexp(logits, -1)
    return logp[mx.array(np.flatnonzero(example.text.learned[1:]))]


def tensors(path: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return load_file(path)
