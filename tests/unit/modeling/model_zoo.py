"""Tiny random models of every type that the installed mlx-lm has, from a few shared numbers and what is its own."""

from __future__ import annotations

import pkgutil
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

import mlx.core as mx
import mlx_lm.models

from karl_fast.modeling import load as models

VOCABULARY = 97

COMMON: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "hidden_dim", "d_model", "n_embd", "model_dim", "block_dim"), 64),
    **dict.fromkeys(("intermediate_size", "n_inner", "ff_intermediate_size", "intermediate_size_mlp"), 96),
    **dict.fromkeys(("ffn_hidden_size", "shared_intermediate_size"), 96),
    **dict.fromkeys(("moe_intermediate_size", "expert_ffn_hidden_size", "shared_expert_intermediate_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layers", "n_layer", "num_transformer_layers"), 4),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_heads", "n_head", "num_query_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "n_kv_heads", "num_attention_groups"), 2),
    **dict.fromkeys(("head_dim", "v_head_dim", "index_head_dim", "mamba_head_dim", "kv_lora_rank", "q_lora_rank"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "state_size", "ssm_state_size", "mamba_d_state"), 16),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim"), 16),
    **dict.fromkeys(("linear_num_key_heads", "index_n_heads"), 2),
    **dict.fromkeys(("linear_num_value_heads", "mamba_num_heads", "time_step_rank"), 4),
    **dict.fromkeys(("a_low_rank_dim", "v_low_rank_dim", "gate_low_rank_dim", "decay_low_rank_dim"), 8),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "attn_layer_period", "expert_layer_period"), 2),
    **dict.fromkeys(("n_shared_experts", "num_shared_experts", "num_shared_expert", "n_group", "topk_group"), 1),
    **dict.fromkeys(("first_k_dense_replace", "decoder_sparse_step", "moe_layer_freq", "n_groups"), 1),
    **dict.fromkeys(("attn_layer_offset", "expert_layer_offset", "num_kv_reuse_layers", "num_dense_layers"), 1),
    **dict.fromkeys(("zero_expert_num", "mamba_expand", "layer_group_size", "sliding_window_pattern"), 2),
    **dict.fromkeys(("conv_kernel", "linear_conv_kernel_dim", "mamba_d_conv", "conv1d_width"), 4),
    **dict.fromkeys(("conv_L_cache", "conv_window"), 3),
    **dict.fromkeys(("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_eps"), 1e-5),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "block_size", "model_max_length"), 512),
    **dict.fromkeys(("rope_theta", "rotary_emb_base", "swa_rope_theta", "rope_local_base_freq"), 10000.0),
    **dict.fromkeys(("routed_scaling_factor", "logits_scaling", "attention_multiplier", "scale_depth"), 1.0),
    **dict.fromkeys(("embedding_multiplier", "residual_multiplier", "scale_emb"), 1.0),
    **dict.fromkeys(("partial_rotary_factor", "rotary_pct"), 0.5),
    **dict.fromkeys(("attention_bias", "mlp_bias", "use_bias", "use_conv_bias", "conv_bias", "mamba_proj_bias"), False),
    **{name: [] for name in ("mlp_only_layers", "no_rope_layers")},
    **dict.fromkeys(("tie_word_embeddings", "norm_topk_prob", "linear_allow_neg_eigval"), True),
    **dict.fromkeys(("sliding_window", "sliding_window_size", "attention_window_size", "window_size"), 16),
    **dict.fromkeys(("rope_scaling", "hidden_act", "topk_method"), None),
    "vocab_size": VOCABULARY,
    "query_pre_attn_scalar": 16,
}
"""Numbers that many types share, by every name that one of them gives them."""


