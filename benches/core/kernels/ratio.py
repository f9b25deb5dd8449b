"""Ratios and policy losses of packed tokens beside NumPy and torch."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from timing import SMOKE, table

from karl_fast import ratio
from karl_fast.ratio import Clip, TokenMean, policy_loss

SEQUENCES = 64 if SMOKE else 4096
MEAN, SPREAD, LONGEST = 7.3, 0.75, 8192


def batch() -> SimpleNamespace:
    """Lognormal lengths of about 2000 tokens; log ratios of a few hundredths."""
    rng = np.random.default_rng(1)
    lengths = np.clip(rng.lognormal(MEAN, SPREAD, SEQUENCES), 1, LONGEST).astype(np.int64)
    offsets = np.concatenate([[0], lengths.cumsum()])
    old = -rng.exponential(1.0, offsets[-1]).astype(np.float32)
    new = old + rng.normal(0, 0.05, offsets[-1]).astype(np.float32)
    advantages = rng.normal(0, 1, SEQUENCES)
    padded = torch.zeros(2, SEQUENCES, int(lengths.max()))
    keep = torch.arange(padded.shape[2]) < torch.from_numpy(lengths)[:, None]
    padded[0][keep], padded[1][keep] = torch.from_numpy(new), torch.from_numpy(old)
    return SimpleNamespace(
        lengths=lengths, offsets=offsets, old=old, new=new, advantages=advantages, padded=padded, keep=keep.float()
    )


def numpy_packed(b: SimpleNamespace) -> Any:
    return np.exp(np.add.reduceat(b.new - b.old, b.offsets[:-1]) / b.lengths)


def torch_packed(b: SimpleNamespace) -> Any:
    difference = torch.from_numpy(b.new) - torch.from_numpy(b.old)
    means = torch.segment_reduce(difference, "mean", lengths=torch.from_numpy(b.lengths), unsafe=True)
    return means.exp().numpy()


def torch_padded(b: SimpleNamespace) -> Any:
    new, old = b.padded
    return (((new - old) * b.keep).sum(1) / b.keep.sum(1)).exp().numpy()


def ours(b: SimpleNamespace) -> Any:
    return np.exp(ratio.sequence_log_ratio(b.new, b.old, b.offsets))


def torch_loss(b: SimpleNamespace, level: str) -> Any:
    """PPO's loss by autograd over packed tokens, with a token mean."""
    logp = torch.from_numpy(b.new).requires_grad_()
    log_ratio = logp - torch.from_numpy(b.old)
    lengths = torch.from_numpy(b.lengths)
    if level == "sequence":
        means = torch.segment_reduce(log_ratio, "mean", lengths=lengths, unsafe=True)
        log_ratio = means.repeat_interleave(lengths)
    advantages = torch.from_numpy(b.advantages).float().repeat_interleave(lengths)
    r = log_ratio.exp()
    loss = -torch.minimum(r * advantages, r.clamp(0.8, 1.2) * advantages).mean()
    loss.backward()
    return logp.grad.numpy()


def our_loss(b: SimpleNamespace, level: Any, mask: Any = None) -> Any:
    how = {"level": level, "clip": Clip(0.2, 0.2), "aggregate": TokenMean(), "mask": mask}
    return policy_loss(b.new, b.old, b.advantages, b.offsets, **how).coefficient


def main() -> None:
    b = batch()
    tokens = len(b.new)
    print(f"{SEQUENCES} sequences, {tokens} tokens, padded {b.keep.numel() / tokens:.1f}x")
    for peer in (numpy_packed, torch_packed, torch_padded):
        np.testing.assert_allclose(ours(b), peer(b), rtol=1e-4)
    table(
        "sequence ratio, float32",
        {
            "karl_fast": lambda: ours(b),
            "floor: np.dot(new, old)": lambda: np.dot(b.new, b.old),
            "numpy packed reduceat": lambda: numpy_packed(b),
            "torch packed segment_reduce": lambda: torch_packed(b),
            "torch padded": lambda: torch_padded(b),
        },
    )
    out, mask = np.empty_like(b.new), np.ones(tokens, dtype=bool)
    for level in ("token", "sequence"):
        ours_at, torch_at = partial(our_loss, b, level), partial(torch_loss, b, level)
        np.testing.assert_allclose(ours_at(), torch_at(), rtol=1e-3, atol=1e-12)
        table(
            f"policy loss and coefficients, {level} level, float32",
            {
                "karl_fast": ours_at,
                "karl_fast, with a mask": partial(ours_at, mask),
                "floor: np.dot(new, old)": lambda: np.dot(b.new, b.old),
                "floor: np.subtract, new array": lambda: np.subtract(b.new, b.old),
                "floor: np.subtract, out=": lambda: np.subtract(b.new, b.old, out=out),
                "numpy exp of the difference": lambda: np.exp(b.new - b.old),
                "torch packed, autograd": torch_at,
            },
        )


if __name__ == "__main__":
    main()
