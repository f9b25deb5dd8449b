"""The optimizer, and the learning rate of each step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karl_fast.train.settings import Training


def build(settings: Training) -> Any:
    """An optimizer of MLX. Adam's moments are corrected for their bias, which MLX does only when asked to.

    Without it the first step of Adam is 3.16 times as long as its learning rate says (Kingma & Ba 2015, section 3).
    """
    import mlx.optimizers as optim

    match settings.optimizer:
        case "adam":
            return optim.Adam(settings.learning_rate, bias_correction=True)
        case "adamw":
            return optim.AdamW(settings.learning_rate, weight_decay=settings.weight_decay, bias_correction=True)
        case _:
            return optim.SGD(settings.learning_rate)


def learning_rate(settings: Training, step: int, steps: int) -> float:
    """The learning rate of a step, from 1 on, of so many: a pure function, so that a schedule has no state to lose.

    It rises in a line over the warm-up, and falls over the rest: to 0 behind the last step, in a line or half a
    cosine.
    """
    if step <= settings.warmup:
        return settings.learning_rate * step / settings.warmup
    done = (step - settings.warmup - 1) / max(1, steps - settings.warmup)
    falls = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
    return settings.learning_rate * max(0.0, falls[settings.lr_schedule])
