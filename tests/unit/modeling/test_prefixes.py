"""Rows with a common prefix, which is computed once, have the gradient of rows that each compute it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

import mlx.core as mx
from mlx.utils import tree_map

from karl_fast.cli.commands.eval import _describe_losses
from karl_fast.cli.reports.train import StepLines
from karl_fast.modeling.chunked_logp import Traced
from karl_fast.modeling.model_views import checkpoint_layers
from karl_fast.modeling.optimizer import global_norm
from karl_fast.modeling.segment_states import read_rows
from karl_fast.modeling.segments import SegmentPass, WholePass, cut_segments, shares_prefix
from karl_fast.train import evaluate, train
from karl_fast.train.batching import PaddedBatch, pad_rows
from karl_fast.train.chat_template import Text
from karl_fast.train.examples import Example
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.recipe import OfflineObjective
from karl_fast.train.settings import Training
from karl_fast.train.step import Learner
from tests.tolerances import of_float32_sums
from tests.unit.modeling import model_zoo
from tests.unit.modeling.parts import adapted, built
from tests.unit.train.test_mlx_lm_defects import QUICK, chat, write

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("qwen3", "gemma3_text", "qwen3_5", "mamba2", "llama4", "qwen3_moe")


def families(*, groups: int = 2, rows: int = 3, seed: int = 0) -> list[Example]:
    """Rows of each group begin alike, two of them further than the third; tokens of the prefix are learned, too."""
    random = np.random.default_rng(seed)
    found = []
    for group in range(groups):
        root, fork = (
            random.integers(4, model_zoo.VOCABULARY, 90 + 7 * group),
            random.integers(4, model_zoo.VOCABULARY, 70),
        )
        for row in range(rows):
            own = random.integers(4, model_zoo.VOCABULARY, int(random.integers(20, 60)))
            tokens = np.concatenate([root, *([fork] if row < 2 else []), own]).astype(np.int32)
            learned = np.arange(len(tokens)) >= len(tokens) - 30
            learned[80 : 84 + row] = True
            found.append(Example(Text(tokens, learned), len(found), group=str(group), reward=float(random.random())))
    return found


@pytest.fixture(scope="module")
def batch() -> PaddedBatch:
    return pad_rows(families())


@pytest.fixture(scope="module")
def coefficients(batch: PaddedBatch) -> dict[str, np.ndarray]:
    return {"logp": np.random.default_rng(0).normal(size=batch.places.size).astype(np.float32)}


def pulled(model: Any, batch: PaddedBatch, coefficients: Any, length: int | None, kind: type) -> tuple[Any, Any]:
    """Log-probabilities and their gradient, by a way through the model of a kind."""
    scorer = Scorer(model, length)
    if kind is Traced:
        scorer.__dict__["carry_obstacle"] = "a reason"
    trace = scorer.trace(batch)
    assert type(trace) is kind
    logp = trace.outputs()["logp"]
    gradient = trace.pull(coefficients)
    mx.eval(gradient)
    return logp, gradient


def distance(found: Any, wanted: Any) -> float:
    wide = {name: one.astype(mx.float32) for name, one in wanted.items()}
    far: Any = global_norm({name: found[name].astype(mx.float32) - one for name, one in wide.items()}) / global_norm(
        wide
    )
    return float(far.item())


@pytest.mark.parametrize("kind", KINDS)
def test_shared_prefix_gives_every_rows_gradient(
    kind: str, batch: PaddedBatch, coefficients: dict[str, np.ndarray]
) -> None:
    model = adapted(model_zoo.built(kind))
    logp, wanted = pulled(model, batch, coefficients, None, Traced)
    for length, way in ((None, WholePass), (48, SegmentPass)):
        found, gradient = pulled(model, batch, coefficients, length, way)
        assert np.abs(found - logp).max() < 2e-5
        assert distance(gradient, wanted) < of_float32_sums(batch.mask.size), way


def test_a_pass_without_a_gradient_shares_prefixes_too(batch: PaddedBatch) -> None:
    model = adapted(built("qwen3"))
    alone = Scorer(model)
    alone.__dict__["carry_obstacle"] = "a reason"
    wanted, reference = np.array(alone.trained_logp(batch)), np.array(alone.reference(batch))
    for length in (None, 48):
        scorer = Scorer(model, length)
        np.testing.assert_allclose(scorer.reference(batch), reference, atol=2e-5)
        np.testing.assert_allclose(scorer.trained_logp(batch), wanted, atol=2e-5)
    assert np.abs(reference - wanted).max() > 1e-2


def test_recomputed_layers_keep_the_rows_that_they_read(
    batch: PaddedBatch, coefficients: dict[str, np.ndarray]
) -> None:
    model = adapted(built("qwen3"))
    _, wanted = pulled(model, batch, coefficients, None, Traced)
    with checkpoint_layers(model, True):
        _, gradient = pulled(model, batch, coefficients, None, WholePass)
    assert distance(gradient, wanted) < of_float32_sums(batch.mask.size)


def test_each_distinct_stretch_passes_once(batch: PaddedBatch) -> None:
    """Two groups: their roots, then the forks and the third row of each, then what is left of the longer rows."""
    tokens = np.array(batch.tokens)
    _, segments = cut_segments(batch.mask, batch.inputs, tokens)
    assert [(one.start, one.stop, len(one.rows), len(one.members)) for one in segments] == [
        (0, 89, 2, 6),
        (89, 159, 4, 6),
        (159, 212, 4, 4),
    ]
    assert sorted(np.concatenate([one.numbers for one in segments]).tolist()) == list(range(batch.places.size))
    _, alone = cut_segments(batch.mask, batch.inputs)
    assert [(one.start, one.stop, len(one.rows)) for one in alone] == [(0, 212, 6)]


def test_a_stretch_that_saves_little_is_no_segment() -> None:
    random = np.random.default_rng(1)
    tokens = random.integers(4, 97, (3, 401)).astype(np.int32)
    mask = np.ones((3, 400), dtype=np.bool_)
    for common, borders in ((65, []), (200, [199])):
        tokens[1, :common] = tokens[0, :common]  # of 1,200 tokens
        assert [one.stop for one in cut_segments(mask, 400, tokens)[1]] == [*borders, 400]
        assert shares_prefix(mask, tokens) == bool(borders)


@pytest.mark.parametrize(("rows", "common", "shared"), [(8, 25, True), (8, 12, False), (2, 90, False), (40, 5, False)])
def test_a_prefix_is_shared_for_what_it_saves(rows: int, common: int, shared: bool) -> None:
    """The tokens of the prefix times the rows that need not compute it count, not its length alone."""
    tokens = np.random.default_rng(1).integers(4, 97, (rows, common + 30)).astype(np.int32)
    tokens[:, :common] = tokens[0, :common]
    mask = np.ones((rows, common + 29), dtype=np.bool_)
    assert shares_prefix(mask, tokens) == shared


@pytest.mark.parametrize("kind", ["dropout", "gemma3n"])
def test_no_sharing_with_dropout_or_uncarried_states(batch: PaddedBatch, kind: str) -> None:
    model = adapted(built("qwen3"), Training(lora_dropout=0.1)) if kind == "dropout" else adapted(model_zoo.built(kind))
    assert isinstance(Scorer(model).trace(batch), Traced)
    if kind == "dropout":
        swept = Scorer(model, 48).trace(batch, seed=1)
        assert isinstance(swept, SegmentPass)
        assert [len(one.rows) for one in swept.segments] == [len(one.members) for one in swept.segments]
        model.eval()
        assert isinstance(Scorer(model).trace(batch), WholePass)


def test_cotangents_of_shared_state_sum_in_float32() -> None:
    """In bfloat16, 256 + 1 is 256."""
    rows = [(0, 2), (1, 1)] * 128
    cotangent = mx.ones((384, 1), mx.bfloat16)
    cotangent[0] = 256.0

    def function(array: mx.array) -> list[mx.array]:
        return read_rows([array], [rows])

    found, slope = mx.vjp(function, [mx.array([[3.0], [5.0]], mx.bfloat16)], [cotangent])
    assert found[0][:6, 0].tolist() == [3, 3, 5, 3, 3, 5]
    assert slope[0].dtype == mx.bfloat16
    assert slope[0][:, 0].tolist() == [512.0, 128.0]  # 256 and 255 ones, rounded at the end


def test_bfloat16_is_as_exact_with_shared_prefixes(batch: PaddedBatch, coefficients: dict[str, np.ndarray]) -> None:
    model = adapted(built("qwen3"))
    _, exact = pulled(model, batch, coefficients, None, Traced)
    exact = {name.replace("float32", "bfloat16"): one for name, one in exact.items()}
    model.update(tree_map(lambda one: one.astype(mx.bfloat16), model.parameters()))
    far = distance(pulled(model, batch, coefficients, None, Traced)[1], exact)
    for length, way in ((None, WholePass), (48, SegmentPass)):
        assert distance(pulled(model, batch, coefficients, length, way)[1], exact) < 1.5 * far < 0.2


@pytest.mark.parametrize("recipe", ["sft", "vargrad"])
@pytest.mark.parametrize("length", [None, 48])
def test_step_equals_that_without_sharing(recipe: str, length: int | None) -> None:
    model, rows = adapted(built("qwen3")), families()
    more: Any = {"inverse_temperature": 2.0} if recipe == "vargrad" else {}
    settings = Training(recipe=recipe, batch_size=6, **more)
    learner, alone = (Learner(model, rows, OfflineObjective(settings, rows), length) for _ in range(2))
    alone.scorer = Scorer(model)
    alone.scorer.__dict__["carry_obstacle"] = "a reason"
    found, wanted = learner.gradient([list(range(6))]), alone.gradient([list(range(6))])
    assert found.loss == pytest.approx(wanted.loss, rel=1e-5)
    assert distance(found.parts["model"], wanted.parts["model"]) < 2e-5


def test_reason_for_no_sharing_is_reported_once(batch: PaddedBatch) -> None:
    model = adapted(built("qwen3"), Training(lora_dropout=0.1))
    for length in (None, 48):
        scorer = Scorer(model, length)
        assert scorer.sharing.remark() is None
        scorer.trace(batch, seed=1)
        assert "dropout" in str(scorer.sharing.remark())
        scorer.trace(batch, seed=1)
        assert scorer.sharing.remark() is None
    scorer = Scorer(adapted(model_zoo.built("gemma3n")))
    scorer.trace(batch)
    assert "gemma3n cannot be trained in segments: its layers share" in str(scorer.sharing.remark())


@pytest.mark.parametrize("length", [None, 48])
def test_no_remark_without_common_prefixes(length: int | None) -> None:
    random, model = np.random.default_rng(2), adapted(built("qwen3"), Training(lora_dropout=0.1))
    texts = [Text(random.integers(4, model_zoo.VOCABULARY, 90).astype(np.int32), np.arange(90) > 0) for _ in range(3)]
    scorer = Scorer(model, length)
    scorer.trace(pad_rows([Example(text, row) for row, text in enumerate(texts)]), seed=1)
    assert scorer.sharing.remark() is None


def test_a_run_prints_why_rows_share_nothing(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "the same long question for all rows " * 8
    data = write(tmp_path / "data", [chat(f"{asked}{n}", f"answer {n}") for n in range(8)])
    settings = Training(**QUICK | {"max_seq_length": 512, "iters": 2, "lora_dropout": 0.1})
    train(data, tiny_model, tmp_path / "adapter", settings, viewer=StepLines(1))
    printed = " ".join(capsys.readouterr().err.split())
    wanted = "warning each row computes by itself the prefix that it has in common with others: dropout"
    assert printed.count(wanted) == 1
    monkeypatch.setattr(Scorer, "_obstacle", lambda _: "a reason")
    found = evaluate(data, tiny_model, tmp_path / "adapter", against="base", split="train", settings=settings)
    assert [one.rpartition(": ")[2] for one in found.remarks] == ["a reason"]
    assert list(_describe_losses(found))[-1] == f"warning   {found.remarks[0]}"
