"""Families over tokens that are drawn in the place of each: target policies and policy gradients of single tokens.

```text
the policy draws K candidates in the place of each token of a rollout, after the tokens before it;
each is a rollout of one token, those of a place are a group:

TokenTargets    loss = mean over places of -sum_k q_k log p_k,   p = softmax over the place of logp_k
TokenGradients  loss = mean over places of sum_k [clip(ratio_k, A_k) + kl_k]
```

Advantages, targets and kernels are those of `TargetPolicy` and `PolicyGradient`, on a batch of such rollouts. The
reference of a penalty is the policy that drew. A place of which no candidate has a reward does not count.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import ArgumentError, IncoherentObjectiveError, LayoutError
from karl_fast.objective.axes.advantage import Advantage, Raw
from karl_fast.objective.axes.aggregate import TokenMean
from karl_fast.objective.axes.balance import TokenSumLength
from karl_fast.objective.axes.clip import Clipper, NoClip
from karl_fast.objective.axes.filter import Filter, KeepAll
from karl_fast.objective.axes.kl import Divergence, NoKL
from karl_fast.objective.axes.point import Point
from karl_fast.objective.axes.ratio import TokenRatio
from karl_fast.objective.base import Objective
from karl_fast.objective.batch import Batch, Evaluation, Scored, scored
from karl_fast.objective.families.policy_gradient import PolicyGradient
from karl_fast.objective.families.target_policy import CandidateTarget, TargetPolicy

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DrawnTokens", "TokenGradients", "TokenTargets"]

OWN_TOKENS = PolicyGradient(KeepAll(), Raw(), TokenRatio(), NoClip(), NoKL(), TokenMean())
"""Computes statistics of the rollouts themselves: how far the policy has moved on their own tokens."""


@dataclass(frozen=True)
class DrawnTokens(Point):
    """``count`` tokens are drawn in the place of each by the policy; equal ones count as often as they are drawn."""

    count: int = 8

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 2:
            raise ArgumentError(f"count is {self.count!r}, wanted a whole number from 2 on")


class OverCandidates(Objective):
    """An objective of the candidates of each token.

    Attributes:
        filter: which rollouts count.
        draw: the candidates of each token.
    """

    filter: Filter
    draw: DrawnTokens

    @property
    @abstractmethod
    def of_rollouts(self) -> Objective:
        """The objective of rollouts that candidates are scored and evaluated by."""

    @property
    def reads_candidates(self) -> int:
        """Number of tokens to draw in the place of each."""
        return self.draw.count

    def score(self, batch: Batch) -> Scored:
        """Filter a batch, and score the candidates of each token: once a batch, before any step.

        Args:
            batch: with candidate_rewards and candidate_logp_old.

        Returns:
            What the call needs.

        Raises:
            ArgumentError, LayoutError, DTypeError: an array that an axis needs is missing or out of shape.
        """
        batch.check()
        keep = self.filter(batch)
        if batch.rewards is not None:
            keep = keep & ~np.isnan(batch.rewards)
        candidates = self.of_rollouts.score(_as_rollouts(batch, batch.mask & keep[:, None], self.draw.count))
        places = np.asarray(candidates.mask.reshape(*batch.mask.shape, -1).any(2))
        return replace(scored(replace(batch, mask=places), keep), candidates=candidates)

    def count(self, scored: Scored) -> int:
        """Return the number of places that count."""
        return int(scored.mask.sum())

    def _evaluate(self, tokens: dict[str, Any], scored: Scored, by: float, log_z: Any) -> Any:
        own = replace(scored, candidates=None, advantages=np.zeros((len(scored.mask), 1)))
        return OWN_TOKENS._evaluate(tokens, own, by, log_z)

    def _evaluate_candidates(
        self, logp: NDArray[Any], candidate_logp: NDArray[Any], scored: Scored, by: float
    ) -> Evaluation:
        shape = (*scored.mask.shape, self.draw.count)
        if candidate_logp.shape != shape:
            raise LayoutError(f"candidate_logp has the shape {candidate_logp.shape}, wanted {shape}")
        found = self.of_rollouts(candidate_logp.reshape(-1, 1), scored.need("candidates"), denominator=by)
        return Evaluation(
            loss=found.loss,
            coefficients=np.zeros_like(logp),
            statistics=self.statistics(logp, scored),
            candidate_logp_coefficients=found.coefficients.reshape(shape),
        )


def _as_rollouts(batch: Batch, mask: NDArray[np.bool_], count: int) -> Batch:
    """Return candidates as rollouts of one token, and those of a place as a group. [B, T, K] -> [B * T * K, 1]"""
    rewards, logp = batch.need("candidate_rewards"), batch.need("candidate_logp_old")
    if rewards.shape[2] != count:
        raise LayoutError(f"candidate_rewards has the shape {rewards.shape}, wanted {count} for each token")
    logp = np.where(mask[:, :, None], logp, 0).reshape(-1, 1).astype(logp.dtype)
    return Batch(
        mask=np.repeat(mask.ravel(), count)[:, None],
        rewards=np.where(mask[:, :, None], rewards, np.nan).ravel(),
        group_ids=np.repeat(np.arange(mask.size, dtype=np.int64), count),
        logp_old=logp,
        logp_ref=logp,
        seed=batch.seed,
    )


@dataclass(frozen=True)
class TokenTargets(OverCandidates):
    """A target over the candidates of each token, and the cross-entropy of the policy to it.

    Attributes:
        filter: which rollouts count.
        draw: the candidates of each token.
        target: their wanted probabilities.
    """

    filter: Filter
    draw: DrawnTokens
    target: CandidateTarget

    @property
    def of_rollouts(self) -> Objective:
        """The target policy of candidates."""
        return TargetPolicy(KeepAll(), self.target, TokenSumLength())


@dataclass(frozen=True)
class TokenGradients(OverCandidates):
    """Credit of the candidates of each token times their log-probabilities, bounded by how far the policy has moved.

    Attributes:
        filter: which rollouts count.
        draw: the candidates of each token.
        advantage: which candidates get credit.
        clip: what bounds an update.
        kl: what holds the policy near the one that drew.
    """

    filter: Filter
    draw: DrawnTokens
    advantage: Advantage
    clip: Clipper
    kl: Divergence

    def check(self) -> None:
        """Raise where points do not go together.

        Raises:
            IncoherentObjectiveError: they do not; the message says why.
        """
        if self.kl.direction is not None or self.kl.in_reward:
            raise IncoherentObjectiveError(f"{self.kl} is not of candidates: take NoKL, K2 or K3")
        _ = self.of_rollouts

    @property
    def of_rollouts(self) -> Objective:
        """The policy gradient of candidates."""
        return PolicyGradient(KeepAll(), self.advantage, TokenRatio(), self.clip, self.kl, TokenMean())
