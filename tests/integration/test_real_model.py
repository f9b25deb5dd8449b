"""Everything that a user does with a pretrained model, by the commands of the docs: sample, train, eval, rl, promote.

The variable KARL_FAST_REAL_MODEL names the folder of one. A small model on a CPU takes some minutes.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.mlx, pytest.mark.slow]

SQL = Path(__file__).parents[2] / "examples" / "rl" / "sql.py"
TRAIN = ("--iters", "2", "--batch-size", "2", "--learning-rate", "1e-4", "--num-layers", "4")


@pytest.fixture(scope="module")
def model() -> str:
    folder = os.environ.get("KARL_FAST_REAL_MODEL")
    if folder is None:
        pytest.skip("no pretrained model: KARL_FAST_REAL_MODEL names its folder")
    return folder


def run(*command: object) -> str:
    """Run karl-fast, or a module of Python if the first word has a dot: what it prints."""
    words = [str(word) for word in command]
    module = words.pop(0) if "." in words[0] else "karl_fast"
    result = subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{words}: {result.stdout[-2000:]}{result.stderr[-4000:]}"
    return result.stdout if "--json" in words or module != "karl_fast" else result.stdout + result.stderr


@pytest.fixture(scope="module")
def work(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with questions, and a data set that is measured with the model's own tokenizer."""
    folder = tmp_path_factory.mktemp("real")
    sizes = ("--train", "24", "--held-out", "12")
    subprocess.run([sys.executable, str(SQL), str(folder / "questions"), *sizes], check=True)
    limits = ("--tokenizer", model, "--max-tokens", "80")
    run(
        "sample",
        folder / "questions" / "attempts.jsonl",
        "-o",
        folder / "data",
        "-k",
        "24",
        "--split",
        "0.8,0,0.2",
        *limits,
    )
    return folder


@pytest.fixture(scope="module")
def quantized(model: str, work: Path) -> dict[int, str]:
    """The model in 4 and in 8 bits, as mlx-lm writes it."""
    folders = {bits: str(work / f"{bits}-bit") for bits in (4, 8)}
    for bits, folder in folders.items():
        run("mlx_lm.convert", "--hf-path", model, "--mlx-path", folder, "-q", "--q-bits", bits)
    return folders


@pytest.fixture(scope="module")
def adapter(model: str, work: Path) -> Path:
    plan, peak = train(work, model, work / "lora")
    assert peak <= 1.05 * plan
    return work / "lora"


@pytest.fixture(scope="module")
def tool_adapter(model: str, work: Path) -> Path:
    """An adapter that learned to run a query before it answers."""
    lines = (work / "questions" / "prompts.jsonl").read_text("utf-8").splitlines()
    rows = []
    for line in map(json.loads, lines):
        said = [line["prompt"], f"RUN {line['right'][0]}", "[[1]]", line["right"][0]]
        roles = ("user", "assistant", "user", "assistant")
        turns = [{"role": role, "content": text} for role, text in zip(roles, said, strict=True)]
        rows.append(json.dumps({"messages": turns}) + "\n")
    (work / "calls" / "data").mkdir(parents=True)
    (work / "calls" / "data" / "train.jsonl").write_text("".join(rows), encoding="utf-8")
    train(work / "calls", model, work / "tool-lora", "--iters", "8", "--learning-rate", "1e-3", "--num-layers", "16")
    return work / "tool-lora"


def train(work: Path, model: str, out: Path, *options: str) -> tuple[float, float]:
    """Train an adapter; return the plan of memory and the peak in GB, as the report tells them."""
    settings = (*TRAIN, "--steps-per-report", "1", *options)
    text = run("train", work / "data", "--model", model, "--adapter-path", out, *settings)
    (plan,), peaks = re.findall(r"memory +about ([\d.]+) GB", text), re.findall(r"peak ([\d.]+) GB", text)
    return float(plan), float(peaks[-1])


@pytest.mark.parametrize("kind", ["dora", "full"])
def test_other_kinds_of_training_stay_within_the_plan(model: str, work: Path, kind: str) -> None:
    plan, peak = train(work, model, work / kind, "--fine-tune-type", kind)
    assert peak <= 1.05 * plan


@pytest.mark.parametrize("bits", [4, 8])
def test_adapter_of_a_quantized_model_generates(work: Path, quantized: dict[int, str], bits: int) -> None:
    out = work / f"lora-{bits}"
    train(work, quantized[bits], out)
    assert generated(quantized[bits], out, "How many?")


