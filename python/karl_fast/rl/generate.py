"""Sampling of turns of a policy, with the log-probability of each token when it was drawn.

Contexts of one length go together; the same context is computed once, however many rollouts it has, and one that goes
on from an earlier turn from where that turn left it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.rl.kv_cache import CachedPrefix, arrays, carried, joined, repeat, stack
from karl_fast.rl.next_token import Decoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.rl.policy import Policy

    Said = tuple["Turn", CachedPrefix | None]

PREFILL = 2048
"""Tokens of contexts that are computed at a time, where more than one row is: the memory of a round is planned so."""


@dataclass(frozen=True, eq=False)
class Turn:
    """Turn of the policy in one context.

    Attributes:
        tokens: ids, including the end token, if any. int32, [T]
        logp: of each under softmax(logits / T). float32, [T]
        entropy: of each token's distribution, in nats. float32, [T]
        ended: True if a token ended it; False if the budget did.
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
    """Generate one turn for each context.

    Args:
        policy: the policy; its caches are new.
        contexts: token ids, each of one or more.
        budgets: maximum tokens of each turn.
        temperature: T, above 0.
        rows: number drawn at a time.
        seed: seed of this call. The turns depend on all arguments, including `rows` and the order of contexts.
        compile: True to fuse each choice into one operation.

    Returns:
        One turn for each context, in their order.
    """
    decoder = Decoder(policy, temperature, compile=compile)
    said = go_on(decoder, contexts, budgets, [None] * len(contexts), keep=False, rows=rows, seed=seed)
    return [turn for turn, _ in said]


def go_on(
    decoder: Decoder,
    contexts: Sequence[Sequence[int]],
    budgets: Sequence[int],
    heard: Sequence[CachedPrefix | None],
    *,
    keep: bool,
    rows: int,
    seed: int,
) -> list[Said]:
    """Draw as `draw`, continuing contexts from earlier turns.

    The distributions are those of `draw` but for the rounding of sums: a token that is computed alone and one that is
    computed among others may differ in the last bits, so that a draw can differ where two chances meet within them.

    Args:
        decoder: of the policy, at the temperature.
        contexts, budgets, rows, seed: as for `draw`.
        heard: of each context, what this policy has computed of its beginning.
        keep: True to keep the caches computed now, which takes the memory of all of them at once.

    Returns:
        A turn a context, and what is computed now; None where it is not kept, or its caches cannot be carried on.
    """
    found: dict[int, Said] = {}
    for number, chosen in enumerate(_batches(contexts, rows)):
        stream = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)
        bucket = _Bucket(decoder, [contexts[row] for row in chosen], [heard[row] for row in chosen])
        turns = bucket.turns(np.array([budgets[row] for row in chosen]), int(stream[0]))
        kept = bucket.heard(turns) if keep else [None] * len(turns)
        del bucket  # before the next has caches of its own
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
        decoder: Decoder,
        contexts: Sequence[Sequence[int]],
        heard: Sequence[CachedPrefix | None],
    ) -> None:
        self.decoder, self.policy, self.length = decoder, decoder.policy, len(contexts[0])
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
        self.logits, self.caches = self._computed(list(places), lambda _: self.policy.caches())
        if len(places) < len(contexts):
            self.logits = self.logits[member]
            repeat(self.caches, len(places), member)

    def _go_on(self, contexts: Sequence[Sequence[int]], heard: Sequence[CachedPrefix]) -> None:
        """Compute the uncached tokens of contexts: rows advance together from the shortest prefix."""
        begun = min(self.length - 1, *(one.length for one in heard))
        new = [context[begun:] for context in contexts]
        self.logits, self.caches = self._computed(new, lambda rows: joined(self.policy, heard[rows], begun))

    def _computed(
        self, tokens: Sequence[Sequence[int]], caches: Callable[[slice], list[Any]]
    ) -> tuple[mx.array, list[Any]]:
        """Return the logits after tokens of one length, computed `PREFILL` at a time, and the caches.

        `caches` gives those of some rows before their tokens.
        """
        import mlx.core as mx

        count, found = max(1, PREFILL // len(tokens[0])), []
        for start in range(0, len(tokens), count):
            rows = slice(start, start + count)
            held = caches(rows)
            found.append((self.decoder.logits(mx.array(list(tokens[rows]), dtype=mx.int32), held), held))
            if count < len(tokens):
                mx.eval(found[-1][0], list(arrays(held)))
        logits = found[0][0] if len(found) == 1 else mx.concatenate([logits for logits, _ in found])
        return logits, stack([held for _, held in found], count)

    def turns(self, budgets: NDArray[Any], seed: int) -> list[Turn]:
        """Generate each turn, within its budget.

        A token is drawn while the one before it is examined, so that the device is never idle.
        """
        import mlx.core as mx

        ends = _Ends(budgets, self.policy.ends)
        first, *keys = mx.random.split(mx.random.key(seed), int(budgets.max()))
        columns = [self.decoder.choose(self.logits, first)]
        for place, key in enumerate(keys):
            columns.append(self.decoder.follow(columns[-1][0], self.caches, key))
            if ends.all_by(place, columns[place][0]):
                break
        else:
            ends.all_by(len(keys), columns[-1][0])
        together = [mx.concatenate(list(column), axis=1) for column in zip(*columns, strict=True)]
        mx.eval(together)
        tokens, logp, negentropy = map(np.array, together)
        cut = zip(tokens.astype(np.int32), logp, -negentropy, ends.lengths.tolist(), ends.ended.tolist(), strict=True)
        return [Turn(said[:end], logp[:end], entropy[:end], ended) for said, logp, entropy, end, ended in cut]

    def heard(self, turns: Sequence[Turn]) -> Sequence[CachedPrefix | None]:
        """Return the cached prefix of each after its turn; the last token is cached only if other rows went on."""
        if not carried(self.caches):
            return [None] * len(turns)
        fed = int(self.caches[0].offset) - self.length
        return [
            CachedPrefix(self.caches, row, self.length + min(len(turn.tokens), fed)) for row, turn in enumerate(turns)
        ]


class _Ends:
    """Ends of turns: by a token, or by their budget."""

    def __init__(self, budgets: NDArray[Any], ends: frozenset[int]) -> None:
        self.lengths, self._ends = np.array(budgets), np.array(sorted(ends))
        self.ended = np.zeros(len(budgets), dtype=np.bool_)

    def all_by(self, place: int, tokens: mx.array) -> bool:
        """Look at the tokens of a place; whether no turn is longer."""
        stops = ~self.ended & (place < self.lengths) & (np.array(tokens) == self._ends).any(1)
        self.lengths[stops], self.ended[stops] = place + 1, True
        return bool(place + 1 >= self.lengths.max())
