"""Result of a filter: a mask, and a reason for every dropped row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karl_fast import _core

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

REASONS: tuple[str, ...] = tuple(_core.reasons())
"""The name of each code in ``Filtered.reasons``, by its number; 0 is ``kept``."""


@dataclass(frozen=True, eq=False)
class Filtered:
    """Result of a filter over rows (or tokens).

    Attributes:
        keep: True for those kept. [B]
        reasons: reason for each, as an index of :data:`REASONS`; 0 for those kept. [B]
        counts: number for each reason that occurred, and ``kept``. They add up to B.
    """

    keep: NDArray[np.bool_]
    reasons: NDArray[np.uint8]
    counts: dict[str, int]


def filtered(found: dict[str, Any]) -> Filtered:
    """Convert the result of a filter of the extension module."""
    return Filtered(found["keep"], found["reasons"], dict(found["counts"]))
