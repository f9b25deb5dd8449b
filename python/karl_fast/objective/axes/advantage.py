"""Axis: the advantage, by the kernels of `karl_fast.advantage`, over the rollouts that a filter kept.

A group with equal rewards has advantage exactly 0, and so has a group of one. A missing reward stays missing: its
rollout does not count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import advantage as kernels
from karl_fast.objective.axes.filter import group_deviations
from karl_fast.objective.axes.point import OfGroups, Point, check_number, check_point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch

__all__ = [
    "Advantage",
    "AllActions",
    "Anchored",
    "BestOfK",
    "Centre",
    "Damped",
    "ExpectedBaseline",
    "Given",
    "GroupDecoupled",
    "LeaveOneOut",
    "MeanScaled",
    "PrefixTree",
    "Raw",
    "RemainingMean",
    "TokenCentre",
    "Whitened",
    "ZScore",
]


class Advantage(Point, ABC):
    """Advantage of each rollout or token; other points read its properties, to refuse inputs that it ignores."""

    @property
    def per_token(self) -> bool:
        """True if it gives a number for each token, not for each rollout."""
        return False

    @property
    def of_rewards(self) -> bool:
        """True if it reads ``Batch.rewards``."""
        return True

    @property
    def of_tokens(self) -> bool:
        """True if it reads ``Batch.token_rewards``."""
        return False

    @abstractmethod
    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Compute the advantage of each rollout or token; NaN for a missing one. [B] -> [B] or [B, T]"""


@dataclass(frozen=True)
class Derived(Advantage):
    """An advantage computed from another one."""

    advantage: Advantage

    def __post_init__(self) -> None:
        check_point("advantage", self.advantage, Advantage)

    @property
    def per_token(self) -> bool:
        """Property of the other advantage."""
        return self.advantage.per_token

    @property
    def of_rewards(self) -> bool:
        """Property of the other advantage."""
        return self.advantage.of_rewards

    @property
    def of_tokens(self) -> bool:
        """Property of the other advantage."""
        return self.advantage.of_tokens

    @property
    def of_groups(self) -> bool:
        """Property of the other advantage."""
        return self.advantage.of_groups


@dataclass(frozen=True)
class Damped(Derived):
    """``advantage / (1 + scale * u)``, u the standard deviation of the rewards of the group, ddof 0 (RewardVarianceDG).

    Reference: rl-experiments, ``RewardVarianceDGLoss``.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("scale", self.scale)

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the advantages, less where the rollouts of a group disagree."""
        advantages = self.advantage(batch, keep)
        damping = 1 + self.scale * group_deviations(kept_rewards(batch, keep), batch.need("group_ids"))
        return advantages / (damping if advantages.ndim == 1 else damping[:, None])


