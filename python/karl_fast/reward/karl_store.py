"""KARL's store of records: a file, one record a line, that others append to; its backfill and its statistics.

```text
backfill  lock the store -> baselines of its rewards by domain -> a new file with scored records -> replace
          -> copy what a waiting writer appended to the old file
```

KARL's writers lock the file with ``flock``, and so does this. Records are decided by the core, many lines at a time;
lines that only Python's JSON decides are read one by one.

Reference: Diomandeee/karl, ``karl/reward_engine.py``, commits 7d5ef32 (v1) and c41d1c5 (v2).
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Hashable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from karl_fast import _core
from karl_fast.reward.karl import compute_advantage, compute_reward, weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from karl_fast.reward.karl import Version

READ_BYTES = 8 << 20
"""Bytes of lines examined at a time."""

RECORD_ERRORS = (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions raised by values that are not records, or by fields of the wrong type."""

WRITER_SECONDS = 0.01
"""Seconds in which a writer that had the old file open gets its turn."""

V2_SCORES = ("verification_score", "consistency_score", "motion_score")
"""The scores that v2 has and v1 has not."""

NEUTRAL = 0.5  # both versions
STRENGTH = 10  # v2: records of the global mean that a domain is blended with
FEW = 5  # v2: fewer rewards have no deviation of their own
FLOOR = 0.02  # v2: the least deviation
LARGEST = 1e100  # as in logs


def store_path() -> Path:
    """Return the path of the store from the environment."""
    if named := os.environ.get("KARL_STORE_PATH"):
        return _expand_user(named)
    home = _expand_user(os.environ.get("KARL_DIR", "."))
    return _expand_user(os.environ.get("KARL_DATA_DIR", str(home / "data"))) / "trajectories.jsonl"


def _expand_user(path: str) -> Path:
    """Return a path; an unknown `~user` is kept, so that the error is that of a missing file."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  (pathlib raises where there is no such home)


def backfill(store: Path, *, force: bool, version: Version) -> dict[str, Any]:
    """Score the records of a store; `karl_fast.reward.backfill_rewards` has the contract."""
    if not store.exists():
        return {"total": 0, "scored": 0, "skipped": 0, "errors": 0}
    with lock_store(store):
        rewards, rewarded = _core.karl_stored_rewards(store, version, partial(stored_pair, version=version))
        run = BackfillPass(force, version, measure_baselines(rewards, version))
        replace(store, partial(run.write, store, rewarded))
    return {
        "total": run.total,
        "scored": run.scored,
        "skipped": run.skipped,
        "errors": run.total - run.scored - run.skipped,
        "domain_baselines": run.baselines.means,
    }


def stored_pair(line: bytes, version: Version) -> tuple[bool, tuple[Hashable, float] | None]:
    """Return whether a line has a reward, and its domain and reward if they count for a baseline."""
    facts = parse_stored_reward(line, version)
    if facts is None or facts.reward is None:
        return False, None
    return True, (facts.domain, facts.reward) if is_countable(facts.domain, facts.reward) else None


@dataclass
class BackfillPass:
    """Second pass of a backfill, with its counts."""

    force: bool
    version: Version
    baselines: Baselines
    total: int = 0
    scored: int = 0
    skipped: int = 0

    def write(self, store: Path, rewarded: bytes, new: Path) -> bool:
        """Write the lines of the new store; return whether a record was scored."""
        means, deviations = self.baselines.means, self.baselines.deviations
        total, scored, skipped = _core.karl_backfill(
            store,
            new,
            version=self.version,
            weights=weights(),
            force=self.force,
            baselines={domain: (mean, deviations.get(domain, 1.0)) for domain, mean in means.items()},
            rewarded=rewarded,
            line=self.line,
        )
        self.total += total
        self.scored += scored
        self.skipped += skipped
        return self.scored > 0

    def line(self, line: bytes) -> bytes:
        """Return a line with its reward, or unchanged.

        Only for lines that the interpreter decides: nested deeper than 128 levels, with an integer of more than 640
        digits, or with a domain that is not text of Unicode. All others are written by Rust, with the same bytes.
        """
        try:
            record = parse_record(line)
            if stored_reward(record) is not None and not self.force:
                self.skipped += 1
                return line
            annotate(record, compute_reward(record, version=self.version), self.baselines, self.version)
            written = json.dumps(record, default=str).encode() + b"\n"
        except RECORD_ERRORS:
            return line
        self.scored += 1
        return written


def annotate(record: dict[str, Any], reward: dict[str, Any], baselines: Baselines, version: Version) -> None:
    """Write a reward into a record, in KARL's order of keys."""
    domain = domain_of(record, version)
    baseline, deviation = baselines.means.get(domain, NEUTRAL), baselines.deviations.get(domain, 1.0)
    advantage = compute_advantage(record, reward["reward_score"], baseline, domain_std=deviation)
    outcome = record.setdefault("outcome", {})
    outcome["reward_score"] = reward["reward_score"]
    outcome["reward_components"] = reward["components"]
    for name in ("outcome_score", "process_score", "efficiency_score", *V2_SCORES):
        if name in reward:
            outcome[name] = reward[name]
    outcome["advantage"] = round(advantage, 4)
    outcome["annotation_status"] = "scored"


