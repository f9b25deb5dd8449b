"""Axis: the level at which the drift from the behaviour policy is measured. Ratios stay in log space.

With d_t = logp_t - logp_old_t, and sg for what carries no gradient:

| point | log ratio of a token | its gradient |
|---|---|---|
| `OnPolicy` | 0 | that of logp_t |
| `TokenRatio` | d_t | its own |
| `TurnRatio` | mean of d over its turn | the mean over the turn |
| `SequenceRatio` | mean of d over its rollout | the mean over the rollout |
| `SequenceProduct` | sum of d over its rollout | the sum over the rollout |
| `SequenceTokenRatio` | that of `SequenceRatio` as a constant | its own |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from karl_fast.objective.axes.point import Point

__all__ = [
    "OnPolicy",
    "Ratio",
    "SequenceProduct",
    "SequenceRatio",
    "SequenceTokenRatio",
    "TokenRatio",
    "TurnRatio",
]


class Ratio(Point):
    """Level at which drift is measured; ``level`` is its name in `karl_fast.ratio`."""

    level: ClassVar[str]


@dataclass(frozen=True)
class OnPolicy(Ratio):
    """``logp_t - sg(logp_t)``: the policy is the behaviour policy, the ratio 1; needs no ``logp_old``.

    Reference: Williams 1992, REINFORCE.
    """

    level: ClassVar[str] = "on-policy"


@dataclass(frozen=True)
class TokenRatio(Ratio):
    """``d_t``: each token its own.

    Reference: Schulman et al. 2017, PPO (arXiv:1707.06347).
    """

    level: ClassVar[str] = "token"


@dataclass(frozen=True)
class TurnRatio(Ratio):
    """The mean of d over the tokens of a turn; a token of no turn has 0."""

    level: ClassVar[str] = "turn"


@dataclass(frozen=True)
class SequenceRatio(Ratio):
    """The mean of d over a rollout: the log of the geometric mean of its ratios (GSPO, SAMPO).

    Reference: Zheng et al. 2025, GSPO (arXiv:2507.18071).
    """

    level: ClassVar[str] = "sequence"


@dataclass(frozen=True)
class SequenceProduct(Ratio):
    """The sum of d over a rollout: the log of its ratio as a whole (RLOO as TRL has it).

    Reference: Ahmadian et al. 2024, RLOO (arXiv:2402.14740).
    """

    level: ClassVar[str] = "sequence-product"


@dataclass(frozen=True)
class SequenceTokenRatio(Ratio):
    """The value of `SequenceRatio`, the gradient of each token's own (GSPO-token).

    Reference: Zheng et al. 2025, GSPO (arXiv:2507.18071), section 4.3.
    """

    level: ClassVar[str] = "sequence-token"
