"""Ratio of the policy to the behaviour policy, and bounds on its update.

| axis | points |
|---|---|
| level of the ratio (``level``) | token, turn, sequence, sequence-product, sequence-token |
| bound on the update (``clip``) | `Clip`, `DualClip`, `TwoSided`, `Cap`, `NoClip` |
| aggregation of tokens (``aggregate``) | `SequenceMean`, `TokenMean`, `ConstantLength`, `SequenceSum` |

`policy_loss` combines the three axes: it returns the loss and its exact derivative by each log-probability, from which
a framework can backpropagate (multiply by ``logp`` and sum, with the coefficients held constant). `token_weights` are
the aggregate alone, for other terms such as a penalty on the divergence; `token_log_ratio` and `sequence_log_ratio` are
the ratios alone. The points are those of `karl_fast.objective`.
"""

from __future__ import annotations

from karl_fast._core import sequence_log_ratio, token_log_ratio
from karl_fast.objective.axes.aggregate import ConstantLength, SequenceMean, SequenceSum, TokenMean
from karl_fast.objective.axes.clip import Cap, Clip, DualClip, NoClip, TwoSided
from karl_fast.ratio.loss import PolicyLoss, policy_loss, token_weights

__all__ = [
    "Cap",
    "Clip",
    "ConstantLength",
    "DualClip",
    "NoClip",
    "PolicyLoss",
    "SequenceMean",
    "SequenceSum",
    "TokenMean",
    "TwoSided",
    "policy_loss",
    "sequence_log_ratio",
    "token_log_ratio",
    "token_weights",
]
