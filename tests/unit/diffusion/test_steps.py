"""Runs of `rl` on models that draw in steps: what they draw, score, learn, log and resume."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")

from karl_fast.diffusion.policy import DiffusionModel, load_model, save_model  # noqa: E402
from karl_fast.errors import CheckpointError, ModelError, UsageError  # noqa: E402
from karl_fast.objective import recipe, to_toml  # noqa: E402
from karl_fast.rl import rl  # noqa: E402
from karl_fast.rl.policy import is_step_policy  # noqa: E402
from karl_fast.rl.rollout import pack, parse_rollout, rollout_line  # noqa: E402
from karl_fast.rl.settings import read_prompts  # noqa: E402
from karl_fast.rl.setup import prepare  # noqa: E402
from karl_fast.rl.steps import StepForward  # noqa: E402
from karl_fast.train.batching import mix_seed  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.rl.settings import Online
    from karl_fast.rl.setup import OnlineRun

    Settings = Callable[..., Online]

from tests.unit.diffusion.conftest import FORMS  # noqa: E402

pytestmark = pytest.mark.mlx

FILES = ("adapters.safetensors", "rollouts.jsonl")


def draw(run: OnlineRun) -> list[Any]:
    rollouts, failures = run.collector(run.prompt_set.prompts[:2], first=0, seed=5, version=0)
    assert not failures
    return rollouts


def test_a_rollout_has_every_state_and_its_steps_are_scored_as_they_were_drawn(online: Settings) -> None:
    run = prepare(online())
    policy: Any = run.policy
    assert is_step_policy(policy)
    rollouts = draw(run)
    for rollout in rollouts:
        assert rollout.length == 3
        assert len(rollout.tokens) == policy.prompt_width + 4 * policy.width
        assert len(rollout.spans) == len(rollout.states) == len(rollout.turn_rewards) == 3
        assert policy.decode(rollout.answer.tolist()) == rollout.messages[-1]["content"]
    scored = run.learner.forward.logp(pack(rollouts))
    for rollout, row in zip(rollouts, scored, strict=True):
        np.testing.assert_allclose(rollout.own(np.pad(row, (1, 0))), rollout.logp, atol=2e-5)
    run.close()


def test_a_rollout_comes_back_from_its_line(online: Settings) -> None:
    settings = online()
    run = prepare(settings)
    for rollout in draw(run):
        line = rollout_line(rollout, 0)(rollout.logp, learned=True)
        back = parse_rollout(line, {prompt.id: prompt for prompt in run.prompt_set.prompts})
        assert (back.width, back.spans, back.states) == (rollout.width, rollout.spans, rollout.states)
        np.testing.assert_array_equal(back.tokens, rollout.tokens)
        np.testing.assert_array_equal(back.answer, rollout.answer)
        with pytest.raises(CheckpointError, match="damaged"):
            parse_rollout(
                line.replace(f'"width": {rollout.width}', '"width": 4000'), {rollout.prompt.id: rollout.prompt}
            )
    run.close()


def test_the_ratio_is_one_before_the_first_step_and_not_after_it(online: Settings) -> None:
    run = prepare(online(epochs=2, training={"learning_rate": 3e-3}))
    seed = mix_seed(0, 0)
    prepared = run.learner.prepare(draw(run), version=0, seed=seed)
    result = run.learner.learn(prepared, seed=seed, set_learning_rate=run.set_learning_rate)
    first, second = result.drifts
    assert first["ratio"] == first["ratio_max"] == first["ratio_min"] == 1.0
    assert second["ratio_max"] > 1.001
    run.close()


@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_gradients_of_steps_equal_finite_differences(online: Settings, direction: str) -> None:
    run = prepare(online())
    policy: Any = run.policy
    packed = pack(draw(run)[:2])
    forward = StepForward(policy, 0.8, 3, direction)
    head = policy.model.head
    policy.model.freeze()
    head.unfreeze()
    start = mx.array(head.bias)
    head.bias = start + 0.1  # away from the reference
    batch = forward.cut(packed.tokens, packed.mask)
    slopes = {"logp": 1.0, "entropy": 0.5, "divergence": -0.7}
    reference = policy.logits(batch[0], batch[1], batch[3], 3).astype(mx.float32)[..., ::-1] / 0.8

    def value() -> float:
        values = forward.compute(tuple(slopes), reference, *batch)
        return float(sum(slope * values[name].sum().item() for name, slope in slopes.items()))

    def total(bias: Any) -> Any:
        head.bias = bias
        values = forward.compute(tuple(slopes), reference, *batch)
        return sum(slope * values[name].sum() for name, slope in slopes.items())

    center = np.array(head.bias)
    gradient = np.array(mx.grad(total)(mx.array(center)))
    for place in (0, 2, 7, 20):
        ends = []
        for sign in (1, -1):
            moved = center.copy()
            moved[place] += sign * 1e-2
            head.bias = mx.array(moved)
            ends.append(value())
        assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-2, abs=2e-2, rel=2e-2)
    run.close()


@pytest.mark.parametrize("name", ["tpo", "grpo"])
def test_objectives_of_whole_groups_pass_them_in_parts(online: Settings, tmp_path: Path, name: str) -> None:
    weights = {}
    for rows in (2, 4):
        run = replace(online(recipe=name), out=str(tmp_path / f"{name}-{rows}"), micro_batch=rows, rounds=2)
        rl(run)
        weights[rows] = mx.load(str(Path(run.out, FILES[0])))
    assert all(np.allclose(weights[2][key], weights[4][key], atol=1e-5) for key in weights[2])


@pytest.mark.parametrize("how", [{"fine_tune_type": "lora"}, {"fine_tune_type": "full"}], ids=str)
def test_a_run_that_is_resumed_has_the_bytes_of_one_that_was_not(
    online: Settings, tmp_path: Path, how: dict[str, Any]
) -> None:
    whole = online(out=str(tmp_path / "whole"), training=how)
    rl(whole)
    parts = replace(whole, out=str(tmp_path / "parts"))
    rl(replace(parts, rounds=2))
    rl(parts, resume=True)
    for name in FILES:
        assert Path(whole.out, name).read_bytes() == Path(parts.out, name).read_bytes(), name
    metrics = [json.loads(line) for line in Path(parts.out, "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [line["round"] for line in metrics] == [0, 1, 2, 3]
    assert all(line["tokens"] == 3 for line in metrics)


def test_the_exact_divergence_from_the_reference_is_zero_at_the_start_and_not_later(
    online: Settings, tmp_path: Path
) -> None:
    grpo = recipe("grpo")
    file = tmp_path / "exact.toml"
    text = to_toml(grpo)
    kl = text[text.index("[kl]") : text.index("[entropy]")]
    file.write_text(text.replace(kl, '[kl]\npoint = "ReverseKL"\ncoef = 0.04\nsource = "a test"\n\n'), "utf-8")
    rl(online(recipe=str(file), training={"learning_rate": 3e-3}))
    lines = [json.loads(line) for line in Path(tmp_path, "out", "metrics.jsonl").read_text("utf-8").splitlines()]
    assert lines[0]["divergence"] == pytest.approx(0, abs=1e-6)
    assert lines[-1]["divergence"] > 1e-4


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"recipe": "flowrl"}, "log Z"),
        ({"compile": True}, "compile is True"),
        ({"max_turns": 2}, "max_turns is 2"),
        ({"kv_cache": "8-bit"}, "kv_cache is 8-bit"),
    ],
    ids=str,
)
def test_what_means_nothing_for_steps_is_refused(online: Settings, over: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        rl(online(**over))


def test_a_damaged_model_is_named(folder: Path, tmp_path: Path) -> None:
    model, config = load_model(str(folder))
    save_model(tmp_path / "copy", model, replace(config, size=32))
    with pytest.raises(ModelError, match="wanted"):
        load_model(str(tmp_path / "copy"))


def test_a_word_that_the_model_does_not_know_is_refused(folder: Path) -> None:
    policy = DiffusionModel(*load_model(str(folder)))
    with pytest.raises(UsageError, match="berlin"):
        policy.encode([{"content": "city berlin"}])


def test_the_bound_of_an_answer_is_one_score_with_the_ratio_of_its_change(online: Settings, tmp_path: Path) -> None:
    run = prepare(online(scoring="bound", epochs=2, training={"learning_rate": 3e-3}))
    rollouts, policy = draw(run), run.policy
    assert is_step_policy(policy)
    assert all(rollout.length == 1 and len(rollout.tokens) == 6 + policy.width for rollout in rollouts)
    scored = run.learner.forward.logp(pack(rollouts))
    for rollout, row in zip(rollouts, scored, strict=True):
        np.testing.assert_allclose(rollout.own(np.pad(row, (1, 0))), rollout.logp, atol=2e-5)
    seed = mix_seed(0, 0)
    prepared = run.learner.prepare(rollouts, version=0, seed=seed)
    first, second = run.learner.learn(prepared, seed=seed, set_learning_rate=run.set_learning_rate).drifts
    assert first["ratio_max"] == first["ratio_min"] == 1.0
    assert second["ratio_max"] > 1.0001
    run.close()


def test_a_run_by_the_bound_resumes(online: Settings, tmp_path: Path) -> None:
    whole = online(out=str(tmp_path / "whole"), scoring="bound")
    rl(whole)
    parts = replace(whole, out=str(tmp_path / "parts"))
    rl(replace(parts, rounds=2))
    rl(parts, resume=True)
    for name in FILES:
        assert Path(whole.out, name).read_bytes() == Path(parts.out, name).read_bytes(), name


def test_the_bound_is_refused_where_a_recipe_reads_each_step(online: Settings, tmp_path: Path) -> None:
    text = to_toml(recipe("grpo"))
    entropy = text[text.index("[entropy]") : text.index("[correction]")]
    file = tmp_path / "entropy.toml"
    bonus = '[entropy]\npoint = "EntropyBonus"\ncoef = 0.01\nsource = "a test"\n\n'
    file.write_text(text.replace(entropy, bonus), "utf-8")
    with pytest.raises(UsageError, match="distribution of each step"):
        rl(online(scoring="bound", recipe=str(file)))


def test_attempts_are_evaluated_by_their_own_number_of_steps(online: Settings, tmp_path: Path) -> None:
    rl(online(eval_prompts=f"{FORMS}:held_out", eval_every=2, eval_attempts=1, eval_steps=5))
    lines = [json.loads(line) for line in Path(tmp_path, "out", "held_out.jsonl").read_text("utf-8").splitlines()]
    assert [line["round"] for line in lines] == [0, 2, 4]
    assert {line["tokens"] for line in lines} == {5.0}


def test_rollouts_of_an_evaluation_take_steps(online: Settings, tmp_path: Path) -> None:
    from karl_fast.evaluation.rollouts import RolloutSettings, evaluate_rollouts

    settings = online(out=str(tmp_path / "run"))
    rl(settings)
    prompts = read_prompts(f"{FORMS}:held_out")[:6]
    file = tmp_path / "held_out.jsonl"
    lines = ({"prompt": prompt.messages, **prompt.columns} for prompt in prompts)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    result = evaluate_rollouts(
        RolloutSettings(settings, str(file), attempts=2),
        str(tmp_path / "run"),
        out=tmp_path / "eval",
        against="base",
    )
    assert result.prompts == 6
    assert result.differences is not None
