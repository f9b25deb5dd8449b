"""Points of the advantage axis for rollouts that are sets: rows are candidates, ``set_ids`` say of which rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karl_fast import _core
from karl_fast.errors import ArgumentError
from karl_fast.objective.axes.advantage import Advantage
from karl_fast.objective.axes.point import check_number, check_point
from karl_fast.objective.batch import Batch

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BestCandidate", "SetScore", "directions", "set_scores"]


@dataclass(frozen=True)
class SetScore(Advantage):
    """Mean best score of the candidates of a rollout over random preferences (VPO).

    ```text
    r_i = mean_k max_m w_k . R_im,    w_k ~ Dirichlet(1), the same ``samples`` directions for a whole group
    ```

    ``advantage`` of r is given to each candidate. Directions are drawn from ``Batch.seed``.
    Reference: Vector Policy Optimization (arXiv:2605.22817).
    """

    advantage: Advantage
    samples: int = 16

    def __post_init__(self) -> None:
        check_point("advantage", self.advantage, Advantage)
        check_number("samples", self.samples, 1)

    @property
    def of_rewards(self) -> bool:
        """False: it reads those of candidates."""
        return False

    @property
    def of_groups(self) -> bool:
        """Property of the advantage of its score."""
        return self.advantage.of_groups

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the advantage of its rollout for each candidate."""
        vectors = np.where(keep[:, None], batch.need("reward_vectors"), np.nan).astype(np.float64)
        if batch.component_weights is not None:
            vectors = vectors * batch.component_weights
        groups, member = _sets(batch)
        scores = set_scores(vectors, member, directions(groups, self.samples, vectors.shape[1], batch.seed))
        return np.where(np.isnan(vectors).any(1), np.nan, _set_advantages(self.advantage, scores, groups)[member])


@dataclass(frozen=True)
class BestCandidate(Advantage):
    """Reward of the best candidate of a rollout, whose ``advantage`` each of its candidates has (Multi-RLVR).

    Reference: rl-experiments @2c9e417, vpo_sandbox, ``MultiRLVR``.
    """

    advantage: Advantage

    def __post_init__(self) -> None:
        check_point("advantage", self.advantage, Advantage)

    @property
    def of_groups(self) -> bool:
        """Property of the advantage of the best rewards."""
        return self.advantage.of_groups

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the advantage of its rollout for each candidate."""
        rewards = np.where(keep, batch.need("rewards"), np.nan).astype(np.float64)
        groups, member = _sets(batch)
        best = np.full(len(groups), -np.inf)
        np.maximum.at(best, member[~np.isnan(rewards)], rewards[~np.isnan(rewards)])
        scores = np.where(np.isfinite(best), best, np.nan)
        return np.where(np.isnan(rewards), np.nan, _set_advantages(self.advantage, scores, groups)[member])


def _sets(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of each set, and the number of the set of each candidate.

    Raises:
        ArgumentError: a set has candidates of several groups.
    """
    _, first, member = np.unique(batch.need("set_ids"), return_index=True, return_inverse=True)
    groups: NDArray[np.int64] = batch.need("group_ids")
    if not np.array_equal(groups, groups[first][member]):
        raise ArgumentError("set_ids names a set whose candidates are of several groups")
    return groups[first], member


def _set_advantages(
    advantage: Advantage, scores: NDArray[np.float64], groups: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the advantage of each set among those of its group."""
    sets = Batch(np.ones((len(scores), 1), dtype=np.bool_), rewards=scores, group_ids=groups)
    return advantage(sets, ~np.isnan(scores))


def directions(groups: NDArray[np.int64], samples: int, size: int, seed: int) -> NDArray[np.float64]:
    """Draw uniform points of the simplex, the same for all sets of a group.

    Args:
        groups: of each set. [S]
        samples: number of directions, K.
        size: number of rewards, D.
        seed: of the draw.

    Returns:
        float64, each row of D adds up to 1. [S, K, D]

    Raises:
        ArgumentError: a seed outside its range.

    Reference: Vector Policy Optimization (arXiv:2605.22817).
    """
    numbers, member = np.unique(groups, return_inverse=True)
    drawn = -np.log(_core.uniforms(len(numbers) * samples * size, seed=seed, purpose="draw"))
    points = drawn.reshape(len(numbers), samples, size)
    return np.asarray((points / points.sum(2, keepdims=True))[member])


def set_scores(
    vectors: NDArray[np.float64], member: NDArray[np.int64], wanted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Score each set by the best of its candidates in each direction, on average.

    Args:
        vectors: the rewards of each candidate, NaN for one that does not count. [B, D]
        member: the number of the set of each candidate. [B]
        wanted: the directions of each set. [S, K, D]

    Returns:
        float64, NaN for a set without a candidate. [S]

    Raises:
        ArgumentError: directions of another number of rewards.

    Reference: Vector Policy Optimization (arXiv:2605.22817).
    """
    sets, samples, _ = wanted.shape
    flat = np.ascontiguousarray(wanted).ravel()
    return _core.set_scores(np.ascontiguousarray(vectors).ravel(), member, flat, sets, samples)
