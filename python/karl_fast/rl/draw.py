"""Sampling: what a policy says to contexts, each token with the log-probability that it was drawn with.

```text
p = softmax(logits / T)        a token is drawn from p itself: no top-k, no top-p
```

Contexts of one length go together; the same context is computed once, however many rollouts it has, and one that goes
on from an earlier turn from where that turn left it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.rl.cache import Heard, carried, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.rl.policy import Policy

    Said = tuple["Turn", Heard | None]
    Choice = Callable[[mx.array, mx.array], tuple[mx.array, ...]]

LEAST = -1e30
"""In the place of the logarithm of 0, whose product with 0 is not a number."""


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
    compile: bool = False,
) -> list[Turn]:
    """Let the policy say one turn to each context.

    Args:
        policy: whose caches are made anew.
        contexts: token ids, each of one or more.
        budgets: the most tokens that each turn may have.
        temperature: T, above 0.
        rows: how many are drawn at a time.
        seed: of this call. The turns are a function of all arguments; `rows` and the order of contexts are among them.
        compile: whether a choice is one operation or a dozen.

    Returns:
        A turn a context, in their order.
    """
    said = go_on(
        policy,
        contexts,
        budgets,
        [None] * len(contexts),
        keep=False,
        temperature=temperature,
        rows=rows,
        seed=seed,
        compile=compile,
    )
    return [turn for turn, _ in said]


def go_on(
    policy: Policy,
    contexts: Sequence[Sequence[int]],
    budgets: Sequence[int],
    heard: Sequence[Heard | None],
    *,
    keep: bool,
    temperature: float,
    rows: int,
    seed: int,
    compile: bool = False,
) -> list[Said]:
    """As `draw`, from where earlier turns left the contexts.

    The distributions are those of `draw` but for the rounding of sums: a token that is computed alone and one that is
    computed among others may differ in the last bits, so that a draw can differ where two chances meet within them.

    Args:
        policy, contexts, budgets, temperature, rows, seed, compile: as for `draw`.
        heard: of each context, what this policy has computed of its beginning.
        keep: whether to keep what is computed now, which takes the memory of all caches at once.

    Returns:
        A turn a context, and what is computed now; None where it is not kept, or its caches cannot be carried on.
    """
    choice = _choice(1 / temperature, compile)
    found: dict[int, Said] = {}
    for number, chosen in enumerate(_batches(contexts, rows)):
        stream = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)
        bucket = _Bucket(policy, [contexts[row] for row in chosen], [heard[row] for row in chosen], choice)
        turns = bucket.turns(np.array([budgets[row] for row in chosen]), int(stream[0]))
        kept = bucket.heard(turns) if keep else [None] * len(turns)
        found |= dict(zip(chosen, zip(turns, kept, strict=True), strict=True))
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

    def __init__(
        self,
        policy: Policy,
        contexts: Sequence[Sequence[int]],
        heard: Sequence[Heard | None],
        choice: Choice,
    ) -> None:
        self.policy, self.choice, self.length = policy, choice, len(contexts[0])
        known = [one for one in heard if one is not None]
        if len(known) == len(contexts):
            self._go_on(contexts, known)
        else:
            self._begin(contexts)

    def _begin(self, contexts: Sequence[Sequence[int]]) -> None:
        """Compute each context once."""
        import mlx.core as mx

        places: dict[tuple[int, ...], int] = {}
        member = mx.array([places.setdefault(tuple(context), len(places)) for context in contexts])
        self.caches = self.policy.caches()
        self.logits = self._heard(mx.array(list(places), dtype=mx.int32))
        if len(places) < len(contexts):
            self.logits = self.logits[member]
            for cache in self.caches:
                if cache.keys is not None:
                    cache.keys, cache.values = cache.keys[member], cache.values[member]

    def _go_on(self, contexts: Sequence[Sequence[int]], heard: Sequence[Heard]) -> None:
        """Compute what no rollout has computed yet: from the shortest beginning on, as rows go on together."""
        import mlx.core as mx

        begun = min(self.length - 1, *(one.length for one in heard))
        self.caches = joined(self.policy, heard, begun)
        self.logits = self._heard(mx.array([context[begun:] for context in contexts], dtype=mx.int32))

    def _heard(self, tokens: mx.array) -> mx.array:
        """The logits behind the last of some tokens. [B, T] -> [B, V]"""
        hidden = self.policy.body(tokens, cache=self.caches)
        return self.policy.head(hidden[:, -1:])[:, -1]

    def turns(self, budgets: NDArray[Any], seed: int) -> list[Turn]:
        """What each of them says, within its budget.

        A token is drawn while the one before it is looked at: whoever waits for the device is then the device itself.
        """
        import mlx.core as mx

        columns: list[tuple[mx.array, ...]] = []
        ends = _Ends(budgets, self.policy.ends)
        for place, key in enumerate(mx.random.split(mx.random.key(seed), int(budgets.max()))):
            if place:
                self.logits = self._heard(columns[-1][0])
            columns.append(self._choose(key))
            if place and ends.all_by(place - 1, columns[-2][0]):
                break
        else:
            ends.all_by(len(columns) - 1, columns[-1][0])
        together = [mx.concatenate(list(column), axis=1) for column in zip(*columns, strict=True)]
        mx.eval(together)
        tokens, logp, negentropy = map(np.array, together)
        cut = zip(tokens.astype(np.int32), logp, -negentropy, ends.lengths.tolist(), ends.ended.tolist(), strict=True)
        return [Turn(said[:end], logp[:end], entropy[:end], ended) for said, logp, entropy, end, ended in cut]

    def heard(self, turns: Sequence[Turn]) -> Sequence[Heard | None]:
        """What is computed of each, now that its turn is said: its last token is not, but where others went on."""
        if not carried(self.caches):
            return [None] * len(turns)
        fed = int(self.caches[0].offset) - self.length
        return [Heard(self.caches, row, self.length + min(len(turn.tokens), fed)) for row, turn in enumerate(turns)]

    def _choose(self, key: mx.array) -> tuple[mx.array, ...]:
        """What is chosen behind the logits of now, while nobody waits."""
        import mlx.core as mx

        found = self.choice(self.logits, key)
        mx.async_eval(*found)  # together: else each would keep the logits of its place
        return found


@cache
def _choice(inverse: float, compile: bool) -> Choice:
    """A token a row of logits, its log-probability, its distribution's entropy below 0. [B, V], key -> [B, 1] each"""
    import mlx.core as mx

    def choice(logits: mx.array, key: mx.array) -> tuple[mx.array, ...]:
        scaled = logits.astype(mx.float32)
        if inverse != 1:
            scaled = scaled * inverse
        logp = scaled - mx.logsumexp(scaled, axis=-1, keepdims=True)
        token = mx.random.categorical(logp, key=key)[:, None]
        taken = mx.take_along_axis(logp, token, axis=-1)
        negentropy = (mx.exp(logp) * mx.maximum(logp, LEAST)).sum(axis=-1, keepdims=True)
        return token, taken, negentropy

    return mx.compile(choice) if compile else choice


class _Ends:
    """Where turns end: by a token, or by their budget."""

    def __init__(self, budgets: NDArray[Any], ends: frozenset[int]) -> None:
        self.lengths, self._ends = np.array(budgets), np.array(sorted(ends))
        self.ended = np.zeros(len(budgets), dtype=np.bool_)

    def all_by(self, place: int, tokens: mx.array) -> bool:
        """Look at the tokens of a place; whether no turn is longer."""
        stops = ~self.ended & (place < self.lengths) & (np.array(tokens) == self._ends).any(1)
        self.lengths[stops], self.ended[stops] = place + 1, True
        return bool(place + 1 >= self.lengths.max())
