"""The optimizer, and the learning rate of each step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.optimizers as optim

from karl_fast.modeling.chunked_logp import FlatParameters, join_leaves

if TYPE_CHECKING:
    from karl_fast.train.settings import Training


EPS = 1e-8
"""Epsilon of Adam (Kingma & Ba 2015, algorithm 1)."""


def build(settings: Training, fixed: Any = None) -> Any:
    """Make an MLX optimizer over tensors joined to vectors; `aim` has to be called before each update.

    A model that is `fixed` stays of the same layers, and nothing but the optimizer changes what is trained of it in
    place: an update then takes no way through it, nor joins what it has joined before.
    """
    match settings.optimizer:
        case "adam":
            found = _joining(optim.Adam)(settings.learning_rate, eps=EPS)
        case "adamw":
            found = _joining(optim.AdamW)(settings.learning_rate, eps=EPS, weight_decay=settings.weight_decay)
        case _:
            found = _joining(optim.SGD)(settings.learning_rate)
    found.trained = None if fixed is None else FlatParameters(fixed)
    return found


def _joining(kind: Any) -> Any:
    """Return an optimizer class that joins parameters, gradients and moments, and updates all of them at once.

    Updates are evaluated asynchronously.
    """

    class Joining(kind):  # type: ignore[misc]
        trained: FlatParameters | None

        def init(self, parameters: Any) -> None:
            super().init(join_leaves(parameters))

        def update(self, model: Any, gradients: Any) -> None:
            trained = self.trained or FlatParameters(model)
            moved = self.apply_gradients(join_leaves(gradients), trained.joined())
            mx.async_eval(trained.put(moved), self.state)

    return Joining


def aim(optimizer: Any, settings: Training, rate: float) -> None:
    """Set the learning rate of the next update, with the bias of Adam's moments corrected for.

    ```text
    rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + eps) = rate c / (1 - b1^t) * m / (sqrt(v) + eps c),
    c = sqrt(1 - b2^t)
    ```

    t counts updates, this one too. MLX corrects nothing unless asked to, and then by six more arrays; the right side
    takes three numbers. Uncorrected, the first step of Adam is 3.16 times as long as its learning rate says.

    Reference: Kingma & Ba 2015, Adam (arXiv:1412.6980), section 2.
    """
    optimizer.learning_rate = rate
    if settings.optimizer == "sgd":
        return
    done, (b1, b2) = int(optimizer.step.item()) + 1, optimizer.betas
    root, first = math.sqrt(1 - b2**done), 1 - b1**done
    optimizer.learning_rate, optimizer.eps = rate * root / first, EPS * root
    if settings.optimizer == "adamw":
        optimizer.weight_decay = settings.weight_decay * first / root  # of the rate that was asked for


def learning_rate(settings: Training, step: int, steps: int) -> float:
    """Return the learning rate of a step, from 1 on, of so many: a pure function, so no state has to be stored.

    It rises in a line over the warm-up, and falls over the rest: to 0 behind the last step, in a line or half a
    cosine.
    """
    if step <= settings.warmup:
        return settings.learning_rate * step / settings.warmup
    done = (step - settings.warmup - 1) / max(1, steps - settings.warmup)
    falls = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
    return settings.learning_rate * max(0.0, falls[settings.lr_schedule])
