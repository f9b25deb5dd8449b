"""A policy gradient of one's own in torch, as TRL's custom loops are: `python examples/trl_loop.py`.

What carries a gradient stays in torch: a model, and `logp`. karl-fast computes the rest from a recipe: filter,
advantages, loss, and the exact derivative of the loss by each log-probability. A weighted log-likelihood, with those
coefficients as weights, has the gradient of the loss, whatever its clip, level and aggregate are. Another recipe is
another name: `python examples/trl_loop.py gspo`.
"""

import sys

import numpy as np

from karl_fast.objective import Batch, recipe

try:
    import torch
except ImportError:
    print("torch is not installed: nothing was run")
    sys.exit()

PROMPTS, ROLLOUTS, LENGTH, TOKENS, END = 4, 8, 6, 8, 0
torch.manual_seed(0)
# The whole model: the logits of the next token, from the prompt and the token before it.
model = torch.nn.Embedding(PROMPTS * TOKENS, TOKENS)
optimizer = torch.optim.Adam(model.parameters(), lr=0.15)
prompts = torch.arange(PROMPTS).repeat_interleave(ROLLOUTS)


def logits(before: torch.Tensor) -> torch.Tensor:
    """Of the next token, one or a row of them a rollout. [B, V] or [B, T, V]"""
    return model(prompts.view(-1, *[1] * (before.dim() - 1)) * TOKENS + before)


def rollouts() -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens up to END, and which of them count. [B, T]"""
    drawn = [torch.full_like(prompts, END)]
    with torch.no_grad():
        for _ in range(LENGTH):
            drawn.append(torch.distributions.Categorical(logits=logits(drawn[-1])).sample())
    tokens = torch.stack(drawn[1:], dim=1)
    ended = (tokens == END).cumsum(1) - (tokens == END).int()
    return tokens, ended == 0


def log_probabilities(tokens: torch.Tensor) -> torch.Tensor:
    """Of every token. [B, T]"""
    before = torch.cat([torch.full_like(tokens[:, :1], END), tokens[:, :-1]], dim=1)
    return torch.log_softmax(logits(before), -1).gather(-1, tokens[..., None])[..., 0]


objective = recipe(sys.argv[1] if len(sys.argv) > 1 else "dapo").objective
for step in range(31):
    tokens, counts = rollouts()
    # Prompt p wants the token p + 1, as often as there is room for it.
    rewards = ((tokens == prompts[:, None] + 1) & counts).double().mean(1)
    logp_old = log_probabilities(tokens).detach()
    batch = Batch(
        mask=counts.numpy(),
        rewards=rewards.numpy(),
        group_ids=prompts.numpy(),
        logp_old=logp_old.numpy(),
        logp_ref=logp_old.numpy(),
        truncated=np.zeros(len(prompts), dtype=bool),  # the longest answer is the best one here
    )
    scored = objective.score(batch)  # once: filter and advantages
    for _ in range(3):  # updates on the same rollouts, so that the ratio leaves 1
        logp = log_probabilities(tokens)
        loss = objective(logp.detach().numpy(), scored)
        optimizer.zero_grad()
        (torch.from_numpy(loss.coefficients) * logp).sum().backward()  # the gradient of loss.loss
        optimizer.step()
    if step % 10 == 0:
        clipped = loss.statistics["clip_low"] + loss.statistics["clip_high"]
        largest = loss.statistics["ratio_max"]
        print(f"step {step:2}: reward {rewards.mean():.3f}, ratio up to {largest:.2f}, {clipped:.0%} clipped")
