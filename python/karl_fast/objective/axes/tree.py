"""Axis: how a tree of rollouts is learned from: a root, the rollouts that it called, those that they called.

Only the root has a reward. It is compared with the other roots of its group, filters look at it alone, and every
rollout of the tree has its advantage. What a rollout adds to the loss, penalties included, is multiplied by a weight;
means over sequences are means over trees.

| point | weight of a rollout | a tree has in all |
|---|---|---|
| `TreeTokens` | its tokens / those of its tree, under `SequenceMean`; else 1 | what one rollout of its tokens has |
| `TreeCalls` | 1 for the root, 1 / (number of the others) for each other one | 1 alone, 2 with others |
| `RootOnly` | 1 for the root, 0 for each other one | 1 |

The law of `TreeTokens`: a tree counts as one rollout with the tokens of all its rollouts. Where each token has a ratio
of its own, its loss and its gradient then depend neither on who called whom, nor on which rollout a token is in. A
batch without ``parents`` has no trees, and every point is the same for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from karl_fast import _core
from karl_fast.objective.axes.aggregate import SequenceMean
from karl_fast.objective.axes.point import Point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.axes.aggregate import Aggregate

__all__ = ["RootOnly", "Tree", "TreeCalls", "TreeTokens"]


class Tree(Point):
    """Credit within a tree of rollouts."""

    def weights(self, parents: NDArray[np.int64], mask: NDArray[np.bool_], aggregate: Aggregate) -> NDArray[np.float64]:
        """Return what each rollout counts; 0 for one that is not learned from. [B], [B, T] -> [B]"""
        raise NotImplementedError


@dataclass(frozen=True)
class TreeTokens(Tree):
    """A tree counts as one rollout with the tokens of all its rollouts."""

    def weights(self, parents: NDArray[np.int64], mask: NDArray[np.bool_], aggregate: Aggregate) -> NDArray[np.float64]:
        """Return the share of its tree that each rollout has where a mean is taken over a sequence; else 1."""
        if not isinstance(aggregate, SequenceMean):
            return np.ones(len(parents))  # a sum, or a mean over all tokens, is that of the tokens wherever they are
        return _segment_weights(parents, mask, "tokens")


@dataclass(frozen=True)
class TreeCalls(Tree):
    """The root counts 1, and all others together 1: a tree with calls counts twice.

    Reference: rl-experiments @667c1a8, ``rlm_grpo``, where a rollout is several segments that share its weight.
    """

    def weights(self, parents: NDArray[np.int64], mask: NDArray[np.bool_], aggregate: Aggregate) -> NDArray[np.float64]:
        """Return 1 for a root, and one over the number of the other rollouts of its tree for each of those."""
        return _segment_weights(parents, mask, "calls")


@dataclass(frozen=True)
class RootOnly(Tree):
    """The rollouts that were called are not learned from."""

    def weights(self, parents: NDArray[np.int64], mask: NDArray[np.bool_], aggregate: Aggregate) -> NDArray[np.float64]:
        """Return 1 for a root, and 0 for the others."""
        return (parents < 0).astype(np.float64)


def _segment_weights(
    parents: NDArray[np.int64], mask: NDArray[np.bool_], credit: Literal["tokens", "calls"]
) -> NDArray[np.float64]:
    """Return the weights of rollouts of one segment each."""
    rows, tokens = np.arange(len(parents), dtype=np.int64), mask.sum(axis=1, dtype=np.int64)
    return _core.segment_weights(parents, rows, tokens, credit=credit)
