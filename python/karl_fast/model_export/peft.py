"""An adapter as PEFT stores it.

| here | PEFT |
|---|---|
| ``lora_a`` [in, rank] | ``lora_A.weight`` [rank, in] |
| ``lora_b`` [rank, out] | ``lora_B.weight`` [out, rank] |
| ``m`` of DoRA [out] | ``lora_magnitude_vector`` [out] |
| ``scale`` | ``lora_alpha / r``, so that ``lora_alpha`` is scale times rank |

Names of layers are those of the model's files. A layer that has another name or another shape there, because mlx-lm
joins or splits it when it loads, cannot be written.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from karl_fast import _atomic
from karl_fast.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

    from karl_fast.model_export.adapter import Adapter

WEIGHTS = "adapter_model.safetensors"

PREFIXES = ("", "language_model.", "model.language_model.")
"""Of names in the files of models that see pictures too, in front of those of mlx-lm."""


def write_peft(adapter: Adapter, out: Path, base: str) -> list[str]:
    """Write an adapter into a folder that ``PeftModel.from_pretrained`` loads.

    Args:
        adapter: on its model.
        out: the folder.
        base: name of the model that PEFT loads.

    Returns:
        Remarks.

    Raises:
        ModelError: whole layers were trained, or a layer that PEFT has no form of.
        FileError: the disk refused.
    """
    import mlx.core as mx

    kind = adapter.config.get("fine_tune_type", "lora")
    if kind == "full":
        raise ModelError(
            f"{adapter.folder} has whole layers, which PEFT has no form of", hint="--to mlx writes the model"
        )
    files = _file_shapes(adapter.model_folder())
    tensors: dict[str, mx.array] = {}
    names, ranks = [], set()
    for name, module in adapter.loaded.model.named_modules():
        if "lora_a" not in module:
            continue
        target = _target(name, module, files, adapter.model)
        names.append(target)
        ranks.add(int(module.lora_a.shape[1]))
        prefix = f"base_model.model.{target}."
        tensors[f"{prefix}lora_A.weight"] = module.lora_a.T
        tensors[f"{prefix}lora_B.weight"] = module.lora_b.T
        if "m" in module:
            tensors[f"{prefix}lora_magnitude_vector"] = module.m
    [rank] = ranks
    config = _config(adapter, base, sorted(names), rank)
    whole = {name: mx.contiguous(array) for name, array in sorted(tensors.items())}
    with _atomic.write_folder(out) as draft:
        _atomic.write_file(draft / WEIGHTS, lambda file: mx.save_safetensors(file, whole, {"format": "pt"}))
        text = json.dumps(config, indent=2, sort_keys=True) + "\n"
        _atomic.write_file(draft / "adapter_config.json", lambda file: file.write(text.encode()))
    return [*adapter.remarks, *_base_remark(adapter, base)]


def _base_remark(adapter: Adapter, base: str) -> list[str]:
    if not adapter.loaded.base["quantization"] or base != adapter.model:
        return []
    return [f"{base} is quantized by MLX, which PEFT cannot load: name the model it was made of as --base"]


def _config(adapter: Adapter, base: str, names: list[str], rank: int) -> dict[str, Any]:
    """Return the configuration as PEFT reads it."""
    scale = float(adapter.config["lora_parameters"]["scale"])
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": scale * rank,
        "lora_dropout": 0.0,
        "target_modules": names,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "use_dora": adapter.config.get("fine_tune_type") == "dora",
        "use_rslora": False,
    }


def _target(name: str, module: Any, files: dict[str, tuple[int, ...]], model: str) -> str:
    """Return the name of an adapted layer in the files of its model.

    Raises:
        ModelError: it is not a linear layer, or has another form there.
    """
    import mlx.nn as nn

    inner = getattr(module, "linear", None)
    if not isinstance(inner, nn.Linear | nn.QuantizedLinear):
        kind = type(inner if inner is not None else module).__name__
        raise ModelError(
            f"{name} is a {kind}, and PEFT has LoRA of linear layers alone", hint="--to mlx writes the model"
        )
    shape = (int(module.lora_b.shape[1]), int(module.lora_a.shape[0]))
    quantized = isinstance(inner, nn.QuantizedLinear)
    for prefix in PREFIXES:
        weight_shape = files.get(f"{prefix}{name}.weight")
        if weight_shape is not None and (weight_shape[0] == shape[0] if quantized else weight_shape == shape):
            return prefix + name
    raise ModelError(
        f"{model} has no weight {name} of the shape {shape} in its files: mlx-lm changes its form when it loads it",
        hint="--to mlx writes the model",
    )


def _file_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor in the files of a model, from their headers."""
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with _atomic.name_file_errors(path, "read"), path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        shapes |= {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
    return shapes
