"""Lengths that a run finds: the longest row, whole or in segments, or as long as fits; what is cut is told."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.unit.modeling import parts
from tests.unit.train.test_mlx_lm_defects import chat, write

from karl_fast.cli.reports.train import describe_start  # isort: skip
from karl_fast.errors import NothingToTrainError, UsageError
from karl_fast.modeling.memory import ModelSizes, SweepNeed, TrainingMemory, choose_segments
from karl_fast.train import Training, evaluate, train
from karl_fast.train.chat_template import Rendering, Text
from karl_fast.train.evaluation import trained_length
from karl_fast.train.examples import fit_text, prepare_examples
from karl_fast.train.memory import candidate_lengths, choose_length

if TYPE_CHECKING:
    from pathlib import Path

QUICK: dict[str, Any] = {"iters": 2, "learning_rate": 1e-3, "save_every": 1, "max_seq_length": "auto"}


def memory(**more: Any) -> TrainingMemory:
    """Activations of two layers: a part by the token, and scores of attention by the square of the length."""
    kept = 2 if more.get("grad_checkpoint") else 3
    shape = ModelSizes(64, 512, 1_000_000, 50_000)
    settings = Training(max_seq_length="auto", **more)
    return TrainingMemory(shape, lambda rows, tokens: rows * tokens * kept * (8_000 + 48 * tokens), settings)


def test_lengths_are_powers_of_two_with_midpoints() -> None:
    assert candidate_lengths(100) == [16, 24, 32, 48, 64, 96, 100]
    assert candidate_lengths(96) == [16, 24, 32, 48, 64, 96]
    assert candidate_lengths(16) == [16]
    assert candidate_lengths(5) == [5]
    for longest in range(1, 3000, 7):
        found = candidate_lengths(longest)
        assert found == sorted(set(found))
        assert found[-1] == longest


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("grad_checkpoint", [False, True])
def test_the_longest_length_that_fits_is_chosen(batch_size: int, grad_checkpoint: bool) -> None:
    plan = memory(batch_size=batch_size, grad_checkpoint=grad_checkpoint)
    for limit in (50_000_000, 200_000_000, 1_000_000_000):
        found = choose_length(plan, 5_000, limit)
        assert plan.need(batch_size, found.tokens).total <= limit
        assert found.tokens in candidate_lengths(5_000)
        if found.beyond is None:
            assert found.tokens == 5_000
        else:
            longer, need = found.beyond
            assert need == plan.need(batch_size, longer)
            assert need.total > limit
            assert candidate_lengths(5_000)[candidate_lengths(5_000).index(found.tokens) + 1] == longer
    assert choose_length(plan, 5_000, 1 << 50).beyond is None


def test_least_memory_segments_may_be_longer() -> None:
    """A recurrent layer leaves a state at each border, so that short segments take more."""

    def swept(rows: int, tokens: int, length: int) -> SweepNeed:
        return SweepNeed(rows * (tokens // length) * 2_000_000, 0, 0, rows * length * 60_000)

    limit = 70_000_000
    plan = replace(memory(batch_size=1, memory_limit=limit / 1e9), sweeps=lambda: swept)
    assert plan.need_in_segments(1, 5_000, 64).total > limit > plan.need_in_segments(1, 5_000, 256).total
    assert choose_length(plan, 5_000, limit).tokens == 5_000
    found = choose_segments(plan, [(1, 5_000)], 5_000, lambda way: way.need(1, 5_000).total <= limit)
    assert found.settings.segment_length == 512


def test_preflight_refuses_below_the_shortest() -> None:
    assert choose_length(memory(), 5_000, 1).tokens == 16
    assert choose_length(memory(), 7, 1).tokens == 7


LEARNED = {"all": slice(None), "the beginning": slice(10), "the end": slice(90, None), "none": slice(0)}


@pytest.mark.parametrize("overlong", ["tail", "window", "drop"])
@pytest.mark.parametrize("learned", LEARNED)
def test_left_out_tokens_are_in_no_part(overlong: Any, learned: str) -> None:
    mask = np.zeros(100, dtype=np.bool_)
    mask[LEARNED[learned]] = True
    text = Text(np.arange(100, dtype=np.int32), mask)
    for limit in (2, 3, 30, 99):
        found = fit_text(text, limit, overlong)
        there = {token for part in found.parts for token in part.tokens.tolist()}
        assert found.left_out == 100 - len(there)
    for limit in (100, 200):
        assert fit_text(text, limit, overlong).left_out == 0


@pytest.mark.parametrize(("overlong", "gone"), [("window", 70), ("tail", 100), ("drop", 100)])
def test_part_without_learned_tokens_is_dropped(overlong: Any, gone: int) -> None:
    text = Text(np.arange(100, dtype=np.int32), np.arange(100) < 10)
    assert fit_text(text, 30, overlong).left_out == gone
    settings = Training(max_seq_length=30, overlong=overlong)
    rest = Text(np.arange(20, dtype=np.int32), np.ones(20, dtype=np.bool_))
    _, account = prepare_examples([{}, {}], [Rendering([text]), Rendering([rest])], settings, "train.jsonl")
    assert (account.tokens, account.left_out) == (120, gone)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [chat(f"question {n} " * (1 + 4 * (n % 5)), f"answer {n} " * (1 + n % 3)) for n in range(10)]
    return write(tmp_path_factory.mktemp("data"), rows, rows[:2])


class Told:
    """What is printed before the first step."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_start(self, run: Any) -> None:
        self.lines = list(describe_start(run))

    def on_metrics(self, values: dict[str, Any]) -> None: ...
    def on_checkpoint(self, place: Path) -> None: ...
    def on_message(self, remark: str) -> None: ...


