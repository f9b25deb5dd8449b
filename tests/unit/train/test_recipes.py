"""What each recipe minimises, beside the plain formula; and the data sets that it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests import rows
from tests.unit.modeling.parts import adapted, built, examples, logp_of

import mlx.core as mx  # isort: skip
import mlx.nn as nn  # isort: skip
from mlx.utils import tree_flatten  # isort: skip

import karl_fast
from karl_fast.errors import UsageError
from karl_fast.modeling.chunked_logp import objective_gradient
from karl_fast.modeling.model_views import adapters_off
from karl_fast.modeling.optimizer import GradientSum, clip_norm, split_leaves
from karl_fast.objective import Evaluation
from karl_fast.train import Training, train
from karl_fast.train.batching import epoch_batches
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.recipe import OfflineObjective
from karl_fast.train.step import Learner, Parts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from karl_fast.modeling.chunked_logp import Columns

COUNT = 8
REWARDS = [1.0, 0.0, 0.5, 0.25, 0.75, 1.0, 0.0, 0.1]
GROUPS = ["a", "a", "a", "b", "b", "c", "c", "b"]
LOG_WEIGHTS = [-1.5, -3.0, -2.0, -2.5, -1.8, -1.5, -3.0, -2.9]


def known() -> list[Any]:
    return examples(COUNT, reward=REWARDS, group=GROUPS, log_weight=LOG_WEIGHTS)


def members(row: int) -> list[int]:
    return [other for other in range(COUNT) if GROUPS[other] == GROUPS[row]]


def sft(logp: list[mx.array], _: list[mx.array]) -> mx.array:
    return -mx.concatenate(logp).mean()


def dft(logp: list[mx.array], _: list[mx.array]) -> mx.array:
    flat = mx.concatenate(logp)
    return -(mx.stop_gradient(mx.exp(flat)) * flat).mean()


def surprisal_gate(logp: list[mx.array], _: list[mx.array]) -> mx.array:
    total = mx.array(0.0)
    for one in logp:
        gates = mx.stop_gradient(mx.sigmoid(4.0 * (one + 2.5)))
        total = total - (gates * one).sum() / gates.sum()
    return total / len(logp)


def weighted(weights: Any) -> Callable[..., mx.array]:
    def loss(logp: list[mx.array], _: list[mx.array]) -> mx.array:
        tokens = sum(one.size for one in logp)
        return -sum(float(weight) * one.sum() for weight, one in zip(weights, logp, strict=True)) / tokens

    return loss


BOLTZMANN = np.exp(LOG_WEIGHTS) / np.exp(LOG_WEIGHTS).mean()
AWR = [min(20.0, np.exp((REWARDS[i] - np.mean([REWARDS[j] for j in members(i)])) / 0.3)) for i in range(COUNT)]


def oapl(logp: list[mx.array], reference: list[mx.array]) -> mx.array:
    t, total = 0.5, mx.array(0.0)
    for i in range(COUNT):
        value = t * np.log(np.mean([np.exp(REWARDS[j] / t) for j in members(i)]))
        total = total + (t * (logp[i] - reference[i]).sum() - (REWARDS[i] - value)) ** 2
    return total / COUNT


def vargrad(logp: list[mx.array], reference: list[mx.array]) -> mx.array:
    residual = [(logp[i] - reference[i]).sum() - 2.0 * REWARDS[i] for i in range(COUNT)]
    total = mx.array(0.0)
    for i in range(COUNT):
        log_z = -sum(residual[j] for j in members(i)) / len(members(i))
        total = total + (residual[i] + mx.stop_gradient(log_z)) ** 2
    return total / COUNT


RECIPES: dict[str, tuple[dict[str, float], Callable[..., mx.array]]] = {
    "sft": ({}, sft),
    "dft": ({}, dft),
    "surprisal-gate": ({}, surprisal_gate),
    "boltzmann": ({}, weighted(BOLTZMANN)),
    "awr": ({"temperature": 0.3}, weighted(AWR)),
    "oapl": ({"temperature": 0.5}, oapl),
    "vargrad": ({"inverse_temperature": 2.0}, vargrad),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_matches_only_its_formula(recipe: str) -> None:
    more, _formula = RECIPES[recipe]
    data, model = known(), adapted(built())
    with adapters_off(model):
        reference = [mx.array(np.array(logp_of(model, one))) for one in data]
    settings = Training(recipe=recipe, **more)  # type: ignore[arg-type]
    ours = Learner(model, data, OfflineObjective(settings, data)).gradient([list(range(COUNT))])
    found = {}
    for name, (_, other) in RECIPES.items():
        value, gradient = nn.value_and_grad(
            model, lambda other=other: other([logp_of(model, one) for one in data], reference)
        )()
        found[name] = value.item(), dict(tree_flatten(gradient))
    assert ours.loss == pytest.approx(found[recipe][0], rel=1e-4)
    for name, one in tree_flatten(split_leaves(ours.parts["model"], model.trainable_parameters())):
        scale = mx.abs(found[recipe][1][name]).max().item()
        assert mx.abs(one - found[recipe][1][name]).max().item() <= 5e-4 * scale, name
    norm = np.sqrt(sum(float(mx.square(one).sum().item()) for one in found[recipe][1].values()))
    assert ours.norms["model"] == pytest.approx(norm, rel=1e-3)
    for name, (value, _) in found.items():
        assert name == recipe or abs(value - ours.loss) > 1e-3 * abs(ours.loss), name


def test_groups_in_two_batches_are_as_in_one() -> None:
    data, model = known(), adapted(built())
    learner = Learner(model, data, OfflineObjective(Training(recipe="vargrad", inverse_temperature=2.0), data))
    whole = learner.gradient([list(range(COUNT))])
    parts = learner.gradient([[0, 1, 2], [3, 4, 7, 5, 6]])
    assert parts.loss == pytest.approx(whole.loss, rel=1e-5)


VARGRAD, OAPL = {"recipe": "vargrad", "inverse_temperature": 2.0}, {"recipe": "oapl", "temperature": 0.5}


@pytest.mark.parametrize("how", [VARGRAD, OAPL])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_group_in_parts_is_one_group(how: dict[str, Any], dropout: float) -> None:
    """Not a sum of its parts' losses; and what dropout leaves out in both passes is the same."""
    data, found = known(), {}
    for most in (8, 3, 1):
        model = adapted(built(), Training(fine_tune_type="lora", lora_dropout=dropout))
        learner = Learner(model, data, OfflineObjective(Training(batch_size=most, **how), data))
        mx.random.seed(7)
        found[most] = learner.gradient([list(range(COUNT))])
        norms = [learner.gradient([list(range(COUNT))]).norms["model"] for _ in range(2)]
        assert (norms[0] == norms[1]) == (dropout == 0)
    for most in (3, 1) if dropout == 0 else ():
        assert found[most].loss == pytest.approx(found[8].loss, rel=1e-5)
        for name, one in found[8].parts["model"].items():
            assert np.allclose(found[most].parts["model"][name], one, atol=1e-5 * mx.abs(one).max().item()), name


