"""What `sample` writes, `mlx_lm lora` trains on: exit 0, every loss finite, no NaN in the adapter.

Losses are not compared with numbers: they differ between BLAS builds. That a mistake is seen at all is shown by a
trap: rows that `mlx_lm` breaks on when they are not dropped.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from tests import rows
from tests.slow import nightly
from tests.unit.formats import builders

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.train.conftest import Trained

    Train = Callable[..., Trained]

SHAPES = ("chat", "prompt-completion-text", "text")
SPLIT = (0.8, 0.2, 0.0)


def healthy(trained: Trained) -> None:
    from safetensors.numpy import load_file

    assert len(trained.losses) >= 3
    assert all(math.isfinite(loss) and loss > 0 for loss in trained.losses)
    tensors = load_file(trained.adapters)
    assert tensors
    assert all(np.all(np.isfinite(tensor)) for tensor in tensors.values())
    assert any(np.any(tensor != 0) for tensor in tensors.values() if tensor.ndim == 2)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return rows.write(tmp_path / "log.jsonl", rows.records(60, groups=20))


@pytest.mark.parametrize("shape", nightly(SHAPES))
def test_mlx_lm_trains_on_a_synthetic_log(train: Train, log: Path, tmp_path: Path, shape: str) -> None:
    karl_fast.sample(log, tmp_path / shape, k=40, shape=shape, split=SPLIT)
    healthy(train(tmp_path / shape))


@pytest.mark.parametrize("shape", nightly(SHAPES))
def test_mlx_lm_trains_on_tau_bench(train: Train, tau_bench: Path, tmp_path: Path, shape: str) -> None:
    karl_fast.sample(tau_bench, tmp_path / shape, k=24, shape=shape, split=SPLIT)
    healthy(train(tmp_path / shape, iters=3))


@pytest.mark.parametrize("shape", nightly(SHAPES))
def test_mlx_lm_trains_on_nested_tool_rollouts(train: Train, tmp_path: Path, shape: str) -> None:
    records = [builders.verifiers(n // 4, n, n % 4 / 4) for n in range(40)]
    records += [builders.verl(f"q{n // 4}", f"a{n}", n % 4 / 4) for n in range(20)]
    logs = [
        rows.write(tmp_path / "results.jsonl", records[:40]),
        rows.write(tmp_path / "1.jsonl", records[40:]),
    ]
    karl_fast.sample(logs, tmp_path / shape, k=40, shape=shape, split=SPLIT)
    healthy(train(tmp_path / shape, iters=3, length=256))


@pytest.mark.parametrize("shape", nightly(SHAPES[:2]))
def test_masked_prompts_leave_learned_tokens(train: Train, tiny_model: Path, tmp_path: Path, shape: str) -> None:
    """Without --max-tokens the long prompts fill the sequence, the loss is 0/0, and every tensor becomes NaN."""
    log = rows.write(tmp_path / "log.jsonl", [*rows.records(40, groups=20), *long_prompts(20)])
    out = tmp_path / "data"
    settings: dict[str, Any] = {"max_tokens": 128, "tokenizer": str(tiny_model)}
    sample = karl_fast.sample(log, out, k=60, shape=shape, split=SPLIT, inverse_temperature=0.0, **settings)
    assert sample.manifest["draw"]["failed"] == {"too_many_tokens": 20}
    assert not any("long" in row["karl_fast"]["id"] for row in rows.lines(out))
    healthy(train(out, "--mask-prompt", length=128))


def test_an_over_long_prompt_is_a_trap(train: Train, tmp_path: Path) -> None:
    """The reason for the test above: if mlx_lm mends this, --max-tokens can be thought over."""
    log = rows.write(tmp_path / "log.jsonl", long_prompts(20))
    karl_fast.sample(log, tmp_path / "data", k=20, split=SPLIT)
    assert not all(math.isfinite(loss) for loss in train(tmp_path / "data", "--mask-prompt", iters=3).losses)


def long_prompts(count: int) -> list[dict[str, Any]]:
    def one(number: int) -> dict[str, Any]:
        messages = [
            {"role": "user", "content": f"{number} " + "tell me a long story " * 60},
            {"role": "assistant", "content": "no"},
        ]
        return rows.record(number, f"l{number}", 1.0, id=f"long{number}", messages=messages)

    return [one(number) for number in range(count)]


def trap(name: str, reward: float = 1.0, **fields: Any) -> dict[str, Any]:
    return {"id": f"trap-{name}", "group": f"trap-{name}", "reward": reward} | fields


CHAT_TRAPS = [
    trap("no-assistant", messages=[{"role": "user", "content": "hello?"}]),
    trap("no-messages", messages=[]),
    trap("null-content", messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": None}]),
    trap("lone-surrogate", messages=[{"role": "user", "content": "\ud800"}, {"role": "assistant", "content": "a"}]),
    trap("no-role", messages=[{"content": "hi"}, {"role": "assistant", "content": "a"}]),
    trap("empty-text", text=""),
    trap("nothing"),
]


@pytest.mark.parametrize("shape", nightly(SHAPES))
def test_no_row_that_breaks_a_trainer_is_written(train: Train, tmp_path: Path, shape: str) -> None:
    """Each trap has the top reward, so all are drawn; all are dropped, named and replaced."""
    good = rows.records(40, groups=20)
    log = tmp_path / "log.jsonl"
    log.write_text(rows.dumps(good[:20]) + "\n  \n" + rows.dumps(CHAT_TRAPS) + rows.dumps(good[20:]), "utf-8")
    out = tmp_path / "data"
    manifest = karl_fast.sample(log, out, k=47, shape=shape, split=SPLIT, inverse_temperature=0.0).manifest
    written = rows.lines(out)
    assert manifest["inputs"][0]["blank_lines"] == 2
    assert sum(manifest["draw"]["failed"].values()) == len(CHAT_TRAPS)
    assert {row["karl_fast"]["id"] for row in written} == {row["id"] for row in good}
    for name, text in rows.files(out).items():
        assert all(line.strip() for line in text.decode().splitlines()), f"{name} has a blank line"
    healthy(train(out, iters=3))


def test_the_trainer_learns_from_nothing_but_the_text(tmp_path: Path) -> None:
    """What karl-fast says of a row stands beside its text, never in it."""
    log = rows.write(tmp_path / "log.jsonl", rows.records(20))
    karl_fast.sample(log, tmp_path / "data", k=20)
    for row in rows.lines(tmp_path / "data"):
        about = row.pop("karl_fast")
        assert set(about) == {"id", "group", "reward", "score", "log_weight", "copies"}
        assert about["id"] not in json.dumps(row)
