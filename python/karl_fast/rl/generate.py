"""Generation of turns of a policy, with the log-probability of each token when it was drawn.

Rollouts are generated together, whatever their lengths. A row leaves and another takes its place at fixed points:
when as many tokens were drawn by finished rows as one step draws. The points depend on the tokens alone, so that a run
has the same bytes each time; the noise of a row depends on its rollout alone, so that its tokens do not depend on the
batch but for rounding.

```text
admit     `Prefill`: compute the new tokens of waiting contexts, each distinct one once, and join them to the batch
stretch   `Decoder`: draw a token a row, until enough rows are finished
answer    give finished turns to their episodes, which may ask for another turn
```

The choice of a token:

```text
p = softmax(logits / T)        a token is drawn from p itself: no top-k, no top-p; T = 0 takes the likeliest
token = argmax(log p + g)      g of Gumbel's distribution, by the key of the row and the number of its token
```

On a GPU MLX makes it, where the logits are. On a CPU `karl_fast._core` does, with the same noise, of which it computes
only what can win: of 262,144 tokens MLX's noise, log-probabilities and entropy take longer than a small model.

With `overlap` environments answer in threads while other rows go on: when a row enters again depends on time, and so
does what rounding decides. Policies that take rows of one length only (`Decoder.ragged` is False) get batches of one
length, without replacement.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import mlx.core as mx
import numpy as np

from karl_fast import _core
from karl_fast.rl import kv_cache
from karl_fast.rl.compiled import CompiledModel
from karl_fast.rl.kv_cache import CachedPrefix, accepts_ragged_rows, arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from karl_fast.rl.policy import TokenPolicy

    Following: TypeAlias = "TurnRequest | Sequence[TurnRequest] | None"
    Answer: TypeAlias = "Callable[[TurnRequest, Turn], Following | PendingAnswer]"
    Computed = tuple[mx.array, list[Any]]
    Chosen = tuple[mx.array, ...]
    KeysValues = list[tuple[mx.array, mx.array]]

ARRIVALS = 16
"""Tokens after which a batch looks for answers that came meanwhile, with `schedule = "overlap"`."""

PREFILL = 2048
"""Tokens of contexts that are computed at a time, where more than one row is: the memory of a round is planned so."""

PREFILL_ROWS = 0.75
"""Least share of a batch of contexts that is not padding, for each row."""

SMALLEST = -1e30
"""Replacement for the logarithm of 0, which times 0 is NaN."""


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

    width = 0

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Start and end, in its tokens, of what each span of a rollout is: the whole turn."""
        return ((0, len(self.tokens)),)

    def states(self, first: str) -> tuple[str, ...]:
        """Return the state in front of each span, by that in front of the turn."""
        return (first,)


@dataclass(frozen=True, eq=False)
class TurnRequest:
    """Request for a turn of the policy.

    Attributes:
        rollout: number of its rollout in the call.
        tokens: ids of its context, one or more.
        budget: maximum tokens of the turn, 1 or more.
        key: of the random numbers of its rollout: `rollout_key`.
        num_drawn: tokens that its rollout has drawn before.
        last: True if no turn follows, so that its caches are not kept.
        prefix: caches of the beginning of the context, if they were kept.
    """

    rollout: int
    tokens: Sequence[int]
    budget: int
    key: int
    num_drawn: int = 0
    last: bool = True
    prefix: CachedPrefix | None = None


@dataclass(frozen=True, eq=False)
class PendingAnswer:
    """Answer that is computed elsewhere, while other rows go on.

    Attributes:
        work: what is waited for.
        then: called when it is done; returns the next turn, several of them, or None.
    """

    work: Future[Any]
    then: Callable[[], Following]


def rollout_key(*words: int) -> int:
    """Return the key of a rollout, from a seed and the numbers of its group and of its place in it."""
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


