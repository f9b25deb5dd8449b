"""Tensors that are joined to vectors: the same numbers in the same places, whatever their types and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.modeling.parts import adapted, built

import mlx.core as mx  # isort: skip
import mlx.nn as nn  # isort: skip
import mlx.optimizers as optim  # isort: skip
from mlx.utils import tree_flatten, tree_map  # isort: skip

from karl_fast.modeling import optimizer
from karl_fast.train import Training


def tree() -> dict[str, Any]:
    """Names that sort otherwise than they stand, a layer without anything, two types."""
    return {
        "layers": [{}, *({"b": mx.arange(6.0).reshape(2, 3) + n, "a": mx.full((2,), float(n))} for n in range(12))],
        "half": mx.arange(4).astype(mx.bfloat16),
        "scalar": mx.array(7.0),
    }


def equal(one: Any, other: Any) -> bool:
    pairs = list(zip(tree_flatten(one), tree_flatten(other), strict=True))
    same = (a.dtype == b.dtype and a.shape == b.shape and mx.array_equal(a, b) for (_, a), (_, b) in pairs)
    return [name for (name, _), _ in pairs] == [name for _, (name, _) in pairs] and all(same)


@pytest.mark.parametrize("longest", [1, 5, 30, 1 << 22])
def test_what_is_joined_can_be_parted(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizer, "LONGEST_STRETCH", longest)
    whole = optimizer.join_leaves(tree())
    assert sum(one.size for one in whole.values()) == 12 * 8 + 5
    assert {one.dtype for one in whole.values()} == {mx.float32, mx.bfloat16}
    assert max(one.size for one in whole.values()) < longest + 6  # a stretch, and what begins in it
    assert equal(optimizer.join_leaves(whole), whole)
    parted = optimizer.split_leaves(whole, tree())
    assert parted["layers"][0] == {}
    assert equal(parted, dict(sorted(tree().items())) | {"layers": parted["layers"]})
    assert all(equal(dict(sorted(a.items())), b) for a, b in zip(tree()["layers"], parted["layers"], strict=True))


def test_the_norm_is_of_all_numbers() -> None:
    every = np.concatenate([np.array(one.astype(mx.float32)).ravel() for _, one in tree_flatten(tree())])
    assert optimizer.global_norm(optimizer.join_leaves(tree())).item() == pytest.approx(
        float(np.linalg.norm(every)), rel=1e-6
    )


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd"])
def test_vector_update_equals_tensor_updates_bit_exactly(kind: Any) -> None:
    settings = Training(optimizer=kind, learning_rate=0.01, weight_decay=0.1)
    plain = {"adam": optim.Adam, "adamw": optim.AdamW, "sgd": optim.SGD}[kind](0.01)
    made, models = optimizer.build_optimizer(settings), [adapted(built()), adapted(built())]
    made.init(models[0].trainable_parameters())
    names = set(made.state)
    for step in range(3):
        gradient = tree_map(lambda one, step=step: mx.cos(one + step), models[0].trainable_parameters())
        for one, model in zip((made, plain), models, strict=True):
            optimizer.set_learning_rate(one, settings, 0.01)
            one.update(model, gradient)
    assert equal(models[0].parameters(), models[1].parameters())
    assert set(made.state) == names


@pytest.mark.parametrize("longest", [1, 30, 1 << 22])
def test_joined_parameters_are_current(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizer, "LONGEST_STRETCH", longest)
    model = adapted(built())
    trained = optimizer.FlatParameters(model)
    assert equal(trained.joined(), optimizer.join_leaves(model.trainable_parameters()))
    moved = {name: one + 1 for name, one in trained.joined().items()}
    trained.put(moved)
    assert equal(optimizer.join_leaves(model.trainable_parameters()), moved)
    assert trained.joined() is moved
    model.update(tree_map(lambda one: one * 2, model.trainable_parameters()))
    assert equal(trained.joined(), {name: one * 2 for name, one in moved.items()})


def test_update_uses_current_model_parameters() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    made = optimizer.build_optimizer(Training(optimizer="sgd", learning_rate=1.0))
    made.init(model.trainable_parameters())
    ones = lambda: tree_map(mx.ones_like, model.trainable_parameters())  # noqa: E731
    made.update(model, ones())
    model.layers[0].weight *= 0
    made.update(model, ones())
    assert model.layers[0].weight.tolist() == [[-1.0] * 3] * 2
    model.layers[0] = nn.Linear(3, 2, bias=False)
    before = mx.array(model.layers[0].weight)
    made.update(model, ones())
    assert mx.array_equal(model.layers[0].weight, before - 1)
    model.layers[1].freeze()
    made.update(model, ones())
    assert mx.array_equal(model.layers[0].weight, before - 2)
