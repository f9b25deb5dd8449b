"""Rollouts that pass in segments have the quantities and the gradient of whole ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install 'karl-fast[train]'")

import mlx.core as mx

from karl_fast.modeling.flat_gradients import norm
from karl_fast.rl.forward import Forward
from karl_fast.rl.memory import Sizes, of_policy
from karl_fast.rl.policy import LanguageModel
from karl_fast.rl.settings import Online
from karl_fast.train.settings import Training
from tests.unit.train.parts import adapted, built

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
    far: Any = norm({name: gradient[name] - one for name, one in whole.items()}) / norm(whole)
    assert far.item() < 1e-5


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


def test_the_plan_takes_segments_where_rollouts_do_not_fit_whole(policy: LanguageModel) -> None:
    config = {"num_layers": 2}
    sizes = Sizes(4, 4, 4, 1000, 4096, 1, 24, turns=False)
    roomy = of_policy(policy, Online(), config).settled(sizes)
    assert roomy.memory.settings.segment_length == sizes.tokens
    limit = 0.6 * roomy.need(sizes).total / 1e9
    tight = of_policy(policy, Online(training=Training(memory_limit=limit)), config).settled(sizes)
    assert 64 <= tight.memory.settings.segment_length < sizes.tokens
    assert tight.need(sizes).total <= limit * 1e9
