"""Models of every kind of layer: each trains, is drawn from, and needs about the memory that was planned."""

from __future__ import annotations

import gc
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.tuner.utils import linear_to_lora_layers

from karl_fast.errors import ModelError, UsageError
from karl_fast.modeling.adapters import attach_adapter, linear_keys, load_start_weights, unadapted_experts
from karl_fast.modeling.chunked_logp import backward
from karl_fast.modeling.load import adapt
from karl_fast.modeling.memory import estimate_training, limit_memory
from karl_fast.modeling.model_views import checkpoint_layers
from karl_fast.modeling.parameters import flatten_tree
from karl_fast.rl.generate import generate_turns
from karl_fast.rl.language_model import LanguageModel
from karl_fast.rl.logprobs import Forward
from karl_fast.rl.memory import Sizes, estimate_round
from karl_fast.rl.rollout import Packed
from karl_fast.rl.settings import Online
from karl_fast.train import Training
from karl_fast.train.batching import pad_rows
from karl_fast.train.model_logprobs import Scorer
from tests.external_gradients import pulled
from tests.slow import nightly
from tests.tolerances import of_float32_sums
from tests.unit.modeling import model_zoo
from tests.unit.modeling.parts import adapted, examples, logp_of, with_adapters

if TYPE_CHECKING:
    from pathlib import Path

ATTENTION = ("qwen3", "gemma3_text", "llama4", "gemma3n", "deepseek_v3", "qwen3_moe", "phi", "nanochat", "lille-130m")
RECURRENT = (
    *("qwen3_5", "qwen3_next", "kimi_linear", "olmo_hybrid", "gear", "lfm2", "lfm2_moe", "mamba", "mamba2", "jamba"),
    *("falcon_h1", "granitemoehybrid", "nemotron_h", "plamo2", "rwkv7", "recurrent_gemma", "bailing_moe_linear"),
    *("baichuan_m1", "minimax"),
)
KINDS = [kind for kind in (*ATTENTION, *RECURRENT) if kind in model_zoo.types()]


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> Any:
    return adapted(model_zoo.built(request.param))


def language(model: Any) -> LanguageModel:
    loaded = SimpleNamespace(model=model.eval(), tokenizer=None, ends=frozenset([3]), config={})
    return LanguageModel(loaded)


def test_logp_and_gradient_equal_the_plain_ones(model: Any) -> None:
    rows = examples(2, longest=24)
    scorer = Scorer(model)
    value, gradient = pulled(scorer.trace(pad_rows(rows)), lambda logp: -logp.sum())
    model.eval()
    shares = scorer.body.caches() is not None  # what it computes without caches is not what it says
    if not shares:
        plain = -sum(logp_of(model, row).sum() for row in rows)
        assert abs(value - float(plain)) < 1e-3
    sizes = [float(mx.abs(one).max()) for one in gradient.values()]
    assert np.isfinite(sizes).all()
    assert max(sizes) > 0


def drawn(policy: LanguageModel) -> Packed:
    """Turns to contexts of three lengths, one of which is there twice and one longer than the tiny windows."""
    contexts = [list(range(5, 5 + length)) for length in (4, 4, 20, 7)]
    turns = generate_turns(policy, contexts, [24] * 4, temperature=0.9, rows=8, seed=1)
    tokens, logp = np.zeros((4, 64), np.int32), np.zeros((4, 64), np.float32)
    mask = np.zeros((4, 64), np.bool_)
    for row, (context, turn) in enumerate(zip(contexts, turns, strict=True)):
        place = slice(len(context), len(context) + len(turn.tokens))
        tokens[row, : place.stop] = [*context, *turn.tokens]
        logp[row, place], mask[row, place] = turn.logp, True
    return Packed(tokens, mask[:, 1:], np.where(mask, 0, -1)[:, 1:], logp[:, 1:])


def test_drawn_tokens_have_the_forward_logp(model: Any) -> None:
    policy = language(model)
    packed = drawn(policy)
    assert packed.mask.sum() > 20
    found = Forward(policy, 0.9).logp(packed)
    sums = of_float32_sums(*[64 + 44] * 4)  # in each layer over a hidden state and the tokens before it
    assert np.abs(found - packed.logp).max() < sums * np.abs(packed.logp).max()


def test_rl_gradient_is_finite_and_nonzero(model: Any) -> None:
    policy = language(model)
    packed = drawn(policy)
    value, gradient = pulled(Forward(policy, 0.9).trace(packed.tokens, packed.mask), lambda logp: -logp.sum())
    assert np.isfinite(value)
    assert sum(float((one * one).sum()) for one in gradient.values()) > 0
    assert not any(module.training for module in model.modules())


ABOVE = 1.05
"""The peak under a memory limit, over that limit: what is in flight where MLX begins to wait is not taken back."""

ABOVE_RWKV7 = 1.35
"""The same of rwkv7 with recomputed layers, of which the plan counts too little."""


