"""Twelve defects of the trainer of mlx-lm 0.32, each reproduced there, and none of them here.

A letter of a test's name is the defect's; what stands behind it is what holds here. What is the case there:

a. Rows are sorted by how many keys their JSON has, which is to say not at all: a third of a batch is padding.
b. The rows of the last, smaller batch are never trained on, and batches are the same for ever.
c. With --mask-prompt, a prompt as long as the limit leaves no token to learn: 0/0, and every tensor becomes NaN.
d. The mask is off by one: after each row a token of padding is learned.
e. With --mask-prompt, of several turns only the last message is learned, even where a tool said it.
f. A row that is too long loses its end: the answer, and the token that ends it.
g. --clear-cache-threshold is passed on to nothing, and a callback that was given is replaced.
h. A run that is resumed has its adapters, and neither the moments of Adam nor its place in schedule and data.
i. Adam does not correct the bias of its moments: its first step is 3.16 times as long as it says.
j. Accumulated gradients are a mean of means, and batches that are left over at the end are no step.
k. Gradient checkpoints change the class of a layer for good: a second run wraps them twice.
l. Validation draws from the generator that orders the training: how often it is judged changes what is learned.
"""

from __future__ import annotations

import inspect
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.unit.modeling import parts
from tests.unit.modeling.parts import adapted, built, examples, logp_of

import mlx.core as mx  # isort: skip
import mlx.nn as nn  # isort: skip
import mlx.optimizers as optim  # isort: skip
from mlx.utils import tree_flatten  # isort: skip

from karl_fast.modeling import optimizer
from karl_fast.modeling.checkpoint import METRICS_FILE
from karl_fast.modeling.load import load
from karl_fast.modeling.memory import Need, cache_bytes, describe_plan
from karl_fast.modeling.model_views import checkpoint_layers
from karl_fast.modeling.optimizer import split_leaves
from karl_fast.train import Training, train
from karl_fast.train.batching import BatchOrder, epoch_batches, pad_rows, row_units
from karl_fast.train.chat_template import Renderer, Text
from karl_fast.train.examples import fit_text
from karl_fast.train.recipe import OfflineObjective
from karl_fast.train.step import Learner

if TYPE_CHECKING:
    from pathlib import Path

QUICK = {"max_seq_length": 64, "learning_rate": 1e-3, "batch_size": 4, "steps_per_eval": 100, "save_every": 100}


