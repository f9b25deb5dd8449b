"""The model of the checks: the one that the user named, or a random one that is made here, without a download.

The random one is a Qwen3 with the proportions of a small language model, so that weights, activations and logits all
count in its memory. It knows nothing: its losses and its texts mean nothing, its speeds are those of its size.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast._extras import require_mlx

if TYPE_CHECKING:
    from karl_fast.doctor import Job, Save, Sizes
    from karl_fast.modeling.load import Loaded

FOLDER = "random-model"

HEAD = 64
"""Numbers of a head of attention."""

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def check_model(job: Job, save: Save) -> dict[str, Any]:
    """Make the random model, if none is named, and load it; return its size."""
    require_mlx()
    import mlx.core as mx

    from karl_fast.modeling.parameters import flatten_tree

    if job.model is None:
        write_model(Path(job.folder, FOLDER), job.sizes)
    start = time.perf_counter()
    loaded = load_model(job)
    mx.eval(loaded.model.parameters())
    arrays = list(flatten_tree(loaded.model.parameters()).values())
    quantization = loaded.config.get("quantization") or {}
    return {
        "kind": "random" if job.model is None else "named",
        "type": str(loaded.config.get("model_type")),
        "parameters": _count_parameters(loaded.model),
        "bytes": sum(array.nbytes for array in arrays),
        "dtype": str(max(arrays, key=lambda array: array.nbytes).dtype).rpartition(".")[2],
        "bits": quantization.get("bits"),
        "layers": len(loaded.model.layers),
        "load": {"seconds": round(time.perf_counter() - start, 3)},
    }


def load_model(job: Job) -> Loaded:
    """Load the model of a run; without a GPU nothing is compiled, which would call a C++ compiler for each shape."""
    require_mlx()
    import mlx.core as mx

    from karl_fast.modeling.load import load
    from karl_fast.train.settings import GB, Training

    if mx.default_device().type != mx.DeviceType.gpu:
        mx.disable_compile()
    mx.set_cache_limit(int(Training().cache_limit * GB))  # as in a run
    return load(job.model or str(Path(job.folder, FOLDER)))


def write_model(folder: Path, sizes: Sizes) -> None:
    """Write a random model and its tokenizer: bfloat16 for a GPU, float32 for a CPU, which computes it faster."""
    import mlx.core as mx
    from mlx_lm.models import qwen3

    from karl_fast.modeling.parameters import flatten_tree

    folder.mkdir()
    heads = max(1, sizes.hidden // HEAD)
    config = {
        "model_type": "qwen3",
        "hidden_size": sizes.hidden,
        "num_hidden_layers": sizes.layers,
        "intermediate_size": 3 * sizes.hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": max(1, heads // 2),
        "head_dim": HEAD,
        "rms_norm_eps": 1e-6,
        "vocab_size": sizes.vocabulary,
        "max_position_embeddings": 32_768,
        "rope_theta": 1e6,
        "tie_word_embeddings": True,
        "eos_token_id": SPECIALS.index("<|im_end|>"),
    }
    mx.random.seed(0)
    arguments: Any = qwen3.ModelArgs
    model: Any = qwen3.Model(arguments.from_dict(config))
    if mx.default_device().type == mx.DeviceType.gpu:
        model.set_dtype(mx.bfloat16)
    mx.save_safetensors(str(folder / "model.safetensors"), flatten_tree(model.parameters()), {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    _write_tokenizer(folder)


def _write_tokenizer(folder: Path) -> None:
    """Write a tokenizer whose tokens are bytes, with a chat template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate((*SPECIALS, *alphabet))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIALS])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def _count_parameters(model: Any) -> int:
    """Return the number of weights, in a quantized model that of the weights which it stands for."""
    from mlx_lm import utils

    count: Any = utils.get_total_parameters
    return int(count(model))