@dataclass(frozen=True)
class AllActions(Derived):
    """Gradient of the cross-entropy to a target over all ``actions``, of which one was drawn (TPOFullAction).

    The advantage A is the score of the action that was drawn, 0 that of the others. The target is
    ``q = softmax(log pi + u / temperature)``, with u the z-score of these scores over the actions: A / |A| times
    sqrt(n - 1) for the action, and -1 / sqrt(n - 1) times that for each other one. Since the others keep their
    proportions, the gradient of the cross-entropy is that of ``-w log pi(a)`` with

    ```text
    w = (q_a - p_a) / (1 - p_a) = p e / (1 + p e),   e = exp(gap / temperature) - 1,   gap = sign(A) n / sqrt(n - 1)
    ```

    p is the probability under the policy that drew, whose first step this is the gradient of. A target that moves one
    action alone is of answers of one token; of longer ones each token is taken by itself.
    Reference: rl-experiments, ``TPOFullActionLoss``; scores that deviate by less than 1e-6 are not divided there.
    """

    actions: int = 10
    temperature: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("actions", self.actions, 2)
        check_number("temperature", self.temperature, above=True)

    @property
    def per_token(self) -> bool:
        """True: the weight depends on the probability of the token."""
        return True

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the weight of each log-probability."""
        scores = self.advantage(batch, keep)
        scores = np.broadcast_to(scores if scores.ndim == 2 else scores[:, None], batch.mask.shape)
        spread = np.abs(scores) * np.sqrt(self.actions - 1) / self.actions
        gap = np.where(spread > 1e-6, np.sign(scores) * self.actions / np.sqrt(self.actions - 1), scores)
        logp = np.where(batch.mask, batch.need("logp_old"), -1.0).astype(np.float64)
        tilt = np.minimum(gap / self.temperature, 700.0)  # e^709 is the end of float64
        tilted = -np.expm1(logp) + np.exp(logp + tilt)  # 1 + p e, without cancellation
        # 0 where the action is certain and the tilt leaves it nothing: the slope of its log-probability is 0 there.
        weights = np.divide(np.exp(logp) * np.expm1(tilt), tilted, out=np.zeros_like(logp), where=tilted != 0)
        return np.asarray(weights)


@dataclass(frozen=True)
class Given(Advantage):
    """Advantages from the caller, for instance of a critic (``Batch.advantages``)."""

    @property
    def of_rewards(self) -> bool:
        """False: the caller did."""
        return False

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the given advantages."""
        return np.asarray(batch.need("advantages"), dtype=np.float64)


@dataclass(frozen=True)
class Raw(Advantage):
    """``r``: the reward itself."""

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the rewards."""
        return kept_rewards(batch, keep)


@dataclass(frozen=True)
class ExpectedBaseline(Advantage):
    """``r`` less the expected reward of the prompt under the policy that drew (``Batch.baselines``).

    Reference: rl-experiments, ``_pg_core`` with ``actor_expected_reward``.
    """

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Subtract the expected rewards; a rollout without one does not count."""
        return np.asarray(kept_rewards(batch, keep) - batch.need("baselines"))


@dataclass(frozen=True)
class Centre(OfGroups, Advantage):
    """``r - mean`` of the group.

    Reference: Liu et al. 2025, Dr. GRPO (arXiv:2503.20783).
    """

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Centre rewards within groups."""
        return kernels.centre(kept_rewards(batch, keep), batch.need("group_ids"))


@dataclass(frozen=True)
class ZScore(OfGroups, Advantage):
    """``(r - mean) / (std + eps)`` of the group; ``ddof`` is 0 or 1.

    Reference: Shao et al. 2024, GRPO (arXiv:2402.03300).
    """

    ddof: int = 0
    eps: float = 1e-6

    def __post_init__(self) -> None:
        check_number("ddof", self.ddof, 0, 1)
        check_number("eps", self.eps)

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Standardise rewards within groups."""
        return kernels.zscore(kept_rewards(batch, keep), batch.need("group_ids"), ddof=self.ddof, eps=self.eps)


