"""Intervals of means over prompts, and tests of paired differences.

| name | result |
|---|---|
| :func:`bootstrap_mean` | a bootstrap interval of a mean |
| :func:`sign_flip`, :func:`sign_flip_limit` | the sign-flip test of paired differences, and its confidence limit |
| :class:`Attempts` | n attempts at each prompt: mean reward, pass@k, best@k, solved, lengths, variety |
| :func:`measure`, :class:`Measure` | a measure over prompts, with its interval |
| :func:`paired_differences`, :class:`PairedDifference` | the difference of two policies on the same prompts |
"""

from karl_fast._core import bootstrap_mean, sign_flip, sign_flip_limit
from karl_fast.resampling.comparison import Attempts, Measure, PairedDifference, measure, paired_differences

__all__ = [
    "Attempts",
    "Measure",
    "PairedDifference",
    "bootstrap_mean",
    "measure",
    "paired_differences",
    "sign_flip",
    "sign_flip_limit",
]
