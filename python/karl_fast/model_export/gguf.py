"""A model with an adapter in its weights as GGUF, for llama.cpp and Ollama, by the `gguf` package.

The package knows the names of tensors and the form of the file. What else a family needs is here: its numbers, and what
llama.cpp expects of its weights. Other families are refused with the command of llama.cpp's own converter.

| family | what differs from the files of the model |
|---|---|
| ``gemma3_text`` | norms are stored as 1 + weight |
| ``llama``, ``mistral`` | rows of queries and keys are in pairs, where the files have two halves |
| ``qwen2``, ``qwen3`` | nothing |

Numbers keep their type; norms and biases are float32. Quantized weights are written as float16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _atomic
from karl_fast._extras import missing_extra
from karl_fast.errors import ModelError
from karl_fast.model_export.modelfile import write_modelfile
from karl_fast.model_export.vocabulary import CONVERTER, read_vocabulary
from karl_fast.modeling.parameters import flatten_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from karl_fast.model_export.adapter import Adapter

FILE = "model.gguf"
"""Name of the file beside a Modelfile."""


@dataclass(frozen=True)
class Family:
    """Names that llama.cpp expects of a type of models.

    Attributes:
        architecture: its name in GGUF.
        paired: True if rows of queries and keys stand in pairs.
        norm_offset: added to weights of norms.
        known: settings of the config that llama.cpp has built in, by name; other values are refused.
    """

    architecture: str
    paired: bool = False
    norm_offset: float = 0.0
    known: tuple[tuple[str, Any], ...] = ()


LOCAL_ROPE_THETA = 10000.0
"""Base of the rotary positions of layers with a sliding window, which llama.cpp has built in."""

FAMILIES = {
    "gemma3_text": Family(
        "gemma3", norm_offset=1.0, known=(("sliding_window_pattern", 6), ("rope_local_base_freq", LOCAL_ROPE_THETA))
    ),
    "llama": Family("llama", paired=True),
    "mistral": Family("llama", paired=True),
    "qwen2": Family("qwen2"),
    "qwen3": Family("qwen3"),
}


def write_gguf(adapter: Adapter, out: Path) -> list[str]:
    """Write one file.

    Args:
        adapter: on its model, which is changed.
        out: the file.

    Returns:
        Remarks.

    Raises:
        MissingExtraError: the package `gguf` is not installed.
        ModelError: a family or a setting that is not written here, or a tokenizer that llama.cpp has no form of.
        FileError: the disk refused.
    """
    family, vocabulary, remarks = _fuse(adapter)
    draft = out.with_name(_atomic.UNFINISHED + out.name)
    try:
        _write(adapter, family, vocabulary, draft)
        draft.rename(out)
    finally:
        draft.unlink(missing_ok=True)
    return remarks


def write_ollama(adapter: Adapter, out: Path) -> list[str]:
    """Write a folder with a file of weights and a Modelfile.

    Raises:
        MissingExtraError, ModelError, FileError: as `write_gguf`.
    """
    family, vocabulary, remarks = _fuse(adapter)
    with _atomic.write_folder(out) as draft:
        _write(adapter, family, vocabulary, draft / FILE)
        remarks += write_modelfile(adapter, draft, FILE)
    return [*remarks, f"ollama create NAME -f {out}/Modelfile, then ollama run NAME"]


def _fuse(adapter: Adapter) -> tuple[Family, Any, list[str]]:
    """Put an adapter into its model's weights; return the family, the vocabulary, and remarks."""
    try:
        import gguf  # noqa: F401
    except ImportError as error:
        raise missing_extra("GGUF needs the package gguf, which is not installed", "gguf") from error
    family, vocabulary, remarks = _family(adapter), read_vocabulary(adapter), list(adapter.remarks)
    if adapter.loaded.base["quantization"]:
        remarks.append("the weights were quantized: the file has them as float16; llama-quantize makes it smaller")
    adapter.fuse()
    return family, vocabulary, remarks


def _family(adapter: Adapter) -> Family:
    """Return the family of a model.

    Raises:
        ModelError: it is not written here, or has a setting that llama.cpp reads from elsewhere.
    """
    config, kind = adapter.loaded.config, str(adapter.loaded.config.get("model_type"))
    family = FAMILIES.get(kind)
    problem = None if family else f"{kind} is not a family that is written as GGUF here: {', '.join(FAMILIES)}"
    for name, value in family.known if family else ():
        if config.get(name, value) != value:
            problem = f"{name} is {config[name]}, and llama.cpp takes {value}"
    problem = _rope_problem(config) or problem
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    if config.get("query_pre_attn_scalar", head) != head:
        problem = f"query_pre_attn_scalar is {config['query_pre_attn_scalar']}, and llama.cpp takes head_dim, {head}"
    if problem is not None or family is None:
        raise ModelError(
            f"{adapter.model} cannot be written as GGUF: {problem}",
            hint=CONVERTER,
        )
    return family


