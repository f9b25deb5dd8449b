"""Imports from mlx-lm in one place: a model, its chat template, and layers to adapt it.

mlx-lm is imported when a model is loaded, and what is used of it has stayed the same from 0.31 to 0.32.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast._extras import require_mlx
from karl_fast._safe_text import clean
from karl_fast._suggest import beside, nearest, question
from karl_fast.errors import ModelError, UsageError
from karl_fast.modeling.adapters import linear_keys, put
from karl_fast.modeling.parameters import wrong_field

if TYPE_CHECKING:
    import mlx.nn as nn

    from karl_fast.train.settings import Training

ADAPTERS = "adapters.safetensors"
"""The weights of an adapter."""


@dataclass(frozen=True)
class Loaded:
    """A model, its tokenizer and its `config.json`."""

    model: Any
    tokenizer: Any
    config: dict[str, Any]

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end a turn."""
        return frozenset(self.tokenizer.eos_token_ids)


def require() -> None:
    """Raise where MLX or mlx-lm is not installed."""
    require_mlx()
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def load(path: str, adapter_path: str | None = None) -> Loaded:
    """Load a model from a folder or from the Hugging Face hub.

    Raises:
        MissingExtraError: the extra ``train`` is not installed.
        ModelError: there is no such model or adapter, or mlx-lm cannot load it.
    """
    require()
    import mlx_lm

    if adapter_path is not None:
        require_adapter(adapter_path)
    if Path(path).is_file():
        raise _nowhere(path, "it is a file, wanted the folder of a model")
    if path.startswith((".", "/", "~")) and not Path(path).is_dir():
        raise _nowhere(path, "no such folder")
    try:
        model, tokenizer, config = _loaded(mlx_lm, path)
    except (SystemExit, ImportError) as error:  # olmo of mlx-lm exits where the package ai2-olmo is missing
        raise ModelError(f"cannot load a model from {path}: its type needs a package that is not installed") from error
    except Exception as error:  # of mlx-lm, transformers, huggingface_hub and MLX, each with classes of its own
        raise _no_model(path, error) from error
    _initialized(model)
    _computed(model, path)
    if adapter_path is not None:
        put(model, Path(adapter_path))
    return Loaded(model, tokenizer, config)


def _computed(model: nn.Module, path: str) -> None:
    """Raise where a field of the config is of a wrong type and the model cannot be computed."""
    import mlx.core as mx

    if not Path(path).is_dir() or (wrong := wrong_field(Path(path))) is None:
        return
    try:
        mx.eval(model(mx.array([[1, 2, 3]])))
    except Exception as error:  # as above
        raise ModelError(f"cannot load a model from {path}: {wrong}") from error


def _initialized(model: nn.Module) -> None:
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
    there = Path(path).is_dir()
    error = ModelError(f"cannot load an adapter from {path}: {f'it has no {ADAPTERS}' if there else 'no such folder'}")
    near = question(nearest(path, words)) or beside(path, lambda one: (one / ADAPTERS).is_file())
    made = "--adapter-path takes a folder that karl-fast train or mlx_lm lora wrote, and so does --against"
    error.hint = made if there else near or made
    raise error


def _loaded(mlx_lm: Any, path: str) -> tuple[Any, Any, dict[str, Any]]:
    model, tokenizer, config = mlx_lm.load(path, return_config=True)
    return model, tokenizer, config


def _no_model(path: str, error: Exception) -> ModelError:
    said = clean(" ".join(str(error).split()) or type(error).__name__)[:200]
    if Path(path).is_dir() and not Path(path, "config.json").is_file():
        return ModelError(f"cannot load a model from {path}: it has no config.json")
    if Path(path).is_dir() and (wrong := wrong_field(Path(path))):
        return ModelError(f"cannot load a model from {path}: {wrong}")
    if not Path(path).exists() and (why := _of_hub(error, said)):
        return _nowhere(path, f"there is no such folder, and {why}")
    return ModelError(f"cannot load a model from {path}: {said}")


def _nowhere(path: str, why: str) -> ModelError:
    """Return the error for a missing model, with folders of models with similar names."""
    error = ModelError(f"cannot load a model from {path}: {why}")
    if meant := beside(path, lambda one: (one / "config.json").is_file(), most=3):
        error.hint = meant
    return error


