"""A batch becomes a scored batch: rollouts that do not count leave the mask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.objective.batch import Batch, Scored

if TYPE_CHECKING:
    from numpy.typing import NDArray


def scored(batch: Batch, keep: NDArray[np.bool_], **columns: NDArray[Any]) -> Scored:
    """Return the inputs of a loss beside log-probabilities.

    Args:
        batch: a checked batch.
        keep: True for rollouts that a filter kept. [B]
        columns: further fields of `Scored`; a row is dropped if its value is NaN or beyond the type of the
            log-probabilities.

    Returns:
        The inputs of a loss.

    Raises: nothing.
    """
    mask = batch.mask & keep[:, None]
    given = [array.dtype for array in (batch.logp_old, batch.logp_ref) if array is not None]
    largest = np.finfo(np.float64 if np.dtype(np.float64) in given else np.float32).max
    for name in ("advantages", "rewards", "weights"):
        if name in columns:
            mask = mask & (np.abs(columns[name].reshape(len(mask), -1)) <= largest)  # NaN is not
    found = {name: _cleared(array, mask) for name, array in columns.items()}
    for name in ("logp_old", "logp_ref"):
        if (array := getattr(batch, name)) is not None:
            found[name] = _cleared(array, mask)
    if batch.turns is not None:
        found["turns"] = np.where(mask, batch.turns, -1)
    if batch.group_ids is not None:
        found["groups"], found["group_sizes"] = _numbered(batch.group_ids, mask)
    return Scored(mask, **found)


def _cleared(array: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    """Return an array with 0 outside the mask, where values may be anything."""
    counts = mask.any(1) if array.ndim == 1 else mask.any(1, keepdims=True) if array.shape[1] == 1 else mask
    return np.where(counts, array, array.dtype.type(0))


def _numbered(ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    member = (ids >= 0) & mask.any(1)
    _, numbers, sizes = np.unique(ids[member], return_inverse=True, return_counts=True)
    groups = np.full(len(ids), -1, dtype=np.int64)
    groups[member] = numbers
    return groups, np.where(member, sizes[groups] if sizes.size else 0, 0)
