"""An evidence bound of a whole answer, in the place of the exact law of its steps.

Where the law of a step costs too much, ESPO (arXiv 2512.03759) scores an answer by one number: a bound of its
log-likelihood, estimated on a few noisy copies, which are the same for the new, the old and the reference policy.

```text
masked-diffusion   B(x) = mean over copies of  L / l * sum over masked i of ln p_i(x_i)           l ~ uniform on 1..L
discrete-flow      B(x) = mean over copies of  1 / (1 - a) * sum_i [p_i(z_i) - d_i + (1 - d_i) ln p_i(x_i)]
                   a ~ uniform on [0, 1), z_i = x_i with probability a, else a uniform token;  d_i = 1 where z_i = x_i
score              B(x) / L, so that the ratio of a step is exp((B - B_old) / L), ESPO's
```

The first is that of LLaDA (arXiv 2502.09992), the second that of mixture paths (Shaul et al., arXiv 2412.03487), over
a in the place of t. Each is a bound of the likelihood of a sampler with very many steps, and knows nothing of the
choice of positions or of the number of steps: as a score of what a sampler drew it is biased. By how much, on a model
that can be enumerated, is in ``tests/unit/diffusion/test_bound.py`` and in the laboratory's page.

The noise of a copy is a function of prompt and answer alone, so that each pass over an answer has the same copies.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx
import numpy as np

from karl_fast.diffusion.masked import MaskedDiffusion
from karl_fast.diffusion.subsets import NEVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.diffusion.flow import DiscreteFlow

COPIES = 8
"""Noisy copies of an answer; ESPO has 2 for its largest models."""


class Noisy(NamedTuple):
    """Noisy copies of answers, M of each. R = N * M.

    Attributes:
        prompts, states, answers: int32, [R, P], [R, L], [R, L]
        times: that the network sees. float32, [R]
        weights: of each position, over M and L. float32, [R, L]
    """

    prompts: mx.array
    states: mx.array
    answers: mx.array
    times: mx.array
    weights: mx.array


def copy_with_noise(
    law: DiscreteFlow | MaskedDiffusion, prompts: NDArray[np.int32], answers: NDArray[np.int32], copies: int = COPIES
) -> Noisy:
    """Return noisy copies of answers, by the hash of each prompt and answer; their times and counts are stratified."""
    parts = [_copy(law, prompt, answer, copies) for prompt, answer in zip(prompts, answers, strict=True)]
    states, times, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    shared = (np.repeat(prompts, copies, axis=0), states, np.repeat(answers, copies, axis=0))
    return Noisy(*map(mx.array, (*shared, times, weights / copies)))


def _copy(
    law: DiscreteFlow | MaskedDiffusion, prompt: NDArray[np.int32], answer: NDArray[np.int32], copies: int
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    key = hashlib.blake2b(prompt.astype("<i4").tobytes() + answer.astype("<i4").tobytes(), digest_size=8).digest()
    draw, width = np.random.default_rng(int.from_bytes(key, "little")), len(answer)
    levels = (np.arange(copies) + draw.random(copies)) / copies
    if isinstance(law, MaskedDiffusion):
        count = np.minimum((levels * width).astype(int) + 1, width)
        hidden = draw.random((copies, width)).argsort(axis=1).argsort(axis=1) < count[:, None]
        states, times, weights = np.where(hidden, law.mask, answer), np.zeros(copies), hidden / count[:, None]
    else:
        stays = draw.random((copies, width)) < levels[:, None]
        states = np.where(stays, answer, draw.integers(law.tokens, size=(copies, width)))
        times, weights = np.sqrt(levels), np.repeat(1 / (1 - levels[:, None]) / width, width, axis=1)
    return states.astype(np.int32), times.astype(np.float32), weights.astype(np.float32)


def evidence_bound(
    law: DiscreteFlow | MaskedDiffusion, logits: mx.array, noisy: Noisy, copies: int = COPIES
) -> mx.array:
    """Compute the bound of each answer over its width, in nats a position, by the logits of its copies. -> [N]"""
    logits, masked = logits.astype(mx.float32), isinstance(law, MaskedDiffusion)
    if isinstance(law, MaskedDiffusion):
        logits = mx.where(mx.arange(logits.shape[-1]) == law.mask, NEVER, logits)
    log_p = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    expected = mx.take_along_axis(log_p, noisy.answers[..., None], axis=-1)[..., 0]
    if not masked:
        same = noisy.states == noisy.answers
        here = mx.exp(mx.take_along_axis(log_p, noisy.states[..., None], axis=-1)[..., 0])
        expected = here - same + mx.where(same, 0.0, expected)
    return (expected * noisy.weights).sum(axis=-1).reshape(-1, copies).sum(axis=-1)
