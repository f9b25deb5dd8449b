"""What a filter gives: a mask, and a reason for every row that it drops."""

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
    """What a filter made of its rows (or tokens).

    Attributes:
        keep: which stay. [B]
        reasons: why the others do not, as numbers of :data:`REASONS`; 0 for those that stay. [B]
        counts: how many have each reason that came, and ``kept``. They add up to B.
    """

    keep: NDArray[np.bool_]
    reasons: NDArray[np.uint8]
    counts: dict[str, int]


def filtered(found: dict[str, Any]) -> Filtered:
    """The result of a filter of the extension module."""
    return Filtered(found["keep"], found["reasons"], dict(found["counts"]))
