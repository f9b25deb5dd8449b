"""Training on preferences: rows, losses beside the plain formulas, and runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests import rows
from tests.unit.modeling.parts import adapted, built, examples, logp_of

import mlx.core as mx  # isort: skip
import mlx.nn as nn  # isort: skip
from mlx.utils import tree_flatten  # isort: skip

from karl_fast.errors import DataSetError, NothingToTrainError, UsageError
from karl_fast.modeling.model_views import adapters_off
from karl_fast.modeling.optimizer import split_leaves
from karl_fast.train import Training, train
from karl_fast.train.preferences import read_answers
from karl_fast.train.recipe import OfflineObjective
from karl_fast.train.settings import PAIRED, PREFERENCES
from karl_fast.train.step import Learner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from karl_fast.train.examples import Example

COUNT = 8
WANTED = [True, False, True, False, False, True, True, False]
"""Of four pairs."""


def known(paired: bool = True) -> list[Example]:
    """Eight answers of four pairs; without pairs, each with a text of another prompt but one."""
    held = examples(COUNT, preferred=WANTED, group=[str(row // 2) if paired else None for row in range(COUNT)])
    others = examples(COUNT, seed=5)
    texts = [None if paired or row == 3 else others[row].text for row in range(COUNT)]
    return [replace(one, mismatched=text) for one, text in zip(held, texts, strict=True)]


def pairs() -> list[tuple[int, int]]:
    return [(row, row + 1) if WANTED[row] else (row + 1, row) for row in range(0, COUNT, 2)]


def soft(value: Any) -> mx.array:
    """``-ln sigmoid``"""
    return mx.logaddexp(mx.array(0.0), -value)


def dpo(logp: list[mx.array], reference: list[mx.array], _: float) -> mx.array:
    apart = [(one - other).sum() for one, other in zip(logp, reference, strict=True)]
    return sum(soft(0.3 * (apart[good] - apart[bad])) for good, bad in pairs()) / 4


def ipo(logp: list[mx.array], reference: list[mx.array], _: float) -> mx.array:
    apart = [(one - other).mean() for one, other in zip(logp, reference, strict=True)]
    return sum((apart[good] - apart[bad] - 1 / (2 * 0.3)) ** 2 for good, bad in pairs()) / 4


def simpo(logp: list[mx.array], *_: Any) -> mx.array:
    return sum(soft(1.5 * (logp[good].mean() - logp[bad].mean()) - 0.4) for good, bad in pairs()) / 4


def orpo(logp: list[mx.array], *_: Any) -> mx.array:
    odds = [one.mean() - mx.log(1 - mx.exp(one.mean())) for one in logp]
    return sum(0.2 * soft(odds[good] - odds[bad]) - logp[good].mean() for good, bad in pairs()) / 4


def kto(logp: list[mx.array], reference: list[mx.array], divergence: float) -> mx.array:
    total, z = mx.array(0.0), max(0.0, divergence)
    for one, other, wanted in zip(logp, reference, WANTED, strict=True):
        apart = 0.3 * ((one - other).sum() - z)
        total = total + (1.2 * (1 - mx.sigmoid(apart)) if wanted else 0.7 * (1 - mx.sigmoid(-apart)))
    return total / COUNT


RECIPES: dict[str, tuple[dict[str, float], Callable[..., mx.array]]] = {
    "dpo": ({"temperature": 0.3}, dpo),
    "ipo": ({"temperature": 0.3}, ipo),
    "simpo": ({"temperature": 1.5, "target_margin": 0.4}, simpo),
    "orpo": ({"odds_weight": 0.2}, orpo),
    "kto": ({"temperature": 0.3, "desirable_weight": 1.2, "undesirable_weight": 0.7}, kto),
}


def settings_of(recipe: str, **more: Any) -> Training:
    return Training(recipe=recipe, **RECIPES[recipe][0], **more)  # type: ignore[arg-type]


def divergence_of(model: Any, data: list[Example]) -> float:
    """The mean log ratio of the texts of other prompts."""
    others = [replace(one, text=one.mismatched) for one in data if one.mismatched is not None]
    moved = [logp_of(model, one).sum().item() for one in others]
    with adapters_off(model):
        before = [logp_of(model, one).sum().item() for one in others]
    return float(np.mean(np.array(moved) - np.array(before))) if others else 0.0


@pytest.mark.parametrize("length", [None, 16])
@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_matches_only_its_formula(recipe: str, length: int | None) -> None:
    data, model = known(recipe in PAIRED), adapted(built())
    with adapters_off(model):
        reference = [mx.array(np.array(logp_of(model, one))) for one in data]
    learner = Learner(model, data, OfflineObjective(settings_of(recipe), data), length)
    ours = learner.gradient([list(range(COUNT))])
    divergence, found = divergence_of(model, data), {}
    for name, (_, formula) in RECIPES.items():
        value, gradient = nn.value_and_grad(
            model, lambda formula=formula: formula([logp_of(model, one) for one in data], reference, divergence)
        )()
        found[name] = value.item(), dict(tree_flatten(gradient))
    assert ours.loss == pytest.approx(found[recipe][0], rel=1e-4)
    for name, one in tree_flatten(split_leaves(ours.parts["model"], model.trainable_parameters())):
        scale = mx.abs(found[recipe][1][name]).max().item()
        assert mx.abs(one - found[recipe][1][name]).max().item() <= 5e-4 * scale, name
    for name, (value, _) in found.items():
        assert name == recipe or abs(value - ours.loss) > 1e-3 * abs(ours.loss), name
    assert learner.loss([list(range(COUNT))]) == pytest.approx(ours.loss, rel=1e-5)


@pytest.mark.parametrize("recipe", RECIPES)
def test_batches_of_a_step_are_as_one(recipe: str) -> None:
    data, model = known(recipe in PAIRED), adapted(built())
    learner = Learner(model, data, OfflineObjective(settings_of(recipe), data))
    whole = learner.gradient([list(range(COUNT))])
    statistics = learner.statistics
    parts = learner.gradient([[4, 5], [0, 1, 6, 7], [2, 3]])
    assert parts.loss == pytest.approx(whole.loss, rel=1e-5)
    assert learner.statistics == pytest.approx(statistics, rel=1e-4, abs=1e-6)
    assert {"margin", "accuracy", "reward_chosen", "reward_rejected"} <= statistics.keys()
    assert ("divergence" in statistics) == (recipe == "kto")


def test_model_before_training_is_asked_once_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    data, model, asked = known(), adapted(built()), []
    learner = Learner(model, data, OfflineObjective(settings_of("dpo"), data), homes=[[0, 1, 2, 3], [4, 5, 6, 7]])
    judge = learner.scorer.reference
    monkeypatch.setattr(learner.scorer, "reference", lambda part: asked.append(part.mask.shape[0]) or judge(part))
    first = learner.gradient([[2, 3], [4, 5]]).loss
    assert asked == [4, 4]  # with the batches that they are at home in
    assert learner.gradient([[2, 3], [4, 5]]).loss == first
    learner.gradient([[0, 1, 6, 7]])
    assert asked == [4, 4]


def test_half_of_a_pair_is_never_compared() -> None:
    data, model = known(), adapted(built())
    learner = Learner(model, data, OfflineObjective(settings_of("dpo"), data))
    from karl_fast.errors import ArgumentError

    with pytest.raises(ArgumentError, match=r"^pair 1 has 1 preferred and 0 other answers, wanted one of each$"):
        learner.gradient([[0, 1, 2]])


ASK = {"role": "user", "content": "what is it?"}
GOOD, BAD = {"role": "assistant", "content": "good"}, {"role": "assistant", "content": "bad"}
FORMS: list[dict[str, Any]] = [
    {"prompt": "what is it?", "chosen": "good", "rejected": "bad"},
    {"prompt": [ASK], "chosen": [GOOD], "rejected": [BAD]},
    {"prompt": "what is it?", "chosen": [GOOD], "rejected": BAD},
    {"chosen": [ASK, GOOD], "rejected": [ASK, BAD]},
    {"prompt": "what is it?", "chosen": [ASK, GOOD], "rejected": [ASK, BAD]},
]
"""The last is that of UltraFeedback: the prompt beside conversations that begin with it."""


@pytest.mark.parametrize("row", FORMS)
def test_each_form_of_a_pair_is_read(row: dict[str, Any]) -> None:
    found = read_answers([row], "file", Training(recipe="dpo"))
    assert [answer.row for answer in found.answers] == [
        {"prompt": [ASK], "completion": [GOOD]},
        {"prompt": [ASK], "completion": [BAD]},
    ]
    assert [answer.preferred for answer in found.answers] == [True, False]
    assert found.mismatched == []


def test_labels_are_read_and_each_prompt_has_an_answer_to_another() -> None:
    held = [{"prompt": f"p{at // 2}", "completion": f"c{at}", "label": at % 3 == 0} for at in range(10)]
    found = read_answers(held, "file", Training(recipe="kto", seed=4))
    assert [answer.preferred for answer in found.answers] == [at % 3 == 0 for at in range(10)]
    for answer, other in zip(found.answers, found.mismatched, strict=True):
        assert other is not None
        assert other["prompt"] == answer.row["prompt"]
        [source] = [one for one in found.answers if one.row["completion"] == other["completion"]]
        assert source.row["prompt"] != answer.row["prompt"]
    assert read_answers(held, "file", Training(recipe="kto", seed=4)).mismatched == found.mismatched
    alone = read_answers([held[0] | {"completion": str(at)} for at in range(3)], "file", Training(recipe="kto"))
    assert alone.mismatched == [None] * 3


@pytest.mark.parametrize(
    ("row", "recipe", "said", "hint"),
    [
        ({"messages": [ASK, GOOD]}, "dpo", "wanted prompt, chosen and rejected; the row holds messages", "pairs"),
        (
            {"prompt": "a", "completion": "b", "label": True},
            "dpo",
            "wanted prompt, chosen and rejected; the row holds prompt, completion, label",
            "--recipe kto",
        ),
        ({"prompt": "a", "completion": "b", "label": "yes"}, "kto", "label is 'yes', wanted true or false", None),
        ({"chosen": "a", "rejected": "b"}, "dpo", "answers without a prompt, wanted prompt beside them", None),
        ({"chosen": [ASK, GOOD], "rejected": [GOOD, BAD]}, "dpo", "begin with different messages", None),
        ({"prompt": 3, "chosen": "a", "rejected": "b"}, "dpo", "prompt is 3, wanted a text or a list", None),
        ({"prompt": "q", "chosen": [["a"]], "rejected": "b"}, "orpo", "chosen is [['a']], wanted a text", None),
    ],
)
def test_row_without_a_preference_is_named(row: dict[str, Any], recipe: Any, said: str, hint: str | None) -> None:
    with pytest.raises(DataSetError) as error:
        read_answers([FORMS[0], row], "pairs.jsonl", Training(recipe=recipe))
    assert str(error.value).startswith("pairs.jsonl, row 2: ")
    assert said in str(error.value)
    assert hint is None or hint in (error.value.hint or "")


def written(folder: Path, count: int = 12, **more: Any) -> Path:
    held = [{"prompt": f"say {n % 5}", "chosen": f"yes {n}", "rejected": f"no no {n}"} | more for n in range(count)]
    return rows.write(folder / "pairs.jsonl", held)


def metrics(adapter: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (adapter / "metrics.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("recipe", PREFERENCES)
def test_margin_rises_and_a_resumed_run_has_the_same_bytes(recipe: Any, tiny_model: Path, tmp_path: Path) -> None:
    data = written(tmp_path)
    settings = Training(recipe=recipe, iters=14, batch_size=3, learning_rate=2e-3, save_every=5, lora_dropout=0.1)
    train(data, tiny_model, tmp_path / "whole", settings)
    steps = [line for line in metrics(tmp_path / "whole") if "loss" in line]
    margins = [line["margin"] for line in steps if line["margin"] is not None]  # of answers of both labels
    assert margins[-1] > margins[0] + 0.02
    assert steps[-1]["accuracy"] == 1
    train(data, tiny_model, tmp_path / "parts", replace(settings, iters=6))
    train(data, tiny_model, tmp_path / "parts", settings, resume=True)
    name = "adapters.safetensors"
    assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    wall = {"seconds", "tokens_per_second", "peak_bytes", "active_bytes", "cache_bytes"}
    again = [{key: value for key, value in line.items() if key not in wall} for line in metrics(tmp_path / "parts")]
    assert again == [{key: v for key, v in line.items() if key not in wall} for line in metrics(tmp_path / "whole")]


def test_folder_with_validation_reports_the_held_out_margin(tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    written(tmp_path).rename(folder / "train.jsonl")
    written(tmp_path, 5).rename(folder / "valid.jsonl")
    settings = Training(recipe="dpo", iters=8, batch_size=2, learning_rate=2e-3, steps_per_eval=4)
    result = train(folder, tiny_model, tmp_path / "adapter", settings)
    held_out = [line for line in metrics(tmp_path / "adapter") if "val_loss" in line]
    assert [line["step"] for line in held_out] == [0, 4, 8]
    assert held_out[0]["val_loss"] == pytest.approx(np.log(2), rel=1e-5)
    assert held_out[0]["val_margin"] == 0
    assert held_out[-1]["val_margin"] > 0
    assert held_out[-1]["val_accuracy"] > 0.5
    assert result.rows["train"]["rows"] == 12
    assert result.rows["valid"]["rows"] == 5


def test_rows_are_pairs_in_the_account(tiny_model: Path, tmp_path: Path) -> None:
    held = [json.loads(line) for line in written(tmp_path, 6).read_text("utf-8").splitlines()]
    held[1]["rejected"] = held[1]["chosen"]
    held[3]["chosen"] = "long " * 200
    held[4]["chosen"] = []
    data = rows.write(tmp_path / "some.jsonl", held)
    settings = Training(recipe="dpo", iters=1, batch_size=2, max_seq_length=128, overlong="drop")
    account = train(data, tiny_model, tmp_path / "adapter", settings).rows["train"]
    assert account["rows"] == 6
    assert account["dropped"] == {"same_answer": 1, "overlong": 1, "nothing_to_learn": 1}
    with pytest.raises(UsageError, match=r"one of .*some\.jsonl, row 4 is cut or in parts$"):
        train(data, tiny_model, tmp_path / "cut", replace(settings, overlong="tail"))
    with pytest.raises(NothingToTrainError, match=r"no row of .* is left to learn from: same answer 1$"):
        train(rows.write(tmp_path / "same.jsonl", held[1:2]), tiny_model, tmp_path / "none", settings)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"recipe": "dpo", "fine_tune_type": "full"}, "keeps none"),
        ({"recipe": "dpo", "train_on": "all"}, "train_on all learns prompts too"),
        ({"recipe": "orpo", "temperature": 0.1}, "the recipe orpo has no use for temperature"),
        ({"recipe": "dpo", "target_margin": 1.0}, "which is of simpo"),
        ({"recipe": "kto", "desirable_weight": -1.0}, "desirable_weight is -1"),
    ],
)
def test_settings_that_nobody_can_mean_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as error:
        Training(**wrong)
    assert said in str(error.value)


def test_full_layers_learn_preferences_that_need_no_reference() -> None:
    Training(recipe="simpo", fine_tune_type="full")
    Training(recipe="orpo", fine_tune_type="full")