@dataclass(frozen=True)
class BestOfK(OfGroups, Advantage):
    """Contribution of a rollout to the best of ``k`` rollouts of its group, on average over those k (pass@k).

    ```text
    A_i = mean over S of max_{j in S} r_j - max_{j in S, j != i} r_j,    S: k rollouts of the group, i among them
        = sum_{m=k-1}^{p} C(m, k-1) / C(n-1, k-1) (r_(m+1) - r_(m)),     r_(1) <= ... <= r_(n), i at place p + 1
    ```

    The best of the others does not depend on i, so that ``k A_i`` times the slope of its log-probability is an unbiased
    estimate of the slope of the expected best of k. Zero or more; 0 in a group with fewer than k rewards.
    Reference: Tang et al. 2025 (arXiv:2503.19595), for k equal to the size of the group.
    """

    k: int

    def __post_init__(self) -> None:
        check_number("k", self.k, 2)

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Compare the best of k rollouts with the best of the others among them."""
        rewards = kept_rewards(batch, keep).astype(np.float64)
        return kernels.best_of_k(rewards, batch.need("group_ids"), k=self.k)


@dataclass(frozen=True)
class GroupDecoupled(OfGroups, Advantage):
    """The weighted sum of each reward's z-score in its group, divided by its deviation over the batch (GDPO).

    Reads ``Batch.reward_vectors``, and ``Batch.component_weights`` where they are not all 1; ``ddof`` and ``eps`` are
    those of both deviations.
    Reference: GDPO 2026 (arXiv:2601.05242).
    """

    ddof: int = 1
    eps: float = 1e-4

    def __post_init__(self) -> None:
        check_number("ddof", self.ddof, 0, 1)
        check_number("eps", self.eps)

    @property
    def of_rewards(self) -> bool:
        """False: it reads their parts."""
        return False

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Standardise each reward within groups, and their sum over the batch."""
        vectors = np.where(keep[:, None], batch.need("reward_vectors"), np.nan).astype(np.float64)
        weights = np.ones(vectors.shape[1]) if batch.component_weights is None else batch.component_weights
        columns = [np.ascontiguousarray(column) for column in vectors.T]
        return kernels.gdpo(columns, weights.tolist(), batch.need("group_ids"), ddof=self.ddof, eps=self.eps)


@dataclass(frozen=True)
class LeaveOneOut(OfGroups, Advantage):
    """``r`` less the mean of the others of its group.

    Reference: Ahmadian et al. 2024, RLOO (arXiv:2402.14740).
    """

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Subtract the mean of the others."""
        return kernels.leave_one_out(kept_rewards(batch, keep), batch.need("group_ids"))


@dataclass(frozen=True)
class MeanScaled(OfGroups, Advantage):
    """``(r - mean) / (mean + eps)`` of the group, of rewards that are not negative: a negative one is missing.

    Reference: MaxRL (arXiv:2602.02710).
    """

    eps: float = 1e-8

    def __post_init__(self) -> None:
        check_number("eps", self.eps)

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Centre rewards and divide by the mean."""
        rewards = kept_rewards(batch, keep)
        rewards = np.where(rewards < 0, np.nan, rewards)
        return kernels.maxrl(rewards, batch.need("group_ids"), eps=self.eps)


class OfEachToken(Advantage):
    """A number a token: a discounted return, over a deviation."""

    gamma: float
    ddof: int
    eps: float

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, 0, 1)
        check_number("ddof", self.ddof, 0, 1)
        check_number("eps", self.eps)

    @property
    def per_token(self) -> bool:
        """True."""
        return True


@dataclass(frozen=True)
class Whitened(OfEachToken):
    """The return from each token, whitened over all tokens of the batch.

    ```text
    R_t = r_t + gamma R_{t+1},    A = (R - mean) / sqrt(var + eps)
    ```

    The reward of a rollout is added to its last token, in addition to ``Batch.token_rewards``, of which NaN is none;
    ``ddof`` is 0 or 1.
    Reference: Hu et al. 2025, REINFORCE++ (arXiv:2501.03262).
    """

    gamma: float = 1.0
    ddof: int = 1
    eps: float = 1e-8

    @property
    def of_tokens(self) -> bool:
        """True: in addition to the reward of the rollout."""
        return True

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Compute the advantage of each token."""
        rewards = kept_rewards(batch, keep)
        mask = batch.mask & ~np.isnan(rewards)[:, None]
        advantages = kernels.reinforce_plus_plus(
            _token_rewards(batch, rewards, mask).ravel(),
            row_offsets(mask),
            mask=mask.ravel(),
            gamma=self.gamma,
            ddof=self.ddof,
            eps=self.eps,
        )
        return np.where(np.isnan(rewards)[:, None], np.nan, advantages.reshape(mask.shape))


@dataclass(frozen=True)
class Anchored(OfEachToken):
    """Credit for the trajectory, and ``turn_weight`` times credit for a turn among those from the same state (GiGPO).

    The number of a token is that of its turn. ``gamma`` discounts a turn; ``ddof`` and ``eps`` are of both deviations.
    Reference: Feng et al. 2025, GiGPO (arXiv:2505.10978), eq. 3 and 5 to 8.
    """

    turn_weight: float = 1.0
    gamma: float = 0.95
    ddof: int = 1
    eps: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("turn_weight", self.turn_weight)

    @property
    def of_rewards(self) -> bool:
        """False: it reads those of turns."""
        return False

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Compute the advantage of each token."""
        offsets: NDArray[np.int64] = batch.need("turn_offsets")
        turns: NDArray[np.int64] = batch.need("turns")
        rewards = np.where(np.repeat(keep, np.diff(offsets)), batch.need("turn_rewards"), np.nan)
        how: Any = {"gamma": self.gamma, "step_weight": self.turn_weight, "ddof": self.ddof, "eps": self.eps}
        advantages = kernels.gigpo(rewards, offsets, batch.need("group_ids"), batch.need("state_ids"), **how).joint
        present = batch.mask & (turns >= 0) & (turns < np.diff(offsets)[:, None])
        place = np.where(present, offsets[:-1, None] + turns, 0)
        return np.where(present, advantages[place] if advantages.size else np.nan, np.nan)


