"""Make token_rules.json: TPOToken, GRPOToken and TPOFullAction of rl-experiments, from their formulas over logits.

python tests/golden/make_token_rules.py; it imports nothing of the package. The formulas are those of ``TPOTokenLoss``,
``GRPOTokenLoss`` and ``TPOFullActionLoss`` in ``rl_sandbox/losses.py`` @daf350a. Gradients by logits are complex steps:
the imaginary part of a loss at logits + i 1e-30, which has all digits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = Path(__file__).with_name("token_rules.json")
PLACES, VOCABULARY, COUNT, STEP = 3, 6, 4, 1e-30
DRAW = np.random.default_rng(41)
LOGITS, MOVED = (np.round(DRAW.normal(size=(PLACES, VOCABULARY)), 3) for _ in range(2))
"""Of the policy that drew, and of the policy in a later step."""

CANDIDATES = DRAW.integers(0, VOCABULARY, size=(PLACES, COUNT))
CANDIDATES[0, 1] = CANDIDATES[0, 0]  # drawn twice
LABELS = np.array([CANDIDATES[0, 0], CANDIDATES[1, 2], -1])
"""Of the last place every candidate is wrong."""

REWARDS = (LABELS[:, None] == CANDIDATES).astype(float)
ACTIONS, PAID = np.array([2, 0, 5]), np.array([1.0, 0.0, 1.0])


def log_softmax(values: Any) -> Any:
    return values - np.log(np.exp(values).sum(-1, keepdims=True))


def skill(scores: Any) -> Any:
    """The z-score of a row, ddof 0; only centred where the deviation is at most 1e-6."""
    centred, deviation = scores - scores.mean(-1, keepdims=True), scores.std(-1, keepdims=True)
    return np.where(deviation > 1e-6, centred / np.maximum(deviation, 1e-30), centred)


def of_candidates(logits: Any) -> Any:
    return np.take_along_axis(log_softmax(logits), CANDIDATES, -1)


def tpo_token(logits: Any) -> Any:
    target = np.exp(log_softmax(log_softmax(of_candidates(LOGITS)) + skill(REWARDS)))
    return -(target * log_softmax(of_candidates(logits))).sum(-1).mean()


def grpo_token(logits: Any) -> Any:
    centred, deviation = REWARDS - REWARDS.mean(-1, keepdims=True), REWARDS.std(-1, keepdims=True)
    advantages = np.where(deviation > 1e-8, centred / (deviation + 1e-8), 0.0)
    drift = of_candidates(logits) - of_candidates(LOGITS)
    ratio = np.exp(drift)
    low, high = (ratio.real < 0.8), (ratio.real > 1.2)
    clipped = np.where(low, 0.8, np.where(high, 1.2, ratio))
    surrogate = np.where((ratio * advantages).real <= (clipped * advantages).real, ratio, clipped) * advantages
    return -(surrogate - 0.04 * (np.exp(-drift) + drift - 1)).sum(-1).mean()


def tpo_full_action(logits: Any) -> Any:
    """On policy: the anchor is the policy itself, and the baseline the probability of a repeated draw."""
    own = log_softmax(LOGITS)
    scores = np.zeros(LOGITS.shape)
    scores[np.arange(PLACES), ACTIONS] = PAID - (np.exp(own) ** 2).sum(-1)
    target = np.exp(log_softmax(own + skill(scores)))
    return -(target * log_softmax(logits)).sum(-1).mean()


def slopes(loss: Callable[[Any], Any], logits: Any) -> Any:
    found = np.zeros(logits.shape)
    for place in np.ndindex(logits.shape):
        shifted = logits.astype(complex)
        shifted[place] += STEP * 1j
        found[place] = loss(shifted).imag / STEP
    return found


def case(name: str, loss: Callable[[Any], Any], logits: Any) -> dict[str, Any]:
    return {"id": name, "logits": logits.tolist(), "loss": float(loss(logits)), "slopes": slopes(loss, logits).tolist()}


def main() -> None:
    inputs = {
        "logits_old": LOGITS.tolist(),
        "candidates": CANDIDATES.tolist(),
        "labels": LABELS.tolist(),
        "actions": ACTIONS.tolist(),
        "rewards_of_actions": PAID.tolist(),
        "baselines": (np.exp(log_softmax(LOGITS)) ** 2).sum(-1).tolist(),
    }
    cases = [
        case("tpo_token", tpo_token, MOVED),
        case("grpo_token", grpo_token, MOVED),
        case("tpo_full_action", tpo_full_action, LOGITS),
    ]
    source = "formulas of rl_sandbox/losses.py @daf350a of deepakvijaykee/rl-experiments, by make_token_rules.py"
    FILE.write_text(json.dumps({"source": source, "inputs": inputs, "cases": cases}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
