"""Two data sets side by side: every number against a plain recount, and what is not a data set refused."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from tests import rows
from tests.cli.run import karl
from tests.cli.test_streams import NASTY, harmless

if TYPE_CHECKING:
    from pathlib import Path


def nearest(values: list[float], share: float) -> float:
    """The smallest value such that a share of all is not above it."""
    return min(value for value in values if sum(other <= value for other in values) >= share * len(values) - 1e-9)


def naive(folder: Path) -> dict[str, Any]:
    found = rows.lines(folder)
    texts = [line for text in rows.files(folder).values() for line in text.splitlines()]
    rewards = [row["karl_fast"]["reward"] for row in found]
    groups = Counter(row["karl_fast"]["group"] for row in found if row["karl_fast"]["group"] is not None)
    turns = [sum(message["role"] == "assistant" for message in row["messages"]) for row in found]
    return {
        "rows": len(found),
        "distinct": len(set(texts)),
        "mean": statistics.fmean(rewards),
        "std": statistics.pstdev(rewards),
        "quantiles": [nearest(rewards, share) for share in (0.1, 0.25, 0.5, 0.75, 0.9)],
        "groups": groups,
        "records": {(row["karl_fast"]["group"], row["karl_fast"]["id"]) for row in found},
        "bytes": [nearest([len(text) for text in texts], share) for share in (0.5, 0.9, 1)],
        "messages": [nearest([len(row["messages"]) for row in found], share) for share in (0.5, 0.9, 1)],
        "turns": [nearest(turns, share) for share in (0.5, 0.9, 1)],
    }


def test_each_side_is_what_a_plain_recount_finds(pair: tuple[Path, Path]) -> None:
    found = karl_fast.compare(*pair)
    for side, folder in zip("ab", pair, strict=True):
        mine, plain = found[side], naive(folder)
        assert (mine["rows"], mine["distinct_rows"]) == (plain["rows"], plain["distinct"])
        assert mine["reward"]["mean"] == pytest.approx(plain["mean"], rel=1e-12)
        assert mine["reward"]["std"] == pytest.approx(plain["std"], rel=1e-12)
        assert [mine["reward"][name] for name in ("p10", "p25", "p50", "p75", "p90")] == plain["quantiles"]
        assert mine["groups"]["count"] == len(plain["groups"])
        assert mine["groups"]["largest_share"] == max(plain["groups"].values()) / plain["rows"]
        for name, key in (("bytes", "bytes"), ("messages", "messages"), ("assistant_turns", "turns")):
            assert list(mine[name].values()) == plain[key]


def test_reward_equals_that_of_manifest(pair: tuple[Path, Path]) -> None:
    found = karl_fast.compare(*pair)
    for side, folder in zip("ab", pair, strict=True):
        after = rows.manifest(folder)["reward"]["after"]
        for name in ("count", "mean", "std", "min", "max"):
            assert found[side]["reward"][name] == pytest.approx(after[name], rel=1e-12)


def test_the_overlap_is_that_of_plain_sets(pair: tuple[Path, Path]) -> None:
    found = karl_fast.compare(*pair)["overlap"]
    a, b = naive(pair[0]), naive(pair[1])
    for name, left, right in (
        ("records", a["records"], b["records"]),
        ("groups", set(a["groups"]), set(b["groups"])),
    ):
        assert 0 < len(left & right) < len(left | right), "this case is to tell one set from the other"
        assert found[name] == {
            "both": len(left & right),
            "only_a": len(left - right),
            "only_b": len(right - left),
            "jaccard": len(left & right) / len(left | right),
        }


def test_domains_by_share_and_distance(pair: tuple[Path, Path]) -> None:
    found = karl_fast.compare(*pair)["domains"]
    sides = [{name: count["after"] for name, count in rows.manifest(folder)["domains"].items()} for folder in pair]
    shares = [{name: count / sum(side.values()) for name, count in side.items()} for side in sides]
    assert {name: pair["a"] for name, pair in found["shares"].items()} == shares[0]
    # The other form of the same distance: what the first has more than the second.
    more = math.fsum(max(shares[0][name] - shares[1].get(name, 0), 0) for name in shares[0])
    assert found["total_variation"] == pytest.approx(more, abs=1e-12)
    assert found["total_variation"] > 0


def test_settings_and_inputs_that_differ_are_named(pair: tuple[Path, Path], folder: Path) -> None:
    found = karl_fast.compare(*pair)
    assert found["settings"]["score"] == {"a": "raw", "b": "zscore"}
    assert set(found["settings"]) == {"score", "seed", "k", "split", "drop_constant_groups"}
    assert found["inputs"] == {"both": 1, "only_a": [], "only_b": []}
    other = rows.write(folder / "other.jsonl", rows.records(30))
    karl_fast.sample([folder / "tiny.jsonl", other], folder / "c", k=12)
    assert karl_fast.compare(pair[0], folder / "c")["inputs"] == {"both": 1, "only_a": [], "only_b": [str(other)]}


def test_a_data_set_and_itself_differ_in_nothing(pair: tuple[Path, Path]) -> None:
    found = karl_fast.compare(pair[0], pair[0])
    assert found["a"] == found["b"]
    assert found["settings"] == {}
    assert found["overlap"]["records"]["jaccard"] == 1
    assert found["domains"]["total_variation"] == 0


def test_sides_that_change_places_change_only_places(pair: tuple[Path, Path]) -> None:
    one, other = karl_fast.compare(*pair), karl_fast.compare(*pair[::-1])
    assert (one["a"], one["b"]) == (other["b"], other["a"])
    assert one["overlap"]["records"]["only_a"] == other["overlap"]["records"]["only_b"]
    assert one["domains"]["total_variation"] == other["domains"]["total_variation"]


def test_copies_are_rows_that_are_there_already(pair: tuple[Path, Path], folder: Path) -> None:
    lines = (pair[0] / "train.jsonl").read_text("utf-8").splitlines()
    (folder / "twice.jsonl").write_text("".join(f"{line}\n" for line in [*lines, lines[0], lines[0], lines[1]]))
    found = karl_fast.compare(folder / "twice.jsonl", pair[0] / "train.jsonl")
    assert (found["a"]["rows"], found["a"]["distinct_rows"], found["a"]["copies"]) == (len(lines) + 3, len(lines), 3)
    assert found["overlap"]["records"]["jaccard"] == 1
    assert (found["settings"], found["inputs"], found["domains"], found["a"]["target"]) == (None,) * 4


def test_records_without_id_compare_by_bytes(folder: Path) -> None:
    made = [rows.record(n, reward=n / 8) for n in range(8)]
    for row in made:
        del row["id"]
    rows.write(folder / "tiny.jsonl", made)
    for name, seed in (("a", 1), ("b", 2)):
        karl_fast.sample(folder / "tiny.jsonl", folder / name, k=6, seed=seed, ess=1.0)
    found = karl_fast.compare(folder / "a", folder / "b")
    assert found["a"]["distinct_rows"] == 6
    assert found["overlap"]["records"]["both"] >= 4, "6 of 8 and 6 of 8"


def test_raw_rows_hold_any_words_and_numbers(tmp_path: Path) -> None:
    record = '{"reward": %d, "text": "x", "loss": [NaN, -Infinity, ' + "9" * 5000 + "]}\n"
    (tmp_path / "odd.jsonl").write_text("".join(record % reward for reward in range(4)))
    karl_fast.sample(tmp_path / "odd.jsonl", tmp_path / "raw", k=3, shape="raw")
    assert karl_fast.compare(tmp_path / "raw", tmp_path / "raw")["overlap"]["records"]["both"] == 3


def test_raw_rows_compare_by_bytes_and_manifest(folder: Path) -> None:
    for name, shape in (("a", "raw"), ("b", "raw"), ("c", "chat")):
        karl_fast.sample(folder / "tiny.jsonl", folder / name, k=9, seed=ord(name), shape=shape)
    found = karl_fast.compare(folder / "a", folder / "b")
    left, right = (
        {line for text in rows.files(folder / name).values() for line in text.splitlines()} for name in ("a", "b")
    )
    assert found["overlap"]["records"]["both"] == len(left & right)
    after = rows.manifest(folder / "a")["reward"]["after"]
    assert found["a"]["reward"]["mean"] == after["mean"]
    assert found["a"]["reward"]["p50"] is None
    assert karl_fast.compare(folder / "a", folder / "c")["overlap"] == {"records": None, "groups": None}
    assert "overlap unknown" in karl("compare", "a", "c", folder=folder).stdout


def test_caller_rows_are_a_data_set(folder: Path) -> None:
    import numpy as np

    with karl_fast.read(folder / "tiny.jsonl") as log:
        karl_fast.export(log, np.arange(6), folder / "a")
    found = karl_fast.compare(folder / "a", folder / "a")
    assert found["a"]["target"] is None
    assert karl("compare", "a", "a", folder=folder).returncode == 0


def test_json_is_what_the_library_returns(pair: tuple[Path, Path], folder: Path) -> None:
    done = karl("compare", "a", "b", "--json", folder=folder)
    found = karl_fast.compare(*pair)
    for side in "ab":
        found[side]["path"] = side
    assert json.loads(done.stdout) == found


def test_text_fits_into_a_hundred_columns(pair: tuple[Path, Path], folder: Path) -> None:
    karl_fast.sample(folder / "tiny.jsonl", folder / ("long" * 30), k=9, reward={"reward": 1.0}, min_reward=0.123456789)
    done = karl("compare", "a", "long" * 30, folder=folder)
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize("name", NASTY)
def test_nothing_of_a_data_set_steers_a_terminal(folder: Path, name: str) -> None:
    bad = NASTY[name]
    made = [rows.record(n, bad + str(n % 2), n / 7, id=f"{bad}{n}", kind=bad + str(n % 3)) for n in range(8)]
    rows.write(folder / "tiny.jsonl", made)
    log = folder / "tiny.jsonl"
    karl_fast.sample(log, folder / "a", k=4, domain="kind")
    karl_fast.sample(log, folder / "b", k=5, domain="kind", messages="messages")
    text = (folder / "b" / "manifest.json").read_text("utf-8")
    evil = json.loads(text)
    evil["settings"][bad] = bad
    evil["draw"]["failed"] = {bad: 1}
    evil["draw"]["sampler"] = evil["target"]["score"] = evil["target"][bad] = bad
    evil["inputs"][0]["path"], evil["inputs"][0]["xxh3_128"] = bad, bad
    (folder / "b" / "manifest.json").write_text(json.dumps(evil), encoding="utf-8")
    for how in ([], ["--json"]):
        done = karl("compare", "a", "b", *how, folder=folder)
        assert done.returncode == 0, done.stderr
        harmless(done.stdout)
