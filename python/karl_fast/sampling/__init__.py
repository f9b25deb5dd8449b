"""Draws, samples that totals are estimated from, and states of draws that shards merge.

===================================  ================================================================================
draw, draw_with_inclusion            k rows without replacement; with what an estimate from them divides by
inclusion                            the probability of each row to be among k, over all draws
draw_priority, draw_var_opt          k rows from which the total weight of any set can be estimated
threshold                            the threshold of fixed-size sampling in proportion to weight
Alias                                many draws with replacement by one table
reservoir, weighted_reservoir        one pass over rows, with skips
reservoir_of, weighted_reservoir_of  the same over any Python iterable
TopK, BottomK, Priority, VarOpt      draws that are filled in parts and merged
Moments                              count, mean and variance that are filled in parts and merged
===================================  ================================================================================

Log-weights are taken where only proportions matter, weights where totals do.
"""

from karl_fast.sampling.draw import Alias, draw, reservoir, reservoir_of, weighted_reservoir, weighted_reservoir_of
from karl_fast.sampling.estimation_samples import (
    DrawnRows,
    Estimated,
    draw_priority,
    draw_var_opt,
    draw_with_inclusion,
    inclusion,
    threshold,
)
from karl_fast.sampling.mergeable import BottomK, Held, Moments, Priority, TopK, VarOpt

__all__ = [
    "Alias",
    "BottomK",
    "DrawnRows",
    "Estimated",
    "Held",
    "Moments",
    "Priority",
    "TopK",
    "VarOpt",
    "draw",
    "draw_priority",
    "draw_var_opt",
    "draw_with_inclusion",
    "inclusion",
    "reservoir",
    "reservoir_of",
    "threshold",
    "weighted_reservoir",
    "weighted_reservoir_of",
]