def _of_hub(error: Exception, said: str) -> str | None:
    """Return the reason why the Hugging Face hub gave no model, from its error; None for other errors."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return f"access to it on the hub has to be requested: {said}"
    if isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
        return "the Hugging Face hub has none of that name"
    if isinstance(error, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled | ConnectionError | TimeoutError):
        return "the Hugging Face hub could not be asked"
    return f"the Hugging Face hub said: {said}" if isinstance(error, errors.HfHubHTTPError) else None


def adapt(model: nn.Module, settings: Training) -> dict[str, Any]:
    """Freeze a model, add its trainable parameters, and return the configuration as `mlx_lm` reads it.

    Returns:
        The content of ``adapter_config.json``. The keys are spelled out, because mlx-lm's default has changed between
        versions.

    Raises:
        UsageError: more layers than the model has, a key that no layer has, or full training of quantized layers.
    """
    depth = len(model.layers)
    layers = _layers(settings.num_layers, depth)
    model.freeze()
    config: dict[str, Any] = {"fine_tune_type": settings.fine_tune_type, "num_layers": layers}
    if settings.fine_tune_type == "full":
        _unfreeze(model, layers)
        return config
    from mlx_lm.tuner.utils import linear_to_lora_layers

    dora = settings.fine_tune_type == "dora"
    known = linear_keys(model, dora=dora)
    keys = list(settings.lora_keys or known)
    if not set(keys) <= set(known):
        raise _no_such_keys(model, keys, known, dora)
    how = {"rank": settings.lora_rank, "scale": settings.lora_scale, "dropout": settings.lora_dropout, "keys": keys}
    linear_to_lora_layers(model, layers, how, use_dora=dora)
    return config | {"lora_parameters": how}


def _no_such_keys(model: nn.Module, keys: list[str], known: list[str], dora: bool) -> UsageError:
    """Return the error of keys that cannot be adapted, with those that can."""
    alien = sorted(set(keys) - set(known))
    experts = sorted(set(alien) & set(linear_keys(model))) if dora else []
    if experts:
        return UsageError(
            f"lora_keys names {', '.join(experts)}, of which mlx-lm has no DoRA",
            "lora_keys",
            hint="--fine-tune-type lora adapts routed experts",
        )
    what = "a layer that no block has" if len(alien) == 1 else "layers that no block has"
    error = UsageError(f"lora_keys names {what}: {', '.join(alien)}; there are {', '.join(known)}", "lora_keys")
    meant = [[key for key in known if key.split(".")[-1] == one.split(".")[-1]] for one in alien]
    if all(meant):
        error.hint = f"--lora-keys {','.join(sorted({*keys} - {*alien} | {key for some in meant for key in some}))}"
    return error


def _layers(wanted: int | None, depth: int) -> int:
    if wanted is None:
        return min(16, depth)  # 16 is the default of mlx_lm lora
    if wanted > depth:
        raise UsageError(f"num_layers is {wanted}, and the model has {depth}", "num_layers")
    return depth if wanted == -1 else wanted


def _unfreeze(model: nn.Module, layers: int) -> None:
    import mlx.nn as nn

    for layer in model.layers[len(model.layers) - layers :]:
        if any(isinstance(module, nn.QuantizedLinear) for module in layer.modules()):
            raise UsageError("fine_tune_type full cannot train quantized layers: take lora or dora", "fine_tune_type")
        layer.unfreeze()


# The positions that a model was made for, and lengths beyond them.


NAMES = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "block_size", "model_max_length")
"""Settings of a config that say it."""


@dataclass(frozen=True)
class Positions:
    """The positions of a model.

    Attributes:
        count: number of positions, including the factor of rope scaling.
        learned: True if each has an embedding of its own, so that longer sequences are impossible.
    """

    count: int
    learned: bool

    def remark(self, name: str, asked: int, default: int, reach: int) -> str | None:
        """Return a remark on a setting, or None if it stays within the positions.

        Args:
            name: name of the setting.
            asked: its value.
            default: its default, which needs no remark while sequences are shorter.
            reach: the longest sequence that it allows, as far as known.

        Raises:
            UsageError: sequences reach beyond positions that are learned.
        """
        if max(0 if asked == default else asked, reach) <= self.count:
            return None
        said = f"{name} is {asked:,}, and the model has {self.count:,} positions"
        if reach <= self.count:
            return f"{said}; the longest sequence of this run has at most {reach:,} tokens"
        if self.learned:
            raise UsageError(
                f"{said}, which are learned: a sequence of {reach:,} tokens has none for its end",
                name,
                hint=f"{name} {self.count} at most",
            )
        return f"{said}: sequences of up to {reach:,} tokens go beyond what it was trained on"


def position_limit(model: Any, config: dict[str, Any]) -> Positions | None:
    """Return the positions of a model by its config; None if not given."""
    config = config.get("text_config") or config
    known = [config[name] for name in NAMES if isinstance(config.get(name), int) and config[name] > 0]
    if not known:
        return None
    count = max(known[0], _scaled(config, known[0]))
    return Positions(count, _learned(model, known[0]))


def _scaled(config: dict[str, Any], count: int) -> int:
    """Return the positions with rope scaling: a factor times the original ones."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    factor, first = scaling.get("factor"), scaling.get("original_max_position_embeddings", count)
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (factor, first))
    return int(factor * first) if numbers else 0


def _learned(model: Any, count: int) -> bool:
    """Return whether a model has an embedding with one row a position that is not that of tokens."""
    import mlx.nn as nn

    tables = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Embedding)]
    return any(
        module.weight.shape[0] in (count, count + 2) and name.rpartition(".")[2] in POSITION_TABLES
        for name, module in tables
    )


POSITION_TABLES = ("wpe", "position_embeddings", "embed_positions", "position_embedding")
"""Names of tables of positions."""
