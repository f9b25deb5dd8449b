"""Computation of the contexts of new rows, each distinct one once, and the caches of rows on their way."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from karl_fast.rl import kv_cache
from karl_fast.rl.kv_cache import CachedPrefix, arrays

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator, Sequence

    import mlx.core as mx

    from karl_fast.rl.next_token import Decoder
    from karl_fast.rl.turn import Ask

    Computed = tuple[mx.array, list[Any]]

PREFILL = 2048
"""Tokens of contexts that are computed at a time, where more than one row is: the memory of a round is planned so."""

PREFILL_ROWS = 0.75
"""Least share of a batch of contexts that is no padding, for each row."""


class Prefill:
    """Contexts of a decoder's policy."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder, self.policy = decoder, decoder.policy

    def choose(self, waiting: deque[Ask], places: int, *, alone: bool) -> list[Ask]:
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
        chosen = [ask for ask in waiting if len(ask.tokens) == shortest][: max(0, places)]
        for ask in chosen:
            waiting.remove(ask)
        return chosen

    def __call__(self, asks: Sequence[Ask], waiting: deque[Ask]) -> Computed:
        """Return the logits after each context, [B, V], and its caches; members that still wait get a copy of these."""
        import mlx.core as mx

        places: dict[tuple[int, ...], int] = {}
        members = [places.setdefault(tuple(ask.tokens), len(places)) for ask in asks]
        distinct = [asks[members.index(place)] for place in range(len(places))]
        compute = self._ragged if self.decoder.ragged else self._alike
        logits, caches = compute(distinct)
        if self.decoder.ragged:
            self._share(places, logits, caches, waiting)
        if members != list(range(len(distinct))):
            logits = logits[mx.array(members)]
            caches = self.taken(caches, len(distinct), members)
        return logits, caches

    def _share(
        self, places: dict[tuple[int, ...], int], logits: mx.array, caches: list[Any], waiting: deque[Ask]
    ) -> None:
        """Give the caches of a context to the members of its group that wait for a free row."""
        found: dict[int, CachedPrefix] = {}
        for number, ask in enumerate(waiting):
            place = None if ask.prefix else places.get(tuple(ask.tokens))
            if place is None:
                continue
            if place not in found:
                row = kv_cache.extract(caches, place)
                found[place] = CachedPrefix(row, len(ask.tokens), logits[place : place + 1])
            waiting[number] = replace(ask, prefix=found[place])

    def _alike(self, asks: Sequence[Ask]) -> Computed:
        """Compute contexts of one length, `PREFILL` tokens at a time."""
        import mlx.core as mx

        count, found = max(1, PREFILL // len(asks[0].tokens)), []
        for start in range(0, len(asks), count):
            caches = self.policy.caches()
            tokens = mx.array([list(ask.tokens) for ask in asks[start : start + count]], dtype=mx.int32)
            found.append((self.decoder.logits(tokens, caches), caches))
            if count < len(asks):
                mx.eval(found[-1][0], list(arrays(caches)))
        logits = found[0][0] if len(found) == 1 else mx.concatenate([logits for logits, _ in found])
        return logits, kv_cache.stack([caches for _, caches in found], count)

    def _ragged(self, asks: Sequence[Ask]) -> Computed:
        """Compute what is new of contexts of any length, part by part."""
        import mlx.core as mx

        order: list[int] = []
        found: list[Computed] = []
        for part in self._parts(asks):
            order += part
            found.append(self._part([asks[place] for place in part]))
            mx.eval(found[-1][0], list(arrays(found[-1][1])))
        logits, caches = mx.concatenate([one for one, _ in found]), kv_cache.join([one for _, one in found])
        if order != sorted(order):
            back = [order.index(place) for place in range(len(order))]
            logits = logits[mx.array(back)]
            kv_cache.take(caches, back)
        return logits, caches

    def _parts(self, asks: Sequence[Ask]) -> Iterator[list[int]]:
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

    def _part(self, asks: Sequence[Ask]) -> Computed:
        """Compute what is new of some contexts in one pass."""
        import mlx.core as mx

        caches = kv_cache.merge([self.policy.caches() if ask.prefix is None else ask.prefix.caches for ask in asks])
        counts = [_num_uncached(ask) for ask in asks]
        width = max(counts)
        if not width:
            known: list[Any] = [ask.prefix and ask.prefix.logits for ask in asks]
            return mx.concatenate(known), caches
        right = [width - count for count in counts]
        tokens = mx.array(
            [[*ask.tokens[-count:], *[0] * more] for ask, count, more in zip(asks, counts, right, strict=True)]
        )
        if max(right):
            for cache in caches:
                cache.prepare(lengths=counts, right_padding=right)
        logits = self.decoder.logits(tokens, caches, [count - 1 for count in counts])
        kv_cache.finish(caches)
        return logits, caches

    def taken(self, caches: list[Any], count: int, rows: Sequence[int]) -> list[Any]:
        """Return caches with some of their `count` rows, in place."""
        import mlx.core as mx

        if self.decoder.ragged:
            kv_cache.take(caches, rows)
        else:
            kv_cache.repeat(caches, count, mx.array(list(rows)))
        return caches

    def joined(self, caches: list[Any], more: list[Any]) -> list[Any]:
        """Return the caches of a batch with new rows; the memory of the old ones is freed."""
        import mlx.core as mx

        found = kv_cache.join([caches, more])
        mx.eval(list(arrays(found)))
        return found

    def kept(self, caches: list[Any], row: int, length: int) -> CachedPrefix | None:
        """Return the caches of one row with so many tokens; None where they cannot be carried on."""
        return CachedPrefix(kv_cache.extract(caches, row), length) if self.decoder.ragged else None


def _num_uncached(ask: Ask) -> int:
    """Return how many tokens of a context are not cached."""
    return len(ask.tokens) - (0 if ask.prefix is None else ask.prefix.length)
