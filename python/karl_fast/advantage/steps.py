"""Credit for the steps of a trajectory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from karl_fast import _core

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from karl_fast.typing import Integers, Reals


@dataclass(frozen=True, eq=False)
class Gigpo:
    """Result of `gigpo`, per step.

    Attributes:
        episode: the advantage of the trajectory within its group. [U]
        step: the advantage of the step among those of its group that begin in the same state. [U]
        joint: episode + step_weight * step. [U]
    """

    episode: NDArray[np.float64]
    step: NDArray[np.float64]
    joint: NDArray[np.float64]


def gigpo(
    rewards: Reals,
    offsets: Integers,
    group_ids: Integers | None,
    state_ids: Integers,
    *,
    group_offsets: Integers | None = None,
    gamma: float = 0.95,
    step_weight: float = 1.0,
    unit: Literal["trajectory", "step"] = "trajectory",
    norm: Literal["mean_std", "mean"] = "mean_std",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Gigpo:
    """Compute the advantages of trajectories, and of steps among those from the same state (GiGPO).

        R_k = r_k + gamma R_{k+1},    A^E = norm of sum_k r_k in the group,    A^S_k = norm of R_k among equal states
        A_k = A^E + step_weight A^S_k,    norm(x) = (x - mean) / (std + eps), or x - mean

    A state is shared within a group only. A step from a state of its own has A^S = 0, a trajectory alone in its group
    A^E = 0; a missing reward makes its trajectory missing.

    Args:
        rewards: the reward of each step, of all trajectories end to end. [U]
        offsets: where the steps of each trajectory begin. [N + 1]
        group_ids: the group of each trajectory, or names in an Arrow column; None where offsets say it. [N]
        state_ids: the state each step begins in, negative for one like no other: numbers, names in an Arrow column,
            `state_ids` of observations, or clusters of the caller. [U]
        group_offsets: instead of ids, where the trajectories of each group begin. [P + 1]
        gamma: the discount of a step.
        step_weight: the paper's omega.
        unit: what the statistics of A^E count: each trajectory once, as the paper has it, or each step once, as
            ARLArena and verl-agent do by default, where longer trajectories weigh more.
        norm: True to divide both by the standard deviation.
        ddof, eps: of that deviation.

    Returns:
        The advantages of the trajectory, of the step, and of both, a step.

    Raises:
        ArgumentError: an infinite reward, columns that differ, a gamma outside 0 to 1, a negative eps.
        UsageError: both or neither of group_ids and group_offsets; a unit or norm that there is not.
        DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.

    Reference: Feng et al. 2025 (arXiv:2505.10978), equations 3 and 5 to 8; SAMPO (arXiv:2602.21534) has
    gamma 0.95, step_weight 1 and mean_std.
    """
    how: Any = {"gamma": gamma, "step_weight": step_weight, "unit": unit, "norm": norm, "ddof": ddof, "eps": eps}
    return Gigpo(**_core.gigpo(rewards, offsets, group_ids, state_ids, group_offsets=group_offsets, **how))


def state_ids(observations: Iterable[str | bytes]) -> NDArray[np.int64]:
    """Number observations in order of appearance, equal ones with the same number.

    Args:
        observations: the state each step begins in, as the policy saw it. [U]

    Returns:
        The numbers, for `gigpo`. [U]

    Raises:
        TypeError: an observation that cannot be hashed.

    Reference: Feng et al. 2025 (arXiv:2505.10978), section 4.2.
    """
    numbers: dict[str | bytes, int] = {}
    return np.fromiter((numbers.setdefault(observation, len(numbers)) for observation in observations), dtype=np.int64)
