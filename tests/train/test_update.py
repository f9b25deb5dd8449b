"""An update that is compiled moves the weights as the optimizer does by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core", reason="mlx is not installed: pip install 'karl-fast[train]'")


def updated(settings: Any, kind: Any, own: bool) -> dict[str, Any]:
    """The weights after four updates, whose learning rate and bias correction change."""
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_map

    from karl_fast.train import optimizer
    from karl_fast.train.tensors import flat
    from karl_fast.train.update import Update

    mx.random.seed(2)
    model: Any = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    model.set_dtype(kind)
    adam = optimizer.build(settings)
    adam.init(model.trainable_parameters())
    update = Update(adam)
    for step in range(4):
        optimizer.aim(adam, settings, 0.1 / (step + 1))
        gradient = tree_map(lambda one: mx.random.normal(one.shape).astype(kind), model.trainable_parameters())
        share = mx.array(0.5 + step)
        if own:
            update(model, gradient, share)
        else:
            adam.update(model, tree_map(lambda one, by=share: one * by.astype(one.dtype), gradient))
    held = vars(adam)
    assert all(isinstance(held[name], float) for name in ("eps", "weight_decay") if name in held)
    assert {str(value.dtype) for value in flat(model.parameters()).values()} == {str(kind)}
    return {name: np.array(value.astype(mx.float32)) for name, value in flat(model.parameters()).items()}


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_updates_are_those_of_the_optimizer_to_the_bit(name: Any, kind: str) -> None:
    import mlx.core as mx

    from karl_fast.train.settings import Training

    settings = Training(optimizer=name, weight_decay=0.1)
    plain, own = (updated(settings, getattr(mx, kind), one) for one in (False, True))
    for key, value in plain.items():
        np.testing.assert_array_equal(own[key], value)
