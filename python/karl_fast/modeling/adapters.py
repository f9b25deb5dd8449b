"""Adapters: the layers that can have one, and files of them that are whole and fit the model."""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import TYPE_CHECKING, Any

from karl_fast._suggest import suggest_path
from karl_fast.errors import KarlError, ModelError
from karl_fast.modeling.parameters import flatten_tree, read_tensors, truncation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import mlx.core as mx
    import mlx.nn as nn

CONFIG = "adapter_config.json"
"""File with the configuration of an adapter, beside its weights."""

LEAVES = ("lora_a", "lora_b", "m")
"""The last part of the names of tensors of LoRA and DoRA."""

SETTINGS = {"rank": "lora_rank", "scale": "lora_scale", "keys": "lora_keys"}
"""The setting of a run for each of the `lora_parameters` of a configuration."""

WHOLE = "give the weights that karl-fast train or mlx_lm lora wrote, a whole file of safetensors"

ALIKE = (
    "begin with an adapter of this model, under the settings that it was trained with: "
    "--fine-tune-type, --num-layers, --lora-rank, --lora-scale, --lora-keys"
)


def linear_keys(model: nn.Module, *, dora: bool = False) -> list[str]:
    """Return the sorted names of the layers in a block that `mlx_lm lora` adapts by default.

    Layers are left out if the model's own code reads or assigns their weight: an adapted layer has no such weight.

    Args:
        model: before it is adapted.
        dora: True for the layers that have a DoRA, which routed experts have not.
    """
    linear: dict[str, list[Any]] = {}
    for layer in model.layers:
        for name, module in layer.named_modules():
            if name and _has_adapter(module, dora):
                linear.setdefault(name, []).append(module)
    read = _weights_read(model, [module for modules in linear.values() for module in modules])
    return sorted(name for name, modules in linear.items() if not any(id(module) in read for module in modules))


def _has_adapter(module: nn.Module, dora: bool) -> bool:
    """Return whether mlx-lm has an adapter for a module; those of routed experts and of other classes are LoRA only."""
    import mlx.nn as nn
    from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear

    if isinstance(module, nn.Linear | nn.QuantizedLinear | nn.Embedding | nn.QuantizedEmbedding):
        return True
    return not dora and (isinstance(module, SwitchLinear | QuantizedSwitchLinear) or hasattr(module, "to_lora"))


def unadapted_experts(model: nn.Module, config: dict[str, Any]) -> str | None:
    """Return a remark on routed experts that an adapted model has no adapter of; None where there are none."""
    from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear

    if config["fine_tune_type"] == "full":
        return None
    layers = model.layers[len(model.layers) - config["num_layers"] :]
    kinds = SwitchLinear | QuantizedSwitchLinear
    modules = [(name, module) for layer in layers for name, module in layer.named_modules()]
    names = {name for name, module in modules if isinstance(module, kinds) and not name.endswith(".linear")}
    if not names:
        return None
    why = "mlx-lm has no DoRA of them; --fine-tune-type lora adapts them"
    if config["fine_tune_type"] == "lora":
        why = "the model's own code reads their weights"
    return f"the routed experts ({', '.join(sorted(names))}) have no adapter: {why}"


def _weights_read(model: nn.Module, linear: Sequence[nn.Module]) -> set[int]:
    """Return the ids of the linear layers that are accessed by ``weight`` in a forward pass.

    gemma3n, for example, clips weights in its forward pass. The layers themselves use the module's dict.
    """
    import mlx.core as mx

    ids: set[int] = set()
    kinds = [(module, type(module)) for module in linear]
    fields = [(module, dict(module)) for module in linear]
    for module, kind in kinds:
        module.__class__ = _watched(kind, ids)
    try:
        with contextlib.suppress(RuntimeError, ValueError, TypeError, AttributeError, LookupError):
            model(mx.array([[1, 2, 3]]))  # lazy: nothing is computed; what cannot be is reported by `views.split`
    finally:
        for module, kind in kinds:
            module.__class__ = kind
        for module, values in fields:
            dict.update(module, values)  # nn.Module.update wants a tree of parameters
    return ids


def _watched(kind: type, ids: set[int]) -> type:
    def get(module: Any, name: str) -> Any:
        if name == "weight":
            ids.add(id(module))
        return kind.__getattr__(module, name)  # type: ignore[attr-defined]

    return type(kind.__name__, (kind,), {"__getattr__": get})


def load_start_weights(model: Any, file: Path, config: dict[str, Any]) -> None:
    """Load the weights of an adapter into an adapted model to continue from.

    Args:
        model: with its adapters.
        file: the weights; a configuration beside them has to agree.
        config: the configuration of the run.

    Raises:
        ModelError: the file is not there, no safetensors or cut, or something in it or in its configuration does not
            fit; the message names the first that does not.
    """
    weights = load_tensors(file)
    if (file.parent / CONFIG).is_file():
        _agree(file.parent / CONFIG, config, len(model.layers))
    check_fit(weights, flatten_tree(model.trainable_parameters()), str(file))
    model.load_weights(list(weights.items()), strict=False)


