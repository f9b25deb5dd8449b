"""Evaluation by rollouts of a small trained policy, and the gate by it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast.cli.reports.evaluation import Chunks
from karl_fast.errors import CheckpointError, ModelError, OutputExistsError, OverlapError, UsageError
from karl_fast.evaluation import RolloutSettings, evaluate_rollouts, promote
from tests.unit.evaluation.conftest import TASK, settings
from tests.unit.train.conftest import made, ran

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mlx
pytest.importorskip("mlx.core", reason="pip install '.[train]'")


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("model") / "tiny-qwen3")


def asked(trained: Path, **over: Any) -> RolloutSettings:
    given = RolloutSettings(
        replace(settings(trained), rollouts_in_flight=32), str(trained / "held-out.jsonl"), attempts=4, solved_at=0.99
    )
    return replace(given, **over)


def test_a_trained_policy_beats_its_start(trained: Path, tmp_path: Path) -> None:
    found = evaluate_rollouts(asked(trained), trained / "run", out=tmp_path / "out", against="base")
    assert (found.prompts, found.attempts, found.missing) == (32, 4, {})
    assert found.against is not None
    assert found.differences is not None
    reward = found.differences["reward"]
    assert reward.value == pytest.approx(found.measures["reward"].value - found.against["reward"].value)
    assert (reward.method, reward.prompts) == ("sign-flip", 32)
    assert reward.low is not None
    assert reward.low > 0
    assert reward.p < 1e-3
    assert {"reward", "solved", "solved_once", "pass@2", "pass@4", "best@2", "best@4", "distinct", "tokens"} == {
        *found.measures
    }
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["measures"]["reward"]["value"] == found.measures["reward"].value


def test_progress_within_a_chunk_is_shown(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk may take minutes: its finished attempts and its tokens are known meanwhile."""
    calls: list[tuple[int, int, int]] = []
    whole = replace(asked(trained), settings=replace(settings(trained), rollouts_in_flight=24))  # chunks of 6 prompts
    evaluate_rollouts(
        whole, trained / "run", out=tmp_path / "out", on_tokens=lambda *numbers: calls.append(numbers) or None
    )
    assert {attempts for _, attempts, _ in calls} == {24, 8}
    tokens = json.loads((tmp_path / "out" / "result.json").read_text())["measures"]["tokens"]["value"]
    ends = [one for one, following in zip(calls, [*calls[1:], (0, 0, 0)], strict=True) if following[2] < one[2]]
    assert sum(drawn for _, _, drawn in ends) == round(tokens * 32 * 4)
    chunks = Chunks()
    chunks("rollouts.jsonl", 0, 32, [])
    chunks.on_tokens(1, 24, 30)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 20)
    lines = StringIO()
    monkeypatch.setattr("sys.stderr", lines)
    chunks.on_tokens(3, 24, 90)
    assert lines.getvalue().startswith("          3 of 24 attempts finished, 90 tokens, ")


def test_measures_are_those_of_the_log(trained: Path, tmp_path: Path) -> None:
    found = evaluate_rollouts(asked(trained), trained / "run", out=tmp_path / "out")
    log = karl_fast.read(tmp_path / "out" / "rollouts.jsonl")
    assert len(log) == 32 * 4
    assert found.measures["reward"].value == pytest.approx(float(np.mean(log.rewards)))
    karl_fast.sample(tmp_path / "out" / "rollouts.jsonl", tmp_path / "data", k=8)
    assert len((tmp_path / "data" / "train.jsonl").read_text().splitlines()) == 8


def test_an_adapter_against_itself_differs_by_nothing(trained: Path, tmp_path: Path) -> None:
    found = evaluate_rollouts(asked(trained), trained / "run", out=tmp_path / "out", against=trained / "run")
    assert found.differences is not None
    assert {one.value for one in found.differences.values()} == {0.0}
    logs = [(tmp_path / "out" / name).read_bytes() for name in ("rollouts.jsonl", "against.jsonl")]
    assert logs[0] == logs[1]


def test_a_cut_evaluation_resumes_to_the_same_bytes(trained: Path, tmp_path: Path) -> None:
    how = {"against": "base"}
    whole = evaluate_rollouts(asked(trained), trained / "run", out=tmp_path / "whole", **how)
    evaluate_rollouts(asked(trained), trained / "run", out=tmp_path / "cut", **how)
    logs = {name: (tmp_path / "whole" / name).read_bytes() for name in ("rollouts.jsonl", "against.jsonl")}
    for name, share in (("rollouts.jsonl", 0.4), ("against.jsonl", 0.7), ("against.jsonl", 0.0)):
        log = tmp_path / "cut" / name
        log.write_bytes(logs[name][: int(len(logs[name]) * share)])
        again = evaluate_rollouts(asked(trained), trained / "run", out=tmp_path / "cut", resume=True, **how)
        assert again.to_dict() == whole.to_dict()
        assert {each: (tmp_path / "cut" / each).read_bytes() for each in logs} == logs


def test_an_evaluation_resumes_only_under_its_settings(trained: Path, tmp_path: Path) -> None:
    evaluate_rollouts(asked(trained), trained / "run", out=tmp_path / "out")
    with pytest.raises(OutputExistsError, match="has an evaluation already"):
        evaluate_rollouts(asked(trained), trained / "run", out=tmp_path / "out")
    with pytest.raises(CheckpointError, match="other seed, temperature"):
        evaluate_rollouts(asked(trained, seed=1, temperature=0.5), trained / "run", out=tmp_path / "out", resume=True)
    with pytest.raises(CheckpointError, match="other adapters"):
        evaluate_rollouts(asked(trained), "base", out=tmp_path / "out", resume=True)
    evaluate_rollouts(asked(trained, seed=1), trained / "run", out=tmp_path / "out", force=True)


