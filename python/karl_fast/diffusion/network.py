"""A small transformer without a causal mask: every position sees every other, the prompt's and the answer's."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn

WAVES = 16
"""Frequencies by which the time of a state is given to the network."""


class Block(nn.Module):
    """Attention over all positions, and two layers of which the first is wide."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.heads = heads
        self.attention_norm, self.wide_norm = nn.RMSNorm(size), nn.RMSNorm(size)
        self.q_proj, self.k_proj = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)
        self.v_proj, self.o_proj = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)
        self.up_proj, self.down_proj = nn.Linear(size, 4 * size, bias=False), nn.Linear(4 * size, size, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        """Map hidden states to hidden states. [N, W, E] -> [N, W, E]"""
        rows, width, size = x.shape
        normed = self.attention_norm(x)
        queries, keys, values = (
            project(normed).reshape(rows, width, self.heads, -1).transpose(0, 2, 1, 3)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        seen = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=keys.shape[-1] ** -0.5)
        x = x + self.o_proj(seen.transpose(0, 2, 1, 3).reshape(rows, width, size))
        return x + self.down_proj(nn.relu(self.up_proj(self.wide_norm(x))))


class Network(nn.Module):
    """Tokens of prompt and answer, and a time between 0 and 1, to logits of every position."""

    def __init__(self, *, tokens: int, width: int, size: int, layers: int, heads: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tokens, self.places = nn.Embedding(tokens, size), nn.Embedding(width, size)
        self.time = nn.Linear(2 * WAVES, size)
        self.layers = [Block(size, heads) for _ in range(layers)]
        self.norm, self.head = nn.RMSNorm(size), nn.Linear(size, tokens)

    def __call__(self, tokens: mx.array, times: mx.array) -> mx.array:
        """Return the logits. [N, W], [N] -> [N, W, V]"""
        angles = times[:, None] * mx.exp(mx.arange(WAVES) * (4.6 / WAVES))[None]  # waves from 1 to 100 in length
        waves = mx.concatenate([mx.sin(angles), mx.cos(angles)], axis=1)
        x: Any = self.tokens(tokens) + self.places(mx.arange(tokens.shape[1])) + self.time(waves)[:, None]
        for layer in self.layers:
            x = layer(x)
        logits: mx.array = self.head(self.norm(x))
        return logits
