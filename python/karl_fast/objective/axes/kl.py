"""Axis: the penalty on the divergence from the reference.

With d_t = logp_t - logp_ref_t:

| point | adds | gradient on average over the policy's own tokens |
|---|---|---|
| `NoKL` | nothing | |
| `K1InReward`, `K1PerToken` | -coef d to the reward | that of the reverse KL |
| `K2` | coef d^2 / 2 to the loss | that of the reverse KL |
| `K3` | coef (exp(-d) + d - 1) to the loss | that of the forward KL: exp(-d) is unbounded |
| `K1` | coef d to the loss | 0: refused |
| `ReverseKL` | coef KL(policy, reference) of the whole vocabulary to the loss | exact |
| `ForwardKL` | coef KL(reference, policy) of the whole vocabulary to the loss | exact |
| `DriftPenalty` | coef (logp_t - logp_old_t)^2 to the loss: of the behaviour policy, not of the reference | |

Where the behaviour policy drew the tokens, ``by_ratio`` multiplies by exp(logp - logp_old): k3 with its gradient,
which is then that of the reverse KL; k2 without.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from karl_fast import kl as kernels
from karl_fast.objective.axes.advantage import row_offsets
from karl_fast.objective.axes.point import Point, check_number

if TYPE_CHECKING:
    from karl_fast.objective.batch import Batch

__all__ = ["K1", "K2", "K3", "Divergence", "DriftPenalty", "ForwardKL", "K1InReward", "K1PerToken", "NoKL", "ReverseKL"]


class Divergence(Point):
    """Penalty on the divergence from the reference: in the reward, in the loss, or none."""

    in_reward: ClassVar[bool] = False
    in_loss: ClassVar[bool] = False
    direction: ClassVar[Literal["reverse", "forward"] | None] = None
    kind: ClassVar[str] = "none"

    def shaped(self, batch: Batch) -> Batch:
        """Return the batch with the penalty in its rewards; it carries no gradient."""
        return batch


@dataclass(frozen=True)
class NoKL(Divergence):
    """No penalty."""


@dataclass(frozen=True)
class Penalty(Divergence):
    """Penalty with a coefficient."""

    coef: float

    def __post_init__(self) -> None:
        check_number("coef", self.coef)


@dataclass(frozen=True)
class K1(Penalty):
    """``coef * d`` in the loss; its gradient is 0 on average, and no objective accepts it."""


@dataclass(frozen=True)
class K1InReward(Penalty):
    """``r - coef * sum of d`` over the rollout, under the behaviour policy that drew it.

    Reference: Ziegler et al. 2019 (arXiv:1909.08593).
    """

    in_reward: ClassVar[bool] = True

    def shaped(self, batch: Batch) -> Batch:
        """Subtract the penalty from the rewards of rollouts."""
        rewards = kernels.in_reward(
            batch.need("rewards"),
            np.ravel(batch.need("logp_old")),
            np.ravel(batch.need("logp_ref")),
            row_offsets(batch.mask),
            kl_coef=self.coef,
            mask=batch.mask.ravel(),
        )
        return replace(batch, rewards=rewards)


@dataclass(frozen=True)
class K1PerToken(Penalty):
    """``-coef * d`` as the reward of each token, for `Whitened`, which sums it in its returns.

    Reference: Hu et al. 2025, REINFORCE++ (arXiv:2501.03262).
    """

    in_reward: ClassVar[bool] = True

    def shaped(self, batch: Batch) -> Batch:
        """Subtract the penalty from the rewards of tokens."""
        rewards = np.zeros(batch.mask.shape) if batch.token_rewards is None else batch.token_rewards
        old, ref = (np.where(batch.mask, batch.need(name), 0.0) for name in ("logp_old", "logp_ref"))
        return replace(batch, token_rewards=rewards - self.coef * (old - ref))


@dataclass(frozen=True)
class K2(Penalty):
    """``coef * d^2 / 2`` in the loss; ``by_ratio`` times the ratio as a constant.

    Reference: Schulman 2020, Approximating KL Divergence.
    """

    in_loss: ClassVar[bool] = True
    kind: ClassVar[str] = "k2"
    by_ratio: bool = False


@dataclass(frozen=True)
class K3(Penalty):
    """``coef * (exp(-d) + d - 1)`` in the loss; ``by_ratio`` times the ratio, gradient and all (DeepSeek-V3.2).

    Reference: Schulman 2020, Approximating KL Divergence; Shao et al. 2024, GRPO (arXiv:2402.03300).
    """

    in_loss: ClassVar[bool] = True
    kind: ClassVar[str] = "k3"
    by_ratio: bool = False


@dataclass(frozen=True)
class DriftPenalty(Penalty):
    """``coef * (logp - logp_old)^2`` in the loss of each token; needs no reference.

    Under `RolloutAnchor` it is of the policy that drew.
    Reference: Kimi team 2026, K2.5 (arXiv:2602.02276); prime-rl's ``kl_tau``.
    """

    coef: float


@dataclass(frozen=True)
class ReverseKL(Penalty):
    """``coef * KL(policy, reference)`` of a token's full distribution, which the call is given as ``divergence``.

    Reference: Gu et al. 2024, MiniLLM (arXiv:2306.08543).
    """

    direction: ClassVar[Literal["reverse", "forward"] | None] = "reverse"
    coef: float


@dataclass(frozen=True)
class ForwardKL(Penalty):
    """``coef * KL(reference, policy)`` of a token's full distribution, which the call is given as ``divergence``.

    Reference: Hinton et al. 2015, distillation (arXiv:1503.02531).
    """

    direction: ClassVar[Literal["reverse", "forward"] | None] = "forward"
