"""Tensors by name: trees of parameters, and the files that hold them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
            ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return "it is not a file of safetensors: its header is damaged"
    expected = 8 + length + max(ends, default=0)
    return None if expected == size else f"it has {size:,} bytes, and its header says {expected:,}"


def read_tensors(path: Path) -> dict[str, mx.array]:
    """Read the tensors of a file.

    Raises:
        RuntimeError, ValueError, OSError: there is none, or it is damaged.
    """
    import mlx.core as mx

    tensors: Any = mx.load(str(path))
    return dict(tensors)
