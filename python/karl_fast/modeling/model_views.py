"""Views of one model: without its adapters, with recomputed layers, in two halves."""

from __future__ import annotations

import contextlib
import copy
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten

from karl_fast.errors import KarlError, ModelError
from karl_fast.modeling.gated_delta import gated_delta
from karl_fast.modeling.layers import recompute_layer, replace_calls
from karl_fast.modeling.parameters import flatten_tree, locate_leaf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


DIFFERENT = 0.05
"""Relative difference of hidden states above which two ways to compute them are not the same but for rounding."""


@contextlib.contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """Replace each adapted layer by its base, which gives the model before its adapters bit for bit."""
    adapted = [(name, module) for name, module in model.named_modules() if "lora_a" in module]
    bases = [(name, module["linear"]) for name, module in adapted]
    if bases:
        model.update_modules(tree_unflatten(bases))
    try:
        yield
    finally:
        if adapted:
            model.update_modules(tree_unflatten(adapted))


class Snapshot:
    """Snapshot of the trainable parameters of a model, as a reference later."""

    def __init__(self, model: Any) -> None:
        trained = flatten_tree(model.trainable_parameters())
        self._places = [locate_leaf(model, name) for name in trained]
        self._kept = [mx.array(array) for array in trained.values()]

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Set the parameters of the snapshot within this context."""
        now = [holder[key] for holder, key in self._places]
        self._put(self._kept)
        try:
            yield
        finally:
            self._put(now)

    def _put(self, arrays: list[mx.array]) -> None:
        for (holder, key), array in zip(self._places, arrays, strict=True):
            holder[key] = array


@contextlib.contextmanager
def checkpoint_layers(model: nn.Module, on: bool) -> Iterator[None]:
    """Recompute activations of layers in the backward pass, instead of storing them, within this context."""
    with replace_calls(model, recompute_layer) if on else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def chunkwise() -> Iterator[None]:
    """Compute gated delta layers in chunks of tokens instead of mlx-lm's loop over tokens, within this context."""
    with replace_gated_deltas(gated_delta):
        yield


@contextlib.contextmanager
def replace_gated_deltas(function: Callable[..., Any]) -> Iterator[None]:
    """Compute gated delta layers of every model by a function within this context; a replacement in it changes nothing.

    Steps of one token stay as they are.
    """
    module: Any = sys.modules.get("mlx_lm.models.gated_delta")  # there, if a model has such layers
    loop: Any = getattr(module, "gated_delta_ops", None)

    def either(q: mx.array, *others: Any, **named: Any) -> Any:
        return (loop if q.shape[1] == 1 else function)(q, *others, **named)

    if loop is None or loop.__qualname__ == either.__qualname__:
        yield
        return
    module.gated_delta_ops = either
    try:
        yield
    finally:
        module.gated_delta_ops = loop


