"""One session is one trajectory, however many files hold it: copies, snapshots, continuations, forks."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from tests.unit.convert import made, samples
from tests.unit.convert.test_other_tools import item, run, said, trial

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

Lines = list[dict[str, Any]]


def session(id: str, *turns: str, start: int = 0, forked: str | None = None, calls: str = "call-of-this") -> Lines:
    """A rollout of Codex with a call a turn; the ids of calls are those of `calls`."""
    meta = {"id": id, "cwd": "/shop"} | ({} if forked is None else {"forked_from_id": forked})
    items: Lines = [{"type": "session_meta", "payload": meta}, {"type": "turn_context", "payload": {"model": "m"}}]
    for at, turn in enumerate(turns):
        items += [said("user", turn), item("reasoning", summary=[], encrypted_content=f"{id}{at}")]
        items += [
            item("function_call", name="shell", arguments=f'{{"run": "{turn}"}}', call_id=f"{calls}-{turn}"),
            item("function_call_output", call_id=f"{calls}-{turn}", output=f"did {turn}"),
            said("assistant", f"answer to {turn}"),
        ]
    return [{"timestamp": f"2026-01-01T00:{start + at:02}:00.000Z"} | line for at, line in enumerate(items)]


def write(path: Path, lines: Lines) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def asked(one: dict[str, Any]) -> list[str]:
    return [message["content"] for message in one["messages"] if message["role"] == "user"]


def test_copies_are_counted_and_not_written(convert: Convert, tmp_path: Path) -> None:
    lines = session("s", "one", "two")
    _, wanted = convert(write(tmp_path / "in" / "a" / "rollout.jsonl", lines))
    plain = write(tmp_path / "in" / "b" / "rollout.jsonl", lines)
    (tmp_path / "in" / "c.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    account, found = convert(tmp_path / "in")
    assert found == wanted
    assert (account.duplicates, account.notes) == (2 * len(lines), {"copied_session": 2})
    assert len(account.files) == 3


@pytest.mark.parametrize("cut", range(2, 12))
def test_snapshot_of_continued_session_is_dropped(convert: Convert, tmp_path: Path, cut: int) -> None:
    lines = session("s", "one", "two")
    lines.insert(1, {"timestamp": "2026-01-01T00:00:00Z"} | said("developer", "Be brief."))
    write(tmp_path / "in" / "z" / "full.jsonl", lines)
    _, wanted = convert(tmp_path / "in")
    write(tmp_path / "in" / "a" / "early.jsonl", lines[:cut])
    account, found = convert(tmp_path / "in")
    assert [one["messages"] for one in found] == [one["messages"] for one in wanted]
    assert account.trajectories == 1
    assert (account.notes, account.duplicates) == ({"session_snapshot": 1}, cut)


@pytest.mark.parametrize("forked", [None, "old"])
def test_session_repeating_older_one_contains_it(convert: Convert, tmp_path: Path, forked: str | None) -> None:
    write(tmp_path / "in" / "a.jsonl", session("old", "one"))
    write(tmp_path / "in" / "b.jsonl", session("new", "one", "two", start=20, forked=forked))
    account, [found] = convert(tmp_path / "in")
    assert (found["id"], asked(found), account.notes) == ("new", ["one", "two"], {"session_snapshot": 1})


@pytest.mark.parametrize("forked", [None, "old"])
def test_forks_are_two_trajectories_of_one_group(convert: Convert, tmp_path: Path, forked: str | None) -> None:
    write(tmp_path / "in" / "a.jsonl", session("old", "one", "two"))
    write(tmp_path / "in" / "b.jsonl", session("new", "one", "three", start=20, forked=forked))
    write(tmp_path / "in" / "c.jsonl", session("other", "four", calls="call-of-other"))
    account, found = convert(tmp_path / "in")
    assert {one["id"]: one["group"] for one in found} == {"old": "old", "new": "old", "other": None}
    assert account.notes == {"forked_session": 2}


def test_forks_of_missing_session_share_its_group(convert: Convert, tmp_path: Path) -> None:
    write(tmp_path / "in" / "b.jsonl", session("b", "one", "two", forked="gone", calls="b"))
    write(tmp_path / "in" / "c.jsonl", session("c", "one", "three", forked="gone", calls="c"))
    _, found = convert(tmp_path / "in")
    assert [one["group"] for one in found] == ["gone", "gone"]


@pytest.mark.parametrize("repeats", [False, True])
def test_continued_session_in_two_files_is_one(convert: Convert, tmp_path: Path, repeats: bool) -> None:
    whole = session("s", "one", "two", "three")
    write(tmp_path / "whole.jsonl", whole)
    _, [wanted] = convert(tmp_path / "whole.jsonl")
    cut = 7 if repeats else 12
    parts = [
        write(tmp_path / "in" / "b.jsonl", whole[:12]),
        write(tmp_path / "in" / "a.jsonl", whole[:1] + whole[cut:]),
    ]
    account, [found] = convert(tmp_path / "in")
    assert [m["content"] for m in found["messages"]] == [m["content"] for m in wanted["messages"]]
    assert found["source"]["files"] == [str(part) for part in parts]
    assert account.notes == {"continued_session": 1}
    assert account.duplicates == (5 if repeats else 0)


def test_two_branches_of_one_name_stay_apart(convert: Convert, tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl", session("s", "one", "two"))
    write(tmp_path / "in" / "b.jsonl", session("s", "one", "three", start=20))
    _, found = convert(tmp_path / "in")
    assert [one["group"] for one in found] == ["s", "s"]
    assert len({one["id"] for one in found}) == 2


def test_sessions_that_say_the_same_are_two(convert: Convert, tmp_path: Path) -> None:
    for id in "ab":
        write(tmp_path / "in" / f"{id}.jsonl", session(id, "one", calls=f"call-of-session-{id}"))
    account, found = convert(tmp_path / "in")
    assert ([one["group"] for one in found], account.notes) == ([None, None], {})


def test_no_session_is_in_two_splits(tmp_path: Path) -> None:
    for at in range(30):
        lines = session(f"s{at}", *(f"turn {at} {turn}" for turn in range(4)), calls=f"call-of-{at}")
        write(tmp_path / "in" / "old" / f"{at}.jsonl", lines)
        write(tmp_path / "in" / "snapshots" / f"{at}.jsonl", lines[:13])
        fork = session(f"f{at}", f"turn {at} 0", f"other {at}", start=30, forked=f"s{at}", calls=f"call-of-{at}")
        write(tmp_path / "in" / "forks" / f"{at}.jsonl", fork)
    karl_fast.convert(tmp_path / "in", tmp_path / "log.jsonl", rate="karl-v2")
    karl_fast.sample(tmp_path / "log.jsonl", tmp_path / "set", split=(0.5, 0.5, 0.0), k=40)
    sides = [
        {asked(json.loads(line))[0] for line in (tmp_path / "set" / f"{name}.jsonl").read_text("utf-8").splitlines()}
        for name in ("train", "valid")
    ]
    assert all(sides)
    assert not sides[0] & sides[1]


def renamed(old: made.Session, session: str, count: int) -> made.Session:
    """A session of Claude Code that was taken up again: the first lines of another, with their own uuids."""
    new = made.Session(session, start=100)
    new.lines = [line | {"sessionId": new.id} for line in old.lines[:count]]
    new.last = new.lines[-1]["uuid"]
    return new


def test_renamed_claude_session_is_one(convert: Convert, tmp_path: Path) -> None:
    old = made.plain("old")
    old.write(tmp_path / "in" / "old.jsonl")
    new = renamed(old, "new", len(old.lines))
    new.ask("and the door")
    new.speak("m4", made.text("Mended too."))
    new.write(tmp_path / "in" / "new.jsonl")
    account, [found] = convert(tmp_path / "in")
    assert (found["id"], found["group"], asked(found)) == (new.id, None, ["mend the till", "and the door"])
    assert account.notes == {"session_snapshot": 1}


def test_forks_of_claude_session_share_a_group(convert: Convert, tmp_path: Path) -> None:
    old = made.plain("old")
    old.write(tmp_path / "in" / "old.jsonl")
    for name in ("left", "right"):
        new = renamed(old, name, 4)
        new.ask(f"go {name}")
        new.speak("m4", made.text("Went."))
        new.write(tmp_path / "in" / f"{name}.jsonl")
    account, found = convert(tmp_path / "in")
    ids, groups = {one["id"] for one in found}, {one["group"] for one in found}
    assert (len(ids), len(groups)) == (3, 1)
    assert groups <= ids
    assert account.notes == {"forked_session": 3}


def test_file_order_and_threads_change_nothing(tmp_path: Path) -> None:
    sessions = [
        session("s", "one", "two"),
        session("s", "one", "two")[:7],
        session("t", "one", "three", start=9, forked="s"),
        session("u", "four", calls="call-of-other"),
    ]
    paths = [write(tmp_path / "in" / f"{at}.jsonl", lines) for at, lines in enumerate(sessions)]
    texts = set()
    for at, given in enumerate((paths, paths[::-1], [paths[2], paths[0], paths[3], paths[1]])):
        karl_fast.convert(given, tmp_path / f"{at}.jsonl", threads=at + 1)
        texts.add((tmp_path / f"{at}.jsonl").read_bytes())
    assert len(texts) == 1


def test_a_trial_is_one_however_it_is_written(convert: Convert, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    document = trial()
    (tmp_path / "in" / "a.json").write_text(json.dumps(document), "utf-8")
    (tmp_path / "in" / "b.json").write_text(json.dumps(document, indent=2), "utf-8")
    (tmp_path / "in" / "c.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    early = trial(steps=document["steps"][:2])
    (tmp_path / "in" / "d.json").write_text(json.dumps(early), "utf-8")
    account, [found] = convert(tmp_path / "in")
    assert (len(found["messages"]), found["source"]["files"]) == (6, [str(tmp_path / "in" / "a.json")])
    assert account.notes["copied_session"] == 2
    assert account.notes["session_snapshot"] == 1
    assert account.duplicates == 3
    other = json.loads(json.dumps(document))
    other["steps"][3]["message"] = "Otherwise."
    (tmp_path / "in" / "e.json").write_text(json.dumps(other), "utf-8")
    _, found_both = convert(tmp_path / "in")
    assert [one["group"] for one in found_both] == ["trial-1", "trial-1"]
    assert len({one["id"] for one in found_both}) == 2


def test_swe_agent_runs_of_one_task_are_separate(convert: Convert, tmp_path: Path) -> None:
    document = run()
    early = document | {"history": document["history"][:4]}
    other = document | {"history": [*document["history"][:-1], {"role": "assistant", "content": "other"}]}
    for folder, one in {"a": document, "b": document, "c": early, "d": other}.items():
        path = tmp_path / "in" / folder / "task.traj"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(one), "utf-8")
    (tmp_path / "in" / "a" / "task.traj.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    account, found = convert(tmp_path / "in")
    assert [one["source"]["files"] for one in found] == [[str(tmp_path / "in" / name / "task.traj")] for name in "ad"]
    assert {one["group"] for one in found} == {"task"}
    assert (account.notes["copied_session"], account.notes["session_snapshot"]) == (2, 1)


@pytest.mark.parametrize("sample", samples.ALL, ids=[one.name for one in samples.ALL])
def test_differently_written_copy_is_same_session(convert: Convert, tmp_path: Path, sample: samples.Sample) -> None:
    records = sample.records()
    texts = {
        "a": "".join(json.dumps(record) + "\n" for record in records),
        "b": "".join(json.dumps(record, sort_keys=True) + "\n" for record in records),
        "c": "".join(json.dumps(record, separators=(",", ":")) + "\r\n" for record in records),
    }
    for folder, text in texts.items():
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / "one.jsonl").write_text(text, "utf-8")
    (tmp_path / "in" / "d").mkdir()
    (tmp_path / "in" / "d" / "one.jsonl.gz").write_bytes(gzip.compress(texts["a"].encode()))
    _, wanted = convert(tmp_path / "in" / "a")
    _, found = convert(tmp_path / "in")
    assert [one["messages"] for one in found] == [one["messages"] for one in wanted]


def test_codex_session_twice_in_file_is_one(convert: Convert, tmp_path: Path) -> None:
    lines = session("s", "one", "two")
    _, [wanted] = convert(write(tmp_path / "a.jsonl", lines))
    account, [found] = convert(write(tmp_path / "a.jsonl", lines[:5] + lines))
    assert found["messages"] == wanted["messages"]
    assert account.duplicates == 3


def test_entire_gives_codex_group_not_reward(convert: Convert, tmp_path: Path) -> None:
    lines = session("s", "one", "two")
    for name, count, percent in (("a", 7, 25), ("b", len(lines), 75)):
        write(tmp_path / "in" / name / "full.jsonl", lines[:count])
        said_of_it = {"checkpoint_id": "c", "session_id": "s", "branch": "mend", "agent": "Codex"}
        said_of_it |= {"created_at": f"2026-01-01T0{count % 10}:00:00Z"}
        said_of_it |= {"initial_attribution": {"agent_percentage": percent}}
        (tmp_path / "in" / name / "metadata.json").write_text(json.dumps(said_of_it), "utf-8")
    account, [found] = convert(tmp_path / "in")
    assert (found["group"], found["reward"], account.rewarded) == ("mend", None, 0)


def test_turn_settings_are_not_wrong_types(convert: Convert, tmp_path: Path) -> None:
    lines = session("s", "one")
    lines[0]["payload"] |= {"instructions": None, "source": "cli", "content": 1, "model_provider": "openai"}
    lines[1]["payload"] |= {
        "summary": "auto",
        "effort": "high",
        "sandbox_policy": {"mode": "read-only"},
        "approval_policy": "never",
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "content": {"any": 1},
        "name": 5,
    }
    account, _ = convert(write(tmp_path / "a.jsonl", lines))
    assert (account.mistyped, account.notes) == ([], {})


def test_unnamed_call_and_renamed_message_are_counted(convert: Convert, tmp_path: Path) -> None:
    lines = session("s", "one", "two")
    for line in lines[:6]:
        line["payload"].pop("name", None)
    renamed_key = said("assistant", "x")["payload"] | {"content": [{"type": "output_text", "value": "lost"}]}
    lines.append({"timestamp": "2026-01-01T01:00:00Z", "type": "response_item", "payload": renamed_key})
    account, [found] = convert(write(tmp_path / "a.jsonl", lines))
    names = [call["function"]["name"] for m in found["messages"] for call in m.get("tool_calls", [])]
    assert (names, account.notes) == (["shell"], {"call_without_name": 1, "no_text": 1})
    assert account.blocks == {"output_text": 1}
    assert account.dropped == {"no_text": 1, "orphan_result": 1}


def test_unread_items_are_counted_by_kind(convert: Convert, tmp_path: Path) -> None:
    lines = session("s", "one")
    image = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:image/png;base64,AA"}]
    lines += [
        {"timestamp": "2026-01-01T01:00:00Z"} | line
        for line in (
            item("web_search_call", status="completed", action={"type": "search", "query": "x"}),
            item("message", role="user", content=image),
            item("message", role="user", content=image[1:]),
            item("function_call", name="view_image", arguments="{}", call_id="v"),
            item("function_call_output", call_id="v", output=image[1:]),
            said("assistant", "seen"),
        )
    ]
    account, [found] = convert(write(tmp_path / "a.jsonl", lines))
    assert account.blocks == {"input_image": 3, "web_search_call": 1}
    assert [m["content"] for m in found["messages"]][-4:] == ["see", "", "", "seen"]
    assert found["messages"][-2]["tool_call_id"] == "v"
    assert "[" not in "".join(message["content"] for message in found["messages"])
    assert account.dropped == {"no_conversation": 1, "no_text": 1}


def rollouts(*ids: object, key: str = "id") -> Lines:
    """Rollouts with an id of their own, or with another key that is none."""
    return [
        {key: id, "group": "g", "reward": 1.0, "prompt": "How many?", "completion": f"answer to {id}"} for id in ids
    ]


@pytest.mark.parametrize("key", ["id", "note"])
@pytest.mark.parametrize("form", ["copied", "packed", "array", "spaced"])
def test_copied_rollout_log_is_written_once(convert: Convert, tmp_path: Path, key: str, form: str) -> None:
    lines = rollouts("a", "b", "c", key=key)
    lines.append(lines[-1])
    _, wanted = convert(write(tmp_path / "in" / "a.jsonl", lines))
    copy = write(tmp_path / "in" / "b.jsonl", [dict(reversed(line.items())) | {"more": None} for line in lines])
    if form == "packed":
        (tmp_path / "in" / "b.jsonl.gz").write_bytes(gzip.compress(copy.read_bytes()))
        copy.unlink()
    if form in {"array", "spaced"}:
        copy.write_text(json.dumps(lines, indent=2 if form == "spaced" else None), "utf-8")
    account, found = convert(tmp_path / "in")
    assert found == wanted
    assert (account.duplicates, account.notes) == (4, {"copied_rollout": 4})
    assert account.lines_read == account.lines_used + account.duplicates


@pytest.mark.parametrize("key", ["id", "note"])
def test_rollout_log_snapshots_are_written_once(convert: Convert, tmp_path: Path, key: str) -> None:
    lines = rollouts(*range(9), key=key)
    for name, count in (("a", 3), ("b", 6), ("c", 9)):
        write(tmp_path / "in" / f"{name}.jsonl", lines[:count])
    account, found = convert(tmp_path / "in")
    assert [one["messages"][-1]["content"] for one in found] == [line["completion"] for line in lines]
    assert account.notes == {"copied_rollout": 9}


def test_equal_rollouts_in_different_logs_are_kept(convert: Convert, tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl", rollouts(1, 2, key="note"))
    write(tmp_path / "in" / "b.jsonl", rollouts(2, 3, key="note"))
    account, found = convert(tmp_path / "in")
    assert (len(found), account.duplicates) == (4, 0)


def test_overlapping_logs_are_told_apart_by_ids(convert: Convert, tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl", rollouts(1, 2, 3))
    other = rollouts(3, 4)
    other[1] |= {"id": 2}
    write(tmp_path / "in" / "b.jsonl", other)
    account, found = convert(tmp_path / "in")
    assert [one["id"] for one in found] == ["1", "2", "3", "2"]
    assert account.notes == {"copied_rollout": 1}
