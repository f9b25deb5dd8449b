"""Axis: a bonus on the entropy of the policy, which the call is given for each token."""

from __future__ import annotations

from dataclasses import dataclass

from karl_fast.objective.axes.point import Point, check_number

__all__ = ["Entropy", "EntropyBonus", "NoEntropy"]


class Entropy(Point):
    """Bonus on the entropy of the policy."""

    coef: float = 0.0


@dataclass(frozen=True)
class NoEntropy(Entropy):
    """No bonus."""


@dataclass(frozen=True)
class EntropyBonus(Entropy):
    """``-coef * H_t`` in the loss of each token, H_t the entropy of the policy at it in nats.

    Reference: Williams & Peng 1991; Schulman et al. 2017, PPO (arXiv:1707.06347), eq. 9.
    """

    coef: float

    def __post_init__(self) -> None:
        check_number("coef", self.coef)
