"""Points of two axes: the bound on an update, and the aggregation of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from karl_fast import _core


class ClipPoint:
    """Base class of clips."""

    def __post_init__(self) -> None:
        _core.check_clip(self)


class AggregatePoint:
    """Base class of aggregates."""

    def __post_init__(self) -> None:
        _core.check_aggregate(self)


@dataclass(frozen=True)
class Clip(ClipPoint):
    """The pessimistic bound of PPO: ``-min(ratio * A, clip(ratio, 1 - low, 1 + high) * A)``.

    ``low`` and ``high`` are distances from 1; ``low`` is at most 1. DAPO's are 0.2 and 0.28, GSPO's 3e-4 and 4e-4.
    Reference: Schulman et al. 2017 (arXiv:1707.06347); Yu et al. 2025, DAPO (arXiv:2503.14476).
    """

    kind: ClassVar[str] = "clip"
    low: float
    high: float


@dataclass(frozen=True)
class DualClip(ClipPoint):
    """`Clip`, and for A < 0 no more than ``-bound * A``; ``bound`` is a ratio, above ``1 + high`` (verl: 3).

    ``low`` and ``high`` as in `Clip`.
    Reference: Ye et al. 2020 (arXiv:1912.09729).
    """

    kind: ClassVar[str] = "dual-clip"
    low: float
    high: float
    bound: float


@dataclass(frozen=True)
class TwoSided(ClipPoint):
    """`Clip` with the ratio of the unclipped branch at most ``delta``, which is above ``1 + high`` (TRL's ``delta``).

    The same function as `DualClip` with ``bound=delta``; ``low`` and ``high`` as in `Clip`.
    Reference: INTELLECT-2 2025 (arXiv:2505.07291).
    """

    kind: ClassVar[str] = "two-sided"
    low: float
    high: float
    delta: float


@dataclass(frozen=True)
class Cap(ClipPoint):
    """A detached weight on the log-probability: ``-sg(min(ratio, ceiling)) * A * logp`` (CISPO).

    ``ceiling`` is a ratio of at least 1, not a distance from it: 5, where the ``high`` of `Clip` would be 4. ``floor``
    is the least that the ratio counts as, 0 in the paper; verl's defaults are ``Cap(1.2, floor=0.8)``. No token loses
    its gradient.
    Reference: MiniMax 2025, CISPO (arXiv:2506.13585).
    """

    kind: ClassVar[str] = "cap"
    ceiling: float
    floor: float = 0.0


@dataclass(frozen=True)
class NoClip(ClipPoint):
    """Ratio without a bound: ``-ratio * A``."""

    kind: ClassVar[str] = "none"


@dataclass(frozen=True)
class SequenceMean(AggregatePoint):
    """The mean over sequences of the means of their tokens (GRPO, GSPO).

    A sequence of which no token counts is left out of the mean. ``sequences`` is the number to divide by where it is
    another: that of the whole batch for a part of it, or all sequences, empty ones too, as TRL does.
    """

    kind: ClassVar[str] = "sequence-mean"
    sequences: float | None = None


@dataclass(frozen=True)
class TokenMean(AggregatePoint):
    """The mean over all tokens that count (DAPO, SAMPO); ``tokens`` is their number where these are a part."""

    kind: ClassVar[str] = "token-mean"
    tokens: float | None = None


@dataclass(frozen=True)
class ConstantLength(AggregatePoint):
    """The mean over sequences of ``sum / tokens``, a constant whatever their lengths are (Dr. GRPO).

    ``sequences`` as in `SequenceMean`. verl's ``seq-mean-token-sum-norm`` before 2026 has ``sequences=1``.
    """

    kind: ClassVar[str] = "constant-length"
    tokens: float
    sequences: float | None = None


@dataclass(frozen=True)
class SequenceSum(AggregatePoint):
    """The mean over sequences of the sums of their tokens (RLOO); at the sequence level it is LUSPO's.

    ``sequences`` as in `SequenceMean`.
    """

    kind: ClassVar[str] = "sequence-sum"
    sequences: float | None = None
