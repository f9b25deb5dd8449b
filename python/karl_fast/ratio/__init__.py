"""How far the policy has moved since it wrote the tokens, and what bounds the update for it.

| question | points |
|---|---|
| over what is the ratio taken (``level``) | token, turn, sequence, sequence-product, sequence-token |
| what bounds an update (``clip``) | `Clip`, `DualClip`, `TwoSided`, `Cap`, `NoClip` |
| how tokens become one number (``aggregate``) | `SequenceMean`, `TokenMean`, `ConstantLength`, `SequenceSum` |

`policy_loss` is a point in the three axes: the loss, and its exact derivative by each log-probability, which is all
that a framework needs to go on from here (multiply by ``logp`` and sum, with the coefficients held constant).
`token_weights` are the aggregate alone, for a term of one's own such as a penalty on the divergence;
`token_log_ratio` and `sequence_log_ratio` are the ratios alone.
"""

from __future__ import annotations

from karl_fast._core import sequence_log_ratio, token_log_ratio
from karl_fast.ratio.loss import PolicyLoss, policy_loss, token_weights
from karl_fast.ratio.points import (
    Cap,
    Clip,
    ConstantLength,
    DualClip,
    NoClip,
    SequenceMean,
    SequenceSum,
    TokenMean,
    TwoSided,
)

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
