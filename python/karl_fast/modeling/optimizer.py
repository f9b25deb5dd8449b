"""One optimizer step, of `karl-fast train` and of `karl-fast rl`.

```text
gradient of micro-batch 1 --+
gradient of micro-batch 2 --+--> sum --> norm --> finite? --> scaled to max_grad_norm --> Adam at the rate of the step
...                       --+   float32               +-> no: the step is skipped, and the weights stay
```

`accumulate` adds up the gradients, a `StepGradient` has their norm and clips them, and an optimizer of
`build_optimizer` updates the weights. Each micro-batch divides its loss by the denominator of the whole step, so that
the sum of gradients is the gradient of the step, however it is cut into micro-batches.

Gradients, parameters and moments are joined to a few long vectors: a LoRA of four layers is 56 tensors, and an update
by Adam of each is a dozen operations, none of them worth its call. An elementwise operation on a vector runs once for
all of them.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property
from itertools import accumulate as running_sums
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_unflatten

from karl_fast.modeling.parameters import flatten_tree, locate_leaf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karl_fast.train.settings import Training

    Vectors = dict[str, mx.array]
    Gradients = dict[str, Vectors]

MODEL, LOG_Z = "model", "log_z"
"""Names of the parts that are trained, each with an optimizer and a norm of its own."""

EPS = 1e-8
"""Epsilon of Adam (Kingma & Ba 2015, algorithm 1)."""

LONGEST_STRETCH = 1 << 22
"""Numbers that are joined: a tensor that is larger is worth operations of its own, and no copy."""


def accumulate(micro_batches: Iterable[Callable[[], tuple[float, Iterable[tuple[str, Vectors]]]]]) -> StepGradient:
    """Return the sum of the losses and gradients of micro-batches, which the device then still computes.

    Args:
        micro_batches: each a function that returns its share of the loss, and its gradients with the names of their
            parts; those of one part add up.
    """
    loss, sums = 0.0, dict[str, GradientSum]()
    for backward in micro_batches:
        mx.eval([part.vectors for part in sums.values()])  # before the next micro-batch needs the room
        share, gradients = backward()
        loss += share
        for name, gradient in gradients:
            sums.setdefault(name, GradientSum()).add(gradient)
    return StepGradient(loss, {name: part.result() for name, part in sums.items()})


class StepGradient:
    """Loss and gradient of a step, before clipping.

    Attributes:
        loss: of all micro-batches.
        parts: gradient of the trainable parameters, joined, by part.
    """

    def __init__(self, loss: float, parts: Gradients) -> None:
        """Start the computation of gradient and norms."""
        self.loss, self.parts = loss, parts
        self._norms = {name: global_norm(vectors) for name, vectors in parts.items()}
        mx.async_eval(self.parts, self._norms)  # in one call, because each call waits for the device

    @cached_property
    def norms(self) -> dict[str, float]:
        """The norm of each part; reading it waits for the device."""
        return {name: float(np.array(norm)) for name, norm in self._norms.items()}

    @property
    def finite(self) -> bool:
        """True if loss and norms are finite: else an update would spoil the weights."""
        return all(map(math.isfinite, (self.loss, *self.norms.values())))

    def clip(self, limit: float) -> Gradients:
        """Return the gradient, each part scaled down to the limit by its own norm; 0 for no limit.

        By one norm of all parts, the residual of a balance would scale the gradient of the policy away.
        """
        return {name: clip_norm(vectors, self.norms[name], limit) for name, vectors in self.parts.items()}


class GradientSum:
    """Sum of joined gradients, in float32 whatever the types of the parameters; a single one stays as it is.

    Attributes:
        vectors: the sum so far; evaluate it before the next gradient needs the room.
    """

    def __init__(self) -> None:
        self.vectors: Vectors = {}
        self._types: dict[str, Any] = {}

    def add(self, gradient: Vectors) -> None:
        """Add a gradient, joined."""
        if not self.vectors:
            self.vectors, self._types = gradient, {name: vector.dtype for name, vector in gradient.items()}
            return
        self.vectors = {
            name: vector.astype(mx.float32) + gradient[name].astype(mx.float32) for name, vector in self.vectors.items()
        }

    def result(self) -> Vectors:
        """Return the sum in the types of the parameters."""
        return {name: vector.astype(self._types[name]) for name, vector in self.vectors.items()}


def global_norm(vectors: Vectors) -> mx.array:
    """Return the Euclidean norm of all vectors together, in float32."""
    wide = [vector.astype(mx.float32) for vector in vectors.values()]
    return mx.sqrt(sum((mx.inner(vector, vector) for vector in wide), start=mx.array(0.0)))


def clip_norm(vectors: Vectors, norm: float, limit: float) -> Vectors:
    """Return the vectors, scaled down if their norm is above the limit; 0 for no limit."""
    if not limit or norm <= limit:
        return vectors
    return {name: vector * (limit / norm) for name, vector in vectors.items()}


def build_optimizer(settings: Training, fixed: Any = None) -> Any:
    """Return an MLX optimizer over tensors joined to vectors; call `set_learning_rate` before each update.

    Args:
        settings: of the optimizer.
        fixed: a model whose layers stay the same, and whose trainable parameters only this optimizer replaces. An
            update then neither walks through the model again, nor joins what it has joined before.
    """
    match settings.optimizer:
        case "adam":
            optimizer = _joined_optimizer(optim.Adam)(settings.learning_rate, eps=EPS)
        case "adamw":
            optimizer = _joined_optimizer(optim.AdamW)(
                settings.learning_rate, eps=EPS, weight_decay=settings.weight_decay
            )
        case _:
            optimizer = _joined_optimizer(optim.SGD)(settings.learning_rate)
    optimizer.trained = None if fixed is None else FlatParameters(fixed)
    return optimizer


def _joined_optimizer(kind: Any) -> Any:
    """Return an optimizer class that joins parameters, gradients and moments, and updates all of them at once.

    Updates are evaluated asynchronously.
    """

    class JoinedOptimizer(kind):  # type: ignore[misc]
        trained: FlatParameters | None

        def init(self, parameters: Any) -> None:
            super().init(join_leaves(parameters))

        def update(self, model: Any, gradients: Any) -> None:
            trained = self.trained or FlatParameters(model)
            values = self.apply_gradients(join_leaves(gradients), trained.joined())
            mx.async_eval(trained.put(values), self.state)

    return JoinedOptimizer


def set_learning_rate(optimizer: Any, settings: Training, rate: float) -> None:
    """Set the learning rate of the next update, with the bias of Adam's moments corrected for.

    ```text
    rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + eps) = rate c / (1 - b1^t) * m / (sqrt(v) + eps c),
    c = sqrt(1 - b2^t)
    ```

    t counts updates, this one included. MLX corrects nothing by default, and with ``bias_correction`` by six more
    arrays; the right side takes three numbers. Uncorrected, the first step of Adam is 3.16 times as long as its
    learning rate says.

    Reference: Kingma & Ba 2015, Adam (arXiv:1412.6980), section 2.
    """
    optimizer.learning_rate = rate
    if settings.optimizer == "sgd":
        return
    t, (b1, b2) = int(optimizer.step.item()) + 1, optimizer.betas
    c, first = math.sqrt(1 - b2**t), 1 - b1**t
    optimizer.learning_rate, optimizer.eps = rate * c / first, EPS * c
    if settings.optimizer == "adamw":
        # MLX multiplies the decay by its learning rate; the decay is meant of the rate before the correction.
        optimizer.weight_decay = settings.weight_decay * first / c


def learning_rate(settings: Training, step: int, steps: int) -> float:
    """Return the learning rate of a step from 1 to `steps`: a pure function, so no state has to be stored.

    It rises linearly over the warm-up, then falls to 0 just after the last step, linearly or by half a cosine.
    """
    if step <= settings.warmup:
        return settings.learning_rate * step / settings.warmup
    done = (step - settings.warmup - 1) / max(1, steps - settings.warmup)
    decay = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
    return settings.learning_rate * max(0.0, decay[settings.lr_schedule])


def join_leaves(tree: Any) -> dict[str, mx.array]:
    """Concatenate the leaves of a tree in the order of their names, to a vector for each type and stretch.

    Vectors that are joined again are themselves.
    """
    leaves = flatten_tree(tree)
    return {
        vector: mx.concatenate([leaves[name].reshape(-1) for name in names])
        for vector, names in _stretch_names(leaves).items()
    }


def split_leaves(vectors: dict[str, mx.array], like: Any) -> Any:
    """Split vectors into the tree they were joined from, in the shapes of another such tree."""
    leaves = flatten_tree(like)
    leaves_by_name: list[tuple[str, mx.array]] = []
    for vector, names in _stretch_names(leaves).items():
        parts = mx.split(vectors[vector], _leaf_bounds(leaves[name] for name in names))
        leaves_by_name += [(name, part.reshape(leaves[name].shape)) for name, part in zip(names, parts, strict=True)]
    return tree_unflatten(leaves_by_name)


class FlatParameters:
    """Trainable parameters of a model as flat vectors, without a walk through its tree each time."""

    def __init__(self, model: Any) -> None:
        """Record the trainable parameters; their arrays may be replaced later, but not the set of them."""
        leaves = flatten_tree(model.trainable_parameters())
        self._last: dict[str, mx.array] = {}
        self._arrays: list[mx.array] = []
        self._stretches = [
            (
                vector,
                [(*locate_leaf(model, name), leaves[name].shape) for name in names],
                _leaf_bounds(leaves[name] for name in names),
            )
            for vector, names in _stretch_names(leaves).items()
        ]

    def joined(self) -> dict[str, mx.array]:
        """Return the trainable parameters joined; the vectors put last, if the model still has them."""
        arrays = [[holder[key] for holder, key, _ in places] for _, places, _ in self._stretches]
        if self._last and all(map(is_, chain.from_iterable(arrays), self._arrays)):
            return self._last
        each = zip(self._stretches, arrays, strict=True)
        return {vector: mx.concatenate([leaf.reshape(-1) for leaf in leaves]) for (vector, *_), leaves in each}

    def put(self, vectors: dict[str, mx.array]) -> list[mx.array]:
        """Set the values of the model, and return them as stored."""
        self._last, self._arrays = vectors, []
        for vector, places, ends in self._stretches:
            for (holder, key, shape), part in zip(places, mx.split(vectors[vector], ends), strict=True):
                holder[key] = part.reshape(shape)
                self._arrays.append(holder[key])
        return self._arrays


def _stretch_names(leaves: dict[str, mx.array]) -> dict[str, list[str]]:
    """Return the names of the leaves that begin in one stretch of their type."""
    sizes: Counter[str] = Counter()
    names: dict[str, list[str]] = {}
    for name, leaf in leaves.items():
        kind = str(leaf.dtype).rpartition(".")[2]
        names.setdefault(f"{kind}-{sizes[kind] // LONGEST_STRETCH:06d}", []).append(name)
        sizes[kind] += leaf.size
    return names


def _leaf_bounds(leaves: Iterable[mx.array]) -> list[int]:
    """Return the bounds between concatenated leaves."""
    return list(running_sums(leaf.size for leaf in leaves))[:-1]
