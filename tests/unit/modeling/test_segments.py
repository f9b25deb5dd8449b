"""Rows in segments have the gradient of whole rows; each rule that keeps it has a test that fails without the rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

import mlx.core as mx
from mlx.utils import tree_map

from karl_fast.errors import ModelError
from karl_fast.modeling import segments as borders
from karl_fast.modeling.chunked_logp import Traced
from karl_fast.modeling.model_views import checkpoint_layers
from karl_fast.modeling.optimizer import FlatParameters, GradientSum, global_norm
from karl_fast.modeling.segments import SegmentPass, carry_states, cut_segments
from karl_fast.train import step as steps
from karl_fast.train.batching import PaddedBatch, pad_rows
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.recipe import OfflineObjective
from karl_fast.train.settings import Training
from karl_fast.train.step import Learner
from tests.tolerances import LARGEST_ROUNDING, SPARE, of_float32_sums
from tests.unit.modeling import model_zoo
from tests.unit.modeling.parts import adapted, built, examples

KINDS = ["qwen3", "qwen3_5", "llama", "gemma3_text", "qwen3_moe", "mamba2", "llama4", "falcon_h1"]

Coefficients = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def batch() -> PaddedBatch:
    """Rows of unlike lengths, so that some leave the batch before the last segment."""
    return pad_rows(examples(4, longest=70, seed=3))


@pytest.fixture(scope="module")
def coefficients(batch: PaddedBatch) -> Coefficients:
    return {"logp": np.random.default_rng(0).normal(size=batch.places.size).astype(np.float32)}


def swept(model: Any, batch: PaddedBatch, length: int = 16, seed: int | None = None) -> SegmentPass:
    scorer = Scorer(model)
    carrier = carry_states(model, scorer.body, scorer.head)
    return SegmentPass(carrier, scorer.head, scorer.rows, np.array(batch.tokens), batch.mask, length=length, seed=seed)


def distance(found: dict[str, mx.array], wanted: dict[str, mx.array]) -> float:
    """The relative distance of two gradients, in float32."""
    wide = {name: one.astype(mx.float32) for name, one in wanted.items()}
    far: Any = global_norm({name: found[name].astype(mx.float32) - one for name, one in wide.items()})
    return float((far / global_norm(wide)).item())


def over_tokens(batch: PaddedBatch) -> float:
    """Of sums over the tokens of a batch, from which a gradient is added up."""
    return of_float32_sums(batch.mask.size)


def whole(model: Any, batch: PaddedBatch, coefficients: Coefficients) -> dict[str, mx.array]:
    found: dict[str, mx.array] = Scorer(model).trace(batch).pull(coefficients)
    mx.eval(found)
    return found


def by_rows(model: Any, coefficients: Coefficients) -> dict[str, mx.array]:
    """The sum of the gradients of each row alone: float32 rounds it in another order."""
    summed = GradientSum()
    at = 0
    for one in examples(4, longest=70, seed=3):
        row = pad_rows([one])
        part = slice(at, at := at + row.places.size)
        summed.add(whole(model, row, {"logp": coefficients["logp"][part]}))
    return summed.result()


@pytest.mark.parametrize("kind", KINDS)
def test_segments_have_the_gradient_of_whole_rows(kind: str, batch: PaddedBatch, coefficients: Coefficients) -> None:
    """Within the rounding of sums over the tokens, or of what a batch and its rows one by one differ by."""
    model = adapted(model_zoo.built(kind))
    there, sweep = Scorer(model).trace(batch), swept(model, batch)
    logp = there.outputs()["logp"]
    assert len(sweep.segments) == 4
    widths = of_float32_sums(64, 96, 97)  # of a hidden state, of what is inside a layer, and of the vocabulary
    assert np.abs(sweep.outputs()["logp"] - logp).max() < widths * np.abs(logp).max()
    wanted = there.pull(coefficients)
    rounding = distance(by_rows(model, coefficients), wanted)
    assert distance(sweep.pull(coefficients), wanted) < max(over_tokens(batch), SPARE * rounding)
    assert rounding < LARGEST_ROUNDING


@pytest.mark.parametrize("length", [8, 24, 33, 64])
def test_any_length_of_a_segment_gives_the_same(length: int, batch: PaddedBatch, coefficients: Coefficients) -> None:
    """Segments shorter and longer than the window of 16 tokens, and those that do not divide a row."""
    model = adapted(built("gemma3_text"))
    assert distance(swept(model, batch, length).pull(coefficients), whole(model, batch, coefficients)) < over_tokens(
        batch
    )


def test_untrained_layers_pass_no_cotangents(batch: PaddedBatch, coefficients: Coefficients) -> None:
    model = adapted(built("qwen3"), Training(num_layers=1))
    sweep = swept(model, batch)
    assert distance(sweep.pull(coefficients), whole(model, batch, coefficients)) < over_tokens(batch)
    carrier = carry_states(model, *[getattr(Scorer(model), half) for half in ("body", "head")])
    assert carrier.trained == [False, True]


def test_whole_layers_train_in_segments(batch: PaddedBatch, coefficients: Coefficients) -> None:
    model = built("qwen3", bits=None)
    model.freeze()
    for layer in model.layers:
        layer.unfreeze()
    model.train()
    assert distance(swept(model, batch).pull(coefficients), whole(model, batch, coefficients)) < over_tokens(batch)


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text"])
def test_a_base_of_four_bits_trains_in_segments(kind: str, batch: PaddedBatch, coefficients: Coefficients) -> None:
    model = adapted(built(kind, bits=4))
    assert distance(swept(model, batch).pull(coefficients), whole(model, batch, coefficients)) < over_tokens(batch)


def test_sums_of_cotangents_are_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model in bfloat16 with many segments: a sum in its type loses what is small beside it."""
    model = built("qwen3")
    model.update(tree_map(lambda one: one.astype(mx.bfloat16), model.parameters()))
    model = adapted(model)
    batch = pad_rows(examples(1, longest=400, seed=12))
    ones = {"logp": np.ones(batch.places.size, dtype=np.float32)}
    wide = swept(model, batch, 8).pull(ones)
    assert distance(wide, whole(model, batch, ones)) < 0.03  # whole passes in bfloat16 are as far from float32
    monkeypatch.setattr(borders, "_add", _added_in_the_type_of_the_model)
    assert distance(swept(model, batch, 8).pull(ones), wide) > 1e-3


