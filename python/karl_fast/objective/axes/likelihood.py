"""Axes of `WeightedLikelihood`: weights of rows, their sampling, and the function of log-probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from karl_fast import target as kernels
from karl_fast.objective.axes.advantage import Advantage
from karl_fast.objective.axes.point import Point, check_number, check_point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch

__all__ = [
    "Boltzmann",
    "Drawn",
    "EveryRow",
    "Exponential",
    "LogLikelihood",
    "Logged",
    "ProbabilityScaled",
    "RowWeight",
    "Sampler",
    "SurprisalGated",
    "Term",
    "Uniform",
]


class RowWeight(Point, ABC):
    """Weight of each row kept: of mean 1 over them, or as a formula gives it (`Exponential`)."""

    @abstractmethod
    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the weights, NaN for a row that is not kept or has no reward. [B] -> [B]"""


@dataclass(frozen=True)
class Uniform(RowWeight):
    """Equal weights of all rows: plain supervised fine-tuning."""

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return 1 for each row that is kept."""
        return np.where(keep, 1.0, np.nan)


@dataclass(frozen=True)
class Logged(RowWeight):
    """Weights from the data set (``Batch.weights``); an export with ``--sampler all`` stores their logarithms."""

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the given weights."""
        return np.where(keep, batch.need("weights"), np.nan)


@dataclass(frozen=True)
class Boltzmann(RowWeight):
    """``w_i = n exp(b r_i) / sum exp(b r)`` over the n rows that are kept; b is ``inverse_temperature``.

    Reference: Peters & Schaal 2007, reward-weighted regression.
    """

    inverse_temperature: float

    def __post_init__(self) -> None:
        check_number("inverse_temperature", self.inverse_temperature)

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the weights; NaN for a missing reward."""
        rewards = np.where(keep, batch.need("rewards"), np.nan).astype(np.float64)
        present = ~np.isnan(rewards)
        if not present.any():
            return rewards
        result = kernels.boltzmann(rewards, inverse_temperature=self.inverse_temperature)
        return np.where(present, np.exp(result.log_weights) * present.sum(), np.nan)


@dataclass(frozen=True)
class Exponential(RowWeight):
    """``w_i = min(exp(A_i / temperature), ceiling)``, not normalised (AWR).

    ``advantage`` gives A_i. ``ceiling`` bounds a single weight; inf for none.
    Reference: Peng et al. 2019, AWR (arXiv:1910.00177).
    """

    advantage: Advantage
    temperature: float
    ceiling: float = 20.0

    def __post_init__(self) -> None:
        check_point("advantage", self.advantage, Advantage)
        check_number("temperature", self.temperature, above=True)
        check_number("ceiling", self.ceiling, above=True)

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the weights; NaN for a missing advantage."""
        advantages = self.advantage(batch, keep)
        present = keep & ~np.isnan(advantages)
        clip = None if np.isinf(self.ceiling) else self.ceiling
        weights = kernels.awr_weights(np.where(present, advantages, 0.0), temperature=self.temperature, clip=clip)
        return np.where(present, weights, np.nan)


class Sampler(Point):
    """Sampling of rows: all of them, or drawn by weight."""

    drawn: ClassVar[bool]


@dataclass(frozen=True)
class EveryRow(Sampler):
    """All rows, with their weights in the loss."""

    drawn: ClassVar[bool] = False


@dataclass(frozen=True)
class Drawn(Sampler):
    """Rows were drawn in proportion to the target, by ``karl-fast sample``: their weight in the loss is 1."""

    drawn: ClassVar[bool] = True


class Term(Point):
    """Function of a log-probability that is minimised."""

    kind: ClassVar[str]


@dataclass(frozen=True)
class LogLikelihood(Term):
    """``-logp``."""

    kind: ClassVar[str] = "log-likelihood"


@dataclass(frozen=True)
class ProbabilityScaled(Term):
    """``-sg(exp(logp)) * logp``: a token counts as much as the policy believes it (DFT).

    Reference: Wu et al. 2025, Dynamic Fine-Tuning (arXiv:2508.05629).
    """

    kind: ClassVar[str] = "probability-scaled"


@dataclass(frozen=True)
class SurprisalGated(Term):
    """``-sg(g / mean g) * logp``, ``g = sigmoid(kappa (logp - gamma))``: a token that surprises hardly counts.

    ``gamma`` is the log-probability at which the gate is half open, ``kappa`` how sharp it is; the mean of the gates is
    over the tokens of the row.
    Reference: noahziems.com/pedagogical-rl; rl-experiments @879294c, ``pedagogy_sandbox``.
    """

    kappa: float = 4.0
    gamma: float = -2.5
    kind: ClassVar[str] = "surprisal-gated"

    def __post_init__(self) -> None:
        check_number("kappa", self.kappa, above=True)
        check_number("gamma", self.gamma, -np.inf)
