"""Divergence of a policy from its reference, and penalties on it.

| function | of | value |
|---|---|---|
| `estimate` | sampled tokens | k1, k2 or k3, times the importance ratio |
| `gradient` | the same | d/dlogp of the estimate as a loss |
| `in_reward` | rewards of rollouts | r - kl_coef * sum of k1 |
| `categorical`, `categorical_gradient` | logits over a vocabulary | the exact divergence, and its derivative |

As a loss k1 does nothing on average, and k3 pulls towards the reference by the forward divergence; the penalties that
have the gradient of the reverse KL are k2 on policy, k3 through the ratio off policy, and k1 in the reward. The weight
of each token in a loss is `karl_fast.ratio.token_weights`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from karl_fast import _core
from karl_fast.errors import DTypeError, LayoutError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.typing import Integers, Reals

__all__ = [
    "categorical",
    "categorical_gradient",
    "estimate",
    "gradient",
    "in_reward",
]

Estimator: TypeAlias = Literal["k1", "k2", "k3"]
Direction: TypeAlias = Literal["reverse", "forward"]


def estimate(
    logp: Reals,
    logp_ref: Reals,
    *,
    estimator: Estimator,
    logp_old: Reals | None = None,
    mask: NDArray[np.bool_] | None = None,
) -> NDArray[Any]:
    """Estimate the divergence of each token from the reference, in nats.

    ```text
    d = logp - logp_ref
    k1 = d        k2 = d^2 / 2        k3 = exp(-d) + d - 1
    ```

    k1 and k3 are unbiased estimates of the reverse KL(policy, reference) over tokens of the policy, k2 is biased; k1
    has either sign, the others are never negative. If another policy drew the tokens, each estimate is multiplied by
    ``exp(logp - logp_old)``. The sum over a rollout is an estimate of its sequence for k1 alone. Nothing is clamped.
    See `gradient` for their gradients as losses. Cost: one pass, an exponential a token for k3 and a ratio.

    Args:
        logp: under the policy, float32 or float64, finite. A NumPy array or an Arrow column. [T]
        logp_ref: under the reference, of the same type. [T]
        estimator: "k1", "k2" or "k3".
        logp_old: under the policy that drew the tokens, if it is another. [T]
        mask: True for tokens that count, all by default; values at masked ones are ignored. [T]

    Returns:
        Of the type of ``logp``; exactly 0 where a token is masked. [T]

    Raises:
        ArgumentError: a number that is not finite, an estimate beyond its type, arrays that differ in tokens, or
            another estimator.
        DTypeError, LayoutError: an array that would have to be cast or copied.

    Reference: Schulman, Approximating KL divergence (2020).
    """
    return _core.kl_estimate(logp, logp_ref, estimator=estimator, logp_old=logp_old, mask=mask)


def gradient(
    logp: Reals,
    logp_ref: Reals,
    *,
    estimator: Estimator,
    logp_old: Reals | None = None,
    mask: NDArray[np.bool_] | None = None,
    through_ratio: bool = False,
) -> NDArray[Any]:
    """Compute the derivative by ``logp`` of each token's estimate as a loss, the factor of grad ``logp`` in a step.

    ```text
          ratio a constant      through the ratio          r = exp(logp - logp_old), 1 without logp_old
    k1    r                     r (d + 1)
    k2    r d                   r (d^2 / 2 + d)
    k3    r (1 - exp(-d))       r d
    ```

    On tokens of the policy, k1 as a loss has a mean gradient of zero and holds nothing back; k2 has that of the reverse
    KL(policy, reference); k3 has that of the forward KL(reference, policy), which is unbounded where the policy is far
    below the reference. Off policy, k2 with a constant ratio and k3 through the ratio have that of the reverse KL
    exactly; k2 without a ratio is biased. The honest penalties are these two, and k1 in the reward (`in_reward`).
    Beside `karl_fast.ratio.policy_loss` it adds ``beta * token_weights(...) * gradient`` to the coefficient.

    Args:
        logp, logp_ref, estimator, logp_old, mask: as of `estimate`.
        through_ratio: True to differentiate the ratio too. Without ``logp_old`` it is 1, its derivative not 0.

    Returns:
        Of the type of ``logp``; exactly 0 where a token is masked. [T]

    Raises:
        ArgumentError, DTypeError, LayoutError: as `estimate`.

    Reference: A Comedy of Estimators (arXiv:2512.21852); DeepSeek-V3.2 for k3 through the ratio.
    """
    return _core.kl_gradient(
        logp, logp_ref, estimator=estimator, logp_old=logp_old, mask=mask, through_ratio=through_ratio
    )


def in_reward(
    rewards: Reals,
    logp: Reals,
    logp_ref: Reals,
    offsets: Integers,
    *,
    kl_coef: float,
    mask: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Subtract the k1 of each rollout from its reward: the penalty with the policy gradient of the reverse KL.

    ```text
    r_i - kl_coef * sum over its tokens that count of (logp - logp_ref)
    ```

    Compute advantages from the result; the penalty itself is a number and carries no gradient. A missing reward stays
    missing.

    Args:
        rewards: float64 or float32. [B]
        logp, logp_ref: of the tokens of all rollouts, one type, finite. [T]
        offsets: int64: the tokens of rollout i are ``offsets[i]:offsets[i + 1]``. [B + 1]
        kl_coef: the weight of the penalty, finite, 0 or more.
        mask: True for tokens that count, all by default; values at masked ones are ignored. [T]

    Returns:
        float64. [B]

    Raises:
        ArgumentError: a number that is not finite, a negative weight, or arrays that differ in length.
        DTypeError, LayoutError: an array that would have to be cast or copied, or invalid offsets.

    Reference: Ziegler et al. (arXiv:1909.08593).
    """
    return _core.kl_in_reward(rewards, logp, logp_ref, offsets, kl_coef=kl_coef, mask=mask)


