"""Over the gradient line: a batch becomes a scored batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.objective.batch import Batch, Scored
from karl_fast.objective.mlx_arrays import mx, to_mlx

if TYPE_CHECKING:
    from numpy.typing import NDArray


def scored(batch: Batch, keep: NDArray[np.bool_], **columns: NDArray[Any]) -> Scored:
    """Carry a batch over the gradient line.

    Args:
        batch: a checked batch.
        keep: True for rollouts that a filter kept. [B]
        columns: further fields of `Scored`, as NumPy arrays; a row is dropped if its value is NaN or beyond the type of
            the batch.

    Returns:
        The inputs of a loss.

    Raises:
        MissingExtraError: MLX is not installed.

    Reference: none.
    """
    mask = batch.mask & keep[:, None]
    largest = np.finfo(np.float64 if batch.dtype == mx.float64 else np.float32).max
    for name in ("advantages", "rewards", "weights"):
        if name in columns:
            mask = mask & (np.abs(columns[name].reshape(len(mask), -1)) <= largest)  # NaN is not
    found = {name: _cleared(array, mask) for name, array in columns.items()}
    for name in ("logp_old", "logp_ref"):
        if (array := getattr(batch, name)) is not None:
            found[name] = _cleared(array, mask)
    if batch.turns is not None:
        found["turns"] = _members(batch.turns, mask)
    if batch.group_ids is not None:
        found["groups"], found["group_sizes"] = _numbered(batch.group_ids, mask)
    return Scored(to_mlx(mask), **{name: to_mlx(array, batch.dtype) for name, array in found.items()})


def _cleared(array: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    """Return an array with 0 outside the mask, where values may be anything."""
    counts = mask.any(1) if array.ndim == 1 else mask.any(1, keepdims=True) if array.shape[1] == 1 else mask
    return np.where(counts, array, array.dtype.type(0))


def _members(turns: NDArray[np.int64], mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    last = int(turns[mask].max(initial=0))
    return np.asarray((turns[:, None, :] == np.arange(last + 1)[None, :, None]) & mask[:, None, :])


def _numbered(ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    member = (ids >= 0) & mask.any(1)
    _, numbers, sizes = np.unique(ids[member], return_inverse=True, return_counts=True)
    groups = np.full(len(ids), -1, dtype=np.int64)
    groups[member] = numbers
    return groups, np.where(member, sizes[groups] if sizes.size else 0, 0)
