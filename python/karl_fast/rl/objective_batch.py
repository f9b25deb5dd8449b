"""Conversion of rollouts to the inputs of an objective, before the gradient line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.modeling.external_objective import scatter_tokens
from karl_fast.objective.axes.advantage import Anchored, Derived
from karl_fast.objective.axes.balance import ReferencePolicy
from karl_fast.objective.axes.empg import EntropyModulated
from karl_fast.objective.axes.kl import Divergence, NoKL
from karl_fast.objective.axes.kondo_gate import Gated, TopGated
from karl_fast.objective.axes.ratio import TurnRatio
from karl_fast.objective.batch import Batch
from karl_fast.objective.families.target_policy import TargetPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from karl_fast.objective.base import Objective
    from karl_fast.rl.rollout import Packed, Rollout


def needs_reference(objective: Objective) -> bool:
    """Return whether a point of the objective reads the reference policy."""
    points = objective.axes().values()
    return any(
        isinstance(point, ReferencePolicy) or (isinstance(point, Divergence) and not isinstance(point, NoKL))
        for point in points
    )


def reads_old_logp(objective: Objective) -> bool:
    """Return whether credit, a filter or a target depends on log-probabilities of the behaviour policy."""
    if isinstance(objective, TargetPolicy):
        return True
    return any(
        isinstance(point, Gated | TopGated) or getattr(point, "in_reward", False) for point in _points(objective)
    )


def _points(objective: Objective) -> Iterator[Any]:
    """Yield the points of the axes, and the advantages that others are computed from."""
    for point in objective.axes().values():
        yield point
        while isinstance(point, Derived):
            point = point.advantage
            yield point


def build_batch(
    rollouts: Sequence[Rollout],
    packed: Packed,
    logp_old: NDArray[np.float32] | None,
    logp_ref: NDArray[np.float32] | None,
    *,
    version: int,
    seed: int,
    turns: bool,
) -> Batch:
    """Return rollouts as a batch of `karl_fast.objective`.

    Args:
        rollouts: with their rewards.
        packed: the same, padded.
        logp_old, logp_ref: [B, T]
        version: number of steps that the policy has taken.
        seed: of what an axis draws.
        turns: True to include the columns of turns.
    """
    return Batch(
        mask=packed.mask,
        rewards=np.array([rollout.reward for rollout in rollouts]),
        outcomes=np.array([rollout.outcome for rollout in rollouts]),
        group_ids=np.array([rollout.group for rollout in rollouts], dtype=np.int64),
        logp_old=logp_old,
        logp_ref=logp_ref,
        entropies=scatter_tokens(np.concatenate([rollout.entropy for rollout in rollouts]), packed.mask),
        truncated=np.array([rollout.truncated for rollout in rollouts]),
        ages=np.array([version - rollout.version for rollout in rollouts], dtype=np.int64),
        seed=seed,
        **({"turns": packed.turns} | _join_turns(rollouts) if turns else {}),
    )


def _join_turns(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Return turns, concatenated; the reward of a rollout is added to its last turn, beside the rewards of turns."""
    rewards, states = [], []
    for rollout in rollouts:
        given = np.array(rollout.turn_rewards, dtype=np.float64)[: len(rollout.states)]
        given = np.pad(given, (0, len(rollout.states) - len(given)))
        if given.size:
            given[-1] += rollout.reward
        rewards.append(given)
        states += [f"{rollout.group} {state}" for state in rollout.states]
    _, numbers = np.unique(np.array(states, dtype=np.str_), return_inverse=True)
    return {
        "turn_rewards": np.concatenate(rewards),
        "turn_offsets": np.cumsum([0, *map(len, rewards)], dtype=np.int64),
        "state_ids": numbers.astype(np.int64),
    }


def reads_turns(objective: Objective) -> bool:
    """Return whether it gives credit by turn, or has a ratio by turn."""
    return any(isinstance(point, Anchored | EntropyModulated | TurnRatio) for point in _points(objective))
