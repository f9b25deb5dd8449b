"""Comparison of two data sets: content, overlap and settings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from karl_fast._core import VERSION
from karl_fast.errors import UsageError
from karl_fast.export.data_set_reader import DataSet, Row, open_data_set

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from karl_fast.export.manifest import Manifest

SCHEMA = 1
"""Raised when a key changes its meaning or goes; new keys do not raise it."""

QUANTILES = {"min": 0.0, "p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "max": 1.0}
LENGTHS = {"p50": 0.5, "p90": 0.9, "max": 1.0}

ANSWERS = ("messages", "completion")
"""Fields of a row that have its answer apart from its prompt."""

TARGET = (
    *("score", "inverse_temperature", "ess_rows", "ess_reached_share"),
    *("largest_weight_share", "expected_reward", "log_z"),
)


def compare(a: str | Path, b: str | Path) -> dict[str, Any]:
    """Compare two data sets that karl-fast wrote; nothing is written.

    Of each row its reward, its sizes and three 64-bit hashes are kept, and of the first 1,000 their answers.

    Args:
        a, b: each a folder with a ``manifest.json``, or one of its files of rows (settings, target, inputs and domains
            are then None).

    Returns:
        A dictionary of JSON values.

        - ``schema``, ``karl_fast``: version of this schema, and of the program.
        - ``a``, ``b``: ``path``, ``rows``, ``distinct_rows``, ``copies`` (repeated rows), ``splits``,
            ``reward`` (of its rows: count, mean, std, min, p10 to p90, max), ``groups`` (count, rows_without,
            largest_share), ``diversity`` (of the answers in its first 1,000 rows: rows, distinct_1, distinct_2,
            self_bleu, unique), ``bytes``, ``messages`` and ``assistant_turns`` of a row (p50, p90, max), and from the
            manifest ``seed``, ``sampler``, ``target``, ``rows_read``, ``rows_kept``, ``dropped``, ``failed``,
            ``secrets``.
        - ``overlap``: ``records`` and ``groups``, each with ``both``, ``only_a``, ``only_b`` and ``jaccard``. Records
            are identified by group and id; those without an id, and raw rows, by their bytes.
        - ``domains``: ``shares`` of the rows by domain, and their ``total_variation`` distance.
        - ``settings``: those that differ.
        - ``inputs``: files by hash, ``both``, ``only_a`` and ``only_b``.

        A quantile is the value of nearest rank: a share q of the values is not above it.

    Raises:
        FileError: a file cannot be read.
        DataSetError: it is not a data set, or damaged.
        UsageError: an empty name.
    """
    for name, path in (("a", a), ("b", b)):
        if path == "":
            raise UsageError(f"{name} is empty, wanted a data set")  # no option has that name
    left, right = open_data_set(a), open_data_set(b)
    tallies = _Tally(left), _Tally(right)
    return {
        "schema": SCHEMA,
        "karl_fast": VERSION,
        "a": tallies[0].facts(),
        "b": tallies[1].facts(),
        "overlap": _overlap(*tallies),
        "domains": _domains(left.manifest, right.manifest),
        "settings": _settings(left.manifest, right.manifest),
        "inputs": _inputs(left.manifest, right.manifest),
    }


class _Tally:
    """Columns of the rows of a data set, and their counts."""

    def __init__(self, data: DataSet) -> None:
        import numpy as np  # 50 ms, which completion does without

        self.data = data
        self.stamped, self.splits, self.columns = data.columns()
        self.lines = np.unique(self.columns["lines"])
        self.records = np.unique(self.columns["records"])
        groups = self.columns["groups"]
        self.groups, self.in_group = np.unique(groups[groups != 0], return_counts=True)

    def facts(self) -> dict[str, Any]:
        from karl_fast.diversity.answers import of_answers

        rows = self.columns["lines"].size
        return {
            "path": self.data.path,
            "rows": rows,
            "distinct_rows": self.lines.size,
            "copies": rows - self.lines.size,
            "splits": self.splits,
            "reward": self._reward(),
            "groups": self._groups(rows),
            "diversity": of_answers(map(_answer, self.data.rows())),
            "bytes": _quantiles(self.columns["bytes"], LENGTHS),
            "messages": self._counts("messages"),
            "assistant_turns": self._counts("turns"),
        } | _manifest_facts(self.data.manifest)

    def _counts(self, name: str) -> dict[str, Any] | None:
        column = self.columns[name]
        return _quantiles(column[column >= 0], LENGTHS)

    def _reward(self) -> dict[str, Any] | None:
        if self.stamped or not self.data.manifest:
            rewards = self.columns["rewards"]
            return _statistics(rewards[rewards == rewards])  # without NaN
        after = self.data.manifest.get("reward", {}).get("after")  # raw rows do not hold theirs
        return after and {name: after.get(name) for name in ("count", "mean", "std", *QUANTILES)}

    def _groups(self, rows: int) -> dict[str, Any] | None:
        if not self.stamped:
            return None
        largest = self.in_group.max().item() / rows if self.groups.size else None
        without = rows - self.in_group.sum().item()
        return {"count": self.groups.size, "rows_without": without, "largest_share": largest}


def _answer(row: Row) -> tuple[str | None, Any]:
    own = next((row.value[name] for name in ANSWERS if name in row.value), None)
    return None if row.stamp is None else row.stamp["group"], own


def _manifest_facts(manifest: Manifest | None) -> dict[str, Any]:
    """Return the facts that only the manifest has."""
    if manifest is None:
        return dict.fromkeys(
            ("seed", "sampler", "target", "rows_read", "rows_kept", "dropped", "failed", "secrets"), None
        )
    target = manifest.get("target")
    return {
        "seed": manifest.get("seed"),
        "sampler": manifest["draw"].get("sampler"),
        "target": {name: target.get(name) for name in TARGET} if isinstance(target, dict) else None,
        "rows_read": manifest["accounting"]["rows_read"],
        "rows_kept": manifest["accounting"]["rows_kept"],
        "dropped": manifest["accounting"]["dropped"],
        "failed": manifest["draw"]["failed"],
        "secrets": manifest["secrets"],
    }


def _statistics(values: NDArray[Any]) -> dict[str, Any] | None:
    if not values.size:
        return None
    # Exact sums: the figures do not depend on the order of rows.
    mean = math.fsum(values) / values.size
    std = math.sqrt(math.fsum((values - mean) ** 2) / values.size)
    return {"count": values.size, "mean": mean, "std": std} | (_quantiles(values, QUANTILES) or {})


def _quantiles(values: Any, shares: dict[str, float]) -> dict[str, Any] | None:
    ranks = {name: max(math.ceil(share * values.size), 1) - 1 for name, share in shares.items()}
    values.sort()
    return {name: values[rank].item() for name, rank in ranks.items()} if values.size else None


def _overlap(a: _Tally, b: _Tally) -> dict[str, Any]:
    if a.stamped != b.stamped:
        return {"records": None, "groups": None}
    if not a.stamped:
        return {"records": _set_overlap(a.lines, b.lines), "groups": None}
    return {"records": _set_overlap(a.records, b.records), "groups": _set_overlap(a.groups, b.groups)}


def _set_overlap(a: Any, b: Any) -> dict[str, Any]:
    import numpy as np

    both = np.intersect1d(a, b, assume_unique=True).size
    either = a.size + b.size - both
    return {
        "both": both,
        "only_a": a.size - both,
        "only_b": b.size - both,
        "jaccard": both / either if either else None,
    }


def _domains(a: Manifest | None, b: Manifest | None) -> dict[str, Any] | None:
    if not a or not b or not (a["domains"] and b["domains"]):
        return None
    left, right = _domain_shares(a), _domain_shares(b)
    shares = {name: {"a": left.get(name, 0.0), "b": right.get(name, 0.0)} for name in sorted({*left, *right})}
    distance = math.fsum(abs(share["a"] - share["b"]) for share in shares.values()) / 2
    return {"total_variation": distance, "shares": shares}


def _domain_shares(manifest: Manifest) -> dict[str, float]:
    rows = {name: count.get("after", 0) for name, count in manifest["domains"].items()}
    return {name: count / (sum(rows.values()) or 1) for name, count in rows.items()}


def _settings(a: Manifest | None, b: Manifest | None) -> dict[str, Any] | None:
    if not a or not b:
        return None
    left, right = a["settings"], b["settings"]
    names = [*left, *(name for name in right if name not in left)]
    pairs = {name: {"a": left.get(name), "b": right.get(name)} for name in names}
    return {name: pair for name, pair in pairs.items() if pair["a"] != pair["b"]}


def _inputs(a: Manifest | None, b: Manifest | None) -> dict[str, Any] | None:
    if not a or not b:
        return None
    left, right = _paths_by_content(a["inputs"]), _paths_by_content(b["inputs"])
    return {
        "both": len(left.keys() & right.keys()),
        "only_a": [path for file, path in left.items() if file not in right],
        "only_b": [path for file, path in right.items() if file not in left],
    }


def _paths_by_content(inputs: Iterable[dict[str, Any]]) -> dict[tuple[Any, ...], str]:
    """Return the path of each file by its content; a hash of the whole file never equals one of its ends."""
    return {(file.get("xxh3_128"), file.get("size_bytes"), file.get("hash_covers")): file["path"] for file in inputs}
