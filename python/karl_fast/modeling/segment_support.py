"""Models whose rows can pass in segments: found by trying, and refused with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.errors import KarlError, ModelError
from karl_fast.modeling.chunked_logp import backward, forward
from karl_fast.modeling.flat_gradients import join_leaves, global_norm
from karl_fast.modeling.model_views import DIFFERENT, training
from karl_fast.modeling.segment_gradients import SegmentPass
from karl_fast.modeling.stateful_model import StatefulModel

if TYPE_CHECKING:
    from karl_fast.modeling.external_objective import Arrays

PROBE = np.array([[1, 2, 3, 1, 3, 2, 2, 1, 3, 1]], dtype=np.int32)
"""Tokens of a row that passes whole, and in three segments."""

LENGTH = 4
"""Tokens of a segment of it: not fewer than a convolution looks back."""


def carry_states(model: Any, body: Any, head: Any) -> StatefulModel:
    """Return a model with the states that segments carry on.

    Raises:
        ModelError: its gradient by segments is not that of whole rows, or a cache of it cannot be carried.
    """
    try:
        if getattr(model, "shares_caches", False):
            raise ModelError("its layers share keys and values")
        if not isinstance(getattr(model, "layers", None), list | tuple):
            raise ModelError("it has no list `layers`")
        carrier = StatefulModel(model, body)
        with training(model):
            far = _relative_distance(carrier, head)
    except ModelError as error:
        raise _refusal(model, str(error)) from error
    except KarlError:
        raise
    except Exception as error:  # of a model's own code, which was not written for these caches
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        raise _refusal(model, f"its caches cannot be carried: {said}") from error
    if not far < DIFFERENT:
        raise _refusal(model, f"its gradient by segments differs by {far:.2g} from that of a whole row")
    return carrier


def _refusal(model: Any, why: str) -> ModelError:
    kind = getattr(model, "model_type", type(model).__name__)
    return ModelError(
        f"a model of type {kind} cannot be trained in segments: {why}",
        hint="segment_length auto takes whole rows for it",
    )


def _relative_distance(carrier: StatefulModel, head: Any) -> float:
    """Return the relative distance of the gradients, or of the log-probabilities of a model that is frozen."""
    import mlx.core as mx

    tokens, mask = PROBE, np.ones((1, PROBE.shape[1] - 1), dtype=np.bool_)
    shared = (carrier.body, head, mx.array(tokens), mx.arange(mask.size, dtype=mx.int32), mask.size)
    sweep = SegmentPass(carrier, head, mask.size, tokens, mask, length=LENGTH)
    if not carrier.parameters:
        return _relative({"logp": mx.array(sweep.outputs(keep=False)["logp"])}, forward(*shared))
    ones = np.ones(mask.size, dtype=np.float32)
    with carrier.unchanged():
        whole = join_leaves(backward(carrier.model, *shared, {"logp": mx.array(ones)})[1])
    return _relative(sweep.pull({"logp": ones}), whole)


def _relative(found: Arrays, wanted: Arrays) -> float:
    import mlx.core as mx

    wide = {name: vector.astype(mx.float32) for name, vector in wanted.items()}
    size: Any = global_norm(wide).item()
    far: Any = global_norm({name: found[name].astype(mx.float32) - vector for name, vector in wide.items()}).item()
    return float(far / max(size, 1e-30))
