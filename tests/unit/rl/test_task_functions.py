"""What a task knows of tokens: parsed, refused by name, stored with a rollout, and learned from."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast.errors import UsageError
from karl_fast.objective import recipe
from karl_fast.rl import rl
from karl_fast.rl.learner import build_batch, check_labels
from karl_fast.rl.logprobs import Forward
from karl_fast.rl.rollout import pack, parse_rollout, rollout_line
from karl_fast.rl.task_functions import TaskFunctions
from tests.unit.rl.test_learn import learned, policy, rollouts, weights
from tests.unit.rl.test_parts import asked, rollout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from karl_fast.rl.rollout import Rollout
    from karl_fast.rl.settings import Online

__all__ = ["policy", "rollouts"]

PROMPTS = asked()


def group(count: int = 2) -> list[Rollout]:
    """Rollouts of three tokens each."""
    return [rollout(PROMPTS[0], 0, 1.0, name=f"0-{n}") for n in range(count)]


def known(policy: Any = None, **functions: Any) -> tuple[list[Rollout], list[str]]:
    (found,), failures = TaskFunctions(functions)(policy, [group()])
    return found, failures


def test_values_are_of_each_token() -> None:
    found, failures = known(
        token_rewards=lambda prompts, completions, completion_ids: [[1, None, 0.5] for _ in completion_ids],
        labels=lambda prompts, completions, completion_ids, **columns: [np.array([7, 0, 3]), (None, 2, None)],
        baseline=lambda policy, prompt: 0.25 if policy == "p" and prompt["id"] == "p0" else -1,
        policy="p",
    )
    assert not failures
    np.testing.assert_array_equal(found[0].token_rewards, [1.0, np.nan, 0.5])
    np.testing.assert_array_equal([one.labels for one in found], [[7, 0, 3], [-1, 2, -1]])
    assert [one.baseline for one in found] == [0.25, 0.25]
    assert [one.reward for one in found] == [1.0, 1.0]


def test_functions_see_what_reward_functions_see() -> None:
    seen: dict[str, Any] = {}

    def function(prompts: Any, completions: Any, completion_ids: Any, difficulty: Any) -> Any:
        seen.update(prompts=prompts, ids=completion_ids, difficulty=difficulty)
        return [[0.0] * 3] * 2

    known(token_rewards=function)
    assert seen["ids"] == [[2, 3, 5]] * 2
    assert seen["difficulty"] == [PROMPTS[0].columns["difficulty"]] * 2
    assert seen["prompts"][0] == [{"role": "user", "content": "q"}]


def raises(*arguments: Any, **columns: Any) -> Any:
    raise ValueError("no idea")


@pytest.mark.parametrize(
    ("setting", "function", "kind", "said"),
    [
        ("token_rewards", raises, "raised", "token_rewards raised ValueError: no idea"),
        ("labels", lambda **_: [[1, 2, 3]], "length", "labels gave 1 value, wanted a list for each of 2 completions"),
        ("labels", lambda **_: [[1, 2]] * 2, "length", "labels gave 2 values for a completion of 3 tokens"),
        ("labels", lambda **_: ["abc"] * 2, "length", "labels gave str for a completion of 3 tokens"),
        ("labels", lambda **_: [[1, 2.5, 3]] * 2, "not a number", "labels gave 2.5, wanted the id of a token, for a"),
        ("labels", lambda **_: [[1, -1, 3]] * 2, "not a number", "labels gave -1, wanted the id of a token, for a"),
        ("token_rewards", lambda **_: [[1, float("nan"), 3]] * 2, "nan", "token_rewards gave nan for a token"),
        ("token_rewards", lambda **_: [[1, "x", 3]] * 2, "not a number", "token_rewards gave 'x' for a token"),
        ("baseline", raises, "raised", "baseline raised ValueError: no idea"),
        ("baseline", lambda *_: None, "not a number", "baseline gave None, wanted the mean reward of the policy"),
        ("baseline", lambda *_: float("inf"), "not a number", "baseline gave inf, wanted the mean reward"),
    ],
)
def test_a_failure_costs_the_rewards_of_its_group(setting: str, function: Any, kind: str, said: str) -> None:
    found, failures = known(**{setting: function})
    assert [one.missing for one in found] == [f"{setting}: {kind}"] * 2
    assert all(np.isnan([one.reward, one.outcome]).all() for one in found)
    assert len(failures) == 1
    assert failures[0].startswith(said)
    assert failures[0].endswith(f"({setting} is missing for 2 of 2 completions)")
    packed = pack(found)
    batch = build_batch(found, packed, packed.logp, None, version=0, seed=0, turns=False)
    name = {"baseline": "baselines"}.get(setting, setting)
    assert batch.need(name).shape == (packed.mask.shape if name != "baselines" else (2,))


def test_a_line_gives_them_back() -> None:
    one = group()[0].but(token_rewards=np.array([0.1, np.nan, -2.0]), labels=np.array([5, -1, 9]), baseline=0.125)
    plain = group()[0]
    by_id = {PROMPTS[0].id: PROMPTS[0]}
    for given in (one, plain):
        again = parse_rollout(rollout_line(given, 3)(given.logp, learned=True), by_id)
        np.testing.assert_array_equal(again.token_rewards, given.token_rewards)
        np.testing.assert_array_equal(again.labels, given.labels)
        np.testing.assert_array_equal(again.baseline, given.baseline)
    text = rollout_line(plain, 3)(plain.logp, learned=True)
    assert "baseline" not in text
    assert "labels" not in text


def test_columns_stand_where_the_tokens_are() -> None:
    found = [each.but(labels=np.array([5, -1, 9])) for each in group(1)] + [rollout(PROMPTS[1], 1, 1.0)]
    packed = pack(found)
    batch = build_batch(found, packed, packed.logp, None, version=0, seed=0, turns=False)
    np.testing.assert_array_equal(batch.need("labels")[0][packed.mask[0]], [5, -1, 9])
    assert (batch.need("labels")[1] == -1).all()  # a replayed rollout of a run without the function
    assert batch.token_rewards is None


def test_a_label_beyond_the_vocabulary_is_refused() -> None:
    found = [each.but(labels=np.array([5, -1, 10])) for each in group(1)]
    packed = pack(found)
    batch = build_batch(found, packed, packed.logp, None, version=0, seed=0, turns=False)
    check_labels(batch, 11)
    with pytest.raises(UsageError, match=r"^labels gave the token 10, and the policy has tokens 0 to 9$"):
        check_labels(batch, 10)


@pytest.mark.parametrize("micro_batch", [18, 5])
def test_right_tokens_add_their_gradient(policy: Any, rollouts: list[Rollout], micro_batch: int) -> None:
    """Beside the gradient of the plain formula over all logits."""
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten

    draw = np.random.default_rng(0)
    given = [one.but(labels=draw.integers(-1, 8, size=one.length)) for one in rollouts]
    objective = recipe("scope-lite").objective
    start = weights(policy)
    _, _, without = learned(policy, given, "dg", micro_batch=micro_batch)
    prepared, found, after = learned(policy, given, objective, micro_batch=micro_batch)
    assert found.losses
    tokens, places = mx.array(prepared.packed.tokens), prepared.scored.need("label_places")
    assert 0 < np.count_nonzero(places) < prepared.mask.sum()
    labels = mx.array(np.maximum(prepared.batch.need("labels"), 0))

    def plain() -> mx.array:
        log_p = nn.log_softmax(policy.head(policy.body(tokens[:, :-1])))
        right = mx.take_along_axis(log_p, labels[..., None], -1)[..., 0]
        chosen = mx.array((places > 0).astype(np.float32))
        return -0.5 * (right * chosen).sum() / chosen.sum()

    _, gradient = nn.value_and_grad(policy.model, plain)()
    slopes = {name: np.array(value) for name, value in tree_flatten(gradient)}
    assert max(np.abs(value).max() for value in slopes.values()) > 1e-3
    for name in start:
        np.testing.assert_allclose(after[name] - without[name], -0.1 * slopes.get(name, 0.0), atol=2e-6)


@pytest.mark.parametrize("micro_batch", [18, 5])
def test_candidates_give_the_gradient_of_their_target(policy: Any, rollouts: list[Rollout], micro_batch: int) -> None:
    """That of the plain formula over all logits: a cross-entropy at each place where the right token is known."""
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten

    draw = np.random.default_rng(0)
    given = [one.but(labels=draw.integers(-1, 8, size=one.length)) for one in rollouts]
    start = weights(policy)
    prepared, result, after = learned(policy, given, "tpo-token", micro_batch=micro_batch)
    assert result.losses
    tokens, candidates = mx.array(prepared.packed.tokens), prepared.batch.need("candidates")
    known = prepared.batch.mask & (prepared.batch.need("labels") >= 0)
    np.testing.assert_array_equal(prepared.scored.mask, known)
    hits = (candidates == prepared.batch.need("labels")[:, :, None]).astype(np.float64)
    np.testing.assert_array_equal(prepared.batch.need("candidate_rewards")[known], hits[known])
    deviation = hits.std(2, keepdims=True)
    skill = np.where(deviation > 0, (hits - hits.mean(2, keepdims=True)) / np.maximum(deviation, 1e-9), 0.0)
    assert 0 < (deviation[known] > 0).mean() < 1

    def plain() -> mx.array:
        log_p = nn.log_softmax(policy.head(policy.body(tokens[:, :-1])))
        own = mx.take_along_axis(log_p, mx.array(candidates), -1)
        target = mx.softmax(mx.stop_gradient(own) + mx.array(skill.astype(np.float32)), axis=-1)
        terms = (target * nn.log_softmax(own)).sum(-1)
        return -(terms * mx.array(known.astype(np.float32))).sum() / int(known.sum())

    loss, gradient = nn.value_and_grad(policy.model, plain)()
    assert result.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    slopes = {name: np.array(value) for name, value in tree_flatten(gradient)}
    assert max(np.abs(value).max() for value in slopes.values()) > 1e-3
    for name in start:
        np.testing.assert_allclose(after[name] - start[name], -0.1 * slopes.get(name, 0.0), atol=2e-6)


def test_candidates_are_drawn_by_the_policy(policy: Any, rollouts: list[Rollout]) -> None:
    """A frequency over 2,000 draws is within 5 standard errors, of which one in a million is not."""
    import mlx.core as mx
    import mlx.nn as nn

    packed = pack(rollouts).rows([0])
    keys = np.random.default_rng(1).integers(1 << 63, size=(*packed.mask.shape, 2000), dtype=np.uint64)
    tokens, logp = Forward(policy, 0.7).draw(packed, keys)
    log_p = np.array(nn.log_softmax(policy.head(policy.body(mx.array(packed.tokens)[:, :-1])) / 0.7))[0]
    for place in np.flatnonzero(packed.mask[0]):
        chances = np.exp(log_p[place])
        shares = np.bincount(tokens[0, place], minlength=len(chances)) / 2000
        assert np.all(np.abs(shares - chances) < 5 * np.sqrt(chances * (1 - chances) / 2000) + 1e-9)
        np.testing.assert_allclose(logp[0, place], log_p[place, tokens[0, place]], atol=1e-5)
    np.testing.assert_array_equal(tokens[0][~packed.mask[0]], 0)


FUNCTIONS = """
def right(prompts, completions, completion_ids, **columns):
    wanted = [[*map(int, reversed(prompt[-1]["content"].split()))] for prompt in prompts]
    return [[*answer, 9, None, None][: len(ids)] for answer, ids in zip(wanted, completion_ids)]


