"""Naive twins of the objectives in MLX: each point as its formula is written, with gradients by autodiff.

Two of them differ from the kernels in what they may do, not in what they mean: sums are over dense arrays, and groups
are pairs of rollouts.
"""

from tests.unit.objective.naive.families import loss

__all__ = ["loss"]