GATED = ["linear_attention", "full_attention"] * 2
SLIDING = ["sliding_attention", "full_attention"] * 2
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
LLAMA4 = ROPE | {"llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 512}
LONG = {"type": "longrope", "factor": 1.0, "original_max_position_embeddings": 512} | {
    name: [1.0] * 8 for name in ("short_factor", "long_factor")
}
GATED_SIZES = {"full_attention_interval": 2, "layer_types": GATED, "rope_parameters": ROPE}
KDA = {"kda_layers": [1, 3], "full_attn_layers": [2, 4], "num_heads": 4, "head_dim": 16, "short_conv_kernel_size": 4}
MAMBA2 = {"mamba_d_ssm": 64, "mamba_d_head": 16, "mamba_n_heads": 4, "mamba_n_groups": 1}


def _wrapping(kind: str, **own: Any) -> dict[str, Any]:
    """A model with a language model in it, as those with eyes are."""
    return {"text_config": COMMON | ROPE | {"model_type": kind} | own}


def _gated(**own: Any) -> dict[str, Any]:
    return _wrapping("qwen3_5_text", **GATED_SIZES, **own)


OWN: dict[str, dict[str, Any]] = {
    "afmoe": {"layer_types": SLIDING},
    "apertus": {"post_norm": False, "qk_norm": True},
    "baichuan_m1": {"sliding_window_layers": [1, 3], "conv_window": 2, "tie_word_embeddings": False},
    "bailing_hybrid": {"group_norm_size": 2},
    "bailing_moe_linear": {"group_norm_size": 2},
    "dbrx": {
        "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0},
    },
    "deepseek_v2": {"rope_scaling": {"type": "yarn", "factor": 1.0, "original_max_position_embeddings": 512}},
    "exaone4": {"sliding_window_pattern": "LG"},
    "exaone_moe": {"layer_types": SLIDING, "is_moe_layer": [False, True] * 2},
    "falcon_h1": MAMBA2,
    "gear": {"layer_types": ["conv_mixer", "full_attention"] * 2},
    "gemma3": _wrapping("gemma3_text"),
    "gemma3n": _wrapping(
        "gemma3n_text",
        layer_types=SLIDING,
        intermediate_size=[96] * 4,
        activation_sparsity_pattern=[0.0] * 4,
        num_kv_shared_layers=2,
        vocab_size_per_layer_input=VOCABULARY,
        hidden_size_per_layer_input=8,
        altup_num_inputs=2,
        altup_active_idx=0,
        altup_coef_clip=120.0,
        altup_correct_scale=True,
        laurel_rank=8,
        final_logit_softcapping=30.0,
        rope_scaling=None,
    ),
    "gemma4": _wrapping(
        "gemma4_text",
        layer_types=SLIDING,
        num_kv_shared_layers=2,
        global_head_dim=16,
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=VOCABULARY,
        num_experts=None,
    ),
    "gemma4_text": {
        "layer_types": SLIDING,
        "num_kv_shared_layers": 2,
        "global_head_dim": 16,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": VOCABULARY,
    },
    "glm4_moe": {"use_qk_norm": True},
    "glm_moe_dsa": {"index_topk": 16, "scoring_func": "sigmoid", "rope_parameters": ROPE} | {"topk_method": "noaux_tc"},
    "gptj": {"rotary_dim": 8},
    "granitemoehybrid": MAMBA2
    | {"layer_types": ["mamba", "attention"] * 2, "mamba_d_state": 16, "mamba_d_conv": 4, "num_local_experts": 4}
    | {"mamba_proj_bias": False, "mamba_conv_bias": True, "num_experts_per_tok": 2, "shared_intermediate_size": 32},
    "hunyuan": {"use_mixed_mlp_moe": True, "use_qk_norm": True, "use_cla": True, "cla_share_factor": 2}
    | {"rope_scaling": {"alpha": 1.0, "type": "dynamic", "factor": 1.0}},
    "jamba": {"mamba_dt_rank": 8},
    "kimi_k25": _wrapping("deepseek_v3", rope_scaling=None, topk_method="noaux_tc"),
    "kimi_k3": _wrapping(
        "kimi_linear", linear_attn_config=KDA, hidden_act="situ", num_experts_per_token=2, num_experts_per_tok=2
    ),
    "kimi_linear": {"linear_attn_config": KDA, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 16},
    "kimi_vl": _wrapping("deepseek_v3", rope_scaling=None, topk_method="noaux_tc"),
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2, "block_ff_dim": 96, "block_multiple_of": 8}
    | {"block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False},
    "lfm2-vl": _wrapping(
        "lfm2",
        layer_types=["conv", "full_attention"] * 2,
        block_ff_dim=96,
        block_multiple_of=8,
        block_ffn_dim_multiplier=1.0,
        block_auto_adjust_ff_dim=False,
    ),
    "lfm2_moe": {"use_expert_bias": True, "layer_types": ["conv", "full_attention"] * 2, "rope_parameters": ROPE},
    "llama4": _wrapping(
        "llama4_text", use_qk_norm=True, attention_chunk_size=16, num_experts_per_tok=1, interleave_moe_layer_step=2
    ),
    "llama4_text": {"use_qk_norm": True, "no_rope_layers": [1, 0] * 2},
    "longcat_flash": {"attention_method": "MLA", "zero_expert_type": "identity", "mla_scale_q_lora": True}
    | {"mla_scale_kv_lora": True},
    "longcat_flash_ngram": {"zero_expert_type": "identity", "mla_scale_q_lora": True, "mla_scale_kv_lora": True}
    | {"attention_method": "MLA", "ngram_vocab_size_ratio": 2, "emb_neighbor_num": 2, "emb_split_num": 2},
    "mamba": {"intermediate_size": 128},
    "mamba2": {"intermediate_size": 128, "head_dim": 32, "time_step_limit": (0.0, float("inf"))},
    "mellum": {"layer_types": SLIDING, "rope_parameters": {"sliding_attention": ROPE, "full_attention": ROPE}},
    "mimo_v2_flash": {
        "hybrid_layer_pattern": [0, 1] * 2,
        "moe_layer_freq": [0, 1, 1, 1],
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 2,
        "swa_head_dim": 16,
        "swa_v_head_dim": 16,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
    },
    "minicpm": {"dim_model_base": 64},
    "minicpm3": {"dim_model_base": 64, "rope_scaling": LONG},
    "minimax": {"rotary_dim": 8},
    "minimax_m3_vl": _wrapping("minimax_m3", rotary_dim=8, moe_layer_freq=[0, 1, 1, 1]),
    "ministral3": {"rope_parameters": LLAMA4},
    "mistral3": _wrapping("llama"),
    "mistral4": {"rope_parameters": LLAMA4},
    "muse_spark": _wrapping(
        "muse_spark",
        post_norm_eps=1e-5,
        rope_parameters=ROPE,
        layer_rope_theta=[10000.0, 0] * 2,
        layer_types=SLIDING,
        final_logit_softcapping=30.0,
        output_multiplier=1.0,
        moe_hidden_size=64,
        num_shared_experts=0,
    ),
    "nemotron-nas": {
        "num_hidden_layers": 2,
        "block_configs": [
            {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 1.5}},
            {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.5}},
        ],
    },
    "nemotron_h": {"hybrid_override_pattern": ["M", "*", "M", "-"], "num_hidden_layers": 4, "mamba_num_heads": 4}
    | {"mamba_head_dim": 16, "time_step_limit": (0.0, float("inf"))},
    "openelm": {
        "ffn_dim_divisor": 8,
        "ffn_multipliers": [1.5] * 4,
        "num_query_heads": [4] * 4,
        "num_kv_heads": [2] * 4,
    },
    "phi3small": {"dense_attention_every_n_layers": 2, "gegelu_limit": 20.0, "vocab_size": 100_352},
    "phixtral": {"rotary_dim": 8},
    "pixtral": _wrapping("llama"),
    "plamo": {"n_shared_head": 2},
    "qwen": {"kv_channels": 16},
    "qwen2_vl": _wrapping("qwen2"),
    "qwen3": {"rope_theta": 10000.0},
    "qwen3_5": _gated(num_experts=0),
    "qwen3_5_moe": _gated(),
    "qwen3_next": {"full_attention_interval": 2, "layer_types": GATED, "linear_num_value_heads": 4},
    "qwen3_vl": _wrapping("qwen3"),
    "qwen3_vl_moe": _wrapping("qwen3_moe"),
    "recurrent_gemma": {"block_types": ["recurrent", "attention"], "logits_soft_cap": 30.0},
    "spark2_5": {"rope_parameters": {"sliding_attention": ROPE, "full_attention": ROPE}},
    "step3p5": {"moe_num_experts": 4, "moe_top_k": 2},
    "stablelm": {"use_qkv_bias": False},
}
"""Where the shared numbers are not enough."""

