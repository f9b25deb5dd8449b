"""The gradient of a loss that MLX differentiates, by the passes that take coefficients from outside of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.modeling.chunked_logp import Traced


def pulled(traced: Traced, loss: Callable[[Any], Any]) -> tuple[float, dict[str, Any]]:
    """Return a loss of log-probabilities, and its gradient, joined. [N] -> []"""
    import mlx.core as mx

    value, slope = mx.value_and_grad(loss)(mx.array(traced.outputs()["logp"]))
    return value.item(), traced.pull({"logp": np.array(slope)})
