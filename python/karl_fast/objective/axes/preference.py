"""Axes of `Preference`: the margin between answers, what it costs, and the likelihood of the preferred ones.

With ``s_i = length(logp_i) - length(anchor_i)`` of answer i:

| margin | formula | of |
|---|---|---|
| `ScoreDifference` | ``scale (s_chosen - s_rejected) - target`` | a pair |
| `LogOddsDifference` | ``odds(s_chosen) - odds(s_rejected)``, ``odds(s) = s - ln(1 - exp(s))`` | a pair |
| `DivergenceBaseline` | ``scale (s - z)`` of a preferred answer, ``scale (z - s)`` of another | an answer |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from karl_fast.objective.axes.point import Point, check_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch

__all__ = [
    "ChosenLikelihood",
    "DivergenceBaseline",
    "Likelihood",
    "Link",
    "LogOddsDifference",
    "LogSigmoid",
    "Margin",
    "NoLikelihood",
    "ScoreDifference",
    "Sigmoid",
    "SquaredMargin",
]


class Margin(Point):
    """Reference that the score of an answer is compared with; ``paired`` if it is the other answer of its pair."""

    kind: ClassVar[str]
    paired: ClassVar[bool] = True


@dataclass(frozen=True)
class ScoreDifference(Margin):
    """``scale (s_chosen - s_rejected) - target``: the beta of DPO, and the gamma of SimPO."""

    kind: ClassVar[str] = "difference"
    scale: float
    target: float = 0.0

    def __post_init__(self) -> None:
        check_number("scale", self.scale, above=True)
        check_number("target", self.target)


@dataclass(frozen=True)
class LogOddsDifference(Margin):
    """The log odds ratio of the two answers, by the mean log-probability of their tokens (ORPO)."""

    kind: ClassVar[str] = "log-odds"


@dataclass(frozen=True)
class DivergenceBaseline(Margin):
    """Distance of an answer's score from z, the divergence of the policy from the reference: no pairs (KTO).

    ``z = max(0, mean of the log ratios of answers to other prompts)``, detached. ``scale`` multiplies the distance;
    ``desirable`` and ``undesirable`` weigh the answers of the two labels.
    Reference: Ethayarajh et al. 2024, KTO (arXiv:2402.01306), eq. 7 and 8.
    """

    kind: ClassVar[str] = "baseline"
    paired: ClassVar[bool] = False
    scale: float
    desirable: float = 1.0
    undesirable: float = 1.0

    def __post_init__(self) -> None:
        check_number("scale", self.scale, above=True)
        check_number("desirable", self.desirable)
        check_number("undesirable", self.undesirable)

    def baseline(self, batch: Batch) -> float:
        """Return z of a batch, from the log ratios that it has; 0 without any."""
        ratios = np.asarray(batch.need("mismatched"), dtype=np.float64)
        known: NDArray[np.float64] = ratios[~np.isnan(ratios)]
        return max(0.0, float(known.mean())) if known.size else 0.0


class Link(Point):
    """Cost of a margin."""

    kind: ClassVar[str]
    coef: float


@dataclass(frozen=True)
class LogSigmoid(Link):
    """``-coef [(1 - smoothing) ln sigmoid(m) + smoothing ln sigmoid(-m)]``.

    ``smoothing`` is the share of pairs taken to be labelled the wrong way round (conservative DPO).
    """

    kind: ClassVar[str] = "log-sigmoid"
    coef: float = 1.0
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_number("coef", self.coef)
        check_number("smoothing", self.smoothing, 0, 0.5)


@dataclass(frozen=True)
class SquaredMargin(Link):
    """``coef (m - target)^2``: a margin that is too large costs as much as one that is too small (IPO)."""

    kind: ClassVar[str] = "square"
    target: float
    coef: float = 1.0

    def __post_init__(self) -> None:
        check_number("target", self.target)
        check_number("coef", self.coef)


@dataclass(frozen=True)
class Sigmoid(Link):
    """``coef (1 - sigmoid(m))``: bounded, so that a wrong label costs no more than 1 (KTO)."""

    kind: ClassVar[str] = "sigmoid"
    coef: float = 1.0

    def __post_init__(self) -> None:
        check_number("coef", self.coef)


class Likelihood(Point):
    """Log-likelihood of preferred answers, beside the margin."""

    @property
    def factor(self) -> float:
        """Factor of the negative log-likelihood a token."""
        return 0.0


@dataclass(frozen=True)
class NoLikelihood(Likelihood):
    """None."""


@dataclass(frozen=True)
class ChosenLikelihood(Likelihood):
    """``-coef mean_t logp_t`` of each preferred answer."""

    coef: float = 1.0

    def __post_init__(self) -> None:
        check_number("coef", self.coef, above=True)

    @property
    def factor(self) -> float:
        """The coefficient."""
        return self.coef
