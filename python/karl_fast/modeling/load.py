"""A model of mlx-lm, from a folder or the Hugging Face hub: loaded, checked and adapted.

All imports of mlx-lm for that are here, in functions, because mlx-lm is imported only when a model is loaded. What is
used of it is the same from 0.31 to 0.32.

| function | what it does |
|---|---|
| `load` | the model, its tokenizer and its config, with an adapter if there is one; every failure as a `ModelError` |
| `wrong_field` | the field of ``config.json`` with another type than mlx-lm expects, as the reason of a failure |
| `adapt` | freezes the model and adds LoRA, DoRA, or whole layers to train |
| `position_limit` | the positions that the model was made for, and whether longer sequences are possible |
"""

from __future__ import annotations

import json
import os
import types
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from karl_fast._extras import require_mlx
from karl_fast._safe_text import clean
from karl_fast._suggest import ask_whether, nearest, suggest_path
from karl_fast.errors import ModelError, UsageError
from karl_fast.modeling.adapters import attach_adapter, describe_base, linear_keys, other_base_remark

if TYPE_CHECKING:
    from collections.abc import Iterator

    import mlx.nn as nn

    from karl_fast.train.settings import Training

ADAPTERS = "adapters.safetensors"
"""The weights of an adapter."""

NAMES = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "block_size", "model_max_length")
"""Names of fields for the number of positions."""

POSITION_TABLES = ("wpe", "position_embeddings", "embed_positions", "position_embedding")
"""Names of tables of positions."""

CONFIG_FILE = "config.json"

KINDS = {
    int: "a number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    list: "a list",
    tuple: "a list",
    dict: "an object",
}
"""Words for the types that a field may have."""

COMMON_FIELDS: dict[str, Any] = {
    "model_type": str,
    "architectures": list,
    "quantization": dict,
    "quantization_config": dict,
    "text_config": dict,
    "eos_token_id": int | list[int],
}
"""Fields that mlx-lm reads of every config; they may be absent."""

SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size", "head_dim")
"""Fields that are whole numbers from 1 on, where a model type has them."""

MOST_CHARACTERS = 60
"""Characters of a value in a sentence."""


@dataclass(frozen=True)
class Loaded:
    """A model, its tokenizer and its `config.json`.

    Attributes:
        base: the form of its weights, without an adapter: `describe_base`.
        remark: on an adapter that was trained on another base.
    """

    model: Any
    tokenizer: Any
    config: dict[str, Any]
    base: dict[str, Any] = field(default_factory=dict)
    remark: str | None = None

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end a turn."""
        return frozenset(self.tokenizer.eos_token_ids)


def require_mlx_lm() -> None:
    """Raise where MLX or mlx-lm is not installed."""
    require_mlx()
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def load(path: str, adapter_path: str | None = None) -> Loaded:
    """Load a model from a folder or from the Hugging Face hub.

    Raises:
        MissingExtraError: the extra ``train`` is not installed.
        ModelError: there is no such model or adapter, or mlx-lm cannot load it.
    """
    require_mlx_lm()
    import mlx_lm

    if adapter_path is not None:
        require_adapter(adapter_path)
    if Path(path).is_file():
        raise _missing_error(path, "it is a file, wanted the folder of a model")
    if path.startswith((".", "/", "~")) and not Path(path).is_dir():
        raise _missing_error(path, "no such folder")
    try:
        loaded: Any = mlx_lm.load(path, return_config=True)
        model, tokenizer, config = loaded
    except (SystemExit, ImportError) as error:  # olmo of mlx-lm exits where the package ai2-olmo is missing
        raise ModelError(f"cannot load a model from {path}: its type needs a package that is not installed") from error
    except Exception as error:  # of mlx-lm, transformers, huggingface_hub and MLX, each with classes of its own
        raise _load_error(path, error) from error
    _initialize(model)
    _check_computed(model, path)
    base = describe_base(model, config)
    if adapter_path is None:
        return Loaded(model, tokenizer, config, base)
    attach_adapter(model, Path(adapter_path))
    return Loaded(model, tokenizer, config, base, other_base_remark(Path(adapter_path), base))


def _check_computed(model: nn.Module, path: str) -> None:
    """Raise where a field of the config is of a wrong type and the model cannot be computed."""
    import mlx.core as mx

    if not Path(path).is_dir() or (wrong := wrong_field(Path(path))) is None:
        return
    try:
        mx.eval(model(mx.array([[1, 2, 3]])))
    except Exception as error:  # as above
        raise ModelError(f"cannot load a model from {path}: {wrong}") from error


def _initialize(model: nn.Module) -> None:
    """Set private fields that training needs, if constructors of modules left them out."""
    import mlx.nn as nn

    for module in model.modules():
        if not hasattr(module, "_no_grad"):  # recurrent_gemma of mlx-lm does not call the constructor of its base
            nn.Module.__init__(module)


def require_adapter(path: str, *words: str) -> None:
    """Raise where a folder holds no adapter.

    Args:
        path: the folder.
        words: what else may have been meant.

    Raises:
        ModelError: it is not there, or has no weights in it.
    """
    if Path(path, ADAPTERS).is_file():
        return
    exists = Path(path).is_dir()
    error = ModelError(f"cannot load an adapter from {path}: {f'it has no {ADAPTERS}' if exists else 'no such folder'}")
    near = ask_whether(nearest(path, words)) or suggest_path(path, lambda folder: (folder / ADAPTERS).is_file())
    usage = "--adapter-path takes a folder that karl-fast train or mlx_lm lora wrote, and so does --against"
    error.hint = usage if exists else near or usage
    raise error


def _load_error(path: str, error: Exception) -> ModelError:
    message = clean(" ".join(str(error).split()) or type(error).__name__)[:200]
    if Path(path).is_dir() and not Path(path, "config.json").is_file():
        return ModelError(f"cannot load a model from {path}: it has no config.json")
    if Path(path).is_dir() and (wrong := wrong_field(Path(path))):
        return ModelError(f"cannot load a model from {path}: {wrong}")
    if not Path(path).exists() and (why := _hub_problem(error, message)):
        return _missing_error(path, f"there is no such folder, and {why}")
    return ModelError(f"cannot load a model from {path}: {message}")


def _missing_error(path: str, why: str) -> ModelError:
    """Return the error for a missing model, with folders of models with similar names."""
    error = ModelError(f"cannot load a model from {path}: {why}")
    if meant := suggest_path(path, lambda folder: (folder / "config.json").is_file(), most=3):
        error.hint = meant
    return error


def _hub_problem(error: Exception, message: str) -> str | None:
    """Return the reason why the Hugging Face hub gave no model, from its error; None for other errors."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return f"access to it on the hub has to be requested: {message}"
    if isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
        return "the Hugging Face hub has none of that name"
    if isinstance(error, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled | ConnectionError | TimeoutError):
        return "the Hugging Face hub could not be asked"
    return f"the Hugging Face hub said: {message}" if isinstance(error, errors.HfHubHTTPError) else None