class OfPlaces(OfGroups, Advantage):
    """A number of each token from ``Batch.token_rewards``, less that of the rollouts of its group at the same place."""

    @property
    def per_token(self) -> bool:
        """True."""
        return True

    @property
    def of_rewards(self) -> bool:
        """False: it reads those of tokens."""
        return False

    @property
    def of_tokens(self) -> bool:
        """True."""
        return True

    @abstractmethod
    def returns(
        self, rewards: NDArray[np.float64], has_reward: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the number of each token, and which have one; rewards are 0 where there is none. [B, T]"""

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Compute the advantage of each token; the reward of a rollout matters only where it is missing."""
        if batch.rewards is not None:
            keep = keep & ~np.isnan(batch.rewards)
        rewards = batch.need("token_rewards").astype(np.float64)
        has_reward = batch.mask & keep[:, None] & ~np.isnan(np.where(batch.mask, rewards, np.nan))
        returns, present = self.returns(np.where(has_reward, rewards, 0.0), has_reward)
        present = present & batch.mask
        groups = _group_numbers(batch.need("group_ids"))
        sums, sizes = np.zeros((2, int(groups.max(initial=0)) + 1, batch.mask.shape[1]))
        np.add.at(sums, groups, np.where(present, returns, 0.0))
        np.add.at(sizes, groups, present)
        advantages = np.where(present, returns - (sums / np.maximum(sizes, 1))[groups], 0.0)
        return np.where(keep[:, None], advantages, np.nan)


@dataclass(frozen=True)
class TokenCentre(OfPlaces):
    """The reward of the token, less the mean of the rollouts of its group at the same place (SelfDistillDG).

    r is ``Batch.token_rewards``, NaN for a token without a reward, whose advantage is 0.
    Reference: rl-experiments, ``SelfDistillDGLoss``, whose baseline is ``sum_a pi(a)^2``.
    """

    def returns(
        self, rewards: NDArray[np.float64], has_reward: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the rewards themselves."""
        return rewards, has_reward


@dataclass(frozen=True)
class RemainingMean(OfPlaces):
    """The mean reward of the tokens from t on, less that of the rollouts of its group at the same place (DGToken).

    ```text
    R_t = mean of r_s over the tokens s >= t with a reward,    A_t = R_t - mean_group R_t
    ```

    r is ``Batch.token_rewards``, such as 1 for a right token and 0 for a wrong one, NaN for a token without a reward.
    A token that none with a reward follows has the advantage 0.
    Reference: rl-experiments, ``DGTokenCreditLoss``, whose baseline is ``sum_a pi(a)^2``.
    """

    def returns(
        self, rewards: NDArray[np.float64], has_reward: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the mean from each token on."""
        counts = _from_each_on(has_reward.astype(np.float64))
        return _from_each_on(rewards) / np.maximum(counts, 1), counts > 0


@dataclass(frozen=True)
class PrefixTree(OfGroups, Advantage):
    """Credit at the tokens where rollouts of a group part, by the mean reward of those that go on alike (TEMPO).

    ```text
    A_t = (r - mean + V(s_{t+1}) - V(s_t)) / std,    V(s_t) = mean r of the group's rollouts that begin with s_t
    ```

    s_t are the first t tokens of the policy (``Batch.tokens``): what tools say in between is not compared. The
    deviation has ddof 0; a group with one of at most ``least`` has the advantage 0.
    Reference: TEMPO (arXiv:2509.18314), in the form of rl-experiments.
    """

    least: float = 1e-8

    def __post_init__(self) -> None:
        check_number("least", self.least)

    @property
    def per_token(self) -> bool:
        """True."""
        return True

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Compute the advantage of each token, by walking all rollouts token by token."""
        rewards, ids = kept_rewards(batch, keep), batch.need("group_ids")
        present = ~np.isnan(rewards)
        own = batch.mask & present[:, None]
        rows, columns = np.nonzero(own)
        place = (np.cumsum(own, axis=1) - 1)[rows, columns]
        order = np.argsort(place, kind="stable")
        rows, columns, steps = rows[order], columns[order], np.cumsum(np.bincount(place))
        kinds, token = np.unique(batch.need("tokens")[rows, columns], return_inverse=True)
        node = _group_numbers(ids)  # a node is a prefix within a group
        value = _means(node, rewards, present)
        credit = np.where(own, kernels.centre(rewards, ids)[:, None], 0.0)
        for start, end in pairwise([0, *steps.tolist()]):
            row = rows[start:end]
            prefixes, node[row] = np.unique(node[row] * len(kinds) + token[start:end], return_inverse=True)
            after = _means(node[row], rewards[row], present[row])
            credit[row, columns[start:end]] += after - value[row]
            value[row] = after
            if len(prefixes) == len(row):  # all have parted: from here on a value is the reward of one rollout
                break
        deviations = group_deviations(rewards, ids)[:, None]
        unequal = deviations > self.least
        advantages = np.where(unequal, credit / np.where(unequal, deviations, 1.0), 0.0)
        return np.where(present[:, None], advantages, np.nan)


def _group_numbers(group_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers of groups from 0; a rollout in no group has one of its own. [B]"""
    distinct = np.where(group_ids >= 0, group_ids, -1 - np.arange(len(group_ids)))
    return np.unique(distinct, return_inverse=True)[1].astype(np.int64)


def _from_each_on(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum from each token to the last one. [B, T]"""
    return np.cumsum(values[:, ::-1], axis=1)[:, ::-1]


def _means(nodes: NDArray[np.int64], values: NDArray[np.float64], present: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the mean of the values that are present at the node of each. [B]"""
    counts = np.bincount(nodes, present.astype(np.float64))
    return (np.bincount(nodes, np.where(present, values, 0.0)) / np.maximum(counts, 1))[nodes]


def kept_rewards(batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the rewards of the rollouts that a filter kept, NaN for the others."""
    return np.where(keep, batch.need("rewards"), np.nan).astype(np.float64)


def row_offsets(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the offsets of the rows of a padded array, flattened to one column."""
    rows, tokens = mask.shape
    return np.arange(0, rows * tokens + 1, max(tokens, 1), dtype=np.int64)


def _token_rewards(batch: Batch, rewards: NDArray[np.float64], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    by_token = np.zeros(mask.shape)
    if batch.token_rewards is not None:
        by_token = np.nan_to_num(np.where(mask, batch.token_rewards, 0.0), nan=0.0)
    last = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
    rows = np.flatnonzero(mask.any(1))
    by_token[rows, last[rows]] += rewards[rows]
    return by_token
