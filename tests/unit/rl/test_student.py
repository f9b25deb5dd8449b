"""A student beside a teacher that sees more: rewards by learnability, and no privileged text anywhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

from karl_fast import _core
from karl_fast.errors import UsageError
from karl_fast.rl import rl, setup
from karl_fast.rl.settings import Online
from karl_fast.train import Training
from tests.unit.rl.conftest import EXAMPLES

if TYPE_CHECKING:
    from pathlib import Path

LAB = EXAMPLES.parent / "lab"

SECRET = 7
"""Symbol that is in every teacher's prompt and in no student's."""

MODEL = f"""
import sys
sys.path.insert(0, {str(LAB)!r})
from distill import follower, prompts as lines
from policy import NUMBER

SEEN = []

def student(seed):
    policy = follower(seed + 1)
    body = policy.body
    def spy(tokens, cache=None):
        SEEN.append(tokens.tolist())
        return body(tokens, cache=cache)
    policy.body = spy
    return policy

def prompts():
    for line in lines():
        if "{SECRET}" not in line["prompt"]:
            yield line | {{"teacher_prompt": "{SECRET} " + line["prompt"]}}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Online:
    (tmp_path / "task.py").write_text(MODEL)
    place = str(tmp_path / "task.py")
    return Online(
        model=f"{LAB / 'distill.py'}:follower",
        student=f"{place}:student",
        prompts=f"{place}:prompts",
        environment=f"{LAB / 'tasks.py'}:TokenReversal",
        rounds=3,
        prompts_per_round=2,
        group_size=4,
        max_tokens=3,
        max_context=16,
        micro_batch=3,
        out=str(tmp_path / "run"),
        save_every=1,
        training=Training(learning_rate=1e-3),
    )


def lines(out: str, name: str) -> list[dict[str, Any]]:
    from pathlib import Path

    return [json.loads(line) for line in Path(out, name).read_text().splitlines()]


def weights(out: str) -> bytes:
    from pathlib import Path

    return b"".join(Path(out, name).read_bytes() for name in ("adapters.safetensors", "student/adapters.safetensors"))


def spied(run: Any) -> list[Any]:
    """Tokens of every pass of the student."""
    seen: list[Any] = run.student.policy.body.__globals__["SEEN"]
    return seen


def test_the_student_never_sees_what_only_the_teacher_is_shown(
    settings: Online, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Any] = []
    prepare = setup.prepare
    monkeypatch.setattr("karl_fast.rl.run.prepare", lambda *a, **k: runs.append(prepare(*a, **k)) or runs[-1])
    rl(replace(settings, eval_prompts=settings.prompts, eval_attempts=1))
    [run] = runs
    seen = spied(run)
    assert seen
    for rollout in lines(settings.out, "rollouts.jsonl"):
        shown = rollout["messages"][0]["content"].split()
        assert str(SECRET) not in shown
        assert len(shown) == 3
    secret, *rest = run.policy.encode(run.prompt_set.prompts[0].messages)
    assert rest[:3] == run.student.policy.encode(run.prompt_set.prompts[0].unprivileged)[:3]
    # The symbol may be in an answer that a policy drew itself; in front of an answer it never is. Passes of one token
    # go on with such an answer.
    for batch in seen:
        passes = [row for row in np.atleast_2d(np.array(batch)).tolist() if len(row) > 3]
        assert all(secret not in row[:3] for row in passes)


def test_the_reward_is_that_of_the_source_and_the_outcome_stays(settings: Online) -> None:
    rl(settings)
    for rollout in lines(settings.out, "rollouts.jsonl"):
        parts = rollout["components"]
        assert parts["learnability"] == pytest.approx(np.exp(-0.5 * parts["spike"]))
        assert rollout["reward"] == pytest.approx(rollout["outcome"] * parts["learnability"])
        assert rollout["outcome"] == parts["environment"]
    assert all(line["student_loss"] > 0 for line in lines(settings.out, "metrics.jsonl"))
    other = replace(settings, student_reward="surprisal", student_recipe="sft", out=settings.out + "-baseline")
    rl(other)
    for rollout in lines(other.out, "rollouts.jsonl"):
        assert rollout["reward"] == pytest.approx(rollout["outcome"] - 0.5 * rollout["components"]["surprisal"])


def test_its_numbers_are_those_of_a_naive_pass(settings: Online) -> None:
    run = setup.prepare(settings)
    try:
        prompts = run.prompt_set.prompts[:2]
        rollouts, _ = run.collector(prompts, first=0, seed=3, version=0)
        rewarded = run.student.reward(rollouts)
        policy = run.student.policy
        for before, after in zip(rollouts, rewarded, strict=True):
            start = before.spans[0][0]
            answer = before.tokens[start:].tolist()
            tokens = [*policy.encode(before.prompt.unprivileged), *answer]
            logits = np.array(policy.head(policy.body(mx.array([tokens])))[0].astype(mx.float32), dtype=np.float64)
            logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
            places = np.arange(len(tokens) - len(answer), len(tokens))
            chosen = logp[places - 1, answer]
            _, spike, learnable = _core.learnability(logp[places - 1].max(1) - chosen, np.array([0, len(answer)]))
            assert after.components["spike"] == pytest.approx(spike[0], rel=1e-4, abs=1e-5)
            assert after.components["surprisal"] == pytest.approx(-chosen.mean(), rel=1e-4)
            assert after.reward == pytest.approx(before.reward * learnable[0], rel=1e-4)
    finally:
        run.close()


def test_a_run_that_was_resumed_has_the_bytes_of_one_that_was_not(settings: Online) -> None:
    rl(settings)
    cut = replace(settings, out=settings.out + "-cut", rounds=2)
    rl(cut)
    rl(replace(cut, rounds=3), resume=True)
    assert weights(cut.out) == weights(settings.out)


def test_a_prompt_without_more_for_the_teacher_and_a_replay_are_refused(settings: Online, tmp_path: Path) -> None:
    (tmp_path / "plain.jsonl").write_text('{"prompt": "1 2 3", "answer": "3 2 1"}\n')
    with pytest.raises(UsageError, match="has no teacher_prompt"):
        rl(replace(settings, prompts=str(tmp_path / "plain.jsonl")))
    with pytest.raises(UsageError, match="replay"):
        replace(settings, replay=replace(settings.replay, groups=1))
