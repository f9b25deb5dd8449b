"""A GRPO loop of one's own in torch, as TRL's custom loops are: `python examples/trl_loop.py`.

What carries a gradient stays in torch: a model, and `logp`. karl-fast makes the rest: the advantages of each group, and
the exact derivative of the loss by each log-probability. A weighted log-likelihood, with those coefficients as
weights, has the gradient of the loss, whatever its clip, level and aggregate are.
"""

import sys

import numpy as np

import karl_fast
from karl_fast import ratio

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


def log_probabilities(tokens: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Those of the tokens that count, end to end. [N]"""
    before = torch.cat([torch.full_like(tokens[:, :1], END), tokens[:, :-1]], dim=1)
    return torch.log_softmax(logits(before), -1).gather(-1, tokens[..., None])[..., 0][counts]


for step in range(31):
    tokens, counts = rollouts()
    # Prompt p wants the token p + 1, as often as there is room for it.
    rewards = ((tokens == prompts[:, None] + 1) & counts).double().mean(1)
    advantages = karl_fast.zscore(rewards.numpy(), prompts.numpy(), ddof=1, eps=1e-4)
    offsets = np.concatenate([[0], counts.sum(1).cumsum(0).numpy()])
    logp_old = log_probabilities(tokens, counts).detach()
    for _ in range(3):  # updates on the same rollouts, so that the ratio leaves 1
        logp = log_probabilities(tokens, counts)
        found = ratio.policy_loss(
            logp.detach().numpy(),
            logp_old.numpy(),
            advantages,
            offsets,
            clip=ratio.Clip(low=0.2, high=0.28),
            aggregate=ratio.TokenMean(),
        )
        optimizer.zero_grad()
        (torch.from_numpy(found.coefficient) * logp).sum().backward()  # the gradient of found.loss
        optimizer.step()
    if step % 10 == 0:
        clipped = found.clip_fraction_low + found.clip_fraction_high
        print(f"step {step:2}: reward {rewards.mean():.3f}, ratio up to {found.ratio_max:.2f}, {clipped:.0%} clipped")
