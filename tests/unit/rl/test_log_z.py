"""The head of log Z, and its gradient beside that of the policy."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("mlx.core", reason="pip install '.[train]'")

import mlx.core as mx
import mlx.nn as nn

from karl_fast.modeling.optimizer import join_leaves
from karl_fast.rl.log_z import LogZHead, Partition, head_parameters
from karl_fast.rl.logprobs import Forward
from karl_fast.rl.memory import Sizes, estimate_round
from karl_fast.rl.settings import Online

if TYPE_CHECKING:
    from types import ModuleType


def test_log_z_head_reads_the_prompt_alone() -> None:
    mx.random.seed(1)
    head, hidden = LogZHead(8), mx.random.normal((3, 5, 8))
    head.eval()
    mask = mx.array([[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]) > 0
    found = head(hidden, mask)
    assert found.shape == (3,)
    moved = mx.where(mask[:, :, None], hidden, 7.0)
    np.testing.assert_array_equal(np.array(head(moved, mask)), np.array(found))
    assert np.all(np.array(mx.grad(lambda h: head(h, mask).sum())(hidden)) == 0)
    open_head = LogZHead(8, detached=False)
    open_head.eval()
    slope = np.array(mx.grad(lambda h: open_head(h, mask).sum())(hidden))
    assert np.abs(slope[np.array(mask)]).max() > 0
    assert np.all(slope[~np.array(mask)] == 0)


def test_the_head_has_three_layers_of_weights() -> None:
    from mlx.utils import tree_flatten

    held = dict(tree_flatten(LogZHead(8).parameters()))
    assert [array.shape for array in held.values() if array.ndim == 2] == [(8, 8), (8, 8), (1, 8)]


@pytest.mark.parametrize("detached", [True, False])
def test_log_z_gradient_reaches_hidden_states_unless_detached(reversal: ModuleType, detached: bool) -> None:
    """Beside the plain way: one row at a time, no padding, differentiated whole."""
    policy = reversal.policy(seed=1)
    partition = Partition(policy.body(mx.array([[1]])).shape[-1], learning_rate=0.1, seed=3, detached=detached)
    tokens = np.array([[1, 2, 8, 3, 4], [1, 2, 3, 4, 8], [5, 8, 1, 8, 0]], dtype=np.int32)
    mask = np.array([[0, 0, 1, 1], [0, 0, 0, 1], [0, 1, 1, 0]], dtype=np.bool_)
    slopes, lengths = np.array([0.5, -2.0, 1.5], dtype=np.float32), mask.argmax(1) + 1

    def plain() -> mx.array:
        prompts = [mx.array(row[:length][None]) for row, length in zip(tokens, lengths, strict=True)]
        means = [policy.body(prompt).mean(axis=1, keepdims=True) for prompt in prompts]
        log_z = [partition.head(mean, mx.ones((1, 1), dtype=mx.bool_)) for mean in means]
        return (mx.array(slopes) * mx.concatenate(log_z)).sum()

    traced = partition.trace(Forward(policy, 1.0), tokens, mask)
    assert traced.outputs()["log_z"] @ slopes == pytest.approx(plain().item(), abs=1e-5)
    found = traced.pull({"log_z": slopes})
    assert set(found) == ({"log_z"} if detached else {"log_z", "model"})
    for name, module in (("log_z", partition.head), ("model", policy.model)):
        wanted = join_leaves(nn.value_and_grad(module, plain)()[1])
        for vector, value in wanted.items():
            assert (name == "log_z" or not detached) == (float(mx.abs(value).max()) > 0)
            if name in found:
                np.testing.assert_allclose(np.array(found[name][vector]), np.array(value), atol=1e-5)


def test_log_z_of_prompts_equals_the_trace(reversal: ModuleType) -> None:
    policy = reversal.policy(seed=1)
    partition = Partition(policy.body(mx.array([[1]])).shape[-1], learning_rate=0.1, seed=3)
    tokens = np.array([[1, 2, 8, 3, 4], [1, 2, 3, 4, 8], [5, 8, 1, 8, 0]], dtype=np.int32)
    mask = np.array([[0, 0, 1, 1], [0, 0, 0, 1], [0, 1, 1, 0]], dtype=np.bool_)
    prompts = [row[:length].tolist() for row, length in zip(tokens, mask.argmax(1) + 1, strict=True)]
    wanted = partition.trace(Forward(policy, 1.0), tokens, mask).outputs()["log_z"]
    assert partition.log_z(policy, prompts) == pytest.approx(wanted, abs=1e-5)
    assert len({*wanted.tolist()}) == 3
    assert partition.log_z(policy, []).shape == (0,)


def test_log_z_estimates_outcomes_of_raw_rewards(reversal: ModuleType) -> None:
    from karl_fast.objective import recipe
    from karl_fast.rl import Online
    from karl_fast.rl.setup import estimate_log_z

    policy = reversal.policy(seed=1)
    partition = Partition(policy.body(mx.array([[1]])).shape[-1], learning_rate=0.1, seed=3)
    prompts = [SimpleNamespace(messages=({"role": "user", "content": text},)) for text in ("0 1 2", "3")]

    def of(name: str = "paced", **choices: Any) -> Any:
        objective, forward = recipe(name).objective, SimpleNamespace(policy=policy)
        learner: Any = SimpleNamespace(objective=objective, partition=partition, forward=forward)
        return estimate_log_z(Online(**{"curriculum": "paced"} | choices), learner)

    tokens = [policy.encode(prompt.messages) for prompt in prompts]
    assert of()(prompts) == pytest.approx(0.05 * partition.log_z(policy, tokens))
    assert of("flowrl") is None  # of scores within groups
    assert of("oapl") is None  # no nats
    assert of(curriculum="pass-rate") is None
    assert of(outcome="correct") is None
    assert of(overlong_tokens=4) is None


def test_prompt_passes_once_for_its_rollouts(reversal: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows 0 and 2 have one prompt; the second row has a shorter one that begins alike."""
    policy = reversal.policy(seed=1)
    partition = Partition(policy.body(mx.array([[1]])).shape[-1], learning_rate=0.1, seed=3)
    tokens = np.array([[1, 2, 8, 3, 4], [1, 2, 3, 4, 8], [1, 2, 8, 5, 0]], dtype=np.int32)
    mask = np.array([[0, 0, 1, 1], [0, 1, 1, 1], [0, 0, 1, 0]], dtype=np.bool_)
    seen, body = list[tuple[int, ...]](), policy.body
    monkeypatch.setattr(policy, "body", lambda some, cache=None: seen.append(some.shape) or body(some, cache))
    trace = partition.trace(Forward(policy, 1.0), tokens, mask)
    log_z = trace.outputs()["log_z"]
    assert seen == [(2, 3)]
    assert log_z[0] == log_z[2] != log_z[1]
    slopes = np.array([0.5, -2.0, 1.5], dtype=np.float32)
    found = trace.pull({"log_z": slopes})
    alone = [partition.trace(Forward(policy, 1.0), tokens[row : row + 1], mask[row : row + 1]) for row in range(3)]
    parts = [one.outputs() and one.pull({"log_z": slopes[row : row + 1]}) for row, one in enumerate(alone)]
    for name, vector in found["log_z"].items():
        np.testing.assert_allclose(np.array(vector), np.array(sum(part["log_z"][name] for part in parts)), atol=1e-5)


def test_plan_has_prompt_pass_and_head(reversal: ModuleType) -> None:
    policy = reversal.policy(seed=1)
    size = policy.body(mx.array([[1]])).shape[-1]
    held: Any = Partition(size, learning_rate=0.1, seed=3).head
    assert head_parameters(size) == sum(array.size for array in join_leaves(held.parameters()).values())
    sizes = replace(Sizes.of_run(Online(), 400), max_tokens=1)
    plain, learned = (estimate_round(policy, Online(), {}, log_z=log_z).need(sizes) for log_z in (False, True))
    assert learned.adapter == plain.adapter + 24 * head_parameters(size)
    few = replace(sizes, micro_batch=1)
    memory = estimate_round(policy, Online(), {}, log_z=True)
    assert memory.need(few).learning >= memory.forward(1, 400) + 4 * 400 * size