def generate_turns(
    policy: TokenPolicy,
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
    requests = zip(contexts, budgets, strict=True)
    asks = [TurnRequest(row, context, budget, rollout_key(seed, row)) for row, (context, budget) in enumerate(requests)]
    turns: dict[int, Turn] = {}

    def keep(ask: TurnRequest, turn: Turn) -> None:
        turns[ask.rollout] = turn

    Generation(Decoder(policy, temperature, compile=compile), rows)(asks, keep)
    return [turns[row] for row in range(len(asks))]


class Draws(Protocol):
    """Draws turns until none is asked for: `Generation`, or that of a policy that draws in steps."""

    def __call__(self, asks: Sequence[TurnRequest], answer: Answer) -> None:
        """Draw the first turns, and those that `answer` returns for each finished one."""


class Generation:
    """Batch of rows that are generated together, and the contexts that wait for a place in it."""

    def __init__(
        self,
        decoder: Decoder,
        rows: int,
        *,
        overlap: bool = False,
        on_tokens: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Set the decoder and the maximum number of rows; with `overlap` answers may come later, and rows go on.

        `on_tokens` is called after each position with the number of tokens that unfinished rows have drawn there.
        """
        self.decoder, self.most, self.overlap, self.on_tokens = decoder, rows, overlap, on_tokens
        self._prefill = Prefill(decoder)
        self._rows: list[_UnfinishedTurn] = []
        self._caches: list[Any] = []
        self._column: Chosen = ()
        self._pending: list[tuple[PendingAnswer, TurnRequest, CachedPrefix | None]] = []
        self._wasted = 0

    def __call__(self, asks: Sequence[TurnRequest], answer: Answer) -> None:
        """Generate turns until none is asked for.

        Args:
            asks: the first turns.
            answer: called with each finished turn; returns the next turn of its rollout, those of several rollouts, or
                None. With `overlap` it may return a `PendingAnswer`. Only the turn that follows in the same rollout
                at once goes on with its caches.
        """
        waiting = deque(asks)
        while waiting or self._rows or self._pending:
            if waiting or self._due:
                self._admit(waiting)
            if self._rows:
                self._stretch()
            waiting.extendleft(
                reversed([*self._next_asks(answer, waiting)])
            )  # before new rollouts: their caches are kept

    @property
    def _due(self) -> bool:
        """True if finished rows have drawn as many tokens as one step does, or no row is left."""
        return self._wasted >= len(self._rows) or all(row.finished for row in self._rows)

    def _admit(self, waiting: deque[TurnRequest]) -> None:
        """Remove finished rows, and fill their places."""
        stay = [place for place, row in enumerate(self._rows) if not row.finished]
        asks = self._prefill.choose(waiting, self.most - len(stay) - len(self._pending), alone=not stay)
        if not asks and not self._due:
            return
        if stay and len(stay) < len(self._rows):
            self._caches = self._prefill.select_rows(self._caches, len(self._rows), stay)
            self._column = tuple(part[mx.array(stay)] for part in self._column)
        self._rows, self._wasted = [self._rows[place] for place in stay], 0
        if asks:
            self._enter(asks, waiting)

    def _enter(self, asks: list[TurnRequest], waiting: deque[TurnRequest]) -> None:
        """Compute the contexts of new rows, draw their first tokens, and join them to the batch."""
        logits, caches = self._prefill(asks, waiting)
        first = self.decoder.choose(logits, _next_keys(_UnfinishedTurn(ask) for ask in asks))
        if self._rows:
            caches = self._prefill.join(self._caches, caches)
            first = tuple(mx.concatenate(list(parts)) for parts in zip(self._column, first, strict=True))
        self._caches, self._column = caches, first
        self._rows += [_UnfinishedTurn(ask) for ask in asks]

    def _stretch(self) -> None:
        """Draw a token a row, again and again, until enough rows are finished.

        A token is drawn while the one before it is examined, so that the device is never idle.
        """
        rows, columns = self._rows, [self._column]
        keys = _next_keys(rows)
        ends = _Ends(np.array([row.budget_left for row in rows]), self.decoder.policy.ends)
        has_next = np.array([not row.ask.last for row in rows])
        place, interrupted = 0, False
        while self._wasted < len(rows) and not ends.finished.all() and not interrupted:
            # The next token starts before this one is examined; in the last place it would be in vain.
            if has_next.any() or ends.longer(place):
                columns.append(self.decoder.follow(columns[-1][0], self._caches, keys + np.uint64(place + 1)))
            self.on_tokens(int((~ends.finished).sum()))
            for row in ends.find(place, columns[place][0]):
                if has_next[row]:
                    self._keep(rows[row], row, place + 1)
                    interrupted = interrupted or self.overlap
            place, self._wasted = place + 1, self._wasted + int(ends.finished.sum())
            interrupted = interrupted or self._has_answer(place)
        self._close(columns, place, ends)

    def _has_answer(self, place: int) -> bool:
        """Return whether an answer has come meanwhile: looked for at some places, so that several enter together."""
        return place % ARRIVALS == 0 and any(later.work.done() for later, *_ in self._pending)

    def _keep(self, row: _UnfinishedTurn, place: int, count: int) -> None:
        """Keep the caches of a row whose last token was just fed, before they take in others."""
        length = len(row.ask.tokens) + row.length + count
        row.prefix = self._prefill.extract(self._caches, place, length)

    def _close(self, columns: list[Chosen], place: int, ends: _Ends) -> None:
        """Give the rows their tokens of a stretch; a column that was not examined begins the next."""
        together = [mx.concatenate(list(parts), axis=1) for parts in zip(*columns[:place], strict=True)]
        mx.eval(together)
        arrays = [np.array(part) for part in together]
        ends.cut(place)
        for number, row in enumerate(self._rows):
            row.add_stretch(arrays, ends, number)
        self._column = columns[place] if place < len(columns) else ()

    def _next_asks(self, answer: Answer, waiting: deque[TurnRequest]) -> Iterator[TurnRequest]:
        """Give finished turns to their episodes, and yield the turns that are asked for by now."""
        for row in self._rows:
            if row.finished and not row.answered:
                row.answered = True
                yield from self._resume(row.ask, answer(row.ask, row.turn()), row.prefix)
                row.prefix = None
        full = not waiting or len(self._pending) >= self.most
        if self._pending and full and all(row.finished for row in self._rows):
            wait([later.work for later, *_ in self._pending], return_when=FIRST_COMPLETED)
        done = [entry for entry in self._pending if entry[0].work.done()]
        self._pending = [entry for entry in self._pending if entry not in done]
        for later, ask, prefix in done:
            yield from self._resume(ask, later.then(), prefix)

    def _resume(
        self, ask: TurnRequest, following: Following | PendingAnswer, prefix: CachedPrefix | None
    ) -> Iterator[TurnRequest]:
        """Yield the turns that follow one, if there are some now; that of the same rollout with its caches."""
        if isinstance(following, PendingAnswer):
            self._pending.append((following, ask, prefix))
            return
        turns = [following] if isinstance(following, TurnRequest) else following or ()
        yield from (replace(turn, prefix=prefix) if turn.rollout == ask.rollout else turn for turn in turns)


@dataclass
class _UnfinishedTurn:
    """A turn that is being generated: its columns so far."""

    ask: TurnRequest
    parts: list[tuple[NDArray[Any], ...]] = field(default_factory=list)
    length: int = 0
    ended: bool = False
    finished: bool = False
    answered: bool = False
    prefix: CachedPrefix | None = None

    @property
    def budget_left(self) -> int:
        """Number of tokens that it may still draw."""
        return 0 if self.finished else self.ask.budget - self.length

    def add_stretch(self, columns: Sequence[NDArray[Any]], ends: _Ends, row: int) -> None:
        """Add its tokens of a stretch, with their log-probabilities and entropies."""
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
    return np.array([(row.ask.key + row.ask.num_drawn + row.length) % 2**64 for row in rows], dtype=np.uint64)


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

    def find(self, place: int, tokens: mx.array) -> list[int]:
        """Return the rows that the tokens of a place finish."""
        stops = ~self.finished & (np.array(tokens) == self._ends).any(1)
        self.lengths[stops], self.ended[stops] = place + 1, True
        new = np.flatnonzero(~self.finished & (stops | (self.lengths <= place + 1)))
        self.finished[new] = True
        return [int(row) for row in new]

    def cut(self, place: int) -> None:
        """Set the lengths of rows that are not finished to that of the stretch."""
        self.lengths[~self.finished] = place


class Prefill:
    """Contexts of a decoder's policy."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder, self.policy = decoder, decoder.policy

    def choose(self, waiting: deque[TurnRequest], places: int, *, alone: bool) -> list[TurnRequest]:
        """Take the contexts that enter next out of those that wait.

        Args:
            waiting: in their order.
            places: number of free rows.
            alone: True if the batch is empty; a policy that takes rows of one length only gets some then.
        """
        if self.decoder.ragged:
            return [waiting.popleft() for _ in range(min(places, len(waiting)))]
        if not alone or not waiting:
            return []
        shortest = min(len(ask.tokens) for ask in waiting)
        asks = [ask for ask in waiting if len(ask.tokens) == shortest][: max(0, places)]
        for ask in asks:
            waiting.remove(ask)
        return asks

    def __call__(self, asks: Sequence[TurnRequest], waiting: deque[TurnRequest]) -> Computed:
        """Return the logits after each context, [B, V], and its caches; members that still wait get a copy of these."""
        places: dict[tuple[int, ...], int] = {}
        members = [places.setdefault(tuple(ask.tokens), len(places)) for ask in asks]
        distinct = [asks[members.index(place)] for place in range(len(places))]
        compute = self._ragged if self.decoder.ragged else self._one_length
        logits, caches = compute(distinct)
        if self.decoder.ragged:
            self._share(places, logits, caches, waiting)
        if members != list(range(len(distinct))):
            logits = logits[mx.array(members)]
            caches = self.select_rows(caches, len(distinct), members)
        return logits, caches

    def _share(
        self, places: dict[tuple[int, ...], int], logits: mx.array, caches: list[Any], waiting: deque[TurnRequest]
    ) -> None:
        """Give the caches of a context to the members of its group that wait for a free row."""
        prefixes: dict[int, CachedPrefix] = {}
        for number, ask in enumerate(waiting):
            place = None if ask.prefix else places.get(tuple(ask.tokens))
            if place is None:
                continue
            if place not in prefixes:
                row = kv_cache.extract(caches, place)
                prefixes[place] = CachedPrefix(row, len(ask.tokens), logits[place : place + 1])
            waiting[number] = replace(ask, prefix=prefixes[place])

    def _one_length(self, asks: Sequence[TurnRequest]) -> Computed:
        """Compute contexts of one length, `PREFILL` tokens at a time."""
        count, computed = max(1, PREFILL // len(asks[0].tokens)), []
        for start in range(0, len(asks), count):
            caches = self.policy.caches()
            tokens = mx.array([list(ask.tokens) for ask in asks[start : start + count]], dtype=mx.int32)
            computed.append((self.decoder.logits(tokens, caches), caches))
            if count < len(asks):
                mx.eval(computed[-1][0], list(arrays(caches)))
        logits = computed[0][0] if len(computed) == 1 else mx.concatenate([logits for logits, _ in computed])
        return logits, kv_cache.stack([caches for _, caches in computed], count)

    def _ragged(self, asks: Sequence[TurnRequest]) -> Computed:
        """Compute what is new of contexts of any length, part by part."""
        order: list[int] = []
        computed: list[Computed] = []
        for part in self._parts(asks):
            order += part
            computed.append(self._part([asks[place] for place in part]))
            mx.eval(computed[-1][0], list(arrays(computed[-1][1])))
        logits = mx.concatenate([part_logits for part_logits, _ in computed])
        caches = kv_cache.join([part_caches for _, part_caches in computed])
        if order != sorted(order):
            back = [order.index(place) for place in range(len(order))]
            logits = logits[mx.array(back)]
            kv_cache.take(caches, back)
        return logits, caches

    def _parts(self, asks: Sequence[TurnRequest]) -> Iterator[list[int]]:
        """Yield the rows that are computed together: of about one length with attention alone, else of exactly one."""
        news = [_num_uncached(ask) for ask in asks]
        ordered = sorted(range(len(asks)), key=lambda row: news[row])
        for _, rows in groupby(ordered, key=lambda row: bool(news[row]) if self._padded else news[row]):
            part: list[int] = []
            for row in rows:
                width = news[row]
                if part and ((len(part) + 1) * width > PREFILL or news[part[0]] < PREFILL_ROWS * width):
                    yield part
                    part = []
                part.append(row)
            yield part

    @cached_property
    def _padded(self) -> bool:
        return kv_cache.accepts_padding(kv_cache.merge([self.policy.caches()]))

    def _part(self, asks: Sequence[TurnRequest]) -> Computed:
        """Compute what is new of some contexts in one pass."""
        caches = kv_cache.merge([self.policy.caches() if ask.prefix is None else ask.prefix.caches for ask in asks])
        counts = [_num_uncached(ask) for ask in asks]
        width = max(counts)
        if not width:
            cached_logits: list[Any] = [ask.prefix and ask.prefix.logits for ask in asks]
            return mx.concatenate(cached_logits), caches
        right = [width - count for count in counts]
        tokens = mx.array(
            [[*ask.tokens[-count:], *[0] * padding] for ask, count, padding in zip(asks, counts, right, strict=True)]
        )
        if max(right):
            for cache in caches:
                cache.prepare(lengths=counts, right_padding=right)
        logits = self.decoder.logits(tokens, caches, [count - 1 for count in counts])
        kv_cache.finish(caches)
        return logits, caches

    def select_rows(self, caches: list[Any], count: int, rows: Sequence[int]) -> list[Any]:
        """Return caches with some of their `count` rows, in place."""
        if self.decoder.ragged:
            kv_cache.take(caches, rows)
        else:
            kv_cache.repeat(caches, count, mx.array(list(rows)))
        return caches

    def join(self, caches: list[Any], new: list[Any]) -> list[Any]:
        """Return the caches of a batch with new rows; the memory of the old ones is freed."""
        batch = kv_cache.join([caches, new])
        mx.eval(list(arrays(batch)))
        return batch

    def extract(self, caches: list[Any], row: int, length: int) -> CachedPrefix | None:
        """Return the caches of one row with so many tokens; None where they cannot be carried on."""
        return CachedPrefix(kv_cache.extract(caches, row), length) if self.decoder.ragged else None


def _num_uncached(ask: TurnRequest) -> int:
    """Return how many tokens of a context are not cached."""
    return len(ask.tokens) - (0 if ask.prefix is None else ask.prefix.length)


class Decoder:
    """Sampler of a token a row, with its log-probability and the entropy of its distribution."""

    def __init__(
        self,
        policy: TokenPolicy,
        temperature: float,
        *,
        compile: bool = False,
        places: bool = False,
        entropy: bool = True,
    ) -> None:
        """Set a temperature from 0 on; `compile` fuses each choice, and whole `places` if asked to.

        At 0 the likeliest token is taken, and log-probabilities are those of temperature 1. A place is traced for
        each number of rows and of tokens before it. Without `entropy` that of each token may be NaN, which saves a
        pass over the logits on a GPU.
        """
        self.policy, self._inverse, self._places = policy, 1 / (temperature or 1), compile and places
        self._greedy, self._entropy = temperature == 0, entropy
        self._choice = mx.compile(self._choose) if compile else self._choose
        self._compiled = CompiledModel(policy.model, on=compile)

    @cached_property
    def ragged(self) -> bool:
        """True if contexts of different lengths go together."""
        return accepts_ragged_rows(self.policy)

    def draws(self, rows: int, *, overlap: bool, on_tokens: Callable[[int], None]) -> Draws:
        """Return what draws turns, at most so many at a time; the arguments are those of `Generation`."""
        return Generation(self, rows, overlap=overlap, on_tokens=on_tokens)

    def logits(self, tokens: mx.array, caches: Sequence[Any], last: Sequence[int] | None = None) -> mx.array:
        """Compute the logits after some tokens, which are added to the caches. [B, T] -> [B, V]

        `last` has the place of the last token of each row, where rows are padded.
        """
        if last is not None or not self._whole:
            return self._logits_after(tokens, caches, last)
        logits: mx.array
        logits, states = self._compiled(self._read)(tokens, _cache_arrays(caches))
        _store_arrays(caches, states)
        return logits

    def choose(self, logits: mx.array, keys: NDArray[np.uint64]) -> Chosen:
        """Start the choice of tokens, without waiting on a GPU. [B, V], [B] -> [B, 1] each"""
        if _runs_on_cpu():
            return self._choose_on_cpu(logits, keys)
        return _start_together(self._choice(logits, key_words(keys)))

    def follow(self, tokens: mx.array, caches: Sequence[Any], keys: NDArray[np.uint64]) -> Chosen:
        """Start the choice of tokens after some tokens, which are added to the caches. [B, 1], [B] -> [B, 1] each"""
        if _runs_on_cpu():
            return self.choose(self.logits(tokens, caches), keys)
        if not self._whole:
            return self.choose(self._logits_after(tokens, caches), keys)
        choice, states = self._compiled(self._compiled_step)(tokens, _cache_arrays(caches), key_words(keys))
        _store_arrays(caches, states)
        return _start_together(choice)

    @cached_property
    def _whole(self) -> bool:
        """True if a position is one compiled function, which needs caches with keys and values only.

        Caches of mlx-lm count their tokens in a Python number, which a trace would freeze.
        """
        if not self._places:
            return False
        caches = self.policy.caches()
        self.policy.body(mx.array([[0]]), cache=caches)
        fields = [getattr(cache, "__dict__", {}) for cache in caches]
        return all(entries.keys() == {"keys", "values"} and entries["keys"] is not None for entries in fields)

    def _compiled_step(self, tokens: mx.array, states: KeysValues, keys: mx.array) -> tuple[Chosen, KeysValues]:
        logits, states = self._read(tokens, states)
        return self._choose(logits, keys), states

    def _read(self, tokens: mx.array, states: KeysValues) -> tuple[mx.array, KeysValues]:
        caches = self.policy.caches()
        _store_arrays(caches, states)
        return self._logits_after(tokens, caches), _cache_arrays(caches)

    def _logits_after(self, tokens: mx.array, caches: Sequence[Any], last: Sequence[int] | None = None) -> mx.array:
        hidden = self.policy.body(tokens, cache=list(caches))
        if last is None:
            return self.policy.head(hidden[:, -1:])[:, -1]
        return self.policy.head(mx.take_along_axis(hidden, mx.array(list(last))[:, None, None], axis=1))[:, -1]

    def _choose(self, logits: mx.array, keys: mx.array) -> Chosen:
        scaled = logits.astype(mx.float32)
        if self._inverse != 1:
            scaled = scaled * self._inverse
        logp = scaled - mx.logsumexp(scaled, axis=-1, keepdims=True)
        noisy = logp if self._greedy else logp + gumbel_noise(keys, logp.shape[-1])
        token = mx.argmax(noisy, axis=-1)[:, None]
        chosen_logp = mx.take_along_axis(logp, token, axis=-1)
        if not self._entropy:
            return token, chosen_logp, mx.full(chosen_logp.shape, mx.nan)
        negentropy = (mx.exp(logp) * mx.maximum(logp, SMALLEST)).sum(axis=-1, keepdims=True)
        return token, chosen_logp, negentropy

    def _choose_on_cpu(self, logits: mx.array, keys: NDArray[np.uint64]) -> Chosen:
        rows = np.asarray(logits.astype(mx.float32).reshape(-1))
        noise = None if self._greedy else np.ascontiguousarray(keys, dtype=np.uint64)
        token, logp, entropy = _core.choose_tokens(rows, logits.shape[-1], scale=self._inverse, keys=noise)
        return mx.array(token[:, None]), mx.array(logp[:, None]), mx.array(-entropy[:, None])


def _runs_on_cpu() -> bool:
    return bool(mx.default_device() == mx.cpu)


def key_words(keys: NDArray[np.uint64]) -> mx.array:
    """Return keys as the pairs of words that MLX takes. [B] -> [B, 2]"""
    return mx.array(np.ascontiguousarray(keys, dtype=np.uint64).view(np.uint32).reshape(-1, 2))


def gumbel_noise(keys: mx.array, size: int) -> mx.array:
    """Draw a row of noise by each key. [B, 2] -> [B, V]"""
    noise: mx.array = mx.vmap(lambda key: mx.random.gumbel((size,), key=key))(keys)
    return noise


def _start_together(choice: Chosen) -> Chosen:
    """Start all arrays together: otherwise each would keep the logits of its position in memory."""
    mx.async_eval(*choice)
    return choice


def _cache_arrays(caches: Sequence[Any]) -> KeysValues:
    """Return keys and values of caches; an empty list while they are empty, which all of them are together."""
    return [(cache.keys, cache.values) for cache in caches if cache.keys is not None]


def _store_arrays(caches: Sequence[Any], states: KeysValues) -> None:
    for cache, (keys, values) in zip(caches, states, strict=False):
        cache.keys, cache.values = keys, values
