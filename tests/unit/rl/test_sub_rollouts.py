"""Rollouts that the policy calls: who calls whom, what comes back, the limits, the logs, and what is learned."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")

from karl_fast import sample
from karl_fast.errors import UsageError
from karl_fast.objective import Centre, NoKL, RootOnly, TreeCalls, TreeTokens, recipe
from karl_fast.rl import Call, rl
from karl_fast.rl.environment import REFUSED
from karl_fast.rl.episode import Collector, RolloutBudget, Sampling
from karl_fast.rl.generate import Decoder
from karl_fast.rl.learner import Passes, PolicyLearner
from karl_fast.rl.logprobs import Forward
from karl_fast.rl.rewards import RewardFunctions
from karl_fast.rl.rollout import (
    FINISHED_FILE,
    FinishedRollouts,
    Prompt,
    Rollout,
    pack,
    parse_trees,
    rollout_line,
    with_callees,
)
from karl_fast.rl.settings import Online, Replay
from karl_fast.train.settings import Training
from tests.unit.rl.conftest import lines
from tests.unit.rl.test_run import left

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

LAB = Path(__file__).parents[3] / "examples" / "lab"
PROMPTS = [Prompt(str(n), n, ({"role": "user", "content": f"{n} 1 2"},), {"answer": n}) for n in range(3)]


class Caller:
    """A root calls two sub-rollouts, hears them, and calls one more; these call one each, as far as they may."""

    seen: list[dict[str, Any]]

    def reset(self, prompt: Any) -> None:
        self.depth, self.turns = prompt.get("depth", 0), 0
        self.seen.append(prompt)

    def step(self, text: str) -> Any:
        self.turns += 1
        if self.turns == 1 and self.depth == 0:
            return [Call("3 4", {"answer": "left"}), Call([{"role": "user", "content": "5"}])], False
        if self.turns == 1 or (self.turns == 2 and self.depth == 0):
            return Call("6 7"), False, 0.5
        return None, True

    def score(self) -> float:
        assert self.depth == 0
        return 1.0


@pytest.fixture
def seen() -> list[dict[str, Any]]:
    Caller.seen = []
    return Caller.seen


def collected(policy: Any, make: Any, budget: RolloutBudget, **more: Any) -> tuple[list[Rollout], list[str]]:
    sampling = Sampling(2, budget, **{"rows": 4} | more)
    rewards = RewardFunctions((), environment=1.0)
    return Collector(Decoder(policy, 1.0), rewards, sampling, make)(PROMPTS, first=0, seed=1, version=0)


@pytest.fixture
def policy(reversal: ModuleType) -> Any:
    """The policy of the reversal task, which hears what an environment says."""
    import mlx.core as mx

    class Policy(reversal.Reversal):  # type: ignore[name-defined,misc]
        def answer(self, messages: Any, last: Any) -> list[int]:
            words = " ".join(message["content"] for message in messages).split()
            return [*(int(word) for word in words if word.isdigit()), reversal.ARROW]

    mx.random.seed(1)
    return Policy(longest=256)


BUDGET = RolloutBudget(30, turns=4, turn_tokens=3, depth=2, children=4)


def test_sub_rollouts_have_the_prompts_of_their_calls_and_their_last_texts_come_back(policy: Any, seen: Any) -> None:
    rollouts, failures = collected(policy, Caller, BUDGET)
    assert not failures
    assert [rollout.id for rollout in rollouts] == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]
    for root in rollouts:
        assert (root.parent, root.reward, root.finish) == (None, 1.0, "stop")
        callees = {callee.id: callee for callee in root.callees}
        # Two of the first turn, one of the second, and one that each of these called.
        tree = ["1-1", "1", "2-1", "2", "3-1", "3"]
        assert [*callees] == [f"{root.id}-{name}" for name in tree]
        prompts = {"1": "3 4", "2": "5", "3": "6 7", "1-1": "6 7", "2-1": "6 7", "3-1": "6 7"}
        for name, callee in zip(tree, root.callees, strict=True):
            assert callee.parent == callee.id.rpartition("-")[0]
            assert callee.prompt.messages == ({"role": "user", "content": prompts[name]},)
            assert (callee.prompt.id, callee.group, callee.finish) == (root.prompt.id, root.group, "stop")
            assert np.isnan(callee.reward)
            assert callee.missing is None
            assert callee.turn_rewards[0] == 0.5

        def text(callee: Rollout) -> str:
            return [each["content"] for each in callee.messages if each["role"] == "assistant"][-1]

        heard = [each["content"] for each in root.messages if each["role"] == "user"]
        assert heard == [text(callees[f"{root.id}-{name}"]) for name in ("1", "2", "3")]
    depths = [prompt.get("depth", 0) for prompt in seen]
    assert (depths.count(0), depths.count(1), depths.count(2)) == (6, 18, 18)
    left_calls = [prompt for prompt in seen if prompt["answer"] == "left"]
    assert len(left_calls) == 6
    assert all(prompt["depth"] == 1 for prompt in left_calls)
    assert all(prompt["prompt"] == [{"role": "user", "content": "3 4"}] for prompt in left_calls)


def test_tokens_of_trees_are_those_of_the_policy_in_any_batch(policy: Any, seen: Any) -> None:
    """Few rows, many, and environments in threads: the noise is of the rollout, and a caller goes on where it was."""
    one, _ = collected(policy, Caller, BUDGET, rows=1)
    for more in ({"rows": 64}, {"rows": 5, "overlap": True}):
        other, _ = collected(policy, Caller, BUDGET, **more)
        for mine, its in zip(with_callees(one), with_callees(other), strict=True):
            assert mine.id == its.id
            assert mine.tokens.tolist() == its.tokens.tolist()
    everyone = with_callees(one)
    assert len({rollout.tokens.tobytes() for rollout in everyone}) > len(everyone) / 2  # each has noise of its own
    packed = pack(everyone)
    drawn = Forward(policy, 1.0).logp(packed)
    np.testing.assert_allclose(drawn[packed.mask], packed.logp[packed.mask], atol=1e-4)


@pytest.mark.parametrize(
    ("limits", "names", "refused"),
    [
        ({"depth": 1}, ["1", "2", "3"], 0),
        ({"children": 1}, ["1-1", "1"], 2),
        ({"children": 2}, ["1-1", "1", "2-1", "2"], 1),
    ],
)
def test_calls_beyond_the_limits_are_not_made(
    policy: Any, seen: Any, limits: dict[str, int], names: list[str], refused: int
) -> None:
    rollouts, failures = collected(policy, Caller, replace(BUDGET, **limits))
    assert not failures
    for root in rollouts:
        assert [callee.id for callee in root.callees] == [f"{root.id}-{name}" for name in names]
        assert [message["content"] for message in root.messages].count(REFUSED) == refused
        if "depth" in limits:
            assert all(REFUSED in [message["content"] for message in callee.messages] for callee in root.callees)


def test_calls_without_a_depth_are_a_failure_by_name(policy: Any, seen: Any) -> None:
    rollouts, failures = collected(policy, Caller, replace(BUDGET, depth=0))
    assert {rollout.missing for rollout in rollouts} == {"environment: calls"}
    assert failures[0] == "the environment of prompt 0 called the policy, and max_depth is 0"


class Fails(Caller):
    def step(self, text: str) -> Any:
        if self.depth:
            raise RuntimeError("gone")
        return super().step(text)


def test_a_sub_rollout_whose_environment_fails_leaves_its_root_without_a_reward(policy: Any, seen: Any) -> None:
    rollouts, failures = collected(policy, Fails, BUDGET)
    assert {rollout.missing for rollout in rollouts} == {"environment: raised"}
    assert {rollout.finish for rollout in rollouts} == {"failed"}
    assert len(failures) == 12  # one for each sub-rollout, and none twice
    assert all("gone" in failure for failure in failures)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([Call("1"), "2"], "among calls, wanted calls alone"),
        (Call(7), "a call with the prompt 7, wanted a text or messages"),
        (Call([]), "a call with the prompt"),
        (Call("\ud800"), "a call with a prompt that is not JSON"),
        (Call("1", 3), "raised"),  # type: ignore[arg-type]
    ],
)
def test_calls_that_are_none_are_failures(policy: Any, given: Any, problem: str) -> None:
    class Wrong(Caller):
        def step(self, text: str) -> Any:
            return given, False

    Caller.seen = []
    rollouts, failures = collected(policy, Wrong, BUDGET)
    assert problem in failures[0]
    assert all(np.isnan(rollout.reward) and not rollout.callees for rollout in rollouts)


class Joins(Caller):
    """Its result is not its last turn, and it makes one observation of what comes back."""

    def step(self, text: str) -> Any:
        self.text = text
        return (Call("1"), True) if self.depth < 2 else (None, True)

    def join(self, texts: list[str | None]) -> str:
        (self.text,) = map(str, texts)
        return f"{self.depth} {texts[0]}"

    def result(self) -> str:
        return f"[{self.text}]"

    def score(self) -> float:
        return float(self.text.count("["))


def test_an_environment_may_join_results_and_end_with_them(policy: Any, seen: Any) -> None:
    rollouts, failures = collected(policy, Joins, BUDGET)
    assert not failures
    for root in rollouts:
        deep, middle = root.callees
        last = deep.messages[-1]["content"]
        assert middle.messages[-1] == {"role": "user", "content": f"1 [{last}]"}
        assert root.messages[-1] == {"role": "user", "content": f"0 [[{last}]]"}
        assert (root.reward, root.finish, len(root.spans)) == (2.0, "stop", 1)


def test_a_result_that_is_not_a_text_is_a_failure(policy: Any, seen: Any) -> None:
    class Number(Joins):
        def result(self) -> Any:
            return 7

    rollouts, failures = collected(policy, Number, BUDGET)
    assert {rollout.missing for rollout in rollouts} == {"environment: length"}
    assert "gave the result 7, wanted a text" in failures[0]


def test_a_prompt_without_room_has_an_empty_result(policy: Any, seen: Any) -> None:
    class Long(Joins):
        def step(self, text: str) -> Any:
            return (Call("1 " * 40), False) if self.turns == 0 else (None, True)

        def join(self, texts: Any) -> Any:
            self.turns = 1
            assert texts == ["[]"]
            self.text = ""

        def reset(self, prompt: Any) -> None:
            super().reset(prompt)
            self.text = ""

    rollouts, failures = collected(policy, Long, replace(BUDGET, context=20))
    assert not failures
    assert {callee.finish for root in rollouts for callee in root.callees} == {"length"}
    assert {rollout.finish for rollout in rollouts} == {"stop"}


def test_lines_give_trees_back(policy: Any, seen: Any, tmp_path: Path) -> None:
    rollouts, _ = collected(policy, Caller, BUDGET)
    by_id = {prompt.id: prompt for prompt in PROMPTS}
    texts = [rollout_line(each, 3)(each.logp, learned=True) for each in with_callees(rollouts)]
    record = json.loads(texts[0])
    assert record["parent"] == {"id": "0-0-1", "tool_call_id": None}
    assert record["messages"][: record["prompt_messages"]] == [{"role": "user", "content": "6 7"}]
    again = list(parse_trees(texts, by_id))
    assert [each.id for each in again] == [each.id for each in rollouts]
    assert [rollout_line(each, 3)(each.logp, learned=True) for each in with_callees(again)] == texts
    # A record that was cut within a tree has the trees before it alone, and is cut back to them.
    path = tmp_path / FINISHED_FILE
    finished = FinishedRollouts(path, {}, by_id)
    finished.add(rollouts)
    finished.finish()
    cut = path.read_bytes().splitlines(keepends=True)
    assert len(cut) == 1 + 7 * 6
    path.write_bytes(b"".join(cut[: 1 + 7 + 4]))
    finished = FinishedRollouts(path, {}, by_id)
    assert [*finished.rollouts] == ["0-0"]
    assert len(finished.rollouts["0-0"].callees) == 6
    assert path.read_bytes() == b"".join(cut[:8])
    finished.finish()


def step_of(policy: Any, rollouts: list[Rollout], objective: Any, **passes: Any) -> dict[str, np.ndarray]:
    """The change of each weight by a step of gradient descent at the rate 1; the policy stays as it was."""
    from mlx.utils import tree_flatten, tree_map

    from karl_fast.modeling import optimizer as optimizers

    kept = tree_map(lambda array: array + 0, policy.model.parameters())
    descent = optimizers.build_optimizer(Training(optimizer="sgd", learning_rate=1.0))
    descent.init(policy.model.trainable_parameters())
    learner = PolicyLearner(Forward(policy, 1.0), objective, descent, Passes(**{"max_grad_norm": 0.0} | passes))
    prepared = learner.prepare(with_callees(rollouts), version=0, seed=5)
    learner.learn(prepared, seed=5, set_learning_rate=lambda _: None)
    after = dict(tree_flatten(policy.model.parameters()))
    changes = {name: np.array(after[name] - before) for name, before in tree_flatten(kept)}
    policy.model.update(kept)
    return changes


@pytest.mark.parametrize("point", [TreeTokens(), TreeCalls(), RootOnly()], ids=repr)
def test_a_step_weighs_the_tokens_of_sub_rollouts_as_stated(policy: Any, seen: Any, point: Any) -> None:
    """The gradient is that of -sum over trees of A sum over rollouts of w mean log p, over the number of trees."""
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten

    class Scored(Caller):
        def score(self) -> float:
            return float(len(self.seen) % 3)

    rollouts, _ = collected(policy, Scored, BUDGET)
    rollouts = [each.but(reward=float(place % 3), outcome=0.0) for place, each in enumerate(rollouts)]
    objective = replace(recipe("grpo").objective, advantage=Centre(), kl=NoKL(), tree=point)
    found = step_of(policy, rollouts, objective, micro_batch=5)

    def weight(rollout: Rollout, root: Rollout) -> float:
        if isinstance(point, TreeTokens):
            return rollout.length / (root.length + sum(callee.length for callee in root.callees))
        if rollout is root:
            return 1.0
        return 1 / len(root.callees) if isinstance(point, TreeCalls) else 0.0

    means = {group: np.mean([each.reward for each in rollouts if each.group == group]) for group in range(3)}

    def loss() -> mx.array:
        total = mx.array(0.0)
        for root in rollouts:
            for rollout in (root, *root.callees):
                tokens = mx.array(rollout.tokens)[None]
                logits = policy.head(policy.body(tokens[:, :-1]))[0]
                logp = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
                own = [place - 1 for start, end in rollout.spans for place in range(start, end)]
                chosen = logp[mx.array(own), tokens[0, mx.array([place + 1 for place in own])]]
                total = total - float(root.reward - means[root.group]) * weight(rollout, root) * chosen.mean()
        return total / len(rollouts)

    _, gradient = nn.value_and_grad(policy.model, loss)()
    assert max(float(np.abs(change).max()) for change in found.values()) > 1e-3
    for name, value in tree_flatten(gradient):
        np.testing.assert_allclose(found[name], -np.array(value), atol=2e-5)


@pytest.fixture
def trees(tmp_path: Path) -> Callable[..., Online]:
    """Settings of a small run of the task of halves."""

    def settings(**over: Any) -> Online:
        place = LAB / "trees.py"
        given = Online(
            model=f"{place}:policy",
            prompts=f"{place}:prompts",
            environment=f"{place}:Halves",
            out=str(tmp_path / "out"),
            recipe="grpo",
            rounds=4,
            prompts_per_round=4,
            group_size=8,
            max_depth=1,
            max_tokens=2,
            max_context=16,
            save_every=2,
            training=Training(learning_rate=3e-3),
        )
        return replace(given, **over)

    return settings


def test_run_logs_trees_that_other_commands_read(trees: Callable[..., Online], tmp_path: Path) -> None:
    done = rl(trees())
    rows = lines(tmp_path / "out" / "rollouts.jsonl")
    roots, callees = [row for row in rows if "parent" not in row], [row for row in rows if "parent" in row]
    assert len(roots) == done.rollouts == 4 * 32
    assert callees
    assert not done.missing
    by_id = {row["id"]: row for row in rows}
    for row in callees:
        caller = by_id[row["parent"]["id"]]
        assert (row["reward"], row["group"], row["prompt_id"]) == (None, caller["group"], caller["prompt_id"])
        assert row["learned"] == caller["learned"]
        assert rows.index(row) < rows.index(caller)
    metrics = lines(tmp_path / "out" / "metrics.jsonl")
    assert sum(round(line["sub_rollouts"] * 32) for line in metrics if "sub_rollouts" in line) == len(callees)
    drawn = sample(tmp_path / "out" / "rollouts.jsonl", None, parent="parent.id", k=40, inverse_temperature=1.0)
    assert drawn.manifest["trees"]["callees"] == len(callees)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"replay": Replay(groups=2, max_age=6), "curriculum": "pass-rate", "recipe": "rlm-grpo"},
        {"draws": 2, "recipe": "dapo", "epochs": 2},
    ],
    ids=["grpo", "replay", "draws"],
)
def test_killed_and_resumed_run_is_identical(
    trees: Callable[..., Online], tmp_path: Path, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from karl_fast.rl import run as measure

    rl(trees(**more, rounds=5, out=str(tmp_path / "whole")))
    kept = measure.drop_non_finite

    def finite(values: Any) -> Any:
        if values["round"] == 3:
            raise KeyboardInterrupt
        return kept(values)

    monkeypatch.setattr(measure, "drop_non_finite", finite)
    with pytest.raises(KeyboardInterrupt):
        rl(trees(**more, rounds=5, out=str(tmp_path / "cut")))
    monkeypatch.setattr(measure, "drop_non_finite", kept)
    rl(trees(**more, rounds=5, out=str(tmp_path / "cut")), resume=True)
    assert any("parent" in row for row in lines(tmp_path / "whole" / "rollouts.jsonl"))
    assert left(tmp_path / "whole") == left(tmp_path / "cut")


def test_attempts_are_counted_without_the_rollouts_that_they_called(policy: Any, seen: Any, tmp_path: Path) -> None:
    from karl_fast.evaluation.attempts import _complete

    rollouts, _ = collected(policy, Caller, BUDGET)
    texts = [rollout_line(each, 0)(each.logp, learned=False) + "\n" for each in with_callees(rollouts)]
    log = tmp_path / "rollouts.jsonl"
    log.write_text("".join(texts[:-1]), encoding="utf-8")  # the last attempt is not there, but all that it called
    assert _complete(log, [0, 2, 4, 6]) == (2, sum(map(len, texts[: 4 * 7])))
    log.write_text("".join(texts), encoding="utf-8")
    assert _complete(log, [0, 2, 4, 6]) == (3, log.stat().st_size)


@pytest.mark.parametrize(
    ("over", "problem"),
    [
        ({"environment": None, "rewards": {f"{LAB / 'pareto.py'}:rewards": 1.0}}, "no environment calls the policy"),
        ({"recipe": "flowrl"}, "is a TrajectoryBalance, wanted a PolicyGradient"),
        ({"recipe": "sampo"}, "in SAMPO Anchored gives credit to tokens"),
        ({"recipe": "rloo"}, "in RLOO K1InReward changes the reward"),
        ({"recipe": "vpo", "candidates": 2}, "sub-rollouts are not for sets"),
        ({"labels": "known.py:right_words"}, "labels is set, and max_depth"),
    ],
)
def test_settings_that_are_not_for_trees_are_refused(
    trees: Callable[..., Online], over: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        rl(trees(**over))
