"""Sampling: what a policy says to contexts, each token with the log-probability that it was drawn with.

```text
p = softmax(logits / T)        a token is drawn from p itself: no top-k, no top-p
```

Contexts of one length go together; the same context is computed once, however many rollouts it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.rl.policy import Policy


@dataclass(frozen=True, eq=False)
class Turn:
    """What the policy said to one context.

    Attributes:
        tokens: with the one that ended it, if one did. int32, [T]
        logp: of each under softmax(logits / T). float32, [T]
        entropy: of each token's distribution, in nats. float32, [T]
        ended: whether a token ended it; else the budget did.
    """

    tokens: NDArray[np.int32]
    logp: NDArray[np.float32]
    entropy: NDArray[np.float32]
    ended: bool


def draw(
    policy: Policy,
    contexts: Sequence[Sequence[int]],
    budgets: Sequence[int],
    *,
    temperature: float,
    rows: int,
    seed: int,
) -> list[Turn]:
    """Let the policy say one turn to each context.

    Args:
        policy: whose caches are made anew.
        contexts: token ids, each of one or more.
        budgets: the most tokens that each turn may have.
        temperature: T, above 0.
        rows: how many are drawn at a time.
        seed: of this call. The turns are a function of all arguments; `rows` and the order of contexts are among them.

    Returns:
        A turn a context, in their order.
    """
    found: dict[int, Turn] = {}
    for number, chosen in enumerate(_batches(contexts, rows)):
        stream = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)
        turns = _Bucket(policy, [contexts[row] for row in chosen], temperature).turns(
            np.array([budgets[row] for row in chosen]), int(stream[0])
        )
        found |= dict(zip(chosen, turns, strict=True))
    return [found[row] for row in range(len(contexts))]


def _batches(contexts: Sequence[Sequence[int]], rows: int) -> Iterator[list[int]]:
    by_length: dict[int, list[int]] = {}
    for row, context in enumerate(contexts):
        by_length.setdefault(len(context), []).append(row)
    for _, members in sorted(by_length.items()):
        for start in range(0, len(members), rows):
            yield members[start : start + rows]


class _Bucket:
    """Contexts of one length, and the caches of their rollouts."""

    def __init__(self, policy: Policy, contexts: Sequence[Sequence[int]], temperature: float) -> None:
        import mlx.core as mx

        self.policy, self.inverse = policy, 1 / temperature
        places: dict[tuple[int, ...], int] = {}
        member = [places.setdefault(tuple(context), len(places)) for context in contexts]
        self.caches = policy.caches()
        hidden = policy.body(mx.array(list(places), dtype=mx.int32), cache=self.caches)
        self.logits = policy.head(hidden[:, -1:])[:, -1][mx.array(member)]
        if len(places) < len(member):
            self._repeat(mx.array(member))

    def _repeat(self, member: mx.array) -> None:
        for cache in self.caches:
            if cache.keys is not None:
                cache.keys, cache.values = cache.keys[member], cache.values[member]

    def turns(self, budgets: NDArray[Any], seed: int) -> list[Turn]:
        """What each of them says, within its budget."""
        import mlx.core as mx

        columns: list[tuple[mx.array, ...]] = []
        lengths, ends = np.array(budgets), np.array(sorted(self.policy.ends))
        ended = np.zeros(len(budgets), dtype=np.bool_)
        for place, key in enumerate(mx.random.split(mx.random.key(seed), int(budgets.max()))):
            if place:
                said = columns[-1][0][:, None]
                self.logits = self.policy.head(self.policy.body(said, cache=self.caches))[:, -1]
            columns.append(self._choose(key))
            stops = ~ended & (place < lengths) & (np.array(columns[-1][0])[:, None] == ends).any(1)
            lengths[stops], ended[stops] = place + 1, True
            if place + 1 >= lengths.max():
                break
        tokens, logp, entropy = (np.array(mx.stack(list(column), axis=1)) for column in zip(*columns, strict=True))
        return [
            Turn(tokens[row, :end].astype(np.int32), logp[row, :end], entropy[row, :end], bool(ended[row]))
            for row, end in enumerate(lengths)
        ]

    def _choose(self, key: mx.array) -> tuple[mx.array, ...]:
        """A token a row, its log-probability and the entropy of its distribution."""
        import mlx.core as mx

        scaled = self.logits.astype(mx.float32) * self.inverse
        logp = scaled - mx.logsumexp(scaled, axis=-1, keepdims=True)
        token = mx.random.categorical(logp, key=key)
        taken = mx.take_along_axis(logp, token[:, None], axis=-1)[:, 0]
        chance = mx.exp(logp)
        entropy = -mx.where(chance > 0, chance * logp, 0.0).sum(axis=-1)
        mx.eval(token, taken, entropy)  # together: else each would keep the logits of its place
        return token, taken, entropy