def test_dropout_is_equal_in_both_passes() -> None:
    """Of a sum of squares, the passes of all parts together give the gradient that those of each part alone do."""
    data, model = known(), adapted(built(), Training(fine_tune_type="lora", lora_dropout=0.5))
    parts, passed = Parts(data, 3), []

    def squares(columns: Columns) -> Evaluation:
        passed.append(columns["logp"].sum())
        return Evaluation(float((columns["logp"] ** 2).sum()), 2 * columns["logp"], {})

    mx.random.seed(11)
    passes = parts.passes(Scorer(model))
    _, _, joint = objective_gradient(passes, parts.whole.mask, squares)
    summed = GradientSum()
    for one, part in zip(passes, parts.rows, strict=True):
        summed.add(objective_gradient([one], parts.whole.mask[part], squares)[2])
    assert len(set(passed)) == 4
    assert passed[0] == pytest.approx(sum(passed[1:]), rel=1e-6)
    for name, one in joint.items():
        assert np.allclose(one, summed.vectors[name], atol=1e-5 * mx.abs(one).max().item()), name


def test_large_group_is_partly_in_memory() -> None:
    data = examples(32, reward=[row / 32 for row in range(32)], group=["a"] * 32, longest=200)
    peaks = {}
    for most in (32, 4):
        model = adapted(built())
        settings = Training(recipe="vargrad", inverse_temperature=1.0, batch_size=most)
        learner = Learner(model, data, OfflineObjective(settings, data))
        mx.clear_cache()
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        learner.gradient([list(range(32))])
        peaks[most] = mx.get_peak_memory() - before
    assert peaks[4] < peaks[32] / 3