def test_with_memory_to_spare_nothing_is_cut(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    told = Told()
    found = train(data, tiny_model, tmp_path / "a", Training(**QUICK, memory_limit=4.0), viewer=told)
    account = found.rows["train"]
    assert (account["cut"], account["left_out"]) == (0, 0)
    assert account["tokens"] > 500
    longest = found.max_seq_length
    assert told.lines[0] == "train     10 rows, 10 kept"
    assert not any(line.startswith(("budget", "hint", "segments")) for line in told.lines)
    shorter = train(data, tiny_model, tmp_path / "b", Training(**QUICK | {"max_seq_length": longest - 1}))
    assert shorter.rows["train"]["cut"] > 0


def test_chosen_length_equals_the_given_length(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    told, settings = Told(), Training(**QUICK, memory_limit=0.03, batch_size=10, segment_length=4096)
    found = train(data, tiny_model, tmp_path / "auto", settings, viewer=told)
    limit, account = found.max_seq_length, found.rows["train"]
    assert limit in (32, 48, 64)
    assert 0 < account["cut"] < 10
    shares = account["cut"] / 10, account["left_out"] / account["tokens"]
    said = (
        f"{account['cut']} cut to their tail ({shares[0]:.0%}); too long: {shares[1]:.0%} of {account['tokens']} tokens"
    )
    assert told.lines[0] == f"train     10 rows, 10 kept, {said}"
    assert re.fullmatch(rf"budget    {limit} tokens a row: 10 rows of \d+ would need about \d+\.\d MB", told.lines[2])
    assert told.lines[3].startswith(f"hint      rows beyond {limit} tokens are not whole: --batch-size 5, ")
    given = Training(**QUICK | {"max_seq_length": limit}, batch_size=10, segment_length=4096)
    train(data, tiny_model, tmp_path / "given", given)
    for name in ("adapters.safetensors", "checkpoints/0000002/optimizer.safetensors"):
        assert (tmp_path / "auto" / name).read_bytes() == (tmp_path / "given" / name).read_bytes()
    left = tomllib.loads((tmp_path / "auto" / "train.toml").read_text("utf-8"))["train"]
    state = json.loads((tmp_path / "auto" / "checkpoints" / "0000002" / "state.json").read_text("utf-8"))
    assert left["max_seq_length"] == state["settings"]["max_seq_length"] == limit


def test_resumed_run_keeps_its_chosen_length(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    less = {"memory_limit": 0.03, "batch_size": 10, "segment_length": 4096}
    train(data, tiny_model, tmp_path / "whole", Training(**QUICK | less | {"iters": 4}))
    train(data, tiny_model, tmp_path / "halves", Training(**QUICK | less))
    train(data, tiny_model, tmp_path / "halves", Training(**QUICK | less | {"iters": 4}), resume=True)
    one, other = (parts.tensors(tmp_path / name / "adapters.safetensors") for name in ("whole", "halves"))
    assert all((one[name] == other[name]).all() for name in one)
    more = Training(**QUICK | less | {"iters": 6, "memory_limit": 4.0})
    train(data, tiny_model, tmp_path / "whole", more, resume=True)
    assert length_of(tmp_path / "whole", 6) == length_of(tmp_path / "halves", 4)


def length_of(adapter: Path, step: int) -> int:
    state = json.loads((adapter / "checkpoints" / f"{step:07d}" / "state.json").read_text("utf-8"))
    return int(state["settings"]["max_seq_length"])


def test_too_long_rows_pass_in_segments(tiny_model: Path, tmp_path: Path) -> None:
    import mlx.core as mx

    long = write(tmp_path / "data", [chat("what is it? " * 110, f"answer {n} " * 20) for n in range(2)])
    told, settings = Told(), Training(iters=1, save_every=1, memory_limit=0.05, batch_size=1)
    before = mx.get_active_memory()  # models of other tests
    found = train(long, tiny_model, tmp_path / "a", settings, viewer=told)
    account = found.rows["train"]
    assert (account["cut"], account["left_out"]) == (0, 0)
    length = tomllib.loads((tmp_path / "a" / "train.toml").read_text("utf-8"))["train"]["segment_length"]
    assert 64 <= length < found.max_seq_length
    assert f"segments  {length} tokens of a row at a time, with the gradient of whole rows" in told.lines
    assert found.peak_bytes - before < 50_000_000


@pytest.mark.parametrize("rows", [[{"messages": []}], [{"nothing": "said"}] * 2])
def test_untemplatable_rows_are_reported(rows: Any, tiny_model: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "data", rows)
    with pytest.raises(NothingToTrainError, match=r"no row of .*train.jsonl is left to learn from: bad template [12]"):
        train(data, tiny_model, tmp_path / "a", Training(**QUICK))


@pytest.mark.parametrize("wrong", ["longest", "", "64", 1, 0, True, 3.5, None])
def test_what_is_no_length_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"max_seq_length is .*, wanted a whole number from 2 on, or auto") as error:
        Training(max_seq_length=wrong)
    assert error.value.settings == ("max_seq_length",)


def test_judging_takes_whole_rows(data: Path, tiny_model: Path) -> None:
    """In segments too: the loss is the same but for rounding."""
    whole = evaluate(data, tiny_model, split="valid").whole
    assert evaluate(data, tiny_model, split="valid", settings=Training(max_seq_length=4096)).whole == whole
    parts = evaluate(data, tiny_model, split="valid", settings=Training(segment_length=16)).whole
    assert parts.loss != whole.loss
    assert parts.loss == pytest.approx(whole.loss, rel=1e-5)


def test_evaluation_uses_the_trained_length(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    train(data, tiny_model, tmp_path / "short", Training(**QUICK | {"max_seq_length": 24}))
    calls: list[tuple[int, int]] = []
    found = evaluate(
        data,
        tiny_model,
        tmp_path / "short",
        against="base",
        split="train",
        on_tokens=lambda done, all: calls.append((done, all)),
    )
    same = evaluate(data, tiny_model, tmp_path / "short", split="train", settings=Training(max_seq_length=24))
    assert (
        found.whole.loss
        == same.whole.loss
        != evaluate(
            data, tiny_model, tmp_path / "short", split="train", settings=Training(max_seq_length=4096)
        ).whole.loss
    )
    assert re.search(r"longer than 24 tokens, the length that .*short was trained with", found.remarks[0])
    assert not same.remarks
    assert calls[0][0] == 0
    assert calls[-1][0] == calls[-1][1] == calls[0][1]
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})


def test_mlx_lm_adapter_length_is_in_its_config(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"max_seq_length": 48}')
    assert trained_length(tmp_path) == 48
    (tmp_path / "adapter_config.json").write_text('{"max_seq_length": true}')
    assert trained_length(tmp_path) is None
    assert trained_length(tmp_path / "none") is None