def write(folder: Path, rows: list[dict[str, Any]], valid: list[dict[str, Any]] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, some in (("train", rows), ("valid", valid or [])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")
    return folder


def chat(*turns: str) -> dict[str, Any]:
    """Turns of user and assistant by turns; one that begins with `tool:` is of a tool."""
    roles = iter(["user", "assistant"] * len(turns))
    said = [
        {"role": "tool", "content": turn[5:]} if turn.startswith("tool:") else {"role": next(roles), "content": turn}
        for turn in turns
    ]
    return {"messages": said}


def lines(adapter: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (adapter / METRICS_FILE).read_text("utf-8").splitlines()]


def learned(renderer: Renderer, row: dict[str, Any]) -> list[str]:
    """What is learned of a row, each text's spans as text."""
    found = []
    for text in renderer.texts(row):
        tokens = text.tokens[text.learned]
        found.append(renderer.tokenizer.decode(tokens.tolist()))
    return found


@pytest.fixture(scope="module")
def renderer(tiny_model: Path) -> Renderer:
    loaded = load(str(tiny_model))
    return Renderer(loaded.tokenizer, loaded.ends)


LENGTHS = [56, 80, 64, 85, 71, 12, 30, 9, 41, 77, 15, 60, 33, 28, 90, 5]


def test_a_batches_hold_rows_of_about_one_length() -> None:
    batches = epoch_batches(LENGTHS * 80, row_units(None, len(LENGTHS) * 80), 4, seed=0, epoch=0)
    lengths = [[(LENGTHS * 80)[row] for row in batch] for batch in batches]
    wasted = sum(max(some) * len(some) - sum(some) for some in lengths) / sum(max(some) * len(some) for some in lengths)
    assert wasted < 0.03  # at random, a third
    assert all(max(some) - min(some) <= 30 for some in lengths)


def test_a_batches_of_a_small_set_are_mixed_anew_each_epoch() -> None:
    epochs = [epoch_batches(LENGTHS * 2, row_units(None, 32), 4, seed=0, epoch=number) for number in range(8)]
    assert len({frozenset(batch) for batches in epochs for batch in batches}) > 0.9 * 8 * 8


def test_a_copies_of_a_row_are_not_a_batch() -> None:
    rows = [LENGTHS[number % 16] + 3 * (number % 16) for number in range(16 * 40)]
    batches = epoch_batches(rows, row_units(None, len(rows)), 8, seed=0, epoch=0, distinct=16)
    assert max(len(batch) - len({rows[row] for row in batch}) for batch in batches) <= 5
    sorted_together = epoch_batches(rows, row_units(None, len(rows)), 8, seed=0, epoch=0)
    assert max(len(batch) - len({rows[row] for row in batch}) for batch in sorted_together) == 7


def test_b_epochs_cover_rows_in_new_batches() -> None:
    order = BatchOrder(LENGTHS + LENGTHS + [7, 8, 9], row_units(None, 35), 4, seed=3)
    seen = [order.batches(number) for number in range(3)]
    for batches in seen:
        assert sorted(row for batch in batches for row in batch) == list(range(35))
        assert sorted(map(len, batches)) == [3, *[4] * 8]
    assert seen[0] != seen[1] != seen[2]
    assert {frozenset(batch) for batch in seen[0]} != {frozenset(batch) for batch in seen[1]}


def test_c_limit_filling_prompt_spoils_nothing(tiny_model: Path, tmp_path: Path) -> None:
    long = chat("tell me a long story " * 60, "no")
    data = write(tmp_path / "data", [long, *[chat(f"question {n}", f"answer {n}") for n in range(7)]])
    for overlong in ("drop", "tail", "window"):
        adapter = tmp_path / overlong
        result = train(data, tiny_model, adapter, Training(iters=4, overlong=overlong, **QUICK))
        assert all(math.isfinite(line["loss"]) for line in lines(adapter))
        assert all(np.isfinite(tensor).all() for tensor in parts.tensors(adapter / "adapters.safetensors").values())
        dropped = {"overlong": 1} if overlong == "drop" else {}
        assert result.rows["train"]["dropped"] == dropped


def test_d_padding_is_never_learned() -> None:
    rows = examples(6)
    batch = pad_rows(rows)
    assert batch.mask.sum() == sum(row.learned for row in rows) == batch.places.size
    for at, row in enumerate(rows):
        assert not batch.mask[at, len(row) - 1 :].any()
        targets = np.array(batch.tokens)[at, 1:][batch.mask[at]]
        assert targets.tolist() == row.text.tokens[row.text.learned].tolist()


def test_e_exactly_assistant_turns_are_learned(renderer: Renderer) -> None:
    row = chat("question one", "answer one", "tool:flight booked", "question two", "answer two")
    row["messages"][1]["tool_calls"] = [{"type": "function", "function": {"name": "book", "arguments": {}}}]
    [said] = learned(renderer, row)
    assert said.startswith("answer one<tool_call>")
    assert said.endswith("<|im_end|>answer two<|im_end|>")
    assert "booked" not in said
    assert "question" not in said
    last = Renderer(renderer.tokenizer, renderer.ends, "last")
    assert learned(last, row) == ["answer two<|im_end|>"]


def test_f_cut_row_keeps_answer_and_end() -> None:
    text = Text(np.arange(100, dtype=np.int32), np.arange(100) >= 90)
    [cut] = fit_text(text, 40, "tail").parts
    assert cut.tokens.tolist() == list(range(60, 100))
    assert cut.tokens[cut.learned].tolist() == list(range(90, 100))


def test_g_cache_is_bounded_and_reported(tiny_model: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "data", [chat(f"question {n}", f"answer {n}") for n in range(8)])
    told: list[dict[str, Any]] = []

    class Viewer:
        def on_start(self, run: Any) -> None: ...
        def on_metrics(self, values: dict[str, Any]) -> None:
            told.append(values)

        def on_checkpoint(self, place: Path) -> None: ...
        def on_message(self, remark: str) -> None: ...

    train(data, tiny_model, tmp_path / "adapter", Training(iters=5, cache_limit=0.0005, **QUICK), viewer=Viewer())
    assert told == lines(tmp_path / "adapter")
    assert all(values["cache_bytes"] <= 0.0005e9 for values in told)
    mx.set_cache_limit(1 << 30)


def test_the_cache_is_part_of_the_plan() -> None:
    """With the peak it stays within the limit: it has what `cache_limit` says, and no more than is left."""
    plan = Need(weights=10**8, adapter=0, activations=0, head=4 * 10**8)
    for limit, cache in ((2.0, 10**9), (0.8, 3 * 10**8), (0.5, 0)):
        assert cache_bytes(Training(memory_limit=limit), plan.total) == cache
    assert describe_plan(plan, Training(memory_limit=0.8)) == (
        "about 0.50 GB of 0.80 GB: weights 0.10 GB, head 0.40 GB; cache up to 0.30 GB"
    )


def test_a_run_caches_no_more_than_its_limit_leaves(tiny_model: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "data", [chat(f"question {n}", f"answer {n}") for n in range(10)])
    train(data, tiny_model, tmp_path / "adapter", Training(iters=1, memory_limit=0.2, **QUICK))
    assert mx.set_cache_limit(1 << 30) < 0.2e9


def test_h_resumed_run_has_optimizer_moments(tiny_model: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "data", [chat(f"question {n}", f"answer {n}") for n in range(10)])
    train(data, tiny_model, tmp_path / "whole", Training(iters=8, **QUICK))
    train(data, tiny_model, tmp_path / "halves", Training(iters=4, **QUICK))
    train(data, tiny_model, tmp_path / "halves", Training(iters=8, **QUICK), resume=True)
    for name in ("adapters.safetensors", "checkpoints/0000008/optimizer.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "halves" / name).read_bytes()
    losses = [[line["loss"] for line in lines(tmp_path / name)] for name in ("whole", "halves")]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_i_adam_corrects_its_bias_in_every_step(name: str) -> None:
    """The first step is as long as its learning rate; without the correction it is 3.16 times that."""
    settings = Training(optimizer=name, learning_rate=0.01, weight_decay=0.1)  # type: ignore[arg-type]
    made, theirs = optimizer.build_optimizer(settings), optim.Adam(0.01, bias_correction=True)
    if name == "adamw":
        theirs = optim.AdamW(0.01, weight_decay=0.1, bias_correction=True)
    models = [nn.Module(), nn.Module()]  # type: ignore[no-untyped-call]
    for model in models:
        model.w = mx.array([1.0, 1.0])
    for step in range(20):
        gradient = {"w": mx.array([3.0, -0.5]) * (1 + step % 3)}
        optimizer.set_learning_rate(made, settings, 0.01)
        for one, model in zip((made, theirs), models, strict=True):
            one.update(model, gradient)
        weights = [np.array(model.w) for model in models]
        assert np.allclose(*weights, rtol=2e-6, atol=0)
        if step == 0 and name == "adam":
            assert np.allclose(weights[0], [0.99, 1.01], atol=1e-6)


def test_j_accumulated_batches_are_one_batch(tmp_path: Path) -> None:
    """Batches of other numbers of tokens: a mean of means is another number."""
    rows = examples(8, longest=60)
    model = adapted(built())
    learner = Learner(model, rows, OfflineObjective(Training(), rows))
    whole = learner.gradient([list(range(8))])
    split = learner.gradient([[0, 1, 2], [3], [4, 5, 6, 7]])
    of_means = np.mean([learner.gradient([some]).loss for some in ([0, 1, 2], [3], [4, 5, 6, 7])])
    assert split.loss == pytest.approx(whole.loss, rel=1e-5)
    assert abs(of_means - whole.loss) > 1e-3
    tensors = (
        tree_flatten(split_leaves(found.parts["model"], model.trainable_parameters())) for found in (whole, split)
    )
    for (name, one), (_, other) in zip(*tensors, strict=True):
        assert np.allclose(np.array(one), np.array(other), atol=1e-5 * mx.abs(one).max().item()), name


def test_j_last_batches_are_a_step(tiny_model: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "data", [chat(f"question {n}", f"answer {n}") for n in range(20)])
    result = train(data, tiny_model, tmp_path / "adapter", Training(iters=5, grad_accumulation_steps=2, **QUICK))
    assert result.steps == (3, 3)
    so_far = [0, *(line["learned_tokens"] for line in lines(tmp_path / "adapter"))]
    first, second, last = np.diff(so_far)
    assert 0 < 1.5 * last < min(first, second)  # four rows of about one length, where the others have eight


def test_k_gradient_checkpoints_leave_classes_alone() -> None:
    model = adapted(built())
    kind, call = type(model.layers[0]), type(model.layers[0]).__call__
    for _ in range(3):
        with checkpoint_layers(model, True):
            assert kind.__call__ is call
            assert type(model.layers[0]) is not kind
            assert type(model.layers[0]).__mro__[1] is kind  # wrapped once, however often
    assert type(model.layers[0]) is kind
    assert kind.__call__ is call


def test_l_validation_leaves_the_order_of_training_alone(tiny_model: Path, tmp_path: Path) -> None:
    rows = [chat(f"question {n}", f"answer {n}") for n in range(12)]
    data = write(tmp_path / "data", rows, rows[:6])
    found = {}
    for name, more in {"none": {"val_batches": 1}, "often": {"val_batches": -1, "steps_per_eval": 1}}.items():
        train(data, tiny_model, tmp_path / name, Training(iters=6, lora_dropout=0.2, **(QUICK | more)))
        found[name] = [line["loss"] for line in lines(tmp_path / name) if "loss" in line]
    assert found["none"] == found["often"]
    one, other = (tmp_path / name / "adapters.safetensors" for name in found)
    assert one.read_bytes() == other.read_bytes()


def test_the_loss_is_that_of_the_plain_formula() -> None:
    """Below all of the above: the mean negative log-likelihood of the learned tokens."""
    rows = examples(6)
    model = adapted(built())
    learner = Learner(model, rows, OfflineObjective(Training(), rows))
    plain = mx.concatenate([logp_of(model, row) for row in rows])
    assert learner.gradient([list(range(6))]).loss == pytest.approx(-plain.mean().item(), rel=1e-5)


def test_twelve_letters_are_tested() -> None:
    names = [name for name, thing in globals().items() if inspect.isfunction(thing) and name.startswith("test_")]
    told = [line[0] for line in (__doc__ or "").splitlines() if line[1:3] == ". "]
    assert told == list("abcdefghijkl")
    assert {name[5] for name in names if name[6] == "_"} == set(told)


@pytest.mark.parametrize(
    "row",
    [
        {"messages": None},
        {"messages": "text"},
        {"messages": ["text"]},
        {"messages": [{"role": "user", "content": "\ud800"}, {"role": "assistant", "content": "a"}]},
        {"text": "\ud800"},
    ],
)
def test_untemplatable_row_is_dropped_by_name(row: dict[str, Any], tiny_model: Path, tmp_path: Path) -> None:
    from karl_fast.train import Training, train

    data = write(tmp_path / "data", [row, chat("q", "a")])
    found = train(data, tiny_model, tmp_path / "adapter", Training(iters=1, max_seq_length=96))
    assert found.rows["train"]["dropped"] == {"bad_template": 1}


@pytest.mark.parametrize("text", ["1" + "0" * 400, "NaN", "1e999", '"0.5"', "[1]", "null"])
def test_null_reward_drops_the_row(text: str, tiny_model: Path, tmp_path: Path) -> None:
    from karl_fast.train import Training, train

    data = write(tmp_path / "data", [chat("q", "a") | {"karl_fast": {"reward": 0.5, "group": "g"}}])
    with (data / "train.jsonl").open("a") as file:
        file.write(json.dumps(chat("q", "b"))[:-1] + f', "karl_fast": {{"reward": {text}, "group": "g"}}}}\n')
    (data / "manifest.json").write_text('{"draw": {"sampler": "all"}}')
    settings = Training(iters=1, max_seq_length=96, recipe="awr", temperature=1.0)
    assert train(data, tiny_model, tmp_path / "adapter", settings).rows["train"]["dropped"] == {"missing_reward": 1}


def test_a_seed_has_64_bits() -> None:
    from karl_fast.errors import UsageError
    from karl_fast.train import Training

    assert Training(seed=(1 << 64) - 1).seed
    with pytest.raises(UsageError, match=r"wanted a whole number from 0 on and below 2\*\*64"):
        Training(seed=1 << 64)