def categorical(
    logits: NDArray[Any], logits_ref: NDArray[Any], *, direction: Direction = "reverse"
) -> NDArray[np.float64]:
    """Compute the divergence of each row of logits from that of the reference, summed over the vocabulary.

    ```text
    reverse    KL(policy, reference) = sum_v p_v (log p_v - log q_v)    p, q = softmax of a row of each
    forward    KL(reference, policy) = sum_v q_v (log q_v - log p_v)
    ```

    What is summed is ``p_v (exp(-d) - 1 + d)`` with d the log-ratio: it adds up to the same, no term is negative, and a
    small divergence keeps its digits. Normalised log-probabilities are logits too.
    Cost: two passes over each row, three exponentials a token; one row a thread.

    Args:
        logits: of the policy, float32 or float64; minus infinity for a token that is excluded. A NumPy array. [N, V]
        logits_ref: of the reference, of the same type. [N, V]
        direction: "reverse" or "forward": under which of the two the mean is.

    Returns:
        In nats; infinite where the other distribution excludes a token that this one does not. [N]

    Raises:
        ArgumentError: a NaN or plus infinity, a row without a token, or another direction.
        DTypeError, LayoutError: arrays that would have to be cast or copied, that differ in shape, or without a column.

    Reference: Kullback and Leibler, On information and sufficiency (1951).
    """
    return _core.kl_categorical(*_rows(logits, logits_ref), direction)


def categorical_gradient(
    logits: NDArray[Any], logits_ref: NDArray[Any], *, direction: Direction = "reverse"
) -> NDArray[Any]:
    """Compute the derivative of each row's divergence by the logits of the policy.

    ```text
    reverse    p_v (log p_v - log q_v - KL)
    forward    p_v - q_v
    ```

    Rows add up to 0.

    Args:
        logits, logits_ref, direction: as of `categorical`.

    Returns:
        Of the type of the logits. [N, V]

    Raises:
        ArgumentError: as `categorical`, and a reverse divergence that is infinite.
        DTypeError, LayoutError: as `categorical`.

    Reference: the derivative of the sum of `categorical`.
    """
    slopes = _core.kl_categorical_gradient(*_rows(logits, logits_ref), direction)
    return slopes.reshape(logits.shape)


def _rows(logits: NDArray[Any], logits_ref: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Return both tables row by row, and the length of a row."""
    for name, table in (("logits", logits), ("logits_ref", logits_ref)):
        if not isinstance(table, np.ndarray):
            raise DTypeError(f"{name} is a {type(table).__name__}, wanted a NumPy array of float32 or float64")
        if table.ndim != 2:
            raise LayoutError(f"{name} has {table.ndim} dimensions, wanted 2")
        if not table.flags.c_contiguous:
            raise LayoutError(f"{name} is not contiguous, wanted a copy by numpy.ascontiguousarray")
        if table.shape != logits.shape:
            raise LayoutError(f"{name} has shape {table.shape}, wanted {logits.shape}")
        if table.shape[1] == 0:
            raise LayoutError(f"{name} has 0 columns, wanted one for each token of the vocabulary")
    return logits.reshape(-1), logits_ref.reshape(-1), logits.shape[1]
