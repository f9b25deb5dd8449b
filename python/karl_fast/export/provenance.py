"""Origin of a data set: the files that were read, and the run that read them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from karl_fast.log.discovery import PARQUET, skip_reason
from karl_fast.log.field_hints import fitting, left_beside, named, records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karl_fast import _core
    from karl_fast.log import Log
    from karl_fast.log.parquet_columns import LeftOut


def describe_inputs(log: Log) -> list[dict[str, Any]]:
    """Return facts about each file: path, hash and counts."""
    hashes = log.core.hashes(log.settings.hash_inputs)
    covers = "whole file" if log.settings.hash_inputs else "first and last MiB"
    if log.core.streamed:
        covers = "whole stream"
    sums = {path: {summed.name: summed.columns} for path, summed in log.summed}
    return [
        {
            **{name: fact for name, fact in file.items() if name != "orders"},
            "fields": dict(file["fields"]),
            "dropped": dict(file["dropped"]),
            "xxh3_128": digest,
            "hash_covers": covers,
        }
        | ({"summed_columns": sums[file["path"]]} if file["path"] in sums else {})
        for file, digest in zip(log.inputs, hashes, strict=True)
    ]


def describe_run(log: Log, seconds: float | None = None, failed: Sequence[_core.FailedRow] = ()) -> dict[str, Any]:
    """Return facts about the run itself: place, time, skipped files and failed rows; no other part depends on them."""
    return (
        {
            "seconds": seconds,
            "threads": log.settings.threads,
            "settings_from": log.settings.chosen(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "platform": f"{os.uname().sysname}-{os.uname().machine}",
            "streamed": log.core.streamed is not None,
            "skipped": [{"path": path, "reason": reason} for path, reason in (*log.core.skipped(), *log.skipped)],
            "refused": [{"path": path, "reason": reason} for path, reason in _refused_files(log)],
            "parquet_passed": [path for path in log.passed if path.endswith(PARQUET)],
            "columns_left_out": _left_out(log),
            "failed_rows": list(failed),
        }
        | ({"missing_rewards": list(log.unrewarded)} if log.unrewarded else {})
        | _left_beside(log)
    )


def _left_beside(log: Log) -> dict[str, list[str]]:
    """Return the fields that belong to prompts and are in no row; those of the first records, empty for a stream."""
    if not log.inputs or any(file["format"] != "generic" for file in log.inputs):
        return {}
    left = left_beside(records(log), dict(log.inputs[0]["fields"]))
    return {"left_beside": left} if left else {}


def _left_out(log: Log) -> list[dict[str, Any]]:
    """Return the columns of Parquet files that are in no record: the first file, and how many have such a one."""
    found: dict[LeftOut, list[str]] = {}
    for path, column in log.left_out:
        found.setdefault(column, []).append(path)
    return [{**column._asdict(), "path": paths[0], "files": len(paths)} for column, paths in found.items()]


def field_hints(log: Log, report: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return a likely field for the reward if no record has one; empty if one has, or if it was named."""
    settings, account = log.settings, report["accounting"]
    damaged = sum(sum(file["dropped"].values()) for file in report["inputs"])
    if settings.reward is None and 0 < account["dropped"].get("missing_reward", 0) == account["rows_read"] - damaged:
        return {"hints": {"reward": named("reward", fitting(records(log), "reward"))}}
    return {}


def _refused_files(log: Log) -> list[tuple[str, str]]:
    """Return files of folders in unsupported formats, by their names or first bytes."""
    named = [(path, skip_reason(path)) for path in log.passed if not path.endswith(PARQUET)]
    return sorted(log.core.refused() + named)