@pytest.mark.parametrize("grad_checkpoint", nightly([False, True]))
def test_measured_memory_matches_the_plan_as_limit(model: Any, grad_checkpoint: bool) -> None:
    scorer, settings = Scorer(model), Training(grad_checkpoint=grad_checkpoint)
    if grad_checkpoint and getattr(model, "shares_caches", False):
        with pytest.raises(UsageError, match="layers of model type gemma3n share keys and values"):
            estimate_training(model, scorer.body, scorer.vocabulary, settings, 4)
        return
    batch = pad_rows(examples(3, longest=90, seed=1))
    memory = estimate_training(model, scorer.body, scorer.vocabulary, settings, len(model.layers))
    room = memory.need(3, batch.mask.shape[1]).total
    model.train()
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory() - memory.shape.weights
    mx.reset_peak_memory()
    with checkpoint_layers(model, grad_checkpoint), limit_memory(room - memory.shape.weights):
        mx.eval(pulled(scorer.trace(batch), lambda logp: -logp.sum()))
    measured = mx.get_peak_memory() - before
    above = ABOVE_RWKV7 if grad_checkpoint and model.model_type == "rwkv7" else ABOVE
    assert measured / above <= room <= (3.2 if grad_checkpoint else 2.2) * measured


@pytest.mark.parametrize("kind", ["qwen3", "qwen3_5", "mamba2"])
def test_a_long_row_is_planned_from_short_ones(kind: str) -> None:
    """Beyond what is traced: where the graph grows with the length, it is not built at that length."""
    model = adapted(model_zoo.built(kind))
    scorer = Scorer(model)
    need = estimate_training(model, scorer.body, scorer.vocabulary, Training(), len(model.layers))
    tokens, places = mx.zeros((1, 601), mx.int32) + 5, mx.arange(600, dtype=mx.int32)
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory() - need.shape.weights
    mx.reset_peak_memory()
    room = need.need(1, 600).total
    with limit_memory(room - need.shape.weights):
        mx.eval(backward(model, scorer.body, scorer.head, tokens, places, scorer.rows, {"logp": -mx.ones(600)}))
    measured = mx.get_peak_memory() - before
    assert measured / ABOVE <= room <= 2.5 * measured


def test_a_plan_changes_nothing_in_the_model() -> None:
    model = adapted(model_zoo.built("gemma3n"))  # whose forward pass assigns weights
    scorer, tokens = Scorer(model), mx.array([[5, 6, 7, 8]])
    before = scorer.body(tokens)
    estimate_training(model, scorer.body, scorer.vocabulary, Training(), 4).need(2, 16)
    assert mx.array_equal(before, scorer.body(tokens))
    assert model.training


@pytest.mark.parametrize("kind", ["qwen3", "qwen3_5", "lfm2"])
def test_measured_round_matches_the_plan(kind: str) -> None:
    model = adapted(model_zoo.built(kind))
    policy = language(model)
    memory = estimate_round(policy, Online(), {"num_layers": len(model.layers)})
    need = memory.need(Sizes(4, 8, 8, 112, 4096, 1, 16, turns=False))
    policy.ends = frozenset([10_000])
    gc.collect()
    before = mx.get_active_memory() - need.weights
    mx.reset_peak_memory()
    turns = generate_turns(policy, [list(range(5, 21))] * 8, [112] * 8, temperature=1.0, rows=8, seed=1)
    drawing = mx.get_peak_memory() - before
    assert drawing <= need.weights + need.adapter + need.drawing <= 2.5 * drawing
    tokens = np.stack([np.concatenate([np.arange(5, 21), turn.tokens]) for turn in turns])[:4].astype(np.int32)
    mask = np.broadcast_to(np.arange(127) > 14, (4, 127))
    gc.collect()
    mx.clear_cache()
    mx.reset_peak_memory()
    mx.eval(pulled(Forward(policy, 1.0).trace(tokens, mask), lambda logp: -logp.sum()))
    learning = mx.get_peak_memory() - before
    assert learning <= need.total <= 2.5 * learning


REFUSED = {
    "deepseek_v41": "a model of type deepseek_v41 cannot be trained: MLX says: .*VJP",
    **({} if mx.metal.is_available() else {"bitnet": "a model of type bitnet cannot be computed here: .*Metal"}),
}


@pytest.mark.parametrize("kind", [kind for kind in REFUSED if kind in model_zoo.types()])
def test_untrainable_model_is_refused_in_a_sentence(kind: str) -> None:
    model = adapted(model_zoo.built(kind))
    with pytest.raises(ModelError, match=REFUSED[kind]):
        planned(model)


def planned(model: Any) -> Any:
    scorer = Scorer(model)
    return estimate_training(model, scorer.body, scorer.vocabulary, Training(), 4).need(2, 16)


def test_layers_with_assigned_weights_are_not_adapted() -> None:
    keys = linear_keys(model_zoo.built("gemma3n"))
    assert "altup.prediction_coefs" not in keys
    assert "altup.modality_router" in keys


def kinds_of(model: Any, kind: str) -> set[str]:
    return {name for layer in model.layers for name, one in layer.named_modules() if type(one).__name__ == kind}


