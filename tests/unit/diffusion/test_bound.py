"""The evidence bound beside the exact law, on models whose every trajectory can be enumerated.

`python -m tests.unit.diffusion.test_bound` prints the bias that docs/lab/forms.md quotes.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")

from mlx.utils import tree_flatten  # noqa: E402

from karl_fast.diffusion.bound import Noisy, copy_with_noise, evidence_bound  # noqa: E402
from karl_fast.diffusion.policy import DiffusionConfig, DiffusionModel, build_model  # noqa: E402
from karl_fast.diffusion.pretrain import corrupt  # noqa: E402
from karl_fast.rl.generate import TurnRequest, rollout_key  # noqa: E402
from karl_fast.rl.steps import StepDecoder, StepForward  # noqa: E402

pytestmark = pytest.mark.mlx

L = 3
WORDS = {"discrete-flow": ("<pad>", "a", "b"), "masked-diffusion": ("<pad>", "<mask>", "a", "b")}


class Enumerated:
    """A random model, and all answers that it can give."""

    def __init__(self, kind: Any, choice_temperature: float = 0.5) -> None:
        mx.random.seed(4)
        config = DiffusionConfig(kind, WORDS[kind], 1, L, 8, 1, 2, choice_temperature=choice_temperature)
        self.model: Any = build_model(config)
        self.model.update({"head": {"weight": 8 * self.model.head.weight}})  # far from uniform
        self.policy = DiffusionModel(self.model, config)
        self.tokens = len(config.words)
        self.space = np.array(list(itertools.product(range(self.tokens), repeat=L)), dtype=np.int32)
        self.answers = self.space[~(self.space == 1).any(1)] if kind == "masked-diffusion" else self.space
        self.rewards = np.random.default_rng(2).random(len(self.answers)).astype(np.float32)

    def fit(self, steps: int = 300) -> Enumerated:
        """Learn answers that are drawn in proportion to exp of three times their reward."""
        import mlx.nn as nn
        import mlx.optimizers as optim

        wanted = np.exp(3 * self.rewards.astype(np.float64))
        optimizer, draw = optim.Adam(1e-2, bias_correction=True), np.random.default_rng(0)

        def loss(noisy: Any, answers: Any, times: Any, weights: Any) -> Any:
            tokens = mx.concatenate([mx.zeros((len(answers), 1), mx.int32), noisy], axis=1)
            return (nn.losses.cross_entropy(self.model(tokens, times)[:, 1:], answers) * weights).sum() / len(answers)

        gradient = nn.value_and_grad(self.model, loss)
        for _ in range(steps):
            answers = self.answers[draw.choice(len(self.answers), size=128, p=wanted / wanted.sum())]
            _, tree = gradient(*map(mx.array, corrupt(self.policy, answers, draw)))
            optimizer.update(self.model, tree)
            mx.eval(self.model, optimizer.state)
        return self

    def place(self, states: Any) -> Any:
        return states @ self.tokens ** np.arange(L)[::-1]

    def probabilities(self, total: int) -> Any:
        """Probability of each answer after so many steps, with a gradient. [A]"""
        law, size = self.policy.law, len(self.space)
        before, after = mx.array(np.repeat(self.space, size, axis=0)), mx.array(np.tile(self.space, (size, 1)))
        flow = self.policy.config.kind == "discrete-flow"
        p = mx.array(np.full(size, 1 / size) if flow else (self.space == 1).all(1)).astype(mx.float32)
        for number in range(total):
            numbers = mx.full(size, number, dtype=mx.int32)
            logits = self.policy.logits(mx.zeros((size, 1), mx.int32), mx.array(self.space), numbers, total)
            logp = law.logp(
                mx.repeat(logits, size, axis=0), before, after, mx.full(size * size, number, dtype=mx.int32), total
            )
            p = p @ mx.where(mx.isinf(logp), 0.0, mx.exp(logp)).reshape(size, size)
        return p[mx.array(self.place(self.answers))]

    def bound(self, copies: int = 2000) -> Any:
        """Bound of each answer over its width, by so many copies, with a gradient. [A]"""
        prompts = np.zeros((len(self.answers), 1), np.int32)
        noisy = copy_with_noise(self.policy.law, prompts, self.answers, copies)
        tokens = mx.concatenate([noisy.prompts, noisy.states], axis=1)
        return evidence_bound(self.policy.law, self.model(tokens, noisy.times)[:, 1:], noisy, copies)

    def gradient(self, function: Any) -> Any:
        """Gradient of a function in all parameters, joined."""
        import mlx.nn as nn

        _, tree = nn.value_and_grad(self.model, function)()
        return np.concatenate([np.array(part).ravel() for _, part in sorted(tree_flatten(tree))]).astype(np.float64)

    def exact_gradient(self, total: int) -> Any:
        """Gradient of the expected reward."""
        return self.gradient(lambda: (self.probabilities(total) * mx.array(self.rewards)).sum())

    def bound_gradient(self, total: int) -> Any:
        """Expectation of the gradient that takes the bound for the log-likelihood of an answer."""
        p = np.array(self.probabilities(total))
        weights = mx.array(p * (self.rewards - (p * self.rewards).sum()))
        return self.gradient(lambda: L * (weights * self.bound()).sum())


@pytest.mark.parametrize("kind", WORDS)
def test_answers_have_all_the_probability(kind: str) -> None:
    assert np.array(Enumerated(kind).probabilities(2)).sum() == pytest.approx(1, abs=1e-5)


def test_the_bound_of_masked_diffusion_is_its_sum_over_all_masks() -> None:
    model = Enumerated("masked-diffusion")
    answer = model.answers[:1]
    exact = 0.0
    for count in range(1, L + 1):
        subsets = list(itertools.combinations(range(L), count))
        for subset in subsets:
            hidden = np.isin(np.arange(L), subset)[None]
            parts = (np.zeros((1, 1), np.int32), np.where(hidden, 1, answer), answer, np.zeros(1, np.float32))
            noisy = Noisy(*map(mx.array, (*parts, (hidden / count).astype(np.float32))))
            tokens = mx.concatenate([noisy.prompts, noisy.states.astype(mx.int32)], axis=1)
            value = evidence_bound(model.policy.law, model.model(tokens, noisy.times)[:, 1:], noisy, 1)
            exact += value.item() / L / len(subsets)
    assert model.bound(6000)[0].item() == pytest.approx(exact, abs=0.03)


def test_the_bound_of_masked_diffusion_is_below_the_likelihood_in_any_order() -> None:
    model = Enumerated("masked-diffusion", choice_temperature=1e6)
    gap = np.log(np.array(model.probabilities(L))) - L * np.array(model.bound())
    assert (gap > -0.05).all()
    assert gap.mean() > 0.01


def test_the_bound_of_a_flow_is_below_the_likelihood_of_many_steps() -> None:
    model = Enumerated("discrete-flow")
    gap = np.log(np.array(model.probabilities(64))) - L * np.array(model.bound(20_000))
    assert (gap > -0.1).all()


@pytest.mark.parametrize("kind", WORDS)
def test_the_exact_law_gives_the_gradient_of_the_expected_reward_and_the_bound_does_not(kind: str) -> None:
    model, total, count = Enumerated(kind), 2, 4000
    exact = model.exact_gradient(total)
    asks = [TurnRequest(row, [0], 1, rollout_key(3, row)) for row in range(count)]
    turns: Any = StepDecoder(model.policy, 1.0, total).draw(asks)
    tokens = np.array([[0, *turn.tokens] for turn in turns], dtype=np.int32)
    mask = np.zeros((count, tokens.shape[1] - 1), dtype=np.bool_)
    mask[:, [end - 1 for _, end in turns[0].spans]] = True
    rewards = dict(zip(map(bytes, model.answers), model.rewards, strict=True))
    earned = np.array([rewards[bytes(turn.tokens[-L:])] for turn in turns])
    forward = StepForward(model.policy, 1.0, total)
    batch = forward.cut(tokens, mask)
    weights = mx.array(np.repeat((earned - earned.mean()) / count, total).astype(np.float32))
    estimate = model.gradient(lambda: (weights * forward.compute(("logp",), None, *batch)["logp"]).sum())
    assert cosine(estimate, exact) > 0.97
    assert np.linalg.norm(estimate) == pytest.approx(np.linalg.norm(exact), rel=0.15)
    biased = model.bound_gradient(total)
    assert np.linalg.norm(biased - exact) > 0.1 * np.linalg.norm(exact)


def cosine(a: Any, b: Any) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_copies_are_the_same_in_each_pass_and_differ_between_answers() -> None:
    law = Enumerated("masked-diffusion").policy.law
    prompts, answers = np.zeros((2, 1), np.int32), np.array([[2, 3, 0], [2, 3, 2]], np.int32)
    first, again = (copy_with_noise(law, prompts, answers) for _ in range(2))
    assert all(np.array_equal(np.array(a), np.array(b)) for a, b in zip(first, again, strict=True))
    hidden = (np.array(first.states) == 1).reshape(2, -1)
    assert not np.array_equal(hidden[0], hidden[1])


if __name__ == "__main__":
    for kind in WORDS:
        for total in (1, 2, 3, 8):
            model = Enumerated(kind).fit()
            p, bound = np.array(model.probabilities(total)), L * np.array(model.bound())
            gap = float((p * (bound - np.log(np.maximum(p, 1e-30)))).sum())
            exact, biased = model.exact_gradient(total), model.bound_gradient(total)
            size = np.linalg.norm(biased) / np.linalg.norm(exact)
            print(f"{kind}, {total} steps: B - ln p {gap:+.3f}, cosine {cosine(biased, exact):.3f}, size {size:.2f}")
