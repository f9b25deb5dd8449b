"""Settings of a conversion to KARL's records."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from karl_fast.errors import AlreadyConvertedError, UsageError
from karl_fast.settings.validation import check_choice

if TYPE_CHECKING:
    from collections.abc import Iterator

KARL_RATES = ("log", "karl-v1", "karl-v2")
"""Sources of rewards for KARL's records; by the default they have none."""


def check_to(to: str, rate: str) -> None:
    """Check the name of the written format, and that its rewards are KARL's.

    Raises:
        UsageError: another format, or a source of rewards that KARL's records cannot have.
    """
    check_choice("to", to, ("trajectory", "karl"))
    if to == "karl" and rate not in KARL_RATES:
        raise UsageError(
            f"rate is {rate!r}, and to is 'karl': wanted {' or '.join(KARL_RATES[1:])}",
            "rate",
            hint="without --rate the records have no reward yet, and KARL's backfill computes it",
        )


@contextlib.contextmanager
def transcripts_wanted(to: str) -> Iterator[None]:
    """Say that KARL's records are made of transcripts, where trajectories were given."""
    try:
        yield
    except AlreadyConvertedError as error:
        if to == "karl":
            error.hint = "give the transcripts that they were converted from: records are made of those"
        raise
