"""Tensors by name: trees of parameters, and the files that hold them."""

from __future__ import annotations

import json
import types
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from karl_fast._safe_text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    import mlx.core as mx


def flatten_tree(tree: Any) -> dict[str, mx.array]:
    """Return the leaves of a tree by their dotted names, sorted."""
    from mlx.utils import tree_flatten

    leaves: Any = tree_flatten(tree)
    return dict(sorted(leaves))


def locate_leaf(model: Any, name: str) -> tuple[Any, Any]:
    """Return the module, list or dictionary of a model that has a leaf, and its key; a repeated search is slower."""
    first, _, rest = name.partition(".")
    key = int(first) if isinstance(model, list | tuple) else first
    return locate_leaf(model[key], rest) if rest else (model, key)


def write_tensors(tensors: dict[str, mx.array], file: BinaryIO) -> None:
    """Write tensors as mlx-lm reads them."""
    import mlx.core as mx

    mx.save_safetensors(file, tensors, {"format": "mlx"})


def truncation(path: Path) -> str | None:
    """Return how a file of safetensors is damaged, by its header and its size; None where it is whole."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            return f"it is not a file of safetensors: it has {size:,} bytes, and none of its header"
        try:
            header = json.loads(file.read(length))
            ends = [one["data_offsets"][1] for name, one in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return "it is not a file of safetensors: its header is damaged"
    wanted = 8 + length + max(ends, default=0)
    return None if wanted == size else f"it has {size:,} bytes, and its header says {wanted:,}"


def read_tensors(path: Path) -> dict[str, mx.array]:
    """Read the tensors of a file.

    Raises:
        RuntimeError, ValueError, OSError: there is none, or it is damaged.
    """
    import mlx.core as mx

    found: Any = mx.load(str(path))
    return dict(found)


# Fields of `config.json` with another type than mlx-lm expects.


CONFIG_FILE = "config.json"

WANTED = {
    int: "a number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    list: "a list",
    tuple: "a list",
    dict: "an object",
}
"""Words for the types that a field may have."""

EVERY: dict[str, Any] = {
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

LONGEST = 60
"""Characters of a value in a sentence."""


def wrong_field(folder: Path) -> str | None:
    """Return the field of a model's config with a wrong type, its value, and the expected type."""
    try:
        config = json.loads((folder / CONFIG_FILE).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return f"{CONFIG_FILE} cannot be read: {clean(str(error))[:LONGEST]}"
    if not isinstance(config, dict):
        return f"{CONFIG_FILE} is {_shown(config)}, wanted an object"
    name, value, wanted = next(_wrong_value(config), (None, None, ""))
    return None if name is None else f"{CONFIG_FILE} has {name} as {_shown(value)}, wanted {wanted}"


def _wrong_value(config: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield the wrong fields: name, value and expected type."""
    for name, kind in (EVERY | _hints(config.get("model_type"))).items():
        value = config.get(name)
        if value is not None and not _fits(value, kind):
            yield f"{before}{name}", value, _words(kind)
        elif name in SIZES and name in config and kind is int and not (type(value) is int and value > 0):
            yield f"{before}{name}", value, "a whole number from 1 on"
    if isinstance(config.get("text_config"), dict):
        yield from _wrong_value(config["text_config"], f"{before}text_config.")


def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of a model type, as mlx-lm declares them; none where it declares nothing."""
    import importlib

    try:
        from mlx_lm.utils import MODEL_REMAPPING

        declared = importlib.import_module(f"mlx_lm.models.{MODEL_REMAPPING.get(kind, kind)}").ModelArgs
        hints = get_type_hints(declared)
    except (ImportError, AttributeError, TypeError, NameError, ValueError):
        return {}
    return {one.name: hints[one.name] for one in fields(declared)} if is_dataclass(declared) else {}


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of a declared type; any value is, if the type is not in `WANTED`."""
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, one) for one in get_args(kind))
    plain = get_origin(kind) or kind
    if plain is type(None):
        return value is None
    if plain not in WANTED:
        return True
    if plain in (int, float):  # mlx-lm declares some numbers whole that are not
        return isinstance(value, int | float) and not isinstance(value, bool)
    if plain is list and isinstance(value, list) and get_args(kind):
        return all(_fits(one, get_args(kind)[0]) for one in value)
    return isinstance(value, list if plain is tuple else plain)


def _words(kind: Any) -> str:
    """Return a declared type in words."""
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(one) for one in get_args(kind) if one is not type(None)))
    return WANTED.get(get_origin(kind) or kind, "another value")


def _shown(value: Any) -> str:
    return clean(json.dumps(value))[:LONGEST]
