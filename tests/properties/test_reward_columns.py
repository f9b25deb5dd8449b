"""Rewards of calls in columns, of files and of stores, against those of the same records one by one."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karl_fast import errors, reward
from karl_fast.reward.karl_store import StoredReward, parse_stored_reward, read_stored_rewards
from tests.properties.karl_columns import columns
from tests.properties.karl_records import counted, event, outcome, record, tapped, timing
from tests.properties.naive import reward as naive

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS: list[Any] = ["v1", "v2"]
TOOLS = ["Read", "Edit", "Bash", "Write", "NotebookEdit", "Grep", ""]


def whole(random: Random) -> dict[str, Any]:
    tools = random.sample(TOOLS, random.randrange(1, len(TOOLS) + 1))
    events = [event(random, tools, 0.4, 0.0) for _ in range(random.choice((0, 1, 2, 5, 20, 90)))]
    return {"outcome": outcome(random, 0.0), "trajectory": counted(events), "timing": timing(random, 0.0)}


def of_each(records: list[dict[str, Any]], version: str, *weights: tuple[float, ...]) -> list[float]:
    return [naive.reward(one, version, *weights)["reward_score"] for one in records]


@pytest.mark.parametrize("version", VERSIONS)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 30))
def test_calls_in_columns_equal_their_records(version: Any, seed: int, count: int) -> None:
    random = Random(seed)
    records = [whole(random) for _ in range(count)]
    assert reward.compute_call_rewards(columns(records), version=version).tolist() == of_each(records, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_equal_the_rewards_of_their_log(version: Any) -> None:
    random = Random(3)
    records = [tapped(random) for _ in range(2000)]
    log = "\n".join(map(json.dumps, records)).encode()
    found = reward.compute_call_rewards(columns(records), version=version)
    assert np.array_equal(found, reward.compute_rewards(log, version=version))


@pytest.mark.parametrize("version", VERSIONS)
def test_many_trajectories_have_their_rewards_on_many_threads(version: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARL_REWARD_W_OUTCOME", "0.1")
    random = Random(5)
    records = [whole(random) for _ in range(40)]
    wanted = of_each(records, version, (0.1, 0.35, 0.25))
    assert reward.compute_call_rewards(columns(records * 500), version=version).tolist() == wanted * 500


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_known_adds_nothing(version: Any) -> None:
    alone = reward.Calls(np.array([0, 1, 1]), np.array([0]), np.array([-1]), ["Read"])
    events = [{"tool_name": "Read", "success": None}]
    wanted = of_each([{"trajectory": counted(some)} for some in (events, [])], version)
    assert reward.compute_call_rewards(alone, version=version).tolist() == wanted


def test_commands_and_files_are_for_v2_alone() -> None:
    bare = reward.Calls(np.array([0, 4]), np.array([0, 1, 0, 1]), np.array([1, 1, 1, 1]), ["Edit", "Bash"])
    full = replace(bare, files=np.array([0, -1, 0, -1]), commands=np.array([-1, 0, -1, -1]), texts=["Make test"])
    scores = {
        version: [reward.compute_call_rewards(it, version=version)[0] for it in (bare, full)] for version in VERSIONS
    }
    assert scores["v1"][0] == scores["v1"][1]
    assert scores["v2"][0] < scores["v2"][1]  # tests and a build, for a file that nobody has read


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"offsets": np.array([0, 3])}, errors.LayoutError, "offsets"),
        ({"tools": np.array([0, 2])}, errors.ArgumentError, "2"),
        ({"tools": np.array([0, -1])}, errors.ArgumentError, "-1"),
        ({"success": np.array([1])}, errors.ArgumentError, "success"),
        ({"success": np.array([True, False])}, errors.DTypeError, "success"),
        ({"seconds": np.array([np.inf])}, errors.ArgumentError, "seconds"),
        ({"seconds": np.array([1.0, 2.0])}, errors.ArgumentError, "seconds"),
        ({"redo": np.array([1, 1])}, errors.ArgumentError, "flags"),
        ({"files": np.array([0])}, errors.ArgumentError, "files"),
        ({"names": ["Read", "Read"]}, errors.ArgumentError, "'Read' twice"),
        ({"names": ["", "unknown"]}, errors.ArgumentError, "'unknown' twice"),
        ({"files": np.array([0, 2])}, errors.ArgumentError, "2"),
        ({"commands": np.array([-1, 0])}, errors.ArgumentError, "0"),
    ],
)
def test_columns_that_do_not_fit_are_refused(changes: Any, error: Any, says: str) -> None:
    given = {"offsets": np.array([0, 2]), "tools": np.array([0, 1]), "success": np.array([1, 0])}
    for version in VERSIONS if not {"files", "commands"} & set(changes) else ["v2"]:
        with pytest.raises(error, match=says):
            reward.compute_call_rewards(
                reward.Calls(**{**given, "names": ["Read", "Bash"], **changes}), version=version
            )
    with pytest.raises(errors.ArgumentError, match="wanted a Calls"):
        reward.compute_call_rewards(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_file_has_the_rewards_of_its_lines(version: Any, tmp_path: Path) -> None:
    random = Random(11)
    text = "\n".join(json.dumps(record(random, random.choice((0.0, 0.1)))) for _ in range(5000)).encode() + b"\n{"
    wanted = reward.compute_rewards(text, version=version)
    assert len(text) > 3 << 20  # several pieces of work
    one_by_one = [reward.compute_rewards(line, version=version)[0] for line in text.split(b"\n")]
    assert np.array_equal(wanted, one_by_one, equal_nan=True)
    plain, packed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text, 1))
    for path in (plain, str(plain), packed):
        assert np.array_equal(reward.compute_rewards(path, version=version), wanted, equal_nan=True)


def test_a_file_larger_than_a_read_is_whole(tmp_path: Path) -> None:
    line = json.dumps({"outcome": {"redo_detected": True}, "text": "x" * (1 << 20)}).encode()
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([line] * 40))
    assert reward.compute_rewards(path).tolist() == [0.4] * 40
    with pytest.raises(errors.FileError):
        reward.compute_rewards(tmp_path / "none.jsonl")


ODD = [
    b"", b"\n", b"[]", b"{}", b'{"outcome": null}', b'{"outcome": {"reward_score": 1}}',
    b'{"skill": "name", "domain": "d"}',
    b'{"skill": {"domain": "d"}, "domain": "e", "outcome": {"reward_score": 0.5}}', b'{"skill": null}',
    b'{"domain": null}',
    b'{"skill": {"domain": null}, "channel": null}', b'{"channel": 3, "outcome": {"reward_score": 0.25}}',
    b'{"outcome": {"reward_score": NaN}}', b'{"outcome": {"reward_score": 1e300}}',
    b'{"outcome": {"reward_score": true}}',
    b'{"outcome": {"reward_score": 0.5}, "x": [1, }', b'{"outcome": {"reward_score": 0.5}, "x": "\xff"}',
    b'{"domain": "a\\u0062", "outcome": {"reward_score": 0.1, "reward_score": 0.2}}', b'\xef\xbb\xbf{}',
    b'{"domain": "", "skill": {"domain": ""}}', b'{"x": ' + b"[" * 2000 + b"]" * 2000 + b"}", b'{"domain": "\\ud800"}',
    b'{"outcome": {"reward_score": 0.5}} {}', b'  {"outcome": {"reward_score": 0.125}}  ',
]  # fmt: skip


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_store_says_what_python_reads_in_it(version: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n".join(ODD * 30))
    lines = path.read_bytes().splitlines(keepends=True)
    found = list(read_stored_rewards(path, version))
    assert [line for line, _ in found] == lines
    wanted = [parse_stored_reward(line, version) for line in lines]
    for (line, got), plain in zip(found, wanted, strict=True):
        assert repr(got) == repr(plain) or (got, plain) == (StoredReward("unknown", "_global", None),) * 2, line