@dataclass
class Sums:
    """Count of numbers, and their sum from left to right."""

    count: int = 0
    total: float = 0

    def add(self, value: float) -> None:
        """Add one value."""
        self.count += 1
        self.total += value

    def mean(self) -> float:
        """Return the mean; .5 without values."""
        return self.total / self.count if self.count else NEUTRAL


@dataclass
class Baselines:
    """Baselines and deviations by domain.

        v1: b_d = mean_d,                              s = 1
        v2: b_d = (n_d mean_d + 10 mean) / (n_d + 10), s = max(std_d, .02), of all rewards where n_d < 5

    A domain without rewards has the baseline .5 and the deviation 1. Deviations have ddof 0.
    """

    means: dict[Hashable, float] = field(default_factory=dict)
    deviations: dict[Hashable, float] = field(default_factory=dict)


def measure_baselines(rewards: Iterable[tuple[Hashable, float]], version: Version) -> Baselines:
    """Compute baselines from rewards by domain; v2 reads them twice."""
    domains: dict[Hashable, Sums] = {}
    for domain, reward in rewards:
        domains.setdefault(domain, Sums()).add(reward)
    if version == "v1":
        return Baselines({domain: sums.mean() for domain, sums in domains.items()})
    whole = Sums(sum(sums.count for sums in domains.values()), sum(sums.total for sums in domains.values()))
    means = {
        domain: (sums.count * sums.mean() + STRENGTH * whole.mean()) / (sums.count + STRENGTH)
        for domain, sums in domains.items()
    }
    return Baselines(means, deviations(rewards, domains, whole.mean()))


def deviations(
    rewards: Iterable[tuple[Hashable, float]], domains: dict[Hashable, Sums], mean: float
) -> dict[Hashable, float]:
    """Compute the standard deviation of each domain, by a second reading."""
    around, whole = {domain: Sums() for domain in domains}, Sums()
    for domain, reward in rewards:
        around[domain].add((reward - domains[domain].mean()) ** 2)
        whole.add((reward - mean) ** 2)
    own = {domain: sums if sums.count >= FEW else whole for domain, sums in around.items()}
    return {domain: max(sums.mean() ** 0.5, FLOOR) for domain, sums in own.items()}


def is_countable(domain: object, reward: object) -> bool:
    """Return whether a stored reward counts: a number that can be squared, with a domain that is a name."""
    return isinstance(reward, (int, float)) and abs(reward) <= LARGEST and isinstance(domain, Hashable)


def statistics(store: Path, version: Version) -> dict[str, Any]:
    """Sum up the rewards of a store; `karl_fast.reward.get_reward_stats` has the contract."""
    if not store.exists():
        return {}
    whole, least, most = Sums(), float("inf"), float("-inf")
    channels: dict[Hashable, Sums] = {}
    domains: dict[Hashable, Sums] = {}
    for _, facts in read_stored_rewards(store, version):
        if facts is None or not (
            is_countable(facts.domain, facts.reward) and is_countable(facts.channel, facts.reward)
        ):
            continue
        channel, domain, reward = facts
        whole.add(reward)
        least, most = min(least, reward), max(most, reward)
        channels.setdefault(channel, Sums()).add(reward)
        domains.setdefault(domain, Sums()).add(reward)
    if not whole.count:
        return {"scored": 0}
    return {
        "scored": whole.count,
        "mean": round(whole.mean(), 4),
        "min": round(least, 4),
        "max": round(most, 4),
        "by_channel": summarise_sums(channels),
        "by_domain": summarise_sums(domains),
    }


