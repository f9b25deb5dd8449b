"""Generation of turns of a policy, with the log-probability of each token when it was drawn.

Rollouts are generated together, whatever their lengths. A row leaves and another takes its place at fixed points:
when as many tokens were drawn by finished rows as one step draws. The points depend on the tokens alone, so that a run
has the same bytes each time; the noise of a row depends on its rollout alone, so that its tokens do not depend on the
batch but for rounding.

```text
admit     compute the new tokens of waiting contexts, each distinct one once, and join them to the batch
stretch   draw a token a row, until enough rows are finished
answer    give finished turns to their episodes, which may ask for another turn
```

With `overlap` environments answer in threads while other rows go on: when a row enters again depends on time, and so
does what rounding decides.

Policies that take rows of one length only (`Decoder.ragged`) get batches of one length, without replacement.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.rl.next_token import Decoder
from karl_fast.rl.prefill import Prefill
from karl_fast.rl.turn import Ask, PendingAnswer, Turn, rollout_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import mlx.core as mx
    from numpy.typing import NDArray

    from karl_fast.rl.kv_cache import CachedPrefix
    from karl_fast.rl.next_token import Chosen
    from karl_fast.rl.policy import Policy

    Answer = Callable[["Ask", "Turn"], "Ask | PendingAnswer | None"]


ARRIVALS = 16
"""Tokens after which a batch looks for answers that came meanwhile, with `schedule = "overlap"`."""


def generate_turns(
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
        temperature: T, from 0 on; at 0 the likeliest token is taken.
        rows: number drawn at a time. The turns do not depend on it but for rounding.
        seed: of this call; the noise of a turn depends on it and on the number of the context.
        compile: True to fuse each choice into one operation.

    Returns:
        One turn for each context, in their order.
    """
    asked = zip(contexts, budgets, strict=True)
    asks = [Ask(row, context, budget, rollout_key(seed, row)) for row, (context, budget) in enumerate(asked)]
    found: dict[int, Turn] = {}

    def keep(ask: Ask, turn: Turn) -> None:
        found[ask.rollout] = turn

    Generation(Decoder(policy, temperature, compile=compile), rows)(asks, keep)
    return [found[row] for row in range(len(asks))]


@dataclass
class _UnfinishedTurn:
    """A turn in the making: its columns so far."""

    ask: Ask
    parts: list[tuple[NDArray[Any], ...]] = field(default_factory=list)
    length: int = 0
    ended: bool = False
    finished: bool = False
    told: bool = False
    prefix: CachedPrefix | None = None

    @property
    def left(self) -> int:
        """Number of tokens that it may still draw."""
        return 0 if self.finished else self.ask.budget - self.length

    def take(self, columns: Sequence[NDArray[Any]], ends: _Ends, row: int) -> None:
        """Take its tokens of a stretch, with their log-probabilities and entropies."""
        if self.finished:
            return
        count = int(ends.lengths[row])
        self.parts.append(tuple(column[row, :count] for column in columns))
        self.length, self.ended, self.finished = self.length + count, bool(ends.ended[row]), bool(ends.finished[row])

    def turn(self) -> Turn:
        """Return the finished turn."""
        tokens, logp, negentropy = (np.concatenate(column) for column in zip(*self.parts, strict=True))
        return Turn(tokens.astype(np.int32), logp, -negentropy, self.ended)


def _next_keys(rows: Iterable[_UnfinishedTurn]) -> NDArray[np.uint64]:
    """Return the keys of the next token of some rows. [B]"""
    return np.array([(row.ask.key + row.ask.drawn + row.length) % 2**64 for row in rows], dtype=np.uint64)


