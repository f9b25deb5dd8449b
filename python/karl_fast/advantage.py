"""Who gets credit: advantages from rewards.

| function | formula |
|---|---|
| `centre` | r - mean of the group (Dr. GRPO) |
| `zscore` | (r - mean) / (std + eps) over group, batch or everything (GRPO) |
| `leave_one_out` | r - mean of the others (RLOO) |
| `maxrl` | (r - mean) / (mean + eps) |
| `gdpo` | several rewards, each a z-score before they are added |
| `shrunk` | against a mean that is shrunk to that of all rows |
| `partition_baseline` | r - (1/b) log mean exp(b r) |
| `fixed_baseline`, `ema_baseline` | against a number; against a running mean |
| `whiten`, `reinforce_plus_plus`, `reinforce_plus_plus_baseline` | over all tokens |
| `discounted_returns`, `gigpo`, `empg` | steps of trajectories |
| `by_convention` | what another trainer does, defects included |

Groups come as ``group_ids`` in any order, or as ``offsets`` of groups end to end; rewards are float64 or float32,
results float64. A group whose rewards are all equal has advantage exactly 0, and so has a group of one; a missing
reward stays missing. Where a function departs from that, it says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from karl_fast import _core
from karl_fast._core import (
    by_convention,
    centre,
    discounted_returns,
    empg,
    fixed_baseline,
    gdpo,
    leave_one_out,
    maxrl,
    partition_baseline,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
    shrunk,
    whiten,
    zscore,
)
from karl_fast.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from karl_fast.protocols import Integers, Reals

__all__ = [
    "CONVENTIONS",
    "Convention",
    "Ema",
    "EmaBaseline",
    "Gigpo",
    "by_convention",
    "centre",
    "discounted_returns",
    "ema_baseline",
    "empg",
    "fixed_baseline",
    "gdpo",
    "gigpo",
    "leave_one_out",
    "maxrl",
    "partition_baseline",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "shrunk",
    "state_ids",
    "whiten",
    "zscore",
]


@dataclass(frozen=True)
class Convention:
    """What a trainer does with the rewards of a group, every choice stated.

    Attributes:
        name: what :func:`by_convention` is asked for.
        ddof: taken from the count under the variance; None where the trainer only centres.
        eps: added to the standard deviation.
        singleton: a group with one present reward: ``zero``, ``raw`` (the reward itself over 1 + eps) or ``nan``.
        missing: a missing reward: ``zero`` (left out, its own advantage 0), ``poison`` (its whole group is NaN) or
            ``refused`` (the trainer stops, and so does :func:`by_convention`).
        single: the statistics of float32 rewards: ``torch`` (`torch.mean` and `torch.std` of a group), ``torch_rows``
            (of a table with a row a group), ``torch_nan`` (`torch.nanmean`, float32 throughout), or ``float64`` (the
            trainer's rounding is not followed).
        source: repository, commit and lines.
    """

    name: str
    ddof: int | None
    eps: float
    singleton: str
    missing: str
    single: str
    source: str


CONVENTIONS = {facts["name"]: Convention(**facts) for facts in _core.conventions()}


@dataclass(frozen=True, eq=False)
class Ema:
    """The running baselines of :func:`ema_baseline`.

    Attributes:
        ids: the groups that were seen, in order of appearance. [P]
        baselines: the baseline of each. [P]
    """

    ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    baselines: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, eq=False)
class EmaBaseline:
    """What :func:`ema_baseline` gives.

    Attributes:
        advantages: r_i - b_g; NaN where the reward or the group is missing. [B]
        state: the baselines after the last row, for the next call.
    """

    advantages: NDArray[np.float64]
    state: Ema


def ema_baseline(
    rewards: Reals,
    group_ids: Integers,
    *,
    alpha: float = 0.1,
    start: float = 0.5,
    state: Ema | None = None,
) -> EmaBaseline:
    """Reward less a running mean of the rewards of its group before it.

        A_i = r_i - b_g,    then  b_g <- (1 - alpha) b_g + alpha r_i

    Rows are taken in the order given, which is time. Rows in two calls, the second with the state of the first, give
    what they give in one. The defaults are those of karl 1.0.0, whose skill weight is b_g + 0.5.

    Args:
        rewards: as in :func:`centre`. [B]
        group_ids: the group of each row, int64, negative for none. [B]
        alpha: the share of the newest reward, 0 to 1.
        start: the baseline of a group that the state does not know.
        state: what an earlier call gave.

    Returns:
        The advantages, and the state behind the last row.

    Raises:
        ArgumentError: an infinite reward, an alpha outside 0 to 1, a start that is not finite, or a state that names a
            group twice or is none.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    Reference: karl 1.0.0, ``weight_updater.py``.
    """
    before = Ema() if state is None else state
    if not isinstance(before, Ema):
        raise ArgumentError(f"state is a {type(before).__name__}, wanted an Ema or None")
    found = _core.ema_baseline(rewards, group_ids, alpha=alpha, start=start, ids=before.ids, baselines=before.baselines)
    return EmaBaseline(found["advantages"], Ema(found["ids"], found["baselines"]))


@dataclass(frozen=True, eq=False)
class Gigpo:
    """What :func:`gigpo` gives, a step.

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
    group_ids: Integers,
    state_ids: Integers,
    *,
    gamma: float = 0.95,
    step_weight: float = 1.0,
    unit: Literal["trajectory", "step"] = "trajectory",
    norm: Literal["mean_std", "mean"] = "mean_std",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Gigpo:
    """Credit for a trajectory, and for each of its steps among those from the same state (GiGPO).

        R_k = r_k + gamma R_{k+1},    A^E = norm of sum_k r_k in the group,    A^S_k = norm of R_k among equal states
        A_k = A^E + step_weight A^S_k,    norm(x) = (x - mean) / (std + eps), or x - mean

    A state is shared within a group only. A step from a state of its own has A^S = 0, a trajectory alone in its group
    A^E = 0; a missing reward makes its trajectory missing.

    Args:
        rewards: the reward of each step, of all trajectories end to end. [U]
        offsets: where the steps of each trajectory begin. [N + 1]
        group_ids: the group of each trajectory, or names in an Arrow column. [N]
        state_ids: the state each step begins in, negative for one like no other: numbers, names in an Arrow column,
            :func:`state_ids` of observations, or clusters of the caller. [U]
        gamma: the discount of a step.
        step_weight: the paper's omega.
        unit: what the statistics of A^E count: each trajectory once, as the paper has it, or each step once, as
            ARLArena and verl-agent do by default, where longer trajectories weigh more.
        norm: whether both are divided by the standard deviation.
        ddof, eps: of that deviation.

    Returns:
        The advantages of the trajectory, of the step, and of both, a step.

    Raises:
        ArgumentError: an infinite reward, columns that differ, a gamma outside 0 to 1, a negative eps.
        UsageError: a unit or norm that there is not.
        DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.

    Reference: Feng et al. 2025 (arXiv:2505.10978), equations 3 and 5 to 8; SAMPO (arXiv:2602.21534) has
    gamma 0.95, step_weight 1 and mean_std.
    """
    how: Any = {"gamma": gamma, "step_weight": step_weight, "unit": unit, "norm": norm, "ddof": ddof, "eps": eps}
    return Gigpo(**_core.gigpo(rewards, offsets, group_ids, state_ids, **how))


def state_ids(observations: Iterable[str | bytes]) -> NDArray[np.int64]:
    """Number observations so that equal ones, and no others, have one number, in order of appearance.

    Args:
        observations: the state each step begins in, as the policy saw it. [U]

    Returns:
        The numbers, for :func:`gigpo`. [U]

    Raises:
        TypeError: an observation that cannot be hashed.

    Reference: Feng et al. 2025 (arXiv:2505.10978), section 4.2.
    """
    numbers: dict[str | bytes, int] = {}
    return np.fromiter((numbers.setdefault(seen, len(numbers)) for seen in observations), dtype=np.int64)
