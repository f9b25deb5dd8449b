"""Token reversal from scratch: a transformer of one's own as the policy of `karl-fast rl`, and its reward.

A prompt is a few symbols and an arrow; the answer is the same symbols backwards. Nothing is downloaded, and no model
is there before: what the policy knows at the end, it has from rewards alone.

    python examples/rl/reversal.py examples/rl/reversal.jsonl 2
    karl-fast rl --config examples/rl/reversal.toml
"""

import json
import sys
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn

from karl_fast.rl.language_model import Snapshot

SYMBOLS = 8
ARROW, END = SYMBOLS, SYMBOLS + 1


class Cache:
    """Keys and values of one layer."""

    def __init__(self):
        self.keys = self.values = None

    def update(self, keys, values):
        """Append, and give all that there are."""
        if self.keys is not None:
            keys = mx.concatenate([self.keys, keys], axis=2)
            values = mx.concatenate([self.values, values], axis=2)
        self.keys, self.values = keys, values
        return keys, values


class Block(nn.Module):
    """Attention, and two layers of which the first is wide."""

    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.norms = [nn.LayerNorm(size), nn.LayerNorm(size)]
        self.joint, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def __call__(self, x, cache):
        """What is heard of earlier tokens, then each token by itself."""
        rows, length, size = x.shape
        joint = self.joint(self.norms[0](x)).reshape(rows, length, 3, self.heads, -1).transpose(2, 0, 3, 1, 4)
        keys, values = (joint[1], joint[2]) if cache is None else cache.update(joint[1], joint[2])
        mask = "causal" if length > 1 else None
        heard = mx.fast.scaled_dot_product_attention(joint[0], keys, values, scale=keys.shape[-1] ** -0.5, mask=mask)
        x = x + self.out(heard.transpose(0, 2, 1, 3).reshape(rows, length, size))
        return x + self.narrow(nn.relu(self.wide(self.norms[1](x))))


class Transformer(nn.Module):
    """Tokens to hidden states, and hidden states to logits."""

    def __init__(self, size, layers, heads, longest, words=SYMBOLS + 2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, size), nn.Embedding(longest, size)
        self.blocks = [Block(size, heads) for _ in range(layers)]
        self.norm, self.logits = nn.LayerNorm(size), nn.Linear(size, words)

    def __call__(self, tokens, cache=None):
        """Hidden states."""
        start = 0 if cache is None or cache[0].keys is None else cache[0].keys.shape[2]
        x = self.tokens(tokens) + self.places(mx.arange(start, start + tokens.shape[1]))
        for place, block in enumerate(self.blocks):
            x = block(x, None if cache is None else cache[place])
        return x


class Reversal:
    """The policy: what `karl_fast.rl.TokenPolicy` asks for."""

    ends = frozenset([END])
    trained_head = True

    def __init__(self, size=32, layers=2, heads=4, longest=32):
        self.model = Transformer(size, layers, heads, longest)
        self.before = Snapshot(self.model)

    def caches(self):
        """Empty ones."""
        return [Cache() for _ in self.model.blocks]

    def body(self, tokens, cache=None):
        """Tokens to hidden states."""
        return self.model(tokens, cache)

    def head(self, hidden):
        """Hidden states to logits."""
        return self.model.logits(self.model.norm(hidden))

    def encode(self, messages):
        """Symbols, and the arrow."""
        return [*map(int, messages[-1]["content"].split()), ARROW]

    def answer(self, messages, last):
        """Nothing answers."""
        return []

    def decode(self, tokens):
        """Symbols, without what ends them."""
        return " ".join(str(token) for token in tokens if token != END)

    def reference(self):
        """The policy as it began."""
        return self.before.held()


def policy(seed):
    """For `model = "reversal.py:policy"`; MLX is seeded already."""
    return Reversal()


def wide(seed):
    """Twice as wide."""
    return Reversal(size=64)


def reward(prompts, completions, completion_ids=None, **columns):
    """The share of symbols that stand where they should; an end too early or too late costs as a wrong one does."""
    letters = []
    for prompt, ids in zip(prompts, completion_ids, strict=True):
        wanted = [*map(int, reversed(prompt[-1]["content"].split())), END]
        letters.append(sum(a == b for a, b in zip(ids, wanted, strict=False)) / max(len(ids), len(wanted)))
    return letters


def scaled(prompts, completions, completion_ids=None, **columns):
    """The reward times 1.4, as a study scaled the rewards of one of its arms."""
    return [1.4 * value for value in reward(prompts, completions, completion_ids)]


def exact(prompts, completions, completion_ids=None, **columns):
    """1 for the whole answer, else 0."""
    return [float(value == 1) for value in reward(prompts, completions, completion_ids)]


def prompts(length=3):
    """Every sequence of so many symbols; for `prompts = "reversal.py:prompts"`."""
    for number in range(SYMBOLS**length):
        yield {"prompt": " ".join(str(number // SYMBOLS**place % SYMBOLS) for place in range(length))}


def write_prompts(path, length=3):
    """The same as a file, a line each."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("".join(json.dumps(line) + "\n" for line in prompts(length)), encoding="utf-8")


if __name__ == "__main__":
    write_prompts(sys.argv[1], *map(int, sys.argv[2:3]))
