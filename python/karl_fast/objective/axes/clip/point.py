"""Base of clips, and replacement of a ratio by its bound without NaN gradients."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from karl_fast.objective.axes.point import Point
from karl_fast.objective.mlx_arrays import mx


@dataclass(frozen=True)
class Drift:
    """Inputs of a clip.

    Attributes:
        log_ratio: at the level of the ratio axis, 0 outside the mask. [B, T]
        advantages: 0 outside the mask. [B, 1] or [B, T]
        logp: 0 outside the mask. [B, T]
        mask: True for tokens that count. [B, T]
    """

    log_ratio: mx.array
    advantages: mx.array
    logp: mx.array
    mask: mx.array


@dataclass(frozen=True)
class Bounds:
    """The ratios that are within; beyond them a token has no gradient, or a weight that is held.

    Attributes:
        gain: the least and the most where A > 0.
        loss: the same where A < 0.
    """

    gain: tuple[float, float] = (0.0, math.inf)
    loss: tuple[float, float] = (0.0, math.inf)


class Clipper(Point, ABC):
    """Bound on an update."""

    @property
    def bounds(self) -> Bounds:
        """Between which ratios it does nothing; without an end where it has no bound."""
        return Bounds()

    def felt(self, drift: Drift) -> mx.array:
        """Return the advantages that the bounds apply to: 0 for excluded rollouts. -> [B, 1] or [B, T]"""
        return drift.advantages

    @abstractmethod
    def __call__(self, drift: Drift) -> mx.array:
        """Return the loss of each token. -> [B, T]"""


def bounded(drift: Drift, low: float, high: float, bound: float | None = None) -> mx.array:
    """Return the pessimistic ratio: at most ``high`` where A > 0; at least ``low``, at most ``bound`` where A < 0.

    A ratio on its bound is within. One beyond it is replaced before the exponential, so that a ratio that overflows has
    gradient 0, not 0 times infinity; so is that of a token with advantage 0.
    """
    ratio, gain, loss = mx.stop_gradient(mx.exp(drift.log_ratio)), drift.advantages > 0, drift.advantages < 0
    above, below = gain & (ratio > high), loss & (ratio < low)
    held = mx.where(above, high, mx.where(below, low, 1.0)).astype(ratio.dtype)
    out = above | below | (drift.advantages == 0)
    if bound is not None:
        far = loss & (ratio > bound)
        held, out = mx.where(far, bound, held).astype(ratio.dtype), out | far
    return mx.where(out, held, mx.exp(mx.where(out, 0.0, drift.log_ratio)))
