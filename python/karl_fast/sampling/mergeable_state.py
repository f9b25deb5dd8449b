"""Common methods of states: merge, write and read."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self

from karl_fast.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable


class MergeableState:
    """A state that is filled in parts, on shards that know nothing of each other, and merged."""

    __slots__ = ("_state",)
    _state: Any

    def __len__(self) -> int:
        return len(self._state)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    def merge(self, other: Self) -> None:
        """Merge another state into this one.

        Raises:
            ArgumentError: a state of another kind or of other settings; nothing is taken then.
        """
        if not isinstance(other, type(self)):
            raise ArgumentError(f"other is a {type(other).__name__}, wanted a {type(self).__name__}")
        self._state.merge(other._state)

    def to_bytes(self) -> bytes:
        """Return the state as bytes: kind and version, little-endian numbers, and a hash of them."""
        found: bytes = self._state.to_bytes()
        return found

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a state.

        Raises:
            ArgumentError: bytes that no state of this kind and version was written as.
        """
        state = cls.__new__(cls)
        state._state = cls._read(data)
        return state

    @classmethod
    @abstractmethod
    def _read(cls, data: bytes) -> Any: ...

    def __reduce__(self) -> tuple[Callable[[bytes], Self], tuple[bytes]]:
        return type(self).from_bytes, (self.to_bytes(),)
