"""A policy in NumPy alone, trained by any recipe: `python examples/numpy_objective.py`.

The policy is a table of logits. Its gradient is the coefficients of a recipe times that of a softmax, by hand: what a
framework would do from `(coefficients * logp).sum()`.
"""

import sys

import numpy as np

from karl_fast.objective import Batch, recipe

PROMPTS, ROLLOUTS, LENGTH, TOKENS, RATE = 4, 8, 6, 8, 20.0
random = np.random.default_rng(0)
logits = np.zeros((PROMPTS, LENGTH, TOKENS))
prompts = np.arange(PROMPTS).repeat(ROLLOUTS)
objective = recipe(sys.argv[1] if len(sys.argv) > 1 else "grpo").objective


def probabilities() -> np.ndarray:
    """Return that of each token at each place of each rollout. [B, T, V]"""
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (shares / shares.sum(axis=-1, keepdims=True))[prompts]


def log_probabilities(tokens: np.ndarray) -> np.ndarray:
    """Return that of each token that was drawn. [B, T]"""
    return np.log(np.take_along_axis(probabilities(), tokens[..., None], -1)[..., 0])


for step in range(61):
    gumbel = random.gumbel(size=(len(prompts), LENGTH, TOKENS))
    tokens = (np.log(probabilities()) + gumbel).argmax(axis=-1)
    rewards = (tokens == prompts[:, None] + 1).mean(axis=1)  # prompt p wants the token p + 1 everywhere
    logp_old = log_probabilities(tokens)
    batch = Batch(
        mask=np.ones(tokens.shape, dtype=bool),
        rewards=rewards,
        group_ids=prompts,
        logp_old=logp_old,
        logp_ref=logp_old,
        truncated=np.zeros(len(prompts), dtype=bool),
    )
    scored = objective.score(batch)
    for _ in range(2):
        loss = objective(log_probabilities(tokens), scored)
        # d logp / d logits = [v = token] - p_v
        slopes = loss.coefficients[..., None] * (np.eye(TOKENS)[tokens] - probabilities())
        np.subtract.at(logits, prompts, RATE * slopes)
    if step % 20 == 0:
        print(f"step {step:2}: reward {rewards.mean():.3f}, loss {loss.loss:+.4f}")
