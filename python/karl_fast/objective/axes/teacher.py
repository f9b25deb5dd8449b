"""Axis: how the policy is pulled to a teacher at each token of its own rollouts.

With p the policy's distribution of a token and q the teacher's, d_t = logp_old_t - logp_teacher_t of the token drawn:

| point | adds | reads |
|---|---|---|
| `TeacherReverse` | coef sum_v p (log p - log q) to the loss | the teacher's whole distribution |
| `TeacherForward` | coef sum_v q (log q - log p) to the loss | the same |
| `TeacherTopK` | one of the two, summed over the k likeliest tokens | the same |
| `TeacherSampled` | -coef d_t to the advantage of the token | the teacher's log-probability of the token |

On average over the tokens that the policy draws, `TeacherSampled` has the gradient of `TeacherReverse` at the first
step; its variance is larger, and it costs no second head. The term is of each token given those before it: what a token
does to the divergence of later ones is left out by all four, as in Thinking Machines' post.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from karl_fast.errors import ArgumentError
from karl_fast.objective.axes.advantage import Advantage
from karl_fast.objective.axes.point import Point, check_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch

__all__ = ["NoReward", "TeacherForward", "TeacherReverse", "TeacherSampled", "TeacherSignal", "TeacherTopK"]

Direction = Literal["reverse", "forward"]

SUPPORTS = ("teacher", "student", "intersection")


class TeacherSignal(Point):
    """Pull to a teacher: in the loss, or in the advantages of tokens."""

    in_reward: ClassVar[bool] = False
    coef: float

    @property
    def reads_divergence(self) -> Direction | None:
        """Direction of the divergence that a model has to compute at each token; None for none."""
        return None

    def advantages(self, batch: Batch) -> NDArray[np.float64] | float:
        """Return what is added to the advantage of each token. [B, T]"""
        return 0.0


@dataclass(frozen=True)
class Weighed(TeacherSignal):
    """Pull with a coefficient: 1 where it is all there is to learn from."""

    coef: float = 1.0

    def __post_init__(self) -> None:
        check_number("coef", self.coef, above=True)


@dataclass(frozen=True)
class TeacherReverse(Weighed):
    """``coef * KL(policy, teacher)`` of a token's whole distribution: seeks the likeliest of the teacher's ways.

    Reference: Agarwal et al. 2023, GKD (arXiv:2306.13649); rl-experiments, ``OPDReverseKL``.
    """

    @property
    def reads_divergence(self) -> Direction | None:
        """Reverse."""
        return "reverse"


@dataclass(frozen=True)
class TeacherForward(Weighed):
    """``coef * KL(teacher, policy)`` of a token's whole distribution: covers all of the teacher's ways.

    Reference: Agarwal et al. 2023, GKD (arXiv:2306.13649).
    """

    @property
    def reads_divergence(self) -> Direction | None:
        """Forward."""
        return "forward"


@dataclass(frozen=True)
class TeacherTopK(Weighed):
    """A divergence summed over the k likeliest tokens.

    Attributes:
        coef: factor of the divergence.
        k: number of tokens.
        support: whose likeliest tokens: ``teacher``, ``student``, or the ``intersection`` of both.
        direction: ``reverse`` or ``forward``.
        renormalise: True to compare the distributions given that the token is among the k. Without, terms of the whole
            distributions are summed: the sum may be negative, and pushes probability out of the support where the
            policy has more of it there than the teacher.

    Reference: rl-experiments, ``OPDTopK`` (not renormalised).
    """

    k: int = 20
    support: str = "teacher"
    direction: str = "reverse"
    renormalise: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("k", self.k, 1)
        if not isinstance(self.k, int):
            raise ArgumentError(f"k is {self.k}, wanted a whole number")
        for name, value, wanted in (
            ("support", self.support, SUPPORTS),
            ("direction", self.direction, ("reverse", "forward")),
        ):
            if value not in wanted:
                raise ArgumentError(f"{name} is {value!r}, wanted one of {', '.join(wanted)}")

    @property
    def reads_divergence(self) -> Direction | None:
        """Its direction."""
        return "forward" if self.direction == "forward" else "reverse"


@dataclass(frozen=True)
class TeacherSampled(Weighed):
    """``coef * (logp_teacher - logp_old)`` as the advantage of the token drawn, within ``limit`` in size.

    Its mean over draws is ``-coef * KL(policy, teacher)``. Without a limit, a token that the teacher rules out has an
    advantage without bound.
    Reference: Thinking Machines 2025, On-Policy Distillation; rl-experiments, ``OPDPG``.
    """

    in_reward: ClassVar[bool] = True
    limit: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("limit", self.limit, above=True)

    def advantages(self, batch: Batch) -> NDArray[np.float64] | float:
        """Return the log-ratio of teacher and policy at each token. [B, T]"""
        teacher, old = (
            np.where(batch.mask, batch.need(name), 0.0).astype(np.float64) for name in ("logp_teacher", "logp_old")
        )
        return np.asarray(self.coef * np.clip(teacher - old, -self.limit, self.limit))


@dataclass(frozen=True)
class NoReward(Advantage):
    """Advantage 0: the reward is logged and not learned from; a rollout without one counts like any other."""

    @property
    def of_rewards(self) -> bool:
        """False."""
        return False

    def __call__(self, batch: Batch, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return 0 for each rollout."""
        return np.zeros(len(batch.mask))