def wrong_field(folder: Path) -> str | None:
    """Return the field of a model's config with a wrong type, its value, and the expected type."""
    try:
        config = json.loads((folder / CONFIG_FILE).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return f"{CONFIG_FILE} cannot be read: {clean(str(error))[:MOST_CHARACTERS]}"
    if not isinstance(config, dict):
        return f"{CONFIG_FILE} is {_shown(config)}, wanted an object"
    name, value, expected = next(_wrong_value(config), (None, None, ""))
    return None if name is None else f"{CONFIG_FILE} has {name} as {_shown(value)}, wanted {expected}"


def _wrong_value(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield the wrong fields: name, value and expected type."""
    for name, kind in (COMMON_FIELDS | _hints(config.get("model_type"))).items():
        value = config.get(name)
        if value is not None and not _fits(value, kind):
            yield f"{prefix}{name}", value, _words(kind)
        elif name in SIZES and name in config and kind is int and not (type(value) is int and value > 0):
            yield f"{prefix}{name}", value, "a whole number from 1 on"
    if isinstance(config.get("text_config"), dict):
        yield from _wrong_value(config["text_config"], f"{prefix}text_config.")


def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of a model type, as mlx-lm declares them; none where it declares nothing."""
    import importlib

    try:
        from mlx_lm.utils import MODEL_REMAPPING

        declared = importlib.import_module(f"mlx_lm.models.{MODEL_REMAPPING.get(kind, kind)}").ModelArgs
        hints = get_type_hints(declared)
    except (ImportError, AttributeError, TypeError, NameError, ValueError):
        return {}
    return {each.name: hints[each.name] for each in fields(declared)} if is_dataclass(declared) else {}


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of a declared type; any value is, if the type is not in `KINDS`."""
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(kind))
    plain = get_origin(kind) or kind
    if plain is type(None):
        return value is None
    if plain not in KINDS:
        return True
    if plain in (int, float):  # mlx-lm declares some numbers whole that are not
        return isinstance(value, int | float) and not isinstance(value, bool)
    if plain is list and isinstance(value, list) and get_args(kind):
        return all(_fits(option, get_args(kind)[0]) for option in value)
    return isinstance(value, list if plain is tuple else plain)


def _words(kind: Any) -> str:
    """Return a declared type in words."""
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(option) for option in get_args(kind) if option is not type(None)))
    return KINDS.get(get_origin(kind) or kind, "another value")


def _shown(value: Any) -> str:
    return clean(json.dumps(value))[:MOST_CHARACTERS]


def adapt(model: nn.Module, settings: Training) -> dict[str, Any]:
    """Freeze a model, add its trainable parameters, and return the configuration as `mlx_lm` reads it.

    Returns:
        The content of ``adapter_config.json``. The keys are spelled out, because mlx-lm's default has changed between
        versions.

    Raises:
        UsageError: more layers than the model has, a key that no layer has, or full training of quantized layers.
    """
    depth = len(model.layers)
    layers = _num_layers(settings.num_layers, depth)
    model.freeze()
    config: dict[str, Any] = {"fine_tune_type": settings.fine_tune_type, "num_layers": layers}
    if settings.fine_tune_type == "full":
        _unfreeze(model, layers)
        return config

    from mlx_lm.tuner.utils import linear_to_lora_layers

    dora = settings.fine_tune_type == "dora"
    available = linear_keys(model, dora=dora)
    keys = list(settings.lora_keys or available)
    if not set(keys) <= set(available):
        raise _unknown_keys_error(model, keys, available, dora)
    how = {"rank": settings.lora_rank, "scale": settings.lora_scale, "dropout": settings.lora_dropout, "keys": keys}
    linear_to_lora_layers(model, layers, how, use_dora=dora)
    return config | {"lora_parameters": how}


def _unknown_keys_error(model: nn.Module, keys: list[str], available: list[str], dora: bool) -> UsageError:
    """Return the error of keys that cannot be adapted, with those that can."""
    alien = sorted(set(keys) - set(available))
    experts = sorted(set(alien) & set(linear_keys(model))) if dora else []
    if experts:
        return UsageError(
            f"lora_keys names {', '.join(experts)}, of which mlx-lm has no DoRA",
            "lora_keys",
            hint="--fine-tune-type lora adapts routed experts",
        )
    what = "a layer that no block has" if len(alien) == 1 else "layers that no block has"
    error = UsageError(f"lora_keys names {what}: {', '.join(alien)}; there are {', '.join(available)}", "lora_keys")
    # Layers with the same last name, such as `self_attn.q_proj` for `q_proj`.
    candidates = [[key for key in available if key.split(".")[-1] == name.split(".")[-1]] for name in alien]
    if all(candidates):
        keys_meant = {*keys} - {*alien} | {key for group in candidates for key in group}
        error.hint = f"--lora-keys {','.join(sorted(keys_meant))}"
    return error


def _num_layers(number: int | None, depth: int) -> int:
    if number is None:
        return min(16, depth)  # 16 is the default of mlx_lm lora
    if number > depth:
        raise UsageError(f"num_layers is {number}, and the model has {depth}", "num_layers")
    return depth if number == -1 else number


def _unfreeze(model: nn.Module, layers: int) -> None:
    import mlx.nn as nn

    for layer in model.layers[len(model.layers) - layers :]:
        if any(isinstance(module, nn.QuantizedLinear) for module in layer.modules()):
            raise UsageError("fine_tune_type full cannot train quantized layers: take lora or dora", "fine_tune_type")
        layer.unfreeze()


@dataclass(frozen=True)
class Positions:
    """The positions of a model.

    Attributes:
        count: number of positions, including the factor of rope scaling.
        learned: True if each has an embedding of its own, so that longer sequences are impossible.
    """

    count: int
    learned: bool

    def remark(self, name: str, value: int, default: int, reach: int) -> str | None:
        """Return a remark on a setting, or None if it stays within the positions.

        Args:
            name: name of the setting.
            asked: its value.
            default: its default, which needs no remark while sequences are shorter.
            reach: the longest sequence that it allows, as far as known.

        Raises:
            UsageError: sequences reach beyond positions that are learned.
        """
        if max(0 if value == default else value, reach) <= self.count:
            return None
        remark = f"{name} is {value:,}, and the model has {self.count:,} positions"
        if reach <= self.count:
            return f"{remark}; the longest sequence of this run has at most {reach:,} tokens"
        if self.learned:
            raise UsageError(
                f"{remark}, which are learned: a sequence of {reach:,} tokens has none for its end",
                name,
                hint=f"{name} {self.count} at most",
            )
        return f"{remark}: sequences of up to {reach:,} tokens go beyond what it was trained on"


def position_limit(model: Any, config: dict[str, Any]) -> Positions | None:
    """Return the positions of a model by its config; None if not given."""
    config = config.get("text_config") or config
    counts = [config[name] for name in NAMES if isinstance(config.get(name), int) and config[name] > 0]
    if not counts:
        return None
    count = max(counts[0], _scaled_positions(config, counts[0]))
    return Positions(count, _has_learned_positions(model, counts[0]))


def _scaled_positions(config: dict[str, Any], count: int) -> int:
    """Return the positions with rope scaling: a factor times the original ones."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    factor, first = scaling.get("factor"), scaling.get("original_max_position_embeddings", count)
    numbers = all(isinstance(number, int | float) and not isinstance(number, bool) for number in (factor, first))
    return int(factor * first) if numbers else 0


def _has_learned_positions(model: Any, count: int) -> bool:
    """Return whether a model has an embedding with one row a position that is not that of tokens."""
    import mlx.nn as nn

    tables = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Embedding)]
    return any(
        module.weight.shape[0] in (count, count + 2) and name.rpartition(".")[2] in POSITION_TABLES
        for name, module in tables
    )
