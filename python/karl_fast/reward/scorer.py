"""Type of a reward function."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

Scorer: TypeAlias = Callable[..., Sequence[float | None]]
"""``fn(completions, prompts=None, **columns)``, called by keyword: a reward a row, None where it does not apply."""