def rewards(prompts, completions, completion_ids, **columns):
    labels = right(prompts, completions, completion_ids)
    return [[float(a == b) for a, b in zip(ids, row)] for ids, row in zip(completion_ids, labels)]


def mean(policy, prompt):
    assert prompt["prompt"][0]["role"] == "user"
    return 0.25 + 0 * policy.head(policy.body(MX.array([[1]]))).sum().item()
"""

USES = [
    ("tpo-token", {"labels": "right"}),
    ("grpo-token", {"labels": "right"}),
    ("dg-token", {"token_rewards": "rewards"}),
    ("self-distill-dg", {"token_rewards": "rewards", "labels": "right"}),
    ("scope-lite", {"labels": "right"}),
    ("dg-expected", {"baseline": "mean"}),
]


@pytest.mark.parametrize(("name", "functions"), USES)
def test_a_run_learns_from_them_and_resumes(
    online: Callable[..., Online], tmp_path: Path, name: str, functions: dict[str, str]
) -> None:
    file = tmp_path / "known.py"
    file.write_text("import mlx.core as MX\n" + FUNCTIONS, encoding="utf-8")
    settings = online(recipe=name, **{setting: f"{file}:{each}" for setting, each in functions.items()})
    rl(settings)
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert len(lines) == 4
    assert all(line["grad_norm"] > 0 and not line["missing"] for line in lines)
    part = replace(settings, out=str(tmp_path / "part"))
    rl(replace(part, rounds=2))
    rl(part, resume=True)
    whole, again = ((tmp_path / out / "rollouts.jsonl").read_bytes() for out in ("out", "part"))
    assert whole == again


@pytest.mark.parametrize(("name", "functions"), USES)
def test_a_recipe_that_lacks_its_function_is_refused(
    online: Callable[..., Online], name: str, functions: dict[str, str]
) -> None:
    setting = next(iter(functions))
    with pytest.raises(UsageError, match=f"and {setting} names no function for it"):
        rl(online(recipe=name))


def test_a_function_that_nothing_reads_is_refused(online: Callable[..., Online]) -> None:
    with pytest.raises(UsageError, match=r"^labels names a function, and GRPO has no use for it"):
        rl(online(labels="x.py:right"))
