"""How far a policy is from its reference, and what a penalty on that does.

| function | of | value |
|---|---|---|
| `estimate` | tokens that were drawn | k1, k2 or k3, times the importance ratio |
| `gradient` | the same | d/dlogp of the estimate as a loss |
| `in_reward` | rewards of rollouts | r - kl_coef * sum of k1 |
| `categorical`, `categorical_gradient` | logits over a vocabulary | the exact divergence, and its derivative |

As a loss k1 does nothing on average, and k3 pulls towards the reference by the forward divergence; the penalties that
have the gradient of the reverse KL are k2 on policy, k3 through the ratio off policy, and k1 in the reward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from karl_fast import _core
from karl_fast._core import kl_estimate as estimate
from karl_fast._core import kl_gradient as gradient
from karl_fast._core import kl_in_reward as in_reward
from karl_fast.errors import LayoutError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "categorical",
    "categorical_gradient",
    "estimate",
    "gradient",
    "in_reward",
]


def categorical(
    logits: NDArray[Any],
    logits_ref: NDArray[Any],
    *,
    direction: Literal["reverse", "forward"] = "reverse",
) -> NDArray[np.float64]:
    """The divergence of each row of logits from that of the reference, summed over the vocabulary.

    reverse: KL(policy, reference) = sum_v p_v (log p_v - log q_v), with p and q the softmax of a row of each;
    forward: KL(reference, policy). Normalised log-probabilities are logits too.

    Cost: two passes over each row, three exponentials a token; one row a thread.

    Args:
        logits: of the policy, float32 or float64; minus infinity for a token that is excluded. [N, V]
        logits_ref: of the reference, of the same type. [N, V]
        direction: under which of the two the mean is.

    Returns:
        In nats; infinite where the other distribution excludes a token that this one does not. [N]

    Raises:
        ArgumentError: a NaN or plus infinity, a row without a token, or another direction.
        DTypeError, LayoutError: arrays that would have to be cast or copied, or that differ in shape.
    """
    return _core.kl_categorical(*_rows(logits, logits_ref), direction)


def categorical_gradient(
    logits: NDArray[Any],
    logits_ref: NDArray[Any],
    *,
    direction: Literal["reverse", "forward"] = "reverse",
) -> NDArray[Any]:
    """The derivative of each row's divergence by the logits of the policy.

    reverse: p_v (log p_v - log q_v - KL); forward: p_v - q_v. Rows add up to 0.

    Args:
        logits, logits_ref, direction: as of :func:`categorical`.

    Returns:
        Of the type of the logits. [N, V]

    Raises:
        ArgumentError: as :func:`categorical`, and a reverse divergence that is infinite.
        DTypeError, LayoutError: as :func:`categorical`.
    """
    slopes = _core.kl_categorical_gradient(*_rows(logits, logits_ref), direction)
    return slopes.reshape(logits.shape)


def _rows(logits: NDArray[Any], logits_ref: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Both tables row by row, and the length of a row."""
    for name, table in (("logits", logits), ("logits_ref", logits_ref)):
        if table.ndim != 2:
            raise LayoutError(f"{name} has {table.ndim} dimensions, wanted 2")
        if not table.flags.c_contiguous:
            raise LayoutError(f"{name} is not contiguous, wanted a copy by numpy.ascontiguousarray")
        if table.shape != logits.shape:
            raise LayoutError(f"{name} has shape {table.shape}, wanted {logits.shape}")
    return logits.reshape(-1), logits_ref.reshape(-1), logits.shape[1]
