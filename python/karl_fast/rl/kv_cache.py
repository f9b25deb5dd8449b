"""Key/value caches of rows that are generated together: repeated, joined, left, and carried from turn to turn.

Rows of different lengths share the batch caches of mlx-lm, where each row is padded on the left. No padding is ever fed
to the model: a recurrent state would take it in, which no mask of attention undoes.

```text
merge     caches of single rows  -> a batch           take      some rows of a batch, in place
join      batches                -> a batch           extract   one row of a batch, to carry it to its next turn
stack, repeat                       the same of caches that take rows of one length only
```

`RowsKVCache` holds keys and values, and costs no more than a plain cache while no row is padded. With ``kv_cache =
"8-bit"`` keys and values are quantised; those caches of mlx-lm count the tokens of all rows in one number, so contexts
are generated in batches of one length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, KVCache, RotatingKVCache, create_attention_mask

from karl_fast.errors import ModelError
from karl_fast.modeling.model_views import are_close

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karl_fast.rl.policy import TokenPolicy


@dataclass(frozen=True, eq=False)
class CachedPrefix:
    """Caches of one row.

    Attributes:
        caches: one a layer.
        length: number of tokens of its context in them.
        logits: after the last of them, if known. [1, V]
    """

    caches: list[Any]
    length: int
    logits: mx.array | None = None


def accepts_ragged_rows(policy: TokenPolicy) -> bool:
    """Return whether rows of different lengths give the same hidden states in one batch as alone, found by trying."""
    try:
        parts = [merge([policy.caches()]) for _ in range(2)]
        for part, tokens in zip(parts, ([1, 2, 3, 4, 5], [2, 3]), strict=True):
            policy.body(mx.array([tokens]), cache=part)
            finish(part)
        caches = join(parts)
        policy.body(mx.array([[6], [4]]), cache=caches)
        hidden = policy.body(mx.array([[7], [5]]), cache=caches)
        return are_close(policy.body(mx.array([[2, 3, 4, 5]]))[:, -1], hidden[1:, -1])
    except (ImportError, RuntimeError, ValueError, TypeError, AttributeError, LookupError):
        return False  # caches of another kind, or a model that counts their tokens in one number


def merge(rows: Sequence[list[Any]]) -> list[Any]:
    """Make batch caches of the caches of single rows, which may be empty, and of different lengths."""
    kinds = (RowsKVCache if type(row) is KVCache else type(row) for row in rows[0])
    return [kind.merge(list(layer)) for kind, layer in zip(kinds, zip(*rows, strict=True), strict=True)]


def join(parts: Sequence[list[Any]]) -> list[Any]:
    """Join batch caches, in pairs, so that a row is copied as often as the number of parts has digits."""
    while len(parts) > 1:
        parts = [_join_pair(parts[start : start + 2]) for start in range(0, len(parts), 2)]
    return parts[0]


def _join_pair(parts: Sequence[list[Any]]) -> list[Any]:
    first, *rest = parts
    for other in rest:
        for cache, new in zip(first, other, strict=True):
            cache.extend(new)
    return first


def take(caches: Sequence[Any], rows: Sequence[int]) -> None:
    """Select rows of batch caches, in place; a row may be selected more than once."""
    for cache in caches:
        cache.filter(mx.array(list(rows)))


def extract(caches: Sequence[Any], row: int) -> list[Any]:
    """Copy the caches of one row out of a batch."""
    row_caches = [cache.extract(row) for cache in caches]
    mx.eval(list(arrays(row_caches)))  # a slice that is not computed would keep the whole batch in memory
    return row_caches


def finish(caches: Sequence[Any]) -> None:
    """Drop the masks of padding from recurrent states: no row has padding any more."""
    for cache in caches:
        if hasattr(cache, "finalize"):
            cache.finalize()


def accepts_padding(caches: Sequence[Any]) -> bool:
    """Return whether contexts may be padded on the right while they are computed: attention never looks ahead."""
    return all(type(cache) is RowsKVCache for cache in caches)


def repeat(caches: Sequence[Any], count: int, rows: mx.array) -> None:
    """Set rows of caches of one length from others, in place: keys and values, states, and other entries by row.

    Args:
        caches: one a layer, of any kind; they may hold others.
        count: rows that they have now.
        rows: the row that each new one is a copy of. [B]
    """
    for cache in caches:
        _map_arrays([cache], count, lambda parts: parts[0][rows])


def stack(parts: Sequence[list[Any]], count: int) -> list[Any]:
    """Join rows of caches that were filled separately; each layer is freed once it is joined.

    Args:
        parts: caches of some rows, one a layer. All but the first are empty afterwards.
        count: rows of the first part.

    Returns:
        The caches of the first part, with the rows of all.
    """
    first, *rest = parts
    for layer, cache in enumerate(first if rest else ()):
        _map_arrays([cache, *(part[layer] for part in rest)], count, lambda rows: mx.concatenate(rows, axis=0))
        mx.eval(list(arrays(cache)))
        for part in rest:
            part[layer] = None
    return first


def arrays(value: Any) -> Iterator[mx.array]:
    """Yield the arrays in a cache."""
    if isinstance(value, mx.array):
        yield value
    elif isinstance(value, list | tuple | dict) or hasattr(value, "__dict__"):
        parts = (
            value if isinstance(value, list | tuple) else (value if isinstance(value, dict) else vars(value)).values()
        )
        for part in parts:
            yield from arrays(part)


def _map_arrays(caches: Sequence[Any], count: int, change: Callable[[list[mx.array]], mx.array]) -> None:
    """Apply a function to the arrays with a row each of all caches, and store the result in the first."""
    first = caches[0]
    for name in list(vars(first)) if hasattr(first, "__dict__") else ("keys", "values"):
        setattr(first, name, _map_content([getattr(cache, name) for cache in caches], count, change))


def _map_content(values: list[Any], count: int, change: Callable[[list[mx.array]], mx.array]) -> Any:
    """Return the changed content of caches; other values than arrays of `count` rows stay."""
    first = values[0]
    if isinstance(first, mx.array):
        return change(values) if first.ndim and first.shape[0] == count else first
    if type(first) in (list, tuple):
        return type(first)(_map_content(list(parts), count, change) for parts in zip(*values, strict=True))
    if type(first) is dict:
        return {name: _map_content([value[name] for value in values], count, change) for name in first}
    if hasattr(first, "update_and_fetch") or hasattr(first, "make_mask"):  # a cache in a list of caches
        _map_arrays(values, count, change)
    return first


BASE: Any = BatchKVCache


class RowsKVCache(BASE):  # type: ignore[misc]
    """Batch cache of mlx-lm, without a mask and with one offset for all rows while no row is padded on the left."""

    def __init__(self, left_padding: list[int]) -> None:
        super().__init__(left_padding)
        self._update_offset()

    @classmethod
    def merge(cls, caches: Sequence[Any]) -> RowsKVCache:
        """Join the caches of single rows, which may be empty."""
        merged = cls([0] * len(caches)) if all(cache.empty() for cache in caches) else super().merge(caches)
        merged._update_offset()
        return merged

    def make_mask(self, N: int, return_array: bool = False, **kwargs: Any) -> Any:  # noqa: N803  (as models call it)
        """Return the mask of N new tokens: that of plain keys and values while no row is padded."""
        if not self._unpadded:
            return super().make_mask(N, return_array, **kwargs)
        window = kwargs.get("window_size")
        return create_attention_mask(N, offset=self._idx, return_array=return_array, window_size=window)

    def filter(self, batch_indices: mx.array) -> None:
        """Keep some rows, in place."""
        self._offset_rows()
        super().filter(batch_indices)
        self._update_offset()

    def extend(self, other: RowsKVCache) -> None:
        """Add the rows of another, in place."""
        self._offset_rows()
        other._offset_rows()
        super().extend(other)
        self._update_offset()

    def finalize(self) -> None:
        """Move the tokens of each row to the right, over its padding."""
        self._offset_rows()
        super().finalize()
        self._update_offset()

    def _offset_rows(self) -> None:
        """Give each row an offset of its own."""
        self.offset = self._idx - self.left_padding

    def _update_offset(self) -> None:
        """Set one offset for all rows if none is padded."""
        self._unpadded = not any(self.left_padding.tolist())
        self.offset = self._idx if self._unpadded else self._idx - self.left_padding


BITS = 8

GROUP_SIZES = (64, 32)
"""Numbers that share a scale and a bias, the larger first; a head has to be a multiple of one."""

NEAR = 0.1
"""Maximum distance of hidden states from those with plain caches, relative to their norm; it is far larger for a model
that reads the quantised codes as numbers."""


def group_sizes(kind: str, plain: list[Any], body: Callable[..., mx.array]) -> list[int]:
    """Return the group size of each layer, after a trial.

    Args:
        kind: type of the model, for errors.
        plain: empty caches of the model.
        body: maps tokens and caches to hidden states.

    Raises:
        ModelError: a layer has another cache, heads that have no group size, or does not take quantised caches.
    """
    unsupported = sorted({type(cache).__name__ for cache in plain if type(cache) is not KVCache})
    if unsupported:
        windows = [cache.max_size for cache in plain if isinstance(cache, RotatingKVCache)]
        hint = f"max_context = {min(windows)}, within which no window rotates, is quantised" if windows else None
        problem = f"has {', '.join(unsupported)}, which cannot be quantised"
        raise _refusal(kind, problem, "KVCache in every layer", hint if unsupported == ["RotatingKVCache"] else None)
    tokens, fresh = mx.array([[1, 2, 3, 4]]), [KVCache() for _ in plain]  # type: ignore[no-untyped-call]
    expected = body(tokens, plain)
    sizes = [_group_size(kind, (cache.keys.shape[-1], cache.values.shape[-1])) for cache in plain]
    try:
        codes = quantize_caches(fresh, sizes)
        body(tokens[:, :3], codes)
        distance = mx.linalg.norm((body(tokens[:, 3:], codes) - expected[:, 3:]).astype(mx.float32))
    except (RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise _refusal(kind, f"does not take them: {' '.join(str(error).split())[:200]}", "plain attention") from error
    if not distance.item() <= NEAR * mx.linalg.norm(expected[:, 3:].astype(mx.float32)).item():  # type: ignore[operator]
        raise _refusal(kind, "computes other hidden states with them", "plain attention")
    return sizes


def unrotated(cache: Any, longest: int) -> Any:
    """Return a plain cache for a rotating one whose window holds so many tokens; others stay."""
    if isinstance(cache, RotatingKVCache) and longest <= cache.max_size:
        return KVCache()  # type: ignore[no-untyped-call]
    return cache


def quantize_caches(plain: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """Return empty quantised caches in the place of plain ones."""
    return [cache.to_quantized(group_size=size, bits=BITS) for cache, size in zip(plain, sizes, strict=True)]


def _group_size(kind: str, heads: tuple[int, int]) -> int:
    for size in GROUP_SIZES:
        if not any(head % size for head in heads):
            return size
    raise _refusal(kind, f"has heads of {' and '.join(map(str, sorted({*heads})))} numbers", "multiples of 32")


def _refusal(kind: str, problem: str, wanted: str, hint: str | None = None) -> ModelError:
    return ModelError(
        f"kv_cache is 8-bit, and model type {kind} {problem}, wanted {wanted}",
        hint="; ".join(filter(None, (hint, "kv_cache = full takes every model"))),
    )