ABSENT = {
    "olmo": "needs the package ai2-olmo",
    "prism_hadamard_qwen35": "needs a manifest of packed weights",
}
"""Types of which no model can be made here."""


def types() -> list[str]:
    """The types of models that mlx-lm has."""
    names = [one.name for one in pkgutil.iter_modules(mlx_lm.models.__path__)]
    return [name for name in names if name not in ABSENT and _is_model(name)]


def _is_model(name: str) -> bool:
    return "class ModelArgs" in (Path(mlx_lm.models.__path__[0]) / f"{name}.py").read_text("utf-8")


def config(kind: str) -> dict[str, Any]:
    """The config of a tiny model: required fields and those of `OWN`, and known sizes in the place of defaults."""
    args = import_module(f"mlx_lm.models.{kind}").ModelArgs
    own = OWN.get(kind, {})
    found: dict[str, Any] = {"model_type": kind}
    for field in fields(args):
        if field.name in COMMON:
            required = field.default is MISSING and field.default_factory is MISSING
            if required or (field.default is not None and COMMON[field.name] is not None):
                found[field.name] = COMMON[field.name]
    return found | own


def built(kind: str, seed: int = 0) -> Any:
    """A random model of a type."""
    mx.random.seed(seed)
    module = import_module(f"mlx_lm.models.{kind}")
    model = module.Model(module.ModelArgs.from_dict(config(kind)))
    models._initialize(model)
    for layer in model.layers:
        for module in layer.modules():
            if "k_k" in module:  # rwkv7 divides by its norm, which has no slope at 0
                module.k_k = mx.ones_like(module.k_k)
    mx.eval(model.parameters())
    return model
