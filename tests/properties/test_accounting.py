"""Law 1: rows read = rows kept + rows dropped, by named reason. Logs are made with every kind of damage, and the
count of each is known beforehand."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import karl_fast
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path


class Piece(NamedTuple):
    """A line, and under which name each of its rows is counted."""

    text: bytes
    counts: dict[str, int]


def encoded(number: int, **fields: Any) -> bytes:
    return json.dumps(rows.record(number, "g0", 0.5) | fields).encode()


def raw(number: int, reward: bytes) -> bytes:
    return encoded(number).replace(b'"reward": 0.5', b'"reward": ' + reward)


def damaged(kind: str, number: int) -> Piece:
    whole = encoded(number)
    made = {
        "kept": whole,
        "missing_reward": raw(number, b"null"),
        "nan": raw(number, b"NaN"),
        "reward_infinite": raw(number, b"-Infinity"),
        "too_large": raw(number, b"1e400"),
        "reward_not_a_number": raw(number, b'"0.5"'),
        "bad_id": encoded(number, id=[number]),
        "bad_group": encoded(number, group={"a": 1}),
        "surrogate_group": encoded(number, group="\ud800"),
        "not_an_object": b"[1, 2]",
        "number": b"17",
        "malformed": whole[:-1] + b",,}",
        "cut": whole[: len(whole) // 2],
        "too_long": encoded(number, padding="x" * 3000),
        "blank": b" \t",
        "welded": whole + encoded(number + 10_000),
        "welded_torn": whole + b'{"id": "x", ',
    }[kind]
    counted = {
        "nan": {"missing_reward": 1},
        "too_large": {"reward_infinite": 1},
        "surrogate_group": {"bad_group": 1},
        "number": {"not_an_object": 1},
        "cut": {"malformed": 1},
        "blank": {},
        "welded": {"kept": 2},
        "welded_torn": {"kept": 1, "malformed": 1},
    }
    return Piece(made, counted.get(kind, {kind: 1}))


KINDS = [
    "kept",
    "missing_reward",
    "nan",
    "reward_infinite",
    "too_large",
    "reward_not_a_number",
    "bad_id",
    "bad_group",
    "surrogate_group",
    "not_an_object",
    "number",
    "malformed",
    "cut",
    "too_long",
    "blank",
    "welded",
    "welded_torn",
]


def account(path: Path, **choices: Any) -> dict[str, Any]:
    report = karl_fast.inspect(path, max_line_bytes=2000, **choices).report
    noted = {name: report["inputs"][0][name] for name in ("blank_lines", "welded_lines")}
    return report["accounting"] | noted


def check(found: dict[str, Any], pieces: list[Piece]) -> None:
    wanted: Counter[str] = Counter()
    for piece in pieces:
        wanted.update(piece.counts)
    assert found["rows_read"] == sum(wanted.values())
    assert found["rows_kept"] == wanted.pop("kept", 0)
    assert found["dropped"] == dict(wanted)
    assert found["rows_read"] == found["rows_kept"] + sum(found["dropped"].values())


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_damage_is_counted(tmp_path: Path, kind: str) -> None:
    pieces = [damaged("kept", 0), damaged(kind, 1), damaged("kept", 2)]
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"".join(piece.text + b"\n" for piece in pieces))
    check(account(log), pieces)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(KINDS), max_size=60), st.sampled_from([1, 2, 8]), st.booleans())
def test_every_row_is_kept_or_dropped_by_name(tmp_path: Path, kinds: list[str], threads: int, packed: bool) -> None:
    # A first good row tells the format, so that the rest is not judged by what a damaged one looks like.
    pieces = [damaged("kept", 0)] + [damaged(kind, number + 1) for number, kind in enumerate(kinds)]
    text = b"".join(piece.text + b"\n" for piece in pieces)
    log = tmp_path / ("log.jsonl.gz" if packed else "log.jsonl")
    log.write_bytes(gzip.compress(text) if packed else text)
    found = account(log, threads=threads)
    check(found, pieces)
    assert found["blank_lines"] == kinds.count("blank")
    assert found["welded_lines"] == kinds.count("welded")


def test_a_torn_last_line_is_not_malformed(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(encoded(0) + b"\n" + encoded(1)[:40])
    assert account(log)["dropped"] == {"torn": 1}


def test_a_last_line_needs_no_line_end(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(encoded(0) + b"\n" + encoded(1))
    assert account(log)["rows_kept"] == 2


def test_a_cut_gzip_file_keeps_its_rows(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl.gz"
    text = b"".join(encoded(number, padding=f"{number * 7919}") + b"\n" for number in range(400))
    log.write_bytes(gzip.compress(text)[:-400])
    found = account(log)
    assert 0 < found["rows_kept"] < 400
    assert found["dropped"]["damaged_stream"] == 1


def test_a_row_counts_under_its_first_rule(tmp_path: Path) -> None:
    made = [
        rows.record(0, "a", None),
        rows.record(1, "a", 0.1),
        rows.record(2, "a", 0.9),
        rows.record(3, "b", 0.9),
        rows.record(4, "b", 0.9),
        rows.record(5, None, 0.9),
        rows.record(6, "c", 0.8),
        rows.record(7, "c", 0.9),
        rows.record(8, "c", 0.7, messages=rows.record(7)["messages"]),
    ]
    log = rows.write(tmp_path / "log.jsonl", made)
    choices = {"score": "zscore", "min_reward": 0.2, "drop_constant_groups": True, "dedup": True}
    found = account(log, **choices)
    assert found["dropped"] == {
        "missing_reward": 1,
        "missing_group": 1,
        "duplicate": 1,
        "below_minimum": 1,
        "constant_group": 2,
    }
    assert found["rows_kept"] == 3


def test_drawn_rows_are_written_or_counted_as_failed(tmp_path: Path) -> None:
    good = [rows.record(number, "g", 1.0) for number in range(10)]
    bad = [rows.record(100 + number, "g", 1.0, messages=[{"role": "user", "content": "?"}]) for number in range(5)]
    log = rows.write(tmp_path / "log.jsonl", good + bad)
    manifest = karl_fast.sample(log, None, k=15).manifest
    draw = manifest["draw"]
    assert (draw["rows_wanted"], draw["rows"], draw["failed"]) == (15, 10, {"no_assistant_turn": 5})
    lines = log.read_bytes().splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(10, 15)]
    places = [{"reason": "no_assistant_turn", "path": str(log), "offset": start} for start in starts]
    assert manifest["run"]["failed_rows"] == places


def test_the_first_of_many_failed_rows_are_listed(tmp_path: Path) -> None:
    bad = [rows.record(number, "g", 1.0, messages=[{"role": "user", "content": "?"}]) for number in range(30)]
    log = rows.write(tmp_path / "log.jsonl", [*bad, rows.record(99, "g", 1.0)])
    for sampler in ("gumbel", "multinomial"):
        places = karl_fast.sample(log, None, k=31, sampler=sampler).manifest["run"]["failed_rows"]
        offsets = [one["offset"] for one in places]
        assert (len(offsets), offsets) == (10, sorted(offsets)), sampler
        assert sampler != "gumbel" or offsets[0] == 0


def test_a_failed_row_is_replaced_by_the_next(tmp_path: Path) -> None:
    """The rows that are written with a damaged row in the log are those of the log without it."""
    good = rows.records(30)
    log = rows.write(tmp_path / "good.jsonl", good)
    worse = rows.write(tmp_path / "worse.jsonl", [*good, rows.record(99, "g1", 1.0, messages=[])])
    how: dict[str, Any] = {"k": 12, "inverse_temperature": 3.0, "seed": 5}
    karl_fast.sample(log, tmp_path / "a", **how)
    karl_fast.sample(worse, tmp_path / "b", **how)
    ids = [{row["karl_fast"]["id"] for row in rows.lines(tmp_path / name)} for name in "ab"]
    assert ids[0] == ids[1]