def _added_in_the_type_of_the_model(before: mx.array | None, more: mx.array) -> mx.array:
    return more if before is None else before + more


def test_gradients_add_up_in_float32() -> None:
    total = GradientSum()
    total.add({"a": mx.array([256.0], mx.bfloat16)})
    for _ in range(256):  # in bfloat16, 256 + 1 is 256
        total.add({"a": mx.array([1.0], mx.bfloat16)})
    [(name, found)] = total.result().items()
    assert (name, found.dtype, found.item()) == ("a", mx.bfloat16, 512.0)


def test_gradients_of_micro_batches_add_up_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is trained in bfloat16: a sum of its batches in its type would be that of the first batch."""
    model = built("qwen3")
    model.update(tree_map(lambda one: one.astype(mx.bfloat16), model.parameters()))
    sizes, plain = iter([256.0, *[1.0] * 16]), steps.objective_gradient

    def sized(*arguments: Any) -> Any:
        evaluation, columns, values = plain(*arguments)
        size = next(sizes)
        return evaluation, columns, {name: mx.full(one.shape, size, one.dtype) for name, one in values.items()}

    monkeypatch.setattr(steps, "objective_gradient", sized)
    rows = examples(17, longest=12)
    learner = Learner(model, rows, OfflineObjective(Training(), rows))
    found = learner.gradient([[row] for row in range(17)]).parts["model"]
    assert {str(one.dtype): float(one.max()) for one in found.values()} == {"mlx.core.bfloat16": 272.0}


def test_dropout_leaves_out_the_same_in_both_sweeps(batch: PaddedBatch, coefficients: Coefficients) -> None:
    """The log-probabilities of the reverse sweep are those of the forward sweep, and its gradient is theirs."""
    model = adapted(built("qwen3"), Training(lora_dropout=0.3))
    scorer = Scorer(model)
    model.eval()
    without = scorer.trained_logp(batch)
    model.train()

    def logp(seed: int) -> np.ndarray:
        return swept(model, batch, seed=seed).outputs(keep=False)["logp"]

    assert np.array_equal(logp(5), logp(5))
    assert np.abs(logp(5) - logp(6)).max() > 1e-3
    assert np.abs(logp(5) - np.array(without)).max() > 1e-3
    gradient = swept(model, batch, seed=5).pull(coefficients)
    trained, step = FlatParameters(model), 1e-3
    there = trained.joined()

    def moved(by: float) -> float:
        trained.put({name: vector + by * gradient[name] / global_norm(gradient) for name, vector in there.items()})
        return float((logp(5).astype(np.float64) * coefficients["logp"]).sum())

    slope = (moved(step) - moved(-step)) / (2 * step)
    assert slope == pytest.approx(float(global_norm(gradient).item()), rel=2e-3)


def test_recomputed_layers_leave_out_the_same_as_before(batch: PaddedBatch, coefficients: Coefficients) -> None:
    """`grad_checkpoint` computes a layer twice: its gradient is that of the numbers that the first time left out."""
    model = adapted(built("qwen3"), Training(lora_dropout=0.3))
    trained, step = FlatParameters(model), 1e-3

    def traced(seed: int) -> Any:
        mx.random.seed(seed)
        return Scorer(model).trace(batch)

    with checkpoint_layers(model, True):
        gradient = traced(5).pull(coefficients)
        there, size = trained.joined(), float(global_norm(gradient).item())

        def moved(by: float) -> float:
            trained.put({name: vector + by * gradient[name] / size for name, vector in there.items()})
            return float((traced(5).outputs()["logp"].astype(np.float64) * coefficients["logp"]).sum())

        slope = (moved(step) - moved(-step)) / (2 * step)
    assert slope == pytest.approx(size, rel=2e-3)


def test_padding_reaches_nothing(batch: PaddedBatch, coefficients: Coefficients) -> None:
    model = adapted(model_zoo.built("qwen3_5"))
    other = np.array(batch.tokens)
    for row, count in enumerate(batch.mask.shape[1] - batch.mask[:, ::-1].argmax(1)):
        other[row, count + 1 :] = 50
    assert (other != np.array(batch.tokens)).any()
    changed = replace(batch, tokens=mx.array(other))
    assert distance(swept(model, changed).pull(coefficients), swept(model, batch).pull(coefficients)) < over_tokens(
        batch
    )


def test_rows_leave_at_their_last_segment() -> None:
    mask = np.arange(20) < np.array([3, 20, 8])[:, None]
    order, segments = cut_segments(mask, 8)
    assert order.tolist() == [1, 2, 0]
    assert [(one.start, one.stop, len(one.rows)) for one in segments] == [(0, 8, 3), (8, 16, 1), (16, 20, 1)]
    assert sorted(np.concatenate([one.numbers for one in segments])) == list(range(31))


def test_a_row_of_one_segment_passes_whole(batch: PaddedBatch) -> None:
    model = adapted(built("qwen3"))
    assert isinstance(Scorer(model, batch.inputs).trace(batch), Traced)
    assert isinstance(Scorer(model, batch.inputs - 1).trace(batch), SegmentPass)


@pytest.mark.parametrize("kind", ["gemma3n", "phi3small", "plamo3"])
def test_what_cannot_be_carried_is_refused_by_name(kind: str) -> None:
    model = adapted(model_zoo.built(kind))
    scorer = Scorer(model, 16)
    with pytest.raises(ModelError, match=f"a model of type {kind} cannot be trained in segments: "):
        _ = scorer.carrier


RECIPES: dict[str, dict[str, Any]] = {
    "sft": {},
    "dft": {},
    "surprisal-gate": {},
    "boltzmann": {},
    "awr": {"temperature": 0.5},
    "oapl": {"temperature": 0.5},
    "vargrad": {"inverse_temperature": 2.0},
}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("batch_size", [2, 6])
def test_every_recipe_has_the_same_step_in_segments(recipe: str, batch_size: int) -> None:
    """With groups that pass in parts, too."""
    model = adapted(built("qwen3"))
    random = np.random.default_rng(1)
    known = {"reward": random.random(6), "log_weight": random.normal(size=6), "group": ["a", "b"] * 3}
    rows = examples(6, longest=70, **known)
    settings = Training(recipe=recipe, batch_size=batch_size, **RECIPES[recipe])

    def step(length: int | None) -> Any:
        return Learner(model, rows, OfflineObjective(settings, rows), length).gradient([list(range(6))])

    parts, once = step(16), step(None)
    assert parts.loss == pytest.approx(once.loss, rel=1e-5)
    assert distance(parts.parts["model"], once.parts["model"]) < 2e-5
