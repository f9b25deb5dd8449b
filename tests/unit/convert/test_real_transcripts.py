"""Real transcripts of Claude Code, in snapshots that repeat each other, with documents of Gemini CLI between them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import reward
from tests.properties.naive import transcripts as naive
from tests.unit.convert.conftest import balanced

if TYPE_CHECKING:
    from pathlib import Path

CHAINS = {"cc432c40": 5, "768de5d6": 4}
"""Sessions of which there are several snapshots."""


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    return shared_data / "claude-code"


@pytest.fixture(scope="module")
def converted(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[karl_fast.Conversion, Path]:
    out = tmp_path_factory.mktemp("real") / "trajectories.jsonl"
    return karl_fast.convert(transcripts(folder), out), out


@pytest.fixture(scope="module")
def found(converted: tuple[karl_fast.Conversion, Path]) -> dict[str, Any]:
    lines = [json.loads(line) for line in converted[1].read_text("utf-8").splitlines()]
    return {line["id"]: line for line in lines}


def transcripts(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("full.jsonl")) if not path.read_text("utf-8").startswith("{\n")]


def test_every_line_is_accounted_for(converted: tuple[karl_fast.Conversion, Path], found: dict[str, Any]) -> None:
    account, _ = converted
    balanced(account, list(found.values()))
    assert (len(account.files), account.trajectories, account.lines_read) == (36, 46, 11_036)
    assert account.bad == {}
    assert account.types["assistant"] == 3410


def test_sub_agents_are_told_by_their_session(
    folder: Path, converted: tuple[karl_fast.Conversion, Path], found: dict[str, Any]
) -> None:
    """Of 815 such lines 64 stand in a snapshot before; no sub-agent has a file of its own."""
    every = [line["data"] for path in transcripts(folder) for line in naive.lines(path) if line["type"] == "progress"]
    told = [data for data in every if data["type"] == "agent_progress"]
    uuids = {data["message"]["uuid"] for data in told}
    agents = {data["agentId"] for data in told}
    assert (len(told), len(uuids), len(agents), converted[0].sub_agents) == (815, 751, 19, 19)
    relayed = [one for one in found.values() if one["parent"] is not None]
    assert {one["source"]["agent_id"] for one in relayed} == agents
    assert all(one["source"]["relayed"] and one["parent"]["tool_call_id"] for one in relayed)
    assert all(call["id"] for one in relayed for message in one["messages"] for call in message.get("tool_calls", []))


def test_messages_are_those_of_an_independent_converter(folder: Path, found: dict[str, Any]) -> None:
    wanted = naive.trajectories(transcripts(folder))
    assert wanted.keys() == found.keys()
    for id, messages in wanted.items():
        assert [shape(one) for one in found[id]["messages"]] == [plain(one) for one in messages], id


def shape(message: dict[str, Any]) -> tuple[Any, ...]:
    calls = [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls", [])
    ]
    words = (message["content"], message.get("reasoning_content", ""))
    return (message["role"], *words, calls, message.get("tool_call_id"), message.get("success"))


def plain(message: dict[str, Any]) -> tuple[Any, ...]:
    if message["role"] != "assistant":
        return (message["role"], message["content"], "", [], message.get("id"), message.get("success"))
    words = ("\n".join(filter(None, message[key])) for key in ("content", "reasoning"))
    return ("assistant", *words, message["calls"], None, None)


def test_snapshots_of_one_session_hold_no_line_twice(folder: Path, tmp_path: Path) -> None:
    for session, count in CHAINS.items():
        chain = [path for path in transcripts(folder) if session in path.read_text("utf-8")]
        assert len(chain) == count
        ids = [line["uuid"] for path in chain for line in naive.lines(path) if "uuid" in line]
        account = karl_fast.convert(chain, tmp_path / f"{session}.jsonl")
        assert account.trajectories == 1
        assert account.duplicates == len(ids) - len(set(ids)) > 0


def test_documents_of_gemini_between_them_are_read(folder: Path, tmp_path: Path) -> None:
    account = karl_fast.convert(folder, tmp_path / "all.jsonl")
    formats = [
        json.loads(line)["source"]["format"] for line in (tmp_path / "all.jsonl").read_text("utf-8").splitlines()
    ]
    assert (formats.count("claude-code"), formats.count("gemini-cli"), len(formats)) == (46, 5, 51)
    assert (len(account.files), account.lines_read, account.refused, account.skipped) == (42, 11_042, [], [])
    # The sixth has a warning of the program alone.
    assert account.dropped["empty"] == 1


def test_groups_come_from_metadata_and_rewards_do_not(folder: Path, found: dict[str, Any]) -> None:
    wanted: dict[str, tuple[str, str | None]] = {}
    for path in transcripts(folder):
        beside = json.loads(path.with_name("metadata.json").read_text("utf-8"))
        mine = (beside["created_at"], beside.get("branch"))
        session = next(id for id in found if beside["session_id"].endswith(id))
        wanted[session] = max(wanted.get(session, mine), mine)
    own = {id: one for id, one in found.items() if one["parent"] is None}
    assert {id: one["group"] for id, one in own.items()} == {id: group for id, (_, group) in wanted.items()}
    assert all(one["reward"] is None for one in own.values())


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_karl_rates_what_was_converted(
    converted: tuple[karl_fast.Conversion, Path], found: dict[str, Any], version: Any
) -> None:
    scores = reward.compute_rewards(converted[1].read_bytes(), version=version)
    assert scores.shape == (46,)
    assert all(0 <= score <= 1 for score in scores)
    assert len(set(scores)) > 10
    for score, one in zip(scores, found.values(), strict=True):
        assert reward.compute_reward(one, version=version)["reward_score"] == score


def test_what_was_converted_is_sampled(converted: tuple[karl_fast.Conversion, Path], tmp_path: Path) -> None:
    sample = karl_fast.sample(converted[1], tmp_path / "data", reward={"turns": 1.0}, k=8, split=(1.0, 0.0, 0.0))
    assert sample.manifest["inputs"][0]["format"] == "trajectory"
    assert sample.manifest["draw"]["rows"] == 8