class Generation:
    """Batch of rows that are generated together, and the contexts that wait for a place in it."""

    def __init__(self, decoder: Decoder, rows: int, *, overlap: bool = False) -> None:
        """Set the decoder and the maximum number of rows; with `overlap` answers may come later, and rows go on."""
        self.decoder, self.most, self.overlap = decoder, rows, overlap
        self._prefill = Prefill(decoder)
        self._rows: list[_UnfinishedTurn] = []
        self._caches: list[Any] = []
        self._column: Chosen = ()
        self._later: list[tuple[PendingAnswer, CachedPrefix | None]] = []
        self._wasted = 0

    def __call__(self, asks: Sequence[Ask], answer: Answer) -> None:
        """Generate turns until none is asked for.

        Args:
            asks: the first turns.
            answer: called with each finished turn; returns the next turn of its rollout, or None. With `overlap` it may
                return `Later`.
        """
        waiting = deque(asks)
        while waiting or self._rows or self._later:
            if waiting or self._due:
                self._admit(waiting)
            if self._rows:
                self._stretch()
            waiting.extendleft(
                reversed([*self._answered(answer, waiting)])
            )  # before new rollouts: their caches are kept

    @property
    def _due(self) -> bool:
        """True if finished rows have drawn as many tokens as one step does, or no row is left."""
        return self._wasted >= len(self._rows) or all(row.finished for row in self._rows)

    def _admit(self, waiting: deque[Ask]) -> None:
        """Let finished rows go, and fill their places."""
        import mlx.core as mx

        stay = [place for place, row in enumerate(self._rows) if not row.finished]
        chosen = self._prefill.choose(waiting, self.most - len(stay) - len(self._later), alone=not stay)
        if not chosen and not self._due:
            return
        if stay and len(stay) < len(self._rows):
            self._caches = self._prefill.taken(self._caches, len(self._rows), stay)
            self._column = tuple(part[mx.array(stay)] for part in self._column)
        self._rows, self._wasted = [self._rows[place] for place in stay], 0
        if chosen:
            self._enter(chosen, waiting)

    def _enter(self, chosen: list[Ask], waiting: deque[Ask]) -> None:
        """Compute the contexts of new rows, draw their first tokens, and join them to the batch."""
        import mlx.core as mx

        logits, caches = self._prefill(chosen, waiting)
        first = self.decoder.choose(logits, _next_keys(_UnfinishedTurn(ask) for ask in chosen))
        if self._rows:
            caches = self._prefill.joined(self._caches, caches)
            first = tuple(mx.concatenate(list(parts)) for parts in zip(self._column, first, strict=True))
        self._caches, self._column = caches, first
        self._rows += [_UnfinishedTurn(ask) for ask in chosen]

    def _stretch(self) -> None:
        """Draw a token a row, again and again, until enough rows are finished.

        A token is drawn while the one before it is examined, so that the device is never idle.
        """
        rows, columns = self._rows, [self._column]
        keys = _next_keys(rows)
        ends = _Ends(np.array([row.left for row in rows]), self.decoder.policy.ends)
        goes_on = np.array([not row.ask.last for row in rows])
        place, called = 0, False
        while self._wasted < len(rows) and not ends.finished.all() and not called:
            if goes_on.any() or ends.longer(place):
                columns.append(self.decoder.follow(columns[-1][0], self._caches, keys + np.uint64(place + 1)))
            for row in ends.found(place, columns[place][0]):
                if goes_on[row]:
                    self._keep(rows[row], row, place + 1)
                    called = called or self.overlap
            place, self._wasted = place + 1, self._wasted + int(ends.finished.sum())
            called = called or self._arrived(place)
        self._close(columns, place, ends)

    def _arrived(self, place: int) -> bool:
        """Return whether an answer has come meanwhile: looked for at some places, so that several enter together."""
        return place % ARRIVALS == 0 and any(later.work.done() for later, _ in self._later)

    def _keep(self, row: _UnfinishedTurn, place: int, drawn: int) -> None:
        """Keep the caches of a row whose last token was just fed, before they take in others."""
        length = len(row.ask.tokens) + row.length + drawn
        row.prefix = self._prefill.kept(self._caches, place, length)

    def _close(self, columns: list[Chosen], place: int, ends: _Ends) -> None:
        """Give the rows their tokens of a stretch; a column that was not examined begins the next."""
        import mlx.core as mx

        together = [mx.concatenate(list(parts), axis=1) for parts in zip(*columns[:place], strict=True)]
        mx.eval(together)
        found = [np.array(part) for part in together]
        ends.cut(place)
        for number, row in enumerate(self._rows):
            row.take(found, ends, number)
        self._column = columns[place] if place < len(columns) else ()

    def _answered(self, answer: Answer, waiting: deque[Ask]) -> Iterator[Ask]:
        """Give finished turns to their episodes, and yield the turns that are asked for by now."""
        for row in self._rows:
            if row.finished and not row.told:
                row.told = True
                yield from self._asked(answer(row.ask, row.turn()), row.prefix)
                row.prefix = None
        full = not waiting or len(self._later) >= self.most
        if self._later and full and all(row.finished for row in self._rows):
            wait([later.work for later, _ in self._later], return_when=FIRST_COMPLETED)
        done = [one for one in self._later if one[0].work.done()]
        self._later = [one for one in self._later if one not in done]
        for later, prefix in done:
            yield from self._asked(later.then(), prefix)

    def _asked(self, more: Ask | PendingAnswer | None, prefix: CachedPrefix | None) -> Iterator[Ask]:
        """Yield the next turn of a rollout, if there is one now, with its caches."""
        if isinstance(more, PendingAnswer):
            self._later.append((more, prefix))
        elif more is not None:
            yield replace(more, prefix=prefix)


class _Ends:
    """Ends of turns: by a token, or by their budget."""

    def __init__(self, budgets: NDArray[Any], ends: frozenset[int]) -> None:
        """Set the tokens that each row has left, and the tokens that end a turn."""
        self.lengths, self._ends = budgets.copy(), np.array(sorted(ends))
        self.ended = np.zeros(len(budgets), dtype=np.bool_)
        self.finished = budgets <= 0

    def longer(self, place: int) -> bool:
        """Return whether a row may draw another token after that of a place."""
        return bool((~self.finished & (self.lengths > place + 1)).any())

    def found(self, place: int, tokens: mx.array) -> list[int]:
        """Look at the tokens of a place, and return the rows that they finish."""
        stops = ~self.finished & (np.array(tokens) == self._ends).any(1)
        self.lengths[stops], self.ended[stops] = place + 1, True
        new = np.flatnonzero(~self.finished & (stops | (self.lengths <= place + 1)))
        self.finished[new] = True
        return [int(row) for row in new]

    def cut(self, place: int) -> None:
        """Set the lengths of rows that are not finished to that of the stretch."""
        self.lengths[~self.finished] = place
