"""Rollouts that pass in segments have the quantities and the gradient of whole ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

import mlx.core as mx

from karl_fast.cli.reports.rl import RoundLines
from karl_fast.modeling.optimizer import global_norm
from karl_fast.modeling.segments import PrefixSharing
from karl_fast.objective import recipe
from karl_fast.rl import rl
from karl_fast.rl.language_model import LanguageModel
from karl_fast.rl.learner import Passes, PolicyLearner
from karl_fast.rl.log_z import Partition
from karl_fast.rl.logprobs import Forward, unshared_prompt_remark
from karl_fast.rl.memory import Sizes, estimate_round
from karl_fast.rl.rollout import Prompt, Rollout
from karl_fast.rl.settings import Online
from karl_fast.train.settings import Training
from tests.tolerances import of_float32_sums
from tests.unit.modeling.parts import adapted, built

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("logp", "entropy", "divergence")


@pytest.fixture(scope="module")
def policy() -> LanguageModel:
    model = adapted(built("qwen3")).eval()
    return LanguageModel(SimpleNamespace(model=model, tokenizer=None, ends=frozenset([3]), config={}))


@pytest.fixture(scope="module")
def rollouts() -> tuple[np.ndarray, np.ndarray]:
    """Three rows of unlike lengths behind prompts of 12 tokens. [B, T + 1], [B, T]"""
    tokens = np.random.default_rng(2).integers(4, 97, (3, 51)).astype(np.int32)
    place = np.arange(50)
    return tokens, (place >= 11) & (place < np.array([50, 20, 33])[:, None])


@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_quantities_and_gradient_are_those_of_whole_rollouts(
    policy: LanguageModel, rollouts: tuple[np.ndarray, np.ndarray], direction: str
) -> None:
    tokens, mask = rollouts
    random = np.random.default_rng(0)
    slopes = {name: random.normal(size=int(mask.sum())).astype(np.float32) for name in NAMES}

    def passed(length: int | None) -> tuple[dict[str, np.ndarray], dict[str, mx.array]]:
        forward = Forward(policy, 0.8, divergence=direction, segment_length=length)
        trace = forward.trace(tokens, mask, NAMES)
        found = trace.outputs()
        gradient = trace.pull(slopes)
        mx.eval(gradient)
        return found, gradient

    (values, gradient), (wanted, whole) = passed(16), passed(None)
    assert set(values) == set(NAMES)
    for name in NAMES:
        np.testing.assert_allclose(values[name], wanted[name], atol=2e-5)
    far: Any = global_norm({name: gradient[name] - one for name, one in whole.items()}) / global_norm(whole)
    assert far.item() < of_float32_sums(3 * 50)  # over the tokens of the rollouts


@pytest.fixture(scope="module")
def group() -> tuple[np.ndarray, np.ndarray]:
    """Four rollouts behind one prompt of 150 tokens, two of which have their first turn in common."""
    tokens = np.random.default_rng(4).integers(4, 97, (4, 301)).astype(np.int32)
    tokens[:, :150] = tokens[0, :150]
    tokens[2, :230] = tokens[1, :230]
    place = np.arange(300)
    return tokens, (place >= 149) & (place < np.array([300, 260, 280, 200])[:, None]) & (place % 90 > 9)


@pytest.mark.parametrize("length", [None, 64])
def test_a_group_computes_its_prompt_once(
    policy: LanguageModel, group: tuple[np.ndarray, np.ndarray], length: int | None
) -> None:
    tokens, mask = group
    slopes = {name: np.random.default_rng(0).normal(size=int(mask.sum())).astype(np.float32) for name in NAMES}

    def passed(*, share: bool) -> tuple[dict[str, np.ndarray], dict[str, mx.array], np.ndarray]:
        forward = Forward(policy, 0.8, divergence="reverse", segment_length=length if share else None)
        forward.__dict__["_carry_obstacle"] = None if share else "a reason"
        trace = forward.trace(tokens, mask, NAMES)
        if share:
            segments = trace.sweep.segments
            assert sum(len(one.rows) * (one.stop - one.start) for one in segments) < 0.7 * mask.size
        found, reference = trace.outputs(), forward.flat(tokens, mask, reference=True)()["logp"]
        gradient = trace.pull(slopes)
        mx.eval(gradient)
        return found, gradient, reference

    (values, gradient, reference), (wanted, whole, base) = passed(share=True), passed(share=False)
    for name in NAMES:
        np.testing.assert_allclose(values[name], wanted[name], atol=2e-5)
    np.testing.assert_allclose(reference, base, atol=2e-5)
    far: Any = global_norm({name: gradient[name] - one for name, one in whole.items()}) / global_norm(whole)
    assert far.item() < of_float32_sums(3 * 50)  # over the tokens of the rollouts


def test_the_reason_why_rollouts_share_nothing_is_given(
    policy: LanguageModel, group: tuple[np.ndarray, np.ndarray]
) -> None:
    forward = Forward(policy, 1.0, compile=True)
    forward.trace(*group)
    assert str(forward.sharing.remark()).endswith(": compile is true")
    assert forward.sharing.remark() is None
    alone = Forward(policy, 1.0, compile=True)
    alone.trace(group[0][:1], group[1][:1])
    assert alone.sharing.remark() is None


def test_a_round_prints_why_its_rollouts_share_nothing(
    online: Callable[..., Online], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrefixSharing, "remark", lambda _: "a reason")
    rl(online(rounds=1), viewer=RoundLines())
    assert "warning   a reason" in capsys.readouterr().err.splitlines()


def test_micro_batch_of_one_gives_a_remark(online: Callable[..., Online]) -> None:
    for size, prompt, group, least in ((1, 130, 8, 2), (1, 64, 8, 3), (1, 20, 8, 6), (1, 12, 8, 0), (2, 130, 8, 0)):
        settings = online(micro_batch=size, group_size=group)
        remark = unshared_prompt_remark(settings.micro_batch, prompt, settings.group_size)
        assert (f"of {least} or more" in str(remark)) == bool(least)


def rollout(row: int, tokens: np.ndarray, start: int, reward: float) -> Rollout:
    """A rollout of one turn, behind a prompt of so many tokens."""
    own = len(tokens) - start
    prompt = Prompt(str(row // 2), row // 2, ({"role": "user", "content": "?"},))
    zeros = np.zeros(own, dtype=np.float32)
    spans, message = ((start, len(tokens)),), {"role": "assistant", "content": "."}
    given: Any = {"messages": (message,), "states": ("",), "turn_rewards": (0.0,), "finish": "stop", "version": 0}
    return Rollout(str(row), prompt, row // 2, tokens, spans, zeros, zeros, reward=reward, outcome=reward, **given)


@pytest.mark.parametrize("detached", [True, False])
def test_log_z_has_the_same_gradient_in_segments(policy: LanguageModel, detached: bool) -> None:
    """The prompts are longer than a segment; not detached, log Z sends a cotangent to their hidden states."""
    random = np.random.default_rng(7)
    prompts = [random.integers(4, 97, 40 + 9 * group) for group in (0, 0, 1, 1)]
    prompts[1], prompts[3] = prompts[0], prompts[2]
    answers = [random.integers(4, 97, 10 + 6 * row) for row in range(4)]
    rollouts = [
        rollout(row, np.concatenate([prompt, answer]).astype(np.int32), len(prompt), float(row % 2))
        for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True))
    ]

    def gradients(length: int | None) -> dict[str, dict[str, mx.array]]:
        partition = Partition(64, learning_rate=0.1, seed=3, detached=detached)
        forward = Forward(policy, 1.0, segment_length=length)
        taken: dict[str, Any] = {}
        optimizer = SimpleNamespace(update=lambda _, gradient: taken.update(model=gradient))
        partition.update = lambda gradient: taken.update(log_z=gradient)  # type: ignore[method-assign]
        passes = Passes(micro_batch=4, max_grad_norm=0.0)
        learner = PolicyLearner(forward, recipe("flowrl").objective, optimizer, passes, partition)
        learner.learn(learner.prepare(rollouts, version=0, seed=1), seed=1, set_learning_rate=lambda _: None)
        mx.eval(taken)
        return taken

    found, wanted = gradients(16), gradients(None)
    for name in ("model", "log_z"):
        far: Any = global_norm({key: found[name][key] - one for key, one in wanted[name].items()}) / global_norm(
            wanted[name]
        )
        assert global_norm(wanted[name]).item() > 0
        assert far.item() < of_float32_sums(3 * 50)  # over the tokens of the rollouts


@pytest.mark.parametrize("reference", [False, True])
def test_log_probabilities_are_those_of_whole_rollouts(
    policy: LanguageModel, rollouts: tuple[np.ndarray, np.ndarray], reference: bool
) -> None:
    found, wanted = (
        Forward(policy, 1.0, segment_length=length).flat(*rollouts, reference=reference)()["logp"]
        for length in (16, None)
    )
    np.testing.assert_allclose(found, wanted, atol=2e-5)


def test_the_reference_keeps_the_carrier_of_the_policy(
    policy: LanguageModel, rollouts: tuple[np.ndarray, np.ndarray]
) -> None:
    """The first pass may be that of the reference, whose adapters are put aside."""
    forward = Forward(policy, 1.0, segment_length=16)
    forward.flat(*rollouts, reference=True)()
    assert len(forward.carrier.parameters) == len(Forward(policy, 1.0, segment_length=16).carrier.parameters) > 0


def test_plan_uses_segments_for_long_rollouts(policy: LanguageModel) -> None:
    config = {"num_layers": 2}
    sizes = Sizes(4, 4, 4, 1000, 4096, 1, 24, turns=False)
    roomy = estimate_round(policy, Online(), config).settle_segments(sizes)
    assert roomy.memory.settings.segment_length == sizes.tokens
    limit = 0.6 * roomy.need(sizes).total / 1e9
    tight = estimate_round(policy, Online(training=Training(memory_limit=limit)), config).settle_segments(sizes)
    assert 64 <= tight.memory.settings.segment_length < sizes.tokens
    assert tight.need(sizes).total <= limit * 1e9
