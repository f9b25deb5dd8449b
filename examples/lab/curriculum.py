"""Symbols to be written backwards, from two to six, by a policy that knows the task a little: some prompts are nearly
solved from the start, and most nearly never.

    model = "curriculum.py:beginner"
    prompts = "curriculum.py:prompts"
    eval_prompts = "curriculum.py:held_out_prompts"
    rewards = { "../rl/reversal.py:exact" = 1.0 }
    max_tokens = 7
"""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rl"))

from reversal import ARROW, END, SYMBOLS, Reversal

LENGTHS = (2, 3, 4, 5, 6)
EACH = 64
"""Prompts of each length; every fourth is held out."""


def lines(held_out):
    """Prompts of all lengths."""
    draw = random.Random(0)
    for length in LENGTHS:
        for place, number in enumerate(draw.sample(range(SYMBOLS**length), EACH)):
            symbols = [number // SYMBOLS**digit % SYMBOLS for digit in range(length)]
            if (place % 4 == 3) == held_out:
                yield {"prompt": " ".join(map(str, symbols)), "length": length}


def prompts():
    """Prompts to learn from."""
    return lines(held_out=False)


def held_out_prompts():
    """Other prompts of the same lengths."""
    return lines(held_out=True)


def beginner(seed, steps=160):
    """The transformer of `examples/rl/reversal.py`, after some steps on right answers to other sequences."""
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optim
    from reversal import Snapshot

    policy, draw, optimizer = Reversal(), random.Random(seed), optim.Adam(3e-3)

    def loss(model, tokens, mask):
        losses = nn.losses.cross_entropy(model.logits(model.norm(model(tokens[:, :-1]))), tokens[:, 1:])
        return (losses * mask[:, 1:]).sum() / mask[:, 1:].sum()

    gradient = nn.value_and_grad(policy.model, loss)
    for _ in range(steps):
        length = draw.choice(LENGTHS)
        rows = [[draw.randrange(SYMBOLS) for _ in range(length)] for _ in range(32)]
        tokens = mx.array([[*row, ARROW, *row[::-1], END] for row in rows])
        mask = mx.array([[0] * (length + 1) + [1] * (length + 1)])
        _, gradients = gradient(policy.model, tokens, mx.broadcast_to(mask, tokens.shape))
        optimizer.update(policy.model, gradients)
        mx.eval(policy.model, optimizer.state)
    policy.before = Snapshot(policy.model)
    return policy
