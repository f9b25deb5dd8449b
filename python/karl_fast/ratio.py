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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from karl_fast import _core
from karl_fast._core import sequence_log_ratio, token_log_ratio
from karl_fast.objective.axes.aggregate import Aggregate, ConstantLength, SequenceMean, SequenceSum, TokenMean
from karl_fast.objective.axes.clip import Bound, Cap, Clip, DualClip, NoClip, TwoSided
from karl_fast.objective.axes.point import check_point

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.typing import Integers, Reals

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

Level: TypeAlias = Literal["token", "turn", "sequence", "sequence-product", "sequence-token"]
Per: TypeAlias = Literal["sequence", "turn", "token"]


@dataclass(frozen=True, eq=False)
class PolicyLoss:
    """A loss, its gradient, and how far the policy has moved.

    Attributes:
        loss: the loss; 0 where no token counts.
        coefficient: d loss / d logp_t, exactly 0 for a masked token; of the dtype of ``logp``. [N]
        clip_fraction_low: share of tokens below the range of their clip; NaN without a token, as the others.
        clip_fraction_high: share above it with a positive advantage, or with a detached weight.
        clip_fraction_bound: share above it with a negative advantage.
        ratio_mean: over tokens, of the ratio of their level, before any clip.
        ratio_std: of the same, ddof 0.
        ratio_min: the least of them.
        ratio_max: the largest of them.
        tokens: number of tokens that count.
        sequences: number of sequences with one.
    """

    loss: float
    coefficient: NDArray[np.float64] | NDArray[np.float32]
    clip_fraction_low: float
    clip_fraction_high: float
    clip_fraction_bound: float
    ratio_mean: float
    ratio_std: float
    ratio_min: float
    ratio_max: float
    tokens: int
    sequences: int


def policy_loss(
    logp: Reals,
    logp_old: Reals,
    advantages: Reals,
    offsets: Integers,
    *,
    mask: NDArray[np.bool_] | None = None,
    turn_offsets: Integers | None = None,
    level: Level = "token",
    per: Per = "sequence",
    clip: Bound,
    aggregate: Aggregate,
    denominator: float | None = None,
    log_ratio_clamp: float | None = None,
) -> PolicyLoss:
    """Compute the clipped policy-gradient loss of packed tokens and its exact gradient in one pass.

    ```text
    loss = sum_t w_t l(ratio_t, A_t),    coefficient_t = d loss / d logp_t
    ```

    ``l`` comes from the clip, ``w`` from the aggregate. With d_t = logp_t - logp_old_t the ratio of a token is

    ```text
    token             exp(d_t)
    turn, sequence    exp(mean of d over it)      the geometric mean (GSPO, SAMPO)
    sequence-product  exp(sum of d over it)
    sequence-token    sg(s_i) exp(d_t - sg(d_t))  the value s_i, each token's own gradient (GSPO-token)
    ```

    A shared ratio passes the gradients of all its terms to its tokens, even if their advantages differ. On a bound
    the ratio is within: its gradient flows. A token with advantage 0 adds nothing and is not counted as clipped. Ratios
    of float32 tokens are float32; those of turns and sequences, and every sum, are float64. Cost: one read, one write.

    Args:
        logp: log-probabilities under the policy, float32 or float64. [N]
        logp_old: the same under the behaviour policy, of the same dtype. [N]
        advantages: float32 or float64, one for each unit of ``per``. [B], [U] or [N]
        offsets: where each sequence begins, and the last ends. int64, [B + 1]
        mask: True for tokens that count, all by default; values at masked ones are ignored. [N]
        turn_offsets: where each turn begins, for ``level`` or ``per`` "turn"; no turn crosses sequences. int64, [U + 1]
        level: unit of the ratio.
        per: unit of an advantage.
        clip: bound on the update.
        aggregate: aggregation of tokens to one number.
        denominator: what to divide by where these are a part of a batch: its tokens for `TokenMean`, its sequences for
            the others (all of them, empty ones too, as TRL does). The losses of the parts add up to that of the batch.
        log_ratio_clamp: a bound on the size of the log ratio in nats, beyond which no gradient flows; None for none.
            verl clamps to 20.

    Returns:
        The loss, its coefficients, and statistics of the ratio: `PolicyLoss`.

    Raises:
        ArgumentError: a token that counts with a log-probability, advantage or coefficient that is not finite; lengths
            that do not match.
        UsageError: ``turn_offsets`` missing, or given without use; an unknown level or per; an invalid clip or
            aggregate, such as a class in place of its instance.
        DTypeError, LayoutError: an array that would have to be cast or copied; offsets that are out of place.

    Reference: Shao et al. 2024, GRPO (arXiv:2402.03300); Zheng et al. 2025, GSPO (arXiv:2507.18071).
    """
    check_point("clip", clip, Bound)
    check_point("aggregate", aggregate, Aggregate)
    loss = _core.policy_loss(
        logp,
        logp_old,
        advantages,
        offsets,
        mask=mask,
        turn_offsets=turn_offsets,
        level=level,
        per=per,
        clip=clip,
        aggregate=aggregate,
        denominator=denominator,
        log_ratio_clamp=log_ratio_clamp,
    )
    return PolicyLoss(**loss)


def token_weights(
    offsets: Integers,
    *,
    mask: NDArray[np.bool_] | None = None,
    aggregate: Aggregate,
    denominator: float | None = None,
) -> NDArray[np.float64]:
    """Compute the weight w_t of each token in a loss, to sum other terms as `policy_loss` does.

    ```text
    SequenceMean    1 / (S T_i)        TokenMean    1 / sum T
    ConstantLength  1 / (S L)          SequenceSum  1 / S
    ```

    T_i counts the tokens of sequence i, S the sequences that have one. A penalty on the divergence adds
    ``beta * (w * kl.estimate(...)).sum()`` to the loss and ``beta * w * kl.gradient(...)`` to the coefficient.
    Cost: one read, one write.

    Args:
        offsets: where each sequence begins, and the last ends. int64, [B + 1]
        mask: True for tokens that count, all by default. [N]
        aggregate: how tokens become one number.
        denominator: as in `policy_loss`.

    Returns:
        The weights, exactly 0 for a masked token. float64, [N]

    Raises:
        ArgumentError: a denominator below 1.
        UsageError: an aggregate that is none, a class in place of its instance too.
        DTypeError, LayoutError: an array that would have to be cast or copied; offsets that are out of place.

    Reference: Shao et al. 2024, GRPO (arXiv:2402.03300); Yu et al. 2025, DAPO (arXiv:2503.14476).
    """
    check_point("aggregate", aggregate, Aggregate)
    return _core.token_weights(offsets, mask=mask, aggregate=aggregate, denominator=denominator)
