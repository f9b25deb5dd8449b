"""One model run in other ways: without its adapters, with layers that are computed again, in two halves."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any

from karl_fast.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import mlx.core as mx
    import mlx.nn as nn


@contextlib.contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """The model as it was before it got adapters, bit for bit: each adapted layer stands aside for its base."""
    from mlx.utils import tree_unflatten

    adapted = [(name, module) for name, module in model.named_modules() if "lora_a" in module]
    bases = [(name, module["linear"]) for name, module in adapted]
    if bases:
        model.update_modules(tree_unflatten(bases))
    try:
        yield
    finally:
        if adapted:
            model.update_modules(tree_unflatten(adapted))


@contextlib.contextmanager
def checkpointed(model: nn.Module, wanted: bool) -> Iterator[None]:
    """Forget what is inside a layer going forward and compute it again going back, for as long as this lasts.

    Each layer gets a class of its own, whose call is checkpointed; classes that others use are left alone.
    """
    before = [(layer, type(layer)) for layer in model.layers] if wanted else []
    for layer, kind in before:
        layer.__class__ = _recomputing(kind)
    try:
        yield
    finally:
        for layer, kind in before:
            layer.__class__ = kind


def _recomputing(kind: type) -> type:
    from functools import partial

    from mlx.nn.utils import checkpoint

    def call(layer: Any, *arguments: Any, **named: Any) -> Any:
        return checkpoint(layer, partial(kind.__call__, layer))(*arguments, **named)

    return type(f"Recomputing{kind.__name__}", (kind,), {"__call__": call})


def inner(model: nn.Module) -> Any:
    """The language model of one that wraps it, as those with eyes do; else the model."""
    return getattr(model, "language_model", model)


def split(model: nn.Module) -> tuple[Any, Any]:
    """The two halves of a language model: tokens to hidden states, and hidden states to logits.

    The head is the model's own code with its body replaced by what hands the hidden states on, so that what a model
    does to its logits (a scale, a soft cap) is in it.

    Raises:
        ModelError: the model is not built of two such halves, or its weights are not finite.
    """
    language = inner(model)
    body = getattr(language, "model", None)
    if body is None:
        raise ModelError(f"the model type {_kind(model)} has no body apart from its head, which training needs")
    head = copy.copy(language)
    head.model = _handing_on(body)
    with _without_dropout(model):
        _probed(model, body, head)
    return body, head


def _probed(model: nn.Module, body: Any, head: Any) -> None:
    """Raise where two halves are not the whole."""
    import mlx.core as mx

    probe = mx.array([[1, 2, 3]])
    logits = model(probe)
    if mx.isnan(logits).any():
        error = ModelError("the weights of the model, or of an adapter in it, are not finite: its logits are NaN")
        error.hint = "a run that diverged leaves such an adapter; an earlier checkpoint of it may be whole"
        raise error
    if not mx.array_equal(head(body(probe)), logits):
        raise ModelError(f"the model type {_kind(model)} does more than its head after its body, which training needs")


@contextlib.contextmanager
def _without_dropout(model: nn.Module) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _kind(model: nn.Module) -> str:
    return str(getattr(model, "model_type", type(model).__name__))


def _handing_on(body: Any) -> Any:
    import mlx.nn as nn

    class HandingOn(nn.Module):
        """In a body's place: gives hidden states as they came, and the body's attributes to whoever asks."""

        def __call__(self, hidden: mx.array, *_: Any, **__: Any) -> mx.array:
            return hidden

        def __getattr__(self, name: str) -> Any:
            return getattr(body, name)

    return HandingOn()  # type: ignore[no-untyped-call]
