"""Caches of keys and values in 8 bits: their size, their distance from full ones, and models that they refuse."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.errors import ModelError, UsageError
from karl_fast.rl import rl
from karl_fast.rl.generate import generate_turns
from karl_fast.rl.language_model import LanguageModel
from tests.unit.rl.conftest import lines
from tests.unit.train.conftest import KINDS, made

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from karl_fast.rl.settings import Online


def policy(*, eight_bits: bool, head_dim: int = 32) -> LanguageModel:
    import mlx.core as mx
    from mlx_lm.models import qwen3

    shape = {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 64, "num_attention_heads": 2}
    shape |= {"num_key_value_heads": 1, "head_dim": head_dim, "rms_norm_eps": 1e-6, "vocab_size": 64}
    shape |= {"max_position_embeddings": 512, "rope_theta": 10_000.0, "tie_word_embeddings": True}
    mx.random.seed(1)
    model = qwen3.Model(qwen3.ModelArgs(model_type="qwen3", **shape))
    loaded = SimpleNamespace(model=model, tokenizer=None, ends=frozenset([3]), config={})
    return LanguageModel(loaded, eight_bits=eight_bits)


def forward(one: LanguageModel, context: list[int], tokens: list[int]) -> Any:
    """The log-probabilities of tokens by the pass that gradients flow through."""
    import mlx.core as mx

    logits = one.head(one.body(mx.array([[*context, *tokens]])))[0, len(context) - 1 : -1].astype(mx.float32)
    logp = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    return np.array(mx.take_along_axis(logp, mx.array(tokens)[:, None], axis=-1))[:, 0]


def test_logp_is_of_the_quantised_policy() -> None:
    contexts = [[5, 6, 7], [9, 8], [5, 6, 7], [4] * 40]
    far = {}
    for eight_bits in (False, True):
        one = policy(eight_bits=eight_bits)
        turns = generate_turns(one, contexts, [12] * 4, temperature=1.0, rows=4, seed=2)
        known = [forward(one, context, turn.tokens.tolist()) for context, turn in zip(contexts, turns, strict=True)]
        far[eight_bits] = max(np.abs(turn.logp - logp).max() for turn, logp in zip(turns, known, strict=True))
    assert far[False] < 1e-4
    assert 1e-4 < far[True] < 0.05  # codes are rounded, and not more than that


def test_memory_plan_knows_the_cache_size() -> None:
    from karl_fast.rl.memory import RoundMemory

    def size(eight_bits: bool) -> int:
        known: Any = RoundMemory(policy(eight_bits=eight_bits), None, False, lambda *_: 0)  # type: ignore[arg-type]
        return int(known.cache_bytes(2, 300))

    # 8 bits a number, and a scale and a bias of 32 bits for 32 numbers, in the place of 32 bits
    assert size(eight_bits=True) / size(eight_bits=False) == pytest.approx(10 / 32, rel=0.01)


def test_what_cannot_be_quantised_is_refused_by_name(tmp_path: Path) -> None:
    from karl_fast.modeling.load import load

    with pytest.raises(ModelError, match="model type qwen3 has heads of 16 numbers, wanted multiples of 32"):
        policy(eight_bits=True, head_dim=16)
    sliding = load(str(made(tmp_path / "gemma3", *KINDS["gemma3"])))
    window = sliding.config["sliding_window"]
    with pytest.raises(ModelError, match="gemma3_text has RotatingKVCache, which cannot be quantised") as caught:
        LanguageModel(sliding, eight_bits=True, longest=window + 1)
    assert f"max_context = {window}," in str(caught.value.hint)


def test_custom_policy_has_its_own_caches(online: Callable[..., Online]) -> None:
    with pytest.raises(UsageError, match="makes its own caches: kv_cache needs a model of mlx-lm"):
        rl(online(kv_cache="8-bit"))


def wide(folder: Path, kind: str = "qwen3") -> str:
    """A tiny model with heads of 32 numbers."""
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_lm.models import gemma3_text, qwen3

    module: Any = {"qwen3": qwen3, "gemma3": gemma3_text}[kind]
    made(folder, *KINDS[kind])
    config = json.loads((folder / "config.json").read_text()) | {"head_dim": 32}
    (folder / "config.json").write_text(json.dumps(config))
    parameters: Any = module.Model(module.ModelArgs.from_dict(config)).parameters()
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(parameters)), {"format": "mlx"})
    return str(folder)


def test_run_reports_mismatch_with_training_forward(online: Callable[..., Online], tmp_path: Path) -> None:
    model, far = wide(tmp_path / "model"), {}
    for kind in ("full", "8-bit"):
        rl(online(model=model, kv_cache=kind, rounds=1, out=str(tmp_path / kind)))
        (line,) = lines(tmp_path / kind / "metrics.jsonl")
        far[kind] = line["mismatch"]
    assert far["full"] < 1e-5
    assert 1e-5 < far["8-bit"] < 0.05


def test_window_that_no_context_leaves_is_quantised(tmp_path: Path) -> None:
    from karl_fast.modeling.load import load

    loaded = load(wide(tmp_path / "model", "gemma3"))
    window, far = loaded.config["sliding_window"], {}
    assert window >= 16
    for eight_bits in (False, True):
        one = LanguageModel(loaded, eight_bits=eight_bits, longest=window)
        context = list(range(4, 4 + window - 8))
        (turn,) = generate_turns(one, [context], [8], temperature=1.0, rows=1, seed=2)
        far[eight_bits] = np.abs(turn.logp - forward(one, context, turn.tokens.tolist())).max()
    assert far[False] < 1e-4
    assert 1e-7 < far[True] < 0.1
