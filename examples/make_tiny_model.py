"""A random model of a few hundred thousand weights that mlx-lm loads and trains in seconds; nothing is downloaded.

    python examples/make_tiny_model.py tiny-model [--kind qwen3|gemma3_text] [--bits 4] [--vocabulary 512]

It has a tokenizer of its own, trained on a sentence, and a chat template in the manner of ChatML. It knows nothing, and
is there to try the tools on. Needs the extra `train`.
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

SHAPE = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "torch_dtype": "float32",
    "eos_token_id": 2,
    "pad_token_id": 0,
}

KINDS = {
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": True},
    "gemma3_text": {
        "architectures": ["Gemma3ForCausalLM"],
        "rope_local_base_freq": 10000.0,
        "query_pre_attn_scalar": 16,
        "sliding_window": 64,
        "sliding_window_pattern": 2,
    },
}

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] or '' }}"
    "{% for call in message.get('tool_calls') or [] %}<tool_call>{{ call | tojson }}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>"]

CORPUS = ["question answer the of and to in user assistant tool flight reservation cancel booking airline"] * 20


def tokenizer(folder: Path) -> None:
    """Train a byte-level tokenizer, and write it with its chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    how = trainers.BpeTrainer(vocab_size=512, special_tokens=SPECIALS, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, how)
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 4096,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")


def weights(folder: Path, config: dict, bits: int | None) -> None:
    """Draw the weights, and write them with the config."""
    from importlib import import_module

    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten

    module = import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(0)
    model = module.Model(module.ModelArgs.from_dict(config))
    model.sanitize({})  # gemma3 ties its head to its embedding where there is no head to load
    if bits is not None:
        config["quantization"] = {"group_size": 32, "bits": bits}
        nn.quantize(model, group_size=32, bits=bits)
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())), {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")


def main() -> None:
    """Make what the arguments say."""
    parser = argparse.ArgumentParser(description="Make a tiny random model.")
    parser.add_argument("folder", nargs="?", default="tiny-model", type=Path)
    parser.add_argument("--kind", choices=KINDS, default="qwen3")
    parser.add_argument("--bits", type=int, help="quantized to so many")
    parser.add_argument("--vocabulary", type=int, default=512)
    given = parser.parse_args()
    try:
        import mlx_lm  # noqa: F401
    except ImportError:
        print("mlx_lm is not installed: pip install '.[train]'")
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    tokenizer(given.folder)
    config = SHAPE | {"model_type": given.kind, "vocab_size": given.vocabulary} | KINDS[given.kind]
    weights(given.folder, config, given.bits)
    print(f"made {given.folder}: {given.kind}, {given.vocabulary:,} tokens")


if __name__ == "__main__":
    main()