def generated(model: str, adapter: Path | None, prompt: str) -> str:
    """The likeliest text by mlx_lm."""
    with_adapter = () if adapter is None else ("--adapter-path", adapter)
    words = ("--prompt", prompt, "--max-tokens", "12", "--temp", "0", "--verbose", "False")
    return run("mlx_lm.generate", "--model", model, *with_adapter, *words)


def test_fused_model_generates_what_the_adapter_does(model: str, work: Path, adapter: Path) -> None:
    prompt = json.loads((work / "questions" / "held-out.jsonl").read_text("utf-8").splitlines()[0])["prompt"]
    run("mlx_lm.fuse", "--model", model, "--adapter-path", adapter, "--save-path", work / "fused")
    assert generated(str(work / "fused"), None, prompt) == generated(model, adapter, prompt)


def test_eval_compares_the_loss_with_that_of_the_base(model: str, work: Path, adapter: Path) -> None:
    result = json.loads(
        run("eval", work / "data", "--model", model, "--adapter-path", adapter, "--against", "base", "--json")
    )
    assert math.isfinite(result["whole"]["loss"])
    assert result["whole"]["loss"] < result["whole"]["against"]


def write_config(work: Path, model: str, name: str, **settings: object) -> Path:
    values = {"model": model, "prompts": str(work / "questions" / "prompts.jsonl"), "out": str(work / name)}
    values |= {"rounds": 1, "prompts_per_round": 2, "group_size": 4, "learning_rate": 3e-5, "num_layers": 4} | settings
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    if "environment" not in settings:
        lines += ["[rewards]", f"{json.dumps(f'{SQL}:correct')} = 1.0"]
    path = work / f"{name}.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read_rollouts(run_folder: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (run_folder / "rollouts.jsonl").read_text("utf-8").splitlines()]


def test_rl_continues_the_adapter_with_a_tool(model: str, work: Path, tool_adapter: Path) -> None:
    limits = {"max_turns": 3, "max_turn_tokens": 32, "max_tokens": 64, "max_context": 256}
    start = {"adapter": str(tool_adapter), "num_layers": 16}
    run(
        "rl",
        "--config",
        write_config(work, model, "tool", environment=f"{SQL}:Database", recipe="grpo", **start, **limits),
    )
    rollouts = read_rollouts(work / "tool")
    assert len(rollouts) == 8
    assert all(row["messages"][-1]["role"] == "assistant" for row in rollouts)
    calls = [row for row in rollouts if row["messages"][1]["content"].strip().startswith("RUN ")]
    assert calls
    assert all(row["messages"][2]["content"].startswith(("[", "error")) for row in calls if len(row["messages"]) > 2)
    assert any(len(row["messages"]) > 2 for row in calls)


def test_rl_of_a_quantized_model_changes_the_adapter_alone(work: Path, quantized: dict[int, str]) -> None:
    run("rl", "--config", write_config(work, quantized[4], "rl-4", recipe="grpo", max_tokens=16))
    rollouts = read_rollouts(work / "rl-4")
    assert len(rollouts) == 8
    for row in rollouts:
        logp = np.frombuffer(base64.b64decode(row["tokens"]["logp"]), "<f4")
        assert logp.size > 0
        assert np.isfinite(logp).all()
    assert generated(quantized[4], work / "rl-4", "How many?")


def test_gate_refuses_the_adapter_in_use(model: str, work: Path, adapter: Path) -> None:
    config = write_config(work, model, "gate", recipe="grpo", max_tokens=16)
    current = work / "current"
    current.symlink_to(adapter)
    command = (
        "promote",
        adapter,
        "--over",
        current,
        "--data",
        work / "questions" / "held-out.jsonl",
        "--by",
        "rollouts",
    )
    result = subprocess.run(
        [sys.executable, "-m", "karl_fast", *map(str, command), "--config", str(config), "--attempts", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    assert "refused" in result.stdout


def test_long_session_is_trained_by_segments(model: str, work: Path) -> None:
    """A row of 10,000 tokens, 2,048 tokens at a time."""
    turns = [
        {"role": role, "content": f"{role} {number}: " + "the table is empty. " * 60}
        for number in range(16)
        for role in ("user", "assistant")
    ]
    row = {"messages": turns}
    (work / "long" / "data").mkdir(parents=True)
    (work / "long" / "data" / "train.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    plan, peak = train(
        work / "long", model, work / "segments", "--iters", "1", "--batch-size", "1", "--segment-length", "2048"
    )
    assert peak <= 1.05 * plan