def test_attempts_beyond_memory_are_refused(trained: Path, tmp_path: Path) -> None:
    rollouts = asked(trained)
    little = replace(rollouts.settings, training=replace(rollouts.settings.training, memory_limit=0.00005))
    with pytest.raises(UsageError, match=r"draws 32 rollouts at a time, .*\(weights .*, drawing .*\)") as caught:
        evaluate_rollouts(replace(rollouts, settings=little), out=tmp_path / "out")
    assert "learning" not in str(caught.value)
    assert "memory_limit" in str(caught.value.hint)
    assert not (tmp_path / "out").exists()


def test_greedy_attempts_are_alike(trained: Path, tmp_path: Path) -> None:
    found = evaluate_rollouts(asked(trained, temperature=0.0), trained / "run", out=tmp_path / "out")
    assert found.measures["distinct"].value == 0.25
    sampled = evaluate_rollouts(asked(trained), trained / "run", out=tmp_path / "sampled")
    assert found.measures["reward"].value >= sampled.measures["reward"].value - 0.02


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({"attempts": 0}, "attempts is 0"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(trained: Path, over: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(trained, **over)


def test_a_missing_adapter_is_refused_before_writing(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        evaluate_rollouts(asked(trained), tmp_path / "none", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_gate_promotes_refuses_and_names_a_leak(trained: Path) -> None:
    data = {"data": trained / "held-out.jsonl", "by": "rollouts", "rollouts": asked(trained)}
    better = promote(trained / "run", over="base", **data)
    assert better.promoted
    assert (trained / "current").resolve() == trained / "run"
    assert len((better.record / "rollouts.jsonl").read_text().splitlines()) == 32 * 4
    equal = promote(trained / "run", over=trained / "current", **data)
    assert (equal.promoted, equal.value, equal.look) == (False, 0.0, 2)
    with pytest.raises(OverlapError, match=r"32 of 32 prompts \(100%\)"):
        promote(trained / "run", over=trained / "current", **(data | {"data": trained / "prompts.jsonl"}))


def test_the_commands_evaluate_promote_and_roll_back(trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "rl.toml").write_text(
        f'model = "{TASK}:policy"\neval_prompts = "{trained / "held-out.jsonl"}"\nmax_tokens = 4\n'
        f'[rewards]\n"{TASK}:reward" = 1.0\n'
    )

    def run(*words: str, code: int = 0) -> str:
        done = ran([*words], folder, timeout=300)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    how = ("--config", "rl.toml", "--attempts", "4", "-q")
    adapter = str(trained / "run")
    words = ("eval", "--rollouts", *how, "--adapter-path", adapter, "--against", "base", "--out", "evaluation")
    said = run(*words)
    assert "32 prompts, 4 attempts each" in said
    assert "pass@4" in said
    assert "already" in run(*words, code=5)
    assert json.loads(run(*words, "--resume", "--json"))["prompts"] == 32
    assert "wanted one with a model and rewards" in run("eval", "--rollouts", "--out", "e", code=2)
    held_out = str(trained / "held-out.jsonl")
    promotes = ("promote", adapter, "--data", held_out, *how[:4], "--link", "current")
    assert "promoted  " in run(*promotes, "--over", "base")
    assert (folder / "current").resolve() == trained / "run"
    assert "refused   " in run(*promotes, "--over", "current", code=1)
    assert "is removed" in run("rollback")
    assert not (folder / "current").exists()
    by_rewards = ("promote", adapter, "--data", "evaluation", "--by", "rewards", "--over", "base", "--link", "current")
    assert json.loads(run(*by_rewards, "--json"))["look"] == 3


def test_the_gate_by_likelihood_promotes_a_better_adapter(tiny_model: Path, tmp_path: Path) -> None:
    from karl_fast.train import Training, train

    def rows(first: int, count: int) -> str:
        each = (
            [{"role": "user", "content": f"count to {n}"}, {"role": "assistant", "content": "one two three"}]
            for n in range(first, first + count)
        )
        return "".join(json.dumps({"messages": messages}) + "\n" for messages in each)

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text(rows(0, 16))
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "test.jsonl").write_text(rows(100, 12))
    for name, steps in (("first", 1), ("second", 12)):
        how = Training(iters=steps, learning_rate=3e-3, max_seq_length=128, lora_rank=4)
        train(tmp_path / "data", tiny_model, tmp_path / name, how)
    held: dict[str, Any] = {"data": tmp_path / "held", "by": "likelihood", "model": str(tiny_model)}
    better = promote(tmp_path / "second", over=tmp_path / "first", **held)
    assert (better.promoted, better.unit, better.units) == (True, "nats a token", 12)
    assert better.value > 0
    assert not promote(tmp_path / "second", over=tmp_path / "current", **held).promoted
    leaks = held | {"data": tmp_path / "data", "split": "train"}
    with pytest.raises(OverlapError, match=r"16 of 16 prompts"):
        promote(tmp_path / "second", over=tmp_path / "current", **leaks)
