"""Comparison of two data sets: content, overlap and settings."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Any

from karl_fast._core import VERSION
from karl_fast.errors import UsageError
from karl_fast.export.dataset import DataSet, Row, open_data_set

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

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

    Rows are read one at a time. Only the reward, the lengths and two 64-bit hashes of each are kept, and the
    answers of the first 1,000.

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
    """Counts over the rows of a data set."""

    def __init__(self, data: DataSet) -> None:
        from karl_fast.diversity.answers import ROWS  # with NumPy, which completion does without

        self.data, self.most = data, ROWS
        self.splits: Counter[str] = Counter()
        self.groups: Counter[str | None] = Counter()
        self.lines: set[bytes] = set()
        self.records: set[bytes] = set()
        self.rewards = array("d")
        self.bytes, self.messages, self.turns = array("Q"), array("Q"), array("Q")
        self.answers: list[tuple[str | None, Any]] = []
        self.stamped = True
        for row in data.rows():
            self._add(row)

    def _add(self, row: Row) -> None:
        self.splits[row.split] += 1
        self.bytes.append(len(row.line))
        self.lines.add(_digest(row.line))
        self._count_messages(row.value.get("messages"))
        if len(self.answers) < self.most:
            own = next((row.value[name] for name in ANSWERS if name in row.value), None)
            self.answers.append((None if row.stamp is None else row.stamp["group"], own))
        if row.stamp is None:
            self.stamped = False
            return
        self.groups[row.stamp["group"]] += 1
        self.records.add(_digest(_name(row.stamp, row.line)))
        if row.stamp["reward"] is not None:
            self.rewards.append(row.stamp["reward"])

    def _count_messages(self, messages: Any) -> None:
        if isinstance(messages, list):
            self.messages.append(len(messages))
            roles = [message.get("role") for message in messages if isinstance(message, dict)]
            self.turns.append(roles.count("assistant"))

    def facts(self) -> dict[str, Any]:
        from karl_fast.diversity.answers import of_answers

        rows = len(self.bytes)
        return {
            "path": self.data.path,
            "rows": rows,
            "distinct_rows": len(self.lines),
            "copies": rows - len(self.lines),
            "splits": dict(self.splits),
            "reward": self._reward(),
            "groups": self._groups(rows),
            "diversity": of_answers(self.answers),
            "bytes": _quantiles(self.bytes, LENGTHS),
            "messages": _quantiles(self.messages, LENGTHS),
            "assistant_turns": _quantiles(self.turns, LENGTHS),
        } | _written(self.data.manifest)

    def _reward(self) -> dict[str, Any] | None:
        if self.stamped or not self.data.manifest:
            return _statistics(self.rewards)
        after = self.data.manifest.get("reward", {}).get("after")  # raw rows do not tell theirs
        return after and {name: after.get(name) for name in ("count", "mean", "std", *QUANTILES)}

    def _groups(self, rows: int) -> dict[str, Any] | None:
        if not self.stamped:
            return None
        named = {name: count for name, count in self.groups.items() if name is not None}
        largest = max(named.values()) / rows if named else None
        return {"count": len(named), "rows_without": self.groups[None], "largest_share": largest}


def _digest(text: bytes) -> bytes:
    from hashlib import blake2b  # 3 ms of the start of everything, if it stood above

    return blake2b(text, digest_size=8).digest()


def _name(stamp: dict[str, Any], line: bytes) -> bytes:
    """Return the key of a record; its own line if it has no id."""
    if stamp["id"] is None:
        return line
    return repr((stamp["group"], stamp["id"])).encode("utf-8", "surrogatepass")


def _written(manifest: Manifest | None) -> dict[str, Any]:
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


def _statistics(values: array[float]) -> dict[str, Any] | None:
    if not values:
        return None
    mean = math.fsum(values) / len(values)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return {"count": len(values), "mean": mean, "std": std} | (_quantiles(values, QUANTILES) or {})


def _quantiles(values: array[Any], shares: dict[str, float]) -> dict[str, Any] | None:
    ordered = sorted(values)
    ranks = {name: max(math.ceil(share * len(ordered)), 1) - 1 for name, share in shares.items()}
    return {name: ordered[rank] for name, rank in ranks.items()} if ordered else None


def _overlap(a: _Tally, b: _Tally) -> dict[str, Any]:
    if a.stamped != b.stamped:
        return {"records": None, "groups": None}
    if not a.stamped:
        return {"records": _shared(a.lines, b.lines), "groups": None}
    return {
        "records": _shared(a.records, b.records),
        "groups": _shared(a.groups.keys() - {None}, b.groups.keys() - {None}),
    }


def _shared(a: set[Any], b: set[Any]) -> dict[str, Any]:
    both = len(a & b)
    either = len(a) + len(b) - both
    return {
        "both": both,
        "only_a": len(a) - both,
        "only_b": len(b) - both,
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
    left, right = _files(a["inputs"]), _files(b["inputs"])
    return {
        "both": len(left.keys() & right.keys()),
        "only_a": [path for file, path in left.items() if file not in right],
        "only_b": [path for file, path in right.items() if file not in left],
    }


def _files(inputs: Iterable[dict[str, Any]]) -> dict[tuple[Any, ...], str]:
    """Return the path of each file by its content; a hash of the whole file never equals one of its ends."""
    return {(file.get("xxh3_128"), file.get("size_bytes"), file.get("hash_covers")): file["path"] for file in inputs}
