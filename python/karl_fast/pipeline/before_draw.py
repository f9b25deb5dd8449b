"""Obstacles of a draw: conversations that cannot be written, an ESS out of reach; and options that were tried."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _core
from karl_fast.export.write import describe_unwritable, export_plan
from karl_fast.pipeline.selection import select

if TYPE_CHECKING:
    from karl_fast.export.manifest import Manifest
    from karl_fast.log import Log

TRIED = 32
"""Rows that are tried: the first with a reward in the order of hashed ids, which are a random few."""


def try_conversations(log: Log) -> Manifest | None:
    """Return how many of a few rows `sample` could write, and why not the others; None of a stream.

    Args:
        log: the log; a few of its records are read again.

    Returns:
        ``tried``, ``written``, ``dropped`` by reason; and where none is written, ``why`` and a ``hint``.
    """
    rows = np.flatnonzero(~np.isnan(log.rewards))[:TRIED]
    if log.core.streamed is not None or not len(rows):
        return None
    settings = log.settings.replace(
        split=(1.0, 0.0, 0.0), max_per_group=None, per=None, max_tokens=None, tokenizer=None
    )
    unknown = np.full(len(log), np.nan)
    draft = _core.Draft.given(log.core, rows, log.rewards, unknown, unknown, export_plan(settings, "judged"))
    facts = draft.facts()
    result = {"tried": len(rows), "written": len(facts["rows"]), "dropped": dict(facts["dropped"])}
    if facts["rows"]:
        return result
    why, hint = describe_unwritable(log, draft)
    return result | {"why": why, "hint": hint}


def reach_ess(log: Log, selection: _core.Selection) -> list[str]:
    """Return options with which a wanted ESS is reached, where so many rows share the top score that it is not.

    Args:
        log: the log, by its columns alone.
        selection: the rows and their weights under its settings.

    Returns:
        Options that were tried, the first the better one; none where the ESS is reached, or was not solved for.
    """
    facts, settings = selection.facts(), log.settings
    if facts["note"] != "ties_at_top" or log.core.streamed is not None or log.core.weighted:
        return []
    share = math.ceil(facts["reached_share"] * 100) / 100
    choices: list[tuple[str, dict[str, Any]]] = [(f"--ess {share:g}", {"ess": share})] if share < 1 else []
    if settings.score == "raw" and log.core.distinct("group"):
        choices.insert(0, ("--score zscore", {"score": "zscore"}))
    return [
        option for option, change in choices if select(log.under(settings.replace(**change))).facts()["note"] is None
    ]
