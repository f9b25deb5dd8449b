"""Cases of a test that `.ci/run` leaves out and `.ci/nightly` runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable


def nightly(cases: Iterable[object]) -> list[Any]:
    """The first of some cases as it is, and the others marked slow."""
    first, *others = cases
    return [first, *(pytest.param(one, marks=pytest.mark.slow) for one in others)]