def summarise_sums(sums: dict[Hashable, Sums]) -> dict[Hashable, dict[str, Any]]:
    """Count and mean of each."""
    return {name: {"count": each.count, "mean": round(each.mean(), 4)} for name, each in sums.items()}


class StoredReward(NamedTuple):
    """Reward facts of a record; values may have other types where the record has them."""

    channel: Any
    domain: Any
    reward: Any


def read_stored_rewards(path: Path, version: Version) -> Iterator[tuple[bytes, StoredReward | None]]:
    """Yield each line of a store with its reward facts; None if the line is not a record.

    Lines are looked into many at a time; unusual ones are read one by one. Memory: 8 MiB, or
    the longest line.
    """
    with path.open("rb") as file:
        while lines := file.readlines(READ_BYTES):
            for line, facts in zip(lines, _core.karl_stored(lines, version), strict=True):
                if facts is None:
                    yield line, parse_stored_reward(line, version)
                else:
                    channel, domain, reward = facts
                    yield line, StoredReward("unknown" if channel is None else channel, domain or "_global", reward)


def parse_record(line: bytes) -> dict[str, Any]:
    """Parse the record of a line.

    Raises:
        ValueError: it is not JSON, or not UTF-8.
        AttributeError: it is not an object.
    """
    record = json.loads(line.decode("utf-8"))
    if not isinstance(record, dict):
        raise AttributeError(f"the record is of type {type(record).__name__}, and has to be an object")
    return record


def parse_stored_reward(line: bytes, version: Version) -> StoredReward | None:
    """Parse a line with Python's JSON and return its reward facts; None if it is not a valid record."""
    try:
        record = parse_record(line)
        return StoredReward(record.get("channel", "unknown"), domain_of(record, version), stored_reward(record))
    except RECORD_ERRORS:
        return None


def stored_reward(record: dict[str, Any]) -> Any:
    """Return the reward of a record; None if it has none."""
    return record.get("outcome", {}).get("reward_score")


def domain_of(record: dict[str, Any], version: Version) -> Any:
    """Return a record's domain, ``_global`` if missing: in v1 that of its skill unless it is a name, else its own."""
    skill = record.get("skill", {})
    domain = record.get("domain") if version == "v2" or isinstance(skill, str) else skill.get("domain")
    return domain or "_global"


@contextmanager
def lock_store(path: Path) -> Iterator[None]:
    """Hold the lock of KARL's own writers; then, if the file was replaced, copy lines that were appended meanwhile.

    A writer that opened the old file waits for its lock, so what it appends comes right after the lock is given back.
    """
    with open_locked(path) as old:
        size = os.fstat(old.fileno()).st_size
        yield
        fcntl.flock(old, fcntl.LOCK_UN)
        if os.path.samestat(os.fstat(old.fileno()), path.stat()):
            return
        time.sleep(WRITER_SECONDS)
        fcntl.flock(old, fcntl.LOCK_EX)
        old.seek(size)
        if late := old.read():
            append(path, late)


def open_locked(path: Path) -> BinaryIO:
    """Open and lock the file of a path; repeat if it was replaced before the lock was held."""
    while True:
        file = path.open("rb")
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()


def append(path: Path, late: bytes) -> None:
    """Append lines to a file, under its lock."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(late)


def replace(path: Path, write: Callable[[Path], bool]) -> None:
    """Replace a file atomically by what ``write`` writes to the path it gets, if that returns true.

    Raises:
        OSError: the file cannot be written; the old one is kept.
    """
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        new = Path(file.name)
        try:
            changed = write(new)
            os.fsync(file.fileno())
            new.chmod(path.stat().st_mode)
            if changed:
                new.replace(path)
        finally:
            new.unlink(missing_ok=True)