def test_routed_experts_are_adapted_as_in_mlx_lm() -> None:
    """Every layer that `mlx_lm lora` adapts without keys, for the types whose code reads no weight."""
    for kind in ("qwen3_moe", "deepseek_v3", "lfm2_moe", "jamba", "qwen3_next", "gpt_oss"):
        ours, theirs = model_zoo.built(kind), model_zoo.built(kind)
        config = adapt(ours, Training(num_layers=-1))
        linear_to_lora_layers(theirs, -1, {"rank": 8, "scale": 20.0, "dropout": 0.0})
        assert kinds_of(ours, "LoRALinear") == kinds_of(theirs, "LoRALinear"), kind
        experts = kinds_of(theirs, "LoRASwitchLinear")
        assert kinds_of(ours, "LoRASwitchLinear") == experts, kind
        assert experts or kind == "deepseek_v3", kind
        assert unadapted_experts(ours, config) is None


def test_dora_leaves_routed_experts_and_says_so() -> None:
    model = model_zoo.built("qwen3_moe")
    config = adapt(model, Training(fine_tune_type="dora", num_layers=2))
    assert kinds_of(model, "DoRALinear") == {"mlp.gate", *(f"self_attn.{one}_proj" for one in "qkvo")}
    names = ", ".join(f"mlp.switch_mlp.{one}_proj" for one in ("down", "gate", "up"))
    said = (
        f"the routed experts ({names}) have no adapter: mlx-lm has no DoRA of them; --fine-tune-type lora adapts them"
    )
    assert unadapted_experts(model, config) == said


def test_quantized_experts_are_adapted() -> None:
    model = model_zoo.built("qwen3_moe")
    nn.quantize(model, 32, 4)
    adapt(model, Training(num_layers=1))
    assert "mlp.switch_mlp.up_proj" in kinds_of(model, "LoRASwitchLinear")
    scorer = Scorer(with_adapters(model))
    _, gradient = pulled(scorer.trace(pad_rows(examples(2, longest=24))), lambda logp: -logp.sum())
    assert all(float(mx.abs(one).max()) > 0 for name, one in gradient.items() if "switch_mlp" in name)


def test_unknown_lora_keys_are_named_with_known_ones() -> None:
    model = model_zoo.built("qwen3_moe")
    with pytest.raises(UsageError) as raised:
        adapt(model, Training(lora_keys=("q_proj", "experts.up_proj", "self_attn.k_proj")))
    assert str(raised.value).startswith("lora_keys names layers that no block has: experts.up_proj, q_proj; there are ")
    assert "mlp.switch_mlp.up_proj, self_attn.k_proj" in str(raised.value)
    assert raised.value.hint == "--lora-keys mlp.switch_mlp.up_proj,self_attn.k_proj,self_attn.q_proj"
    with pytest.raises(UsageError, match=r"names mlp\.switch_mlp\.up_proj, of which mlx-lm has no DoRA"):
        adapt(model, Training(fine_tune_type="dora", lora_keys=("mlp.switch_mlp.up_proj",)))


def by_mlx_lm(folder: Path, **parameters: Any) -> dict[str, mx.array]:
    """An adapter as `mlx_lm lora` writes it: without keys where none were given."""
    model = model_zoo.built("qwen3_moe")
    how = {"rank": 4, "scale": 10.0, "dropout": 0.0} | parameters
    model.freeze()
    linear_to_lora_layers(model, 2, how)
    weights = {name: mx.random.normal(one.shape) for name, one in flatten_tree(model.trainable_parameters()).items()}
    mx.save_safetensors(str(folder / "adapters.safetensors"), weights)
    (folder / "adapter_config.json").write_text(
        json.dumps({"fine_tune_type": "lora", "num_layers": 2, "lora_parameters": how})
    )
    return weights


def test_mlx_lm_expert_adapter_is_evaluated_and_continued(tmp_path: Path) -> None:
    weights = by_mlx_lm(tmp_path)
    assert "model.layers.3.mlp.switch_mlp.down_proj.lora_b" in weights
    attach_adapter(model := model_zoo.built("qwen3_moe"), tmp_path)
    held = flatten_tree(model.parameters())
    assert all(mx.array_equal(held[name], one) for name, one in weights.items())
    model = model_zoo.built("qwen3_moe")
    load_start_weights(
        model, tmp_path / "adapters.safetensors", adapt(model, Training(num_layers=2, lora_rank=4, lora_scale=10.0))
    )
    assert flatten_tree(model.trainable_parameters()).keys() == weights.keys()


def test_an_adapter_of_another_model_names_its_keys(tmp_path: Path) -> None:
    by_mlx_lm(tmp_path, keys=["mlp.switch_mlp.up_proj", "self_attn.q_proj"])
    with pytest.raises(ModelError) as raised:
        attach_adapter(model_zoo.built("qwen3"), tmp_path)
    said = "adapter_config.json names layers that this model does not have: mlp.switch_mlp.up_proj; there are mlp.down_"
    assert said in str(raised.value)
