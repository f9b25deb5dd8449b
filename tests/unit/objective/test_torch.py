"""Any framework: ``(coefficients * logp).sum()`` has the gradient of the loss, in torch and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from karl_fast.objective import names, recipe
from tests.unit.objective import torch_forms
from tests.unit.objective.batch_cases import BATCH, LOG_Z, MASK, OLD

VOCABULARY = 5
LOGITS = np.random.default_rng(12).normal(size=(*MASK.shape, VOCABULARY))
TOKENS = np.random.default_rng(13).integers(0, VOCABULARY, size=MASK.shape)


def log_softmax(logits: Any) -> Any:
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


LOGP = np.take_along_axis(log_softmax(LOGITS), TOKENS[..., None], -1)[..., 0]
NEAR = type(BATCH)(
    **{
        **vars(BATCH),
        "logp_old": LOGP + 0.3 * (OLD + 1),
        "logp_ref": LOGP - 0.2,
        "logp_rollout": LOGP + 0.2 * (OLD + 1),
    }
)
"""The batch, drawn by a policy near that of the logits."""


def reads_own_tokens(name: str) -> bool:
    """Whether a recipe reads the log-probabilities of tokens and log Z alone."""
    found = recipe(name).objective
    return not (found.reads_labels or found.reads_candidates or found.reads_entropy or found.reads_teacher)


@pytest.mark.parametrize("name", [*filter(reads_own_tokens, names())])
def test_gradient_matches_torch_autograd(name: str) -> None:
    torch = pytest.importorskip("torch")
    objective = recipe(name).objective
    scored = objective.score(NEAR)
    more = {"log_z": LOG_Z} if objective.learns_log_z else {}
    found = objective(LOGP, scored, **more)
    logits, log_z = (torch.from_numpy(array.copy()).requires_grad_() for array in (LOGITS, LOG_Z))
    logp = torch.log_softmax(logits, -1).gather(-1, torch.from_numpy(TOKENS)[..., None])[..., 0]
    naive = torch_forms.loss(torch, objective, logp, scored, log_z if more else None)
    assert naive.item() == pytest.approx(found.loss, rel=1e-10)
    [wanted, by_log_z] = torch.autograd.grad(naive, [logits, log_z], retain_graph=True, allow_unused=True)
    [got] = torch.autograd.grad((torch.from_numpy(found.coefficients) * logp).sum(), [logits])
    assert wanted.abs().max() > 1e-6
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)
    if more:
        assert found.log_z_coefficients is not None
        torch.testing.assert_close(torch.from_numpy(found.log_z_coefficients), by_log_z, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["dapo", "gspo", "tpo", "sft"])
def test_numpy_gradient_matches_finite_differences(name: str) -> None:
    """By logits: ``d logp / d z = [v = y] - softmax(z)``."""
    objective = recipe(name).objective
    scored = objective.score(NEAR)
    coefficients = objective(LOGP, scored).coefficients
    taken = np.eye(VOCABULARY)[TOKENS]
    gradient = coefficients[..., None] * (taken - np.exp(log_softmax(LOGITS)))
    way = np.random.default_rng(14).normal(size=LOGITS.shape)

    def loss(step: float) -> float:
        logp = np.take_along_axis(log_softmax(LOGITS + step * way), TOKENS[..., None], -1)[..., 0]
        return objective(logp, scored).loss

    assert (gradient * way).sum() == pytest.approx((loss(1e-6) - loss(-1e-6)) / 2e-6, rel=1e-5)