def _rope_problem(config: dict[str, Any]) -> str | None:
    """Return why the rotary positions of a model are not those that are written; None where they are."""
    parameters = config.get("rope_parameters") or {}
    forms = [each for each in parameters.values() if isinstance(each, dict)] or [parameters]
    for form in [config.get("rope_scaling") or {}, *forms]:
        kind = form.get("rope_type", form.get("type")) or "default"
        if kind != "default":
            return f"the positions are scaled ({kind})"
    local = (parameters.get("sliding_attention") or {}).get("rope_theta", LOCAL_ROPE_THETA)
    return None if local == LOCAL_ROPE_THETA else f"sliding_attention has rope_theta {local}, and llama.cpp takes 10000"


def _rope_theta(config: dict[str, Any]) -> float:
    """Return the base of the rotary positions, which transformers 5 keeps in `rope_parameters`, by kind of layer."""
    parameters = config.get("rope_parameters") or {}
    parameters = parameters.get("full_attention", parameters)
    return float(parameters.get("rope_theta", config.get("rope_theta", 10000.0)))


def _write(adapter: Adapter, family: Family, vocabulary: Any, path: Path) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, family.architecture)
    _add_numbers(writer, adapter)
    vocabulary.add_to(writer)
    if template := getattr(adapter.loaded.tokenizer, "chat_template", None):
        writer.add_chat_template(template)
    architecture = next(kind for kind, name in gguf.MODEL_ARCH_NAMES.items() if name == family.architecture)
    names = gguf.get_tensor_name_map(architecture, adapter.loaded.config["num_hidden_layers"])
    for name, values, kind in _tensors(adapter, family):
        place = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if place is None:
            raise ModelError(f"{adapter.model} has the weight {name}, which llama.cpp does not know")
        writer.add_tensor(place, values, raw_dtype=kind)
    with _atomic.name_file_errors(path):
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def _add_numbers(writer: Any, adapter: Adapter) -> None:
    """Add the sizes of a model."""
    config = adapter.loaded.config
    heads = config["num_attention_heads"]
    head = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_name(adapter.folder.resolve().name)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads") or heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(_rope_theta(config))
    writer.add_vocab_size(config["vocab_size"])
    if config.get("model_type") == "gemma3_text":
        writer.add_sliding_window(config["sliding_window"])


def _tensors(adapter: Adapter, family: Family) -> Iterator[tuple[str, NDArray[Any], Any]]:
    """Yield the weights of a model as llama.cpp expects them: name, values, type."""
    import gguf
    import mlx.core as mx
    from mlx_lm.utils import dequantize_model

    loaded = adapter.loaded
    model = dequantize_model(loaded.model) if loaded.base["quantization"] else loaded.model
    config = loaded.config
    heads = {"q_proj": config["num_attention_heads"]}
    heads["k_proj"] = config.get("num_key_value_heads") or heads["q_proj"]
    tied = bool(config.get("tie_word_embeddings", config.get("model_type") == "gemma3_text"))
    for name, array in flatten_tree(model.parameters()).items():
        if tied and name == "lm_head.weight":
            continue
        if array.ndim == 1:
            values = np.array(array.astype(mx.float32))
            if "norm" in name:
                values = values + np.float32(family.norm_offset)
            yield name, values, gguf.GGMLQuantizationType.F32
            continue
        part = name.split(".")[-2]
        if family.paired and part in heads:
            array = _pair_rows(array, heads[part])
        if loaded.base["quantization"] or array.dtype == mx.float16:
            yield name, np.array(array.astype(mx.float16)), gguf.GGMLQuantizationType.F16
        elif array.dtype == mx.bfloat16:
            yield name, np.array(array.view(mx.uint16)).view(np.uint8), gguf.GGMLQuantizationType.BF16
        else:
            yield name, np.array(array.astype(mx.float32)), gguf.GGMLQuantizationType.F32


def _pair_rows(array: Any, heads: int) -> Any:
    """Return the rows of each head in pairs (0, half, 1, half + 1, ...), as rotary positions of llama take them."""
    import mlx.core as mx

    rows, width = array.shape
    halves = mx.reshape(array, (heads, 2, rows // heads // 2, width))
    return mx.contiguous(mx.reshape(mx.swapaxes(halves, 1, 2), (rows, width)))