def test_group_batches_respect_the_size() -> None:
    groups = [[0, 1, 2], [3, 4], [5, 6], [7, 8, 9, 10, 11, 12]]
    batches = epoch_batches([5] * 13, groups, 4, seed=0, epoch=0)
    assert sorted(row for batch in batches for row in batch) == list(range(13))
    assert sorted(map(len, batches)) in ([3, 4, 6], [2, 2, 3, 6])


def test_gradient_is_only_scaled_down() -> None:
    data, model = known(), adapted(built())
    found = Learner(model, data, OfflineObjective(Training(), data)).gradient([list(range(COUNT))])

    def norm(values: Any) -> float:
        return float(np.sqrt(sum(float(mx.square(one).sum().item()) for _, one in tree_flatten(values))))

    vectors, size = found.parts["model"], found.norms["model"]
    assert norm(clip_norm(vectors, size, size / 4)) == pytest.approx(size / 4, rel=1e-5)
    assert clip_norm(vectors, size, size * 4) is vectors
    assert clip_norm(vectors, size, 0.0) is vectors
    assert norm(found.clip(size / 4)["model"]) == pytest.approx(size / 4, rel=1e-5)


def test_non_finite_step_is_skipped() -> None:
    """One token's embedding is infinite: the loss of a batch with it is not a number."""
    from karl_fast.modeling.optimizer import StepGradient

    assert not StepGradient(float("nan"), {"model": {}}).finite
    assert not StepGradient(1.0, {"model": {"float32-000000": mx.array([float("inf")])}}).finite
    data, model = known(), adapted(built())
    learner = Learner(model, data, OfflineObjective(Training(), data))
    embedding = model.model.embed_tokens
    embedding.weight[int(data[0].text.tokens[0])] = float("nan")
    assert not learner.gradient([[0]]).finite


def test_a_drawn_set_is_not_weighed_again(tiny_model: Path, tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(24, groups=6))
    karl_fast.sample(log, tmp_path / "drawn", k=16, split=(1.0, 0.0, 0.0))
    for recipe, (more, _) in RECIPES.items():
        if recipe in ("sft", "dft", "surprisal-gate"):
            continue
        with pytest.raises(
            UsageError, match=r"drawn by their rewards already \(gumbel\): they would count twice"
        ) as error:
            train(tmp_path / "drawn", tiny_model, tmp_path / "a", Training(recipe=recipe, **more))  # type: ignore[arg-type]
        assert "--sampler all" in (error.value.hint or "")
    (tmp_path / "drawn" / "manifest.json").unlink()
    with pytest.raises(UsageError, match=r"has no manifest\.json"):
        train(tmp_path / "drawn", tiny_model, tmp_path / "a", Training(recipe="boltzmann"))


@pytest.mark.parametrize("recipe", ["boltzmann", "awr", "oapl", "vargrad"])
def test_weighted_rows_train_weighing_recipes(recipe: str, tiny_model: Path, tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(24, groups=6))
    karl_fast.sample(log, tmp_path / "all", sampler="all", split=(1.0, 0.0, 0.0))
    settings = Training(recipe=recipe, iters=2, max_seq_length=64, learning_rate=1e-4, **RECIPES[recipe][0])  # type: ignore[arg-type]
    assert train(tmp_path / "all", tiny_model, tmp_path / "adapter", settings).steps == (2, 2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"recipe": "awr"}, "the recipe awr needs temperature"),
        ({"temperature": 1.0}, "the recipe sft has no use for temperature"),
        ({"recipe": "oapl", "temperature": 1.0, "fine_tune_type": "full"}, "keeps none"),
        ({"iters": 0}, "iters is 0, wanted a whole number from 1 on"),
        ({"iters": 5, "epochs": 1.0}, "cannot be combined"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"recipe": "grpo"}, "recipe is 'grpo', wanted sft, dft"),
        ({"report_to": ("tensorboard",)}, "report_to names 'tensorboard', wanted wandb, trackio"),
    ],
)
def test_settings_that_nobody_can_mean_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as error:
        Training(**wrong)
    assert said in str(error.value)