@chunkwise()
def split_model(model: nn.Module) -> tuple[Any, Any]:
    """Split a language model into two functions: tokens to hidden states, and hidden states to logits.

    The body is the module that has the layers in it, whatever its name is; it is called by the model's own code, with
    the arguments that this gives it. The head is the rest of that code, with given hidden states in the place of the
    body's, so that what a model does to its logits (a scale, a soft cap) is in it.

    Raises:
        ModelError: the model is not built of two such halves, it cannot be computed here, or its weights are not
            finite.
    """
    with _without_dropout(model):
        try:
            body, head = _halves(model)
            _check_halves(model, body, head)
            if not _same_with_caches(model, body):
                body.caches = partial(_caches, model)
                model.shares_caches = True
        except KarlError:
            raise
        except (RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
            message = f"mlx-lm raised: {' '.join(str(error).split())[:200]}"
            raise ModelError(f"a model of type {_kind(model)} cannot be computed here: {message}") from error
    return body, head


def _halves(model: nn.Module) -> tuple[_Body, _Head]:
    """Return the halves of the language model, which may be nested, as in models with a vision part."""
    language, probe = model, mx.array([[1, 2, 3]])
    while place := _child_with_layer(language, model.layers[0]) or _last_before_logits(language, probe):
        body, head = _Body(language, *place), _Head(language, *place)
        hidden = body(probe)
        if isinstance(hidden, mx.array) and head(hidden) is not hidden:
            return body, head
        language = place[1]  # its output is the model's: it has the head in it
    raise ModelError(f"the model type {_kind(model)} has no body apart from its head, which training needs")


def _child_with_layer(language: nn.Module, layer: nn.Module) -> tuple[str, Any] | None:
    """Return name and submodule of a model that has a layer in it; None if the model itself has the list."""
    for name, child in _children(language):
        if any(module is layer for module in child.modules()):
            return name, child
    return None


def _last_before_logits(language: nn.Module, probe: mx.array) -> tuple[str, Any] | None:
    """Return the last module called before the logits: the norm, if layers and head are in one module."""
    called: list[tuple[str, Any, int]] = []
    children = [(name, child, type(child)) for name, child in _children(language)]
    for name, child, kind in children:
        child.__class__ = _recording(kind, partial(_append, called, name, child))
    try:
        width = language(probe).shape[-1]
    finally:
        for _, child, kind in children:
            child.__class__ = kind
    return next(((name, child) for name, child, size in reversed(called) if size != width), None)


def _append(called: list[tuple[str, Any, int]], name: str, child: Any, size: int) -> None:
    called.append((name, child, size))


def _recording(kind: type, note: Callable[[int], object]) -> type:
    def call(module: Any, *arguments: Any, **named: Any) -> Any:
        output = kind.__call__(module, *arguments, **named)
        note(output.shape[-1] if hasattr(output, "shape") else 0)
        return output

    return type(kind.__name__, (kind,), {"__call__": call})


def _children(language: nn.Module) -> list[tuple[str, Any]]:
    return [(name, child) for name, child in language.children().items() if isinstance(child, nn.Module)]


class _Body:
    """Tokens to hidden states: a model that is left where its body returns.

    Attributes:
        caches: makes new caches for each forward pass, for a model that computes something else without them.
    """

    def __init__(self, language: nn.Module, name: str, body: nn.Module) -> None:
        self.caches: Callable[[], Any] = lambda: None

        def leave(*arguments: Any, **named: Any) -> Any:
            raise _LeftError(body(*arguments, **named))

        self._shell = _with_child(language, name, body, leave)

    @chunkwise()
    def __call__(self, tokens: mx.array, cache: list[Any] | None = None) -> Any:
        try:
            self._shell(tokens, cache=self.caches() if cache is None else cache)
        except _LeftError as left:
            return left.hidden
        raise ModelError(f"the model type {_kind(self._shell)} does not call its body, which training needs")


class _LeftError(Exception):
    """A model was left with the hidden states of its body."""

    def __init__(self, hidden: Any) -> None:
        super().__init__()
        self.hidden = hidden


class _Head:
    """Hidden states to logits: a model with a body that returns its input."""

    def __init__(self, language: nn.Module, name: str, body: nn.Module) -> None:
        self._hidden: Any = None
        self._shell = _with_child(language, name, body, lambda *_, **__: self._hidden)

    def __call__(self, hidden: mx.array) -> Any:
        self._hidden = hidden
        try:
            return self._shell(mx.zeros(hidden.shape[:2], mx.int32))
        finally:
            self._hidden = None


def _with_child(language: nn.Module, name: str, body: nn.Module, call: Any) -> Any:
    """Return a copy of a model with another function in place of its body, but the attributes of the body."""

    class Stub(nn.Module):
        def __call__(self, *arguments: Any, **named: Any) -> Any:
            return call(*arguments, **named)

        def __getattr__(self, key: str) -> Any:
            return getattr(body, key)

    shell = copy.copy(language)
    shell[name] = Stub()  # type: ignore[no-untyped-call]
    return shell


def _check_halves(model: nn.Module, body: _Body, head: _Head) -> None:
    """Raise where two halves are not the whole."""
    probe = mx.array([[1, 2, 3]])
    logits = model(probe)
    if mx.isnan(logits).any():
        raise ModelError(
            "the weights of the model, or of an adapter in it, are not finite: its logits are NaN",
            hint="a run that diverged leaves such an adapter; an earlier checkpoint of it may be whole",
        )
    if not mx.array_equal(head(body(probe)), logits):
        raise ModelError(f"the model type {_kind(model)} does more than its head after its body, which training needs")


def _same_with_caches(model: nn.Module, body: _Body) -> bool:
    """Return whether hidden states are equal with and without new caches: gemma3n shares keys and values by them."""
    probe = mx.array([[1, 2, 3]])
    try:
        cached = body(probe, cache=_caches(model))
        return are_close(body(probe), cached)
    except (RuntimeError, ValueError, TypeError, AttributeError, LookupError):
        return True  # its caches do not work: it can be trained, and `karl_fast.rl` refuses it


def are_close(first: mx.array, second: mx.array) -> bool:
    """Return whether two results for hidden states are equal up to rounding."""
    plain = first.astype(mx.float32)
    difference: Any = mx.linalg.norm(plain - second.astype(mx.float32)) / mx.maximum(mx.linalg.norm(plain), 1e-9)
    return bool(difference.item() < DIFFERENT)


def _caches(model: nn.Module) -> Any:
    from mlx_lm.models.cache import make_prompt_cache

    return make_prompt_cache(model)


@contextlib.contextmanager
def training_mode(model: nn.Module) -> Iterator[None]:
    """Set the model to training mode, but without dropout, within this context.

    Outside of training mode, layers of mlx-lm use kernels of Metal and sort the rows of experts, of which MLX has no
    gradient.
    """
    modes = [(module, module.training) for module in model.modules()]
    for module, _ in modes:
        module._training = not isinstance(module, nn.Dropout | nn.Dropout2d | nn.Dropout3d)
    try:
        yield
    finally:
        for module, was in modes:
            module._training = was


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
