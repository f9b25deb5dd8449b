"""A tiny random qwen3 that `mlx_lm` loads, made on the spot: nothing is downloaded and nothing is committed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "vocab_size": 512,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] or '' }}"
    "{% for call in message.get('tool_calls') or [] %}<tool_call>{{ call | tojson }}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>"]

CORPUS = ["question answer the of and to in user assistant tool flight reservation cancel booking airline"] * 20


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("mlx_lm") is None:
        pytest.skip("mlx_lm is not installed: pip install 'karl-fast[train]'")
    folder = tmp_path_factory.mktemp("model") / "tiny-qwen3"
    folder.mkdir()
    _tokenizer(folder)
    (folder / "config.json").write_text(json.dumps(CONFIG | {"eos_token_id": 2, "pad_token_id": 0}), encoding="utf-8")
    # In a process of its own: importing mlx_lm brings a thousand modules, and warnings of theirs.
    weights = (
        "import sys, json, mlx.core as mx; from mlx.utils import tree_flatten\n"
        "from mlx_lm.models.qwen3 import Model, ModelArgs\n"
        "mx.random.seed(0); folder = sys.argv[1]\n"
        "model = Model(ModelArgs.from_dict(json.load(open(folder + '/config.json'))))\n"
        "mx.save_safetensors(folder + '/model.safetensors', dict(tree_flatten(model.parameters())),"
        " {'format': 'mlx'})\n"
    )
    made = subprocess.run(
        [sys.executable, "-c", weights, str(folder)], env=quiet(), capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    return folder


def _tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=512, special_tokens=SPECIALS, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 4096,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")


def quiet() -> dict[str, str]:
    """The environment of a training run: offline, and without kernels to compile."""
    return os.environ | {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "MLX_DISABLE_COMPILE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


@dataclass(frozen=True)
class Trained:
    """What `mlx_lm lora --train` left."""

    losses: list[float]
    adapters: Path


@pytest.fixture
def train(tiny_model: Path, tmp_path: Path) -> Callable[..., Trained]:
    """Runs `mlx_lm lora --train` on a data set; asserts exit 0."""

    def run(data: Path, *more: str, iters: int = 6, length: int = 128) -> Trained:
        adapters = tmp_path / f"adapters-{data.name}"
        command = [sys.executable, "-m", "mlx_lm", "lora", "--train", "--model", tiny_model, "--data", data]
        command += ["--iters", iters, "--batch-size", 4, "--num-layers", 1, "--max-seq-length", length]
        command += ["--steps-per-report", 1, "--steps-per-eval", 100, "--val-batches", 1]
        command += ["--save-every", 1000, "--learning-rate", "1e-3", "--adapter-path", adapters, *more]
        done = subprocess.run(
            [str(part) for part in command], env=quiet(), capture_output=True, text=True, check=False, timeout=180
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return Trained(_losses(done.stdout), adapters / "adapters.safetensors")

    return run


STEERING = re.compile(r"\x1b\[[0-9;]*m")
LOSS = re.compile(r"^\s*\d+\s+(?:val\s+)?(nan|inf|[0-9.]+)|(?:Train|Val) loss (nan|inf|[0-9.]+)", re.MULTILINE)
"""The table of mlx-lm 0.32 and the sentences of the versions before it."""


def _losses(log: str) -> list[float]:
    return [float(table or sentence) for table, sentence in LOSS.findall(STEERING.sub("", log))]
