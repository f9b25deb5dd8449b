"""Diversity of a set of rollouts, and the part of it that a draw keeps.

=============================  =======================================================================
of sequences (tokens, tools)   `distinct_n`, `self_bleu`, `vendi_ngrams`
of vectors, of a similarity    `vendi`, `vendi_similarity`
of categories                  `entropy`, `evenness`, `effective_number`, `gini`, `coverage`
of inputs and outputs          `mutual_information`
of attempts                    `pass_at_k`, `best_at_k`
before and after a draw        `profile`, `compare`
=============================  =======================================================================

A measure without data is NaN.
"""

from karl_fast._core import (
    best_at_k,
    coverage,
    distinct_n,
    effective_number,
    entropy,
    evenness,
    gini,
    pass_at_k,
    self_bleu,
)
from karl_fast.diversity.profile import Comparison, Information, Profile, Rollouts, compare, mutual_information, profile
from karl_fast.diversity.vendi import vendi, vendi_ngrams, vendi_similarity

__all__ = ["distinct_n", "self_bleu", "vendi_ngrams"]
__all__ += ["vendi", "vendi_similarity"]
__all__ += ["coverage", "effective_number", "entropy", "evenness", "gini"]
__all__ += ["Information", "mutual_information"]
__all__ += ["best_at_k", "pass_at_k"]
__all__ += ["Comparison", "Profile", "Rollouts", "compare", "profile"]