def unrecorded_remark(file: Path, config: dict[str, Any]) -> str | None:
    """Return the assumptions about weights without a configuration; None if there is one."""
    scale = config.get("lora_parameters", {}).get("scale")
    if scale is None or (file.parent / CONFIG).is_file():
        return None
    return f"there is no {CONFIG} beside {file}: lora_scale {scale:g} of this run is taken for that of the weights"


def describe_base(model: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return what the adapters of a model were trained on, as their configuration records it.

    Args:
        model: before it is adapted.
        config: the `config.json` of the model.

    Returns:
        ``quantization`` with bits and group size, None without; ``dtype`` that most numbers have; ``fingerprint`` of
        the vectors (norms and biases), which no quantization changes and which differ between models.
    """
    import mlx.core as mx
    import numpy as np

    arrays = {name: array for name, array in flatten_tree(model.parameters()).items() if _is_float(array)}
    sizes: dict[str, int] = {}
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        sizes[_dtype_name(array)] = sizes.get(_dtype_name(array), 0) + array.size
        if array.ndim == 1:
            # By way of bfloat16, to which many conversions round: the same model in float32 has the same fingerprint.
            vector = array.astype(mx.bfloat16).astype(mx.float32)
            digest.update(name.encode() + np.array(vector).tobytes())
    quantization = config.get("quantization") or {}
    known = {name: quantization[name] for name in ("bits", "group_size", "mode") if name in quantization}
    dtype = max(sizes, key=sizes.__getitem__, default=None)
    return {"quantization": known or None, "dtype": dtype, "fingerprint": digest.hexdigest()[:32]}


def _is_float(array: mx.array) -> bool:
    import mlx.core as mx

    return bool(mx.issubdtype(array.dtype, mx.floating))


def _dtype_name(array: mx.array) -> str:
    return str(array.dtype).rpartition(".")[2]


def other_base_remark(folder: Path, base: dict[str, Any]) -> str | None:
    """Return how the model that an adapter was trained on differs from the one that it is put on.

    None where it does not, or the configuration of the adapter does not say: of mlx_lm, for example.
    """
    try:
        recorded = json.loads((folder / CONFIG).read_text("utf-8"))["base"]
        trained, here = (_describe_numbers(numbers) for numbers in (recorded, base))
        other = recorded["fingerprint"] != base["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if other:
        return f"{folder} was trained on another model than this one, or on another version of it: its norms differ"
    if trained != here:
        return f"{folder} was trained on the model in {trained}, and this one is in {here}: evaluate it before use"
    return None


def _describe_numbers(base: dict[str, Any]) -> str:
    """Return the form of the weights of a base: ``4 bits in groups of 64 (float16)`` or ``float32``."""
    quantization = base["quantization"]
    if not quantization:
        return str(base["dtype"])
    mode = quantization.get("mode", "affine")
    kind = "" if mode == "affine" else f" of {mode}"
    return f"{quantization.get('bits')} bits{kind} in groups of {quantization.get('group_size')} ({base['dtype']})"


def attach_adapter(model: Any, folder: Path) -> None:
    """Load an adapter into a model, in evaluation mode.

    Raises:
        ModelError: the adapter is damaged, or does not fit the model; the message names the first that does not.
    """
    from mlx_lm.tuner.utils import linear_to_lora_layers

    weights, config = load_tensors(folder / "adapters.safetensors"), _config(folder / CONFIG)
    kind = config.get("fine_tune_type", "lora")
    if kind != "full":
        _check_keys(folder / CONFIG, model, config["lora_parameters"].get("keys"))
        try:
            linear_to_lora_layers(model, config["num_layers"], config["lora_parameters"], use_dora=kind == "dora")
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(
                folder / CONFIG, f"makes no adapter of this model: {type(error).__name__}: {error}"
            ) from error
    parameters = flatten_tree(model.parameters())
    own = {
        name: value
        for name, value in parameters.items()
        if (name in weights if kind == "full" else _own(name, parameters))
    }
    check_fit(weights, own, str(folder / "adapters.safetensors"))
    model.load_weights(list(weights.items()), strict=False)
    model.eval()


def _check_keys(file: Path, model: Any, keys: Any) -> None:
    """Raise where a configuration names layers that a model does not have; mlx-lm would leave them out."""
    names = {name for module in (model, *model.layers) for name, _ in module.named_modules()}
    if not isinstance(keys, list) or not (alien := sorted({str(key) for key in keys} - names)):
        return
    keys_text = ", ".join(linear_keys(model))
    error = _damaged(file, f"names layers that this model does not have: {', '.join(alien)}; there are {keys_text}")
    error.hint = "give the model that the adapter was trained on"
    raise error


def _own(name: str, parameters: dict[str, mx.array]) -> bool:
    """Return whether a parameter is one of an adapter."""
    module, _, leaf = name.rpartition(".")
    return leaf in LEAVES and f"{module}.lora_a" in parameters


def check_fit(
    weights: dict[str, mx.array], expected: dict[str, mx.array], source: str, kind: type[KarlError] = ModelError
) -> None:
    """Raise where tensors are not those of a model, by name, shape and type.

    Args:
        weights: the tensors that came.
        wanted: those of the model.
        source: what the message calls the place that they came from.
        kind: the error.
    """
    if not weights:
        raise _error(kind, f"{source} has no tensor", WHOLE)
    for name in sorted(weights.keys() | expected.keys()):
        if difference := _misfit(name, weights.get(name), expected.get(name)):
            count = sum(_misfit(key, weights.get(key), value) is None for key, value in expected.items())
            raise _error(kind, f"{source} {difference}; {count} of the model's {len(expected)} tensors fit", ALIKE)


def _misfit(name: str, tensor: mx.array | None, expected: mx.array | None) -> str | None:
    """Return how a tensor differs from the model's; None where it fits."""
    if tensor is None:
        return f"lacks {name}, {_form(expected)}"
    if expected is None:
        return f"has {name}, {_form(tensor)}, which the model does not have"
    if _form(tensor) != _form(expected):
        return f"has {name} as {_form(tensor)}, wanted {_form(expected)}"
    return None


def _form(tensor: Any) -> str:
    return f"{str(tensor.dtype).rpartition('.')[2]} of the shape {tuple(tensor.shape)}"


def load_tensors(file: Path, kind: type[KarlError] = ModelError) -> dict[str, mx.array]:
    """Read a file of safetensors that is whole; raise the error where it is not."""
    if not file.is_file():
        problem = "it is a folder, wanted a file" if file.is_dir() else "there is no such file"
        raise _error(kind, f"cannot load {file}: {problem}", suggest_path(file) or WHOLE)
    try:
        if wrong := truncation(file):
            raise _error(kind, f"cannot load {file}: {wrong}", WHOLE)
        return read_tensors(file)
    except (RuntimeError, ValueError, OSError) as error:
        if isinstance(error, KarlError):
            raise
        raise _error(kind, f"cannot load {file}: {' '.join(str(error).split())[:120]}", WHOLE) from error


def _error(kind: type[KarlError], message: str, hint: str) -> KarlError:
    error = kind(message)
    error.hint = hint
    return error


def _damaged(file: Path, problem: str) -> KarlError:
    return _error(ModelError, f"{file} {problem}", "karl-fast train and mlx_lm lora write it beside the weights")


def _config(file: Path) -> dict[str, Any]:
    """Read the configuration of an adapter."""
    try:
        config = json.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise _damaged(file, "is not there: an adapter is weights and this file") from error
    except (OSError, ValueError) as error:
        raise _damaged(file, f"cannot be read: {error}") from error
    if not isinstance(config, dict) or not isinstance(config.get("lora_parameters", {}), dict):
        raise _damaged(file, "is not a configuration of an adapter, wanted an object of JSON")
    if config.get("fine_tune_type", "lora") != "full":
        _check_recorded(file, config.get("lora_parameters", {}))
    return config


def _check_recorded(file: Path, parameters: dict[str, Any]) -> None:
    """Raise where the rank or the scale of an adapter is not recorded, or is not a number."""
    for name, kind, expected in (("rank", int, "a whole number"), ("scale", int | float, "a number")):
        value = parameters.get(name)
        if value is None:
            error = _damaged(file, f"has no {name} in lora_parameters, wanted {expected}")
            error.hint = f'write "{name}": NUMBER into its lora_parameters, as the adapter was trained with'
            raise error
        if not isinstance(value, kind) or isinstance(value, bool):
            raise _damaged(file, f"has the {name} {json.dumps(value)[:60]} in lora_parameters, wanted {expected}")


def _agree(file: Path, config: dict[str, Any], depth: int) -> None:
    """Raise where the configuration beside the weights is of another adapter than the run's."""
    recorded = _config(file)
    for name, recorded_value, now in _compared(recorded, config, depth):
        if recorded_value is not None and recorded_value != now:
            message = f"{file} has {name} {_shown(recorded_value)}, and the run has {_shown(now)}"
            raise _error(
                ModelError, message, f"--{name.replace('_', '-')} {_shown(recorded_value)} goes on with that adapter"
            )


def _compared(recorded: dict[str, Any], config: dict[str, Any], depth: int) -> list[tuple[str, Any, Any]]:
    """Return each setting of an adapter by name, as its configuration has it and as the run has it."""
    pairs = [("fine_tune_type", recorded.get("fine_tune_type", "lora"), config["fine_tune_type"])]
    pairs += [("num_layers", _layers(recorded.get("num_layers"), depth), config["num_layers"])]
    recorded_parameters, now = recorded.get("lora_parameters", {}), config.get("lora_parameters", {})
    for name, setting in SETTINGS.items():
        pairs.append((setting, _in_order(recorded_parameters.get(name)), _in_order(now.get(name))))
    return pairs


def _in_order(value: Any) -> Any:
    """Return names sorted, and anything else unchanged."""
    return sorted(map(str, value)) if isinstance(value, list | tuple) else value


def _layers(number: Any, depth: int) -> Any:
    """Return how many layers a number of them means, as mlx-lm takes it: -1 for all, and no more than there are."""
    return number if not isinstance(number, int) else depth if number == -1 else min(number, depth)


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)
