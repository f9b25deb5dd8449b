"""Keys and values of rows of different lengths, which cost no more than those of one length while none is padded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karl_fast._extras import missing_mlx

try:
    from mlx_lm.models import cache
except ImportError as error:
    raise missing_mlx() from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    import mlx.core as mx


BASE: Any = cache.BatchKVCache


class RowsKVCache(BASE):  # type: ignore[misc]
    """Batch cache of mlx-lm, without a mask and with one offset for all rows while no row is padded on the left."""

    def __init__(self, left_padding: list[int]) -> None:
        super().__init__(left_padding)
        self._settle()

    @classmethod
    def merge(cls, caches: Sequence[Any]) -> RowsKVCache:
        """Join the caches of single rows, which may be empty."""
        found = cls([0] * len(caches)) if all(one.empty() for one in caches) else super().merge(caches)
        found._settle()
        return found

    def make_mask(self, N: int, return_array: bool = False, **kwargs: Any) -> Any:  # noqa: N803  (as models call it)
        """Return the mask of N new tokens: that of plain keys and values while no row is padded."""
        if not self._even:
            return super().make_mask(N, return_array, **kwargs)
        window = kwargs.get("window_size")
        return cache.create_attention_mask(N, offset=self._idx, return_array=return_array, window_size=window)

    def filter(self, batch_indices: mx.array) -> None:
        """Keep some rows, in place."""
        self._spread()
        super().filter(batch_indices)
        self._settle()

    def extend(self, other: RowsKVCache) -> None:
        """Add the rows of another, in place."""
        self._spread()
        other._spread()
        super().extend(other)
        self._settle()

    def finalize(self) -> None:
        """Move the tokens of each row to the right, over its padding."""
        self._spread()
        super().finalize()
        self._settle()

    def _spread(self) -> None:
        """Give each row an offset of its own."""
        self.offset = self._idx - self.left_padding

    def _settle(self) -> None:
        """Take one offset for all rows if they have one."""
        self._even = not any(self.left_padding.tolist())
        self.offset = self._idx if self._even else self._idx - self.left_padding
