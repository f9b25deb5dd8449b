"""How far the policy has moved since it wrote the tokens, and what bounds the update for it.

| question | points |
|---|---|
| over what is the ratio taken (``level``) | token, turn, sequence, sequence-product, sequence-token |
| what bounds an update (``clip``) | `Clip`, `DualClip`, `TwoSided`, `Cap`, `NoClip` |
| how tokens become one number (``aggregate``) | `SequenceMean`, `TokenMean`, `ConstantLength`, `SequenceSum` |

`policy_loss` is a point in the three axes: the loss, and its exact derivative by each log-probability, which is all
that a framework needs to go on from here (multiply by ``logp`` and sum, with the coefficients held constant).
`token_log_ratio` and `sequence_log_ratio` are the ratios alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from karl_fast import _core
from karl_fast._core import sequence_log_ratio, token_log_ratio

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.protocols import Integers, Reals

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
]

Level: TypeAlias = Literal["token", "turn", "sequence", "sequence-product", "sequence-token"]
Per: TypeAlias = Literal["sequence", "turn", "token"]


class _ClipPoint:
    def __post_init__(self) -> None:
        _core.check_clip(self)


class _AggregatePoint:
    def __post_init__(self) -> None:
        _core.check_aggregate(self)


@dataclass(frozen=True)
class Clip(_ClipPoint):
    """The pessimistic bound of PPO: ``-min(ratio * A, clip(ratio, 1 - low, 1 + high) * A)``.

    ``low`` and ``high`` are distances from 1; ``low`` is at most 1. DAPO's are 0.2 and 0.28, GSPO's 3e-4 and 4e-4.
    Reference: Schulman et al. 2017 (arXiv:1707.06347); Yu et al. 2025, DAPO (arXiv:2503.14476).
    """

    kind: ClassVar[str] = "clip"
    low: float
    high: float


@dataclass(frozen=True)
class DualClip(_ClipPoint):
    """`Clip`, and for A < 0 no more than ``-bound * A``; ``bound`` is a ratio, above ``1 + high`` (verl: 3).

    Reference: Ye et al. 2020 (arXiv:1912.09729).
    """

    kind: ClassVar[str] = "dual-clip"
    low: float
    high: float
    bound: float


@dataclass(frozen=True)
class TwoSided(_ClipPoint):
    """`Clip` with the ratio of the unclipped branch at most ``delta``, which is above ``1 + high`` (TRL's ``delta``).

    The same function as `DualClip` with ``bound=delta``. Reference: INTELLECT-2 2025 (arXiv:2505.07291).
    """

    kind: ClassVar[str] = "two-sided"
    low: float
    high: float
    delta: float


@dataclass(frozen=True)
class Cap(_ClipPoint):
    """A detached weight on the log-probability: ``-sg(min(ratio, high)) * A * logp`` (CISPO).

    ``high`` is a ratio of at least 1, not a distance from it: 5, where `Clip` would say 4. ``low`` is a floor under the
    ratio, 0 in the paper; verl's defaults are ``Cap(1.2, low=0.8)``. No token loses its gradient.
    Reference: MiniMax 2025, CISPO (arXiv:2506.13585).
    """

    kind: ClassVar[str] = "cap"
    high: float
    low: float = 0.0


@dataclass(frozen=True)
class NoClip(_ClipPoint):
    """No bound: ``-ratio * A``."""

    kind: ClassVar[str] = "none"


@dataclass(frozen=True)
class SequenceMean(_AggregatePoint):
    """The mean over sequences of the means of their tokens (GRPO, GSPO).

    A sequence of which no token counts is left out of the mean. ``sequences`` is the number to divide by where it is
    another: that of the whole batch for a part of it, or all sequences, empty ones too, as TRL does.
    """

    kind: ClassVar[str] = "sequence-mean"
    sequences: float | None = None


@dataclass(frozen=True)
class TokenMean(_AggregatePoint):
    """The mean over all tokens that count (DAPO, SAMPO); ``tokens`` is their number where these are a part."""

    kind: ClassVar[str] = "token-mean"
    tokens: float | None = None


@dataclass(frozen=True)
class ConstantLength(_AggregatePoint):
    """The mean over sequences of ``sum / tokens``, a constant whatever their lengths are (Dr. GRPO).

    ``sequences`` as in `SequenceMean`. verl's ``seq-mean-token-sum-norm`` before 2026 has ``sequences=1``.
    """

    kind: ClassVar[str] = "constant-length"
    tokens: float
    sequences: float | None = None


@dataclass(frozen=True)
class SequenceSum(_AggregatePoint):
    """The mean over sequences of the sums of their tokens (RLOO); at the sequence level it is LUSPO's.

    ``sequences`` as in `SequenceMean`.
    """

    kind: ClassVar[str] = "sequence-sum"
    sequences: float | None = None


@dataclass(frozen=True, eq=False)
class PolicyLoss:
    """A loss, its gradient, and how far the policy has moved.

    Attributes:
        loss: the loss; 0 where no token counts.
        coefficient: d loss / d logp_t, exactly 0 for a masked token; of the dtype of ``logp``. [N]
        clip_fraction_low: share of tokens below the range of their clip; NaN without a token, as the others.
        clip_fraction_high: share above it with a positive advantage, or with a detached weight.
        clip_fraction_bound: share above it with a negative advantage.
        ratio_mean: over the ratios of the level (one a token, turn or sequence), before any clip.
        ratio_std: of the same, ddof 0.
        ratio_min: the least of them.
        ratio_max: the largest of them.
        tokens: how many tokens count.
        sequences: how many sequences have one.
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
    clip: Clip | DualClip | TwoSided | Cap | NoClip,
    aggregate: SequenceMean | TokenMean | ConstantLength | SequenceSum,
    log_ratio_clamp: float | None = None,
) -> PolicyLoss:
    """The clipped policy-gradient loss of packed tokens, and its exact gradient, in one pass.

        loss = sum_t w_t l(ratio_t, A_t),    coefficient_t = d loss / d logp_t

    ``l`` is the clip's, ``w`` the aggregate's. With d_t = logp_t - logp_old_t the ratio of a token is

        token             exp(d_t)
        turn, sequence    exp(mean of d over it)      the geometric mean (GSPO, SAMPO)
        sequence-product  exp(sum of d over it)
        sequence-token    sg(s_i) exp(d_t - sg(d_t))  the value s_i, each token's own gradient (GSPO-token)

    A shared ratio passes the gradients of all its terms to its tokens, also where their advantages differ. On a bound
    the ratio is within: its gradient flows. A token with advantage 0 adds nothing and is not counted as clipped. Ratios
    of float32 tokens are float32; those of turns and sequences, and every sum, are float64. Cost: one read, one write.

    Args:
        logp: log-probabilities under the policy, float32 or float64. [N]
        logp_old: the same under the behaviour policy, of the same dtype. [N]
        advantages: float32 or float64, one for each of what ``per`` says. [B], [U] or [N]
        offsets: where each sequence begins, and the last ends. int64, [B + 1]
        mask: which tokens count, all by default; what a masked one holds is not looked at. [N]
        turn_offsets: where each turn begins, for ``level`` or ``per`` "turn"; no turn crosses sequences. int64, [U + 1]
        level: over what the ratio is taken.
        per: what one advantage is for.
        clip: what bounds an update.
        aggregate: how tokens become one number.
        log_ratio_clamp: a bound on the size of the log ratio in nats, beyond which no gradient flows; None for none.
            verl clamps to 20.

    Raises:
        ArgumentError: a token that counts whose log-probabilities, advantage, term or coefficient is not finite;
            lengths that do not match.
        UsageError: ``turn_offsets`` missing, or given where nothing wants them; an unknown level or per.
        DTypeError, LayoutError: an array that would have to be cast or copied; offsets that are out of place.

    Reference: Shao et al. 2024, GRPO (arXiv:2402.03300); Zheng et al. 2025, GSPO (arXiv:2507.18071).
    """
    found = _core.policy_loss(
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
        log_ratio_clamp=log_ratio_clamp,
    )
    return PolicyLoss(**found)
