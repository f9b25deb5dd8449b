"""KARL's records from transcripts: one a prompt, as the taps write them, annotated by the next prompt."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import errors, reward
from tests.cli.run import karl
from tests.golden.test_files import golden
from tests.unit.convert import made
from tests.unit.convert.test_other_tools import item, said

if TYPE_CHECKING:
    from pathlib import Path

Record = dict[str, Any]

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TIMES = ("id", "channel", "recorded_at", "timing")
"""Keys of a record that a replay of its events cannot give back."""


def session() -> made.Session:
    """Three prompts: failures, more calls than a record holds, and none."""
    talk = made.Session("karl")
    talk.ask("mend the till: " + "it is long. " * 50)
    talk.speak("a1", made.call("r", "Read", file_path="/till.py", limit=5))
    talk.answer("r", "total = 0", {"type": "text"})
    talk.speak("a2", made.call("b", "Bash", command="pytest -q", description="run the tests"))
    talk.answer("b", "Exit code 2\n1 failed", "Error: Exit code 2", is_error=True)
    talk.speak("a3", made.call("e", "Edit", file_path="/till.py", old_string="0", new_string="1"), made.text("Done."))
    talk.answer("e", "ok", {"filePath": "/till.py"})
    talk.ask("that is wrong, please revert it")
    for at in range(52):
        talk.speak(f"b{at}", made.call(f"c{at}", ("Bash", "Grep")[at % 2], command="x" * 300, pattern=f"p{at}"))
        talk.answer(f"c{at}", "out", {"stdout": "out"}, is_error=False)
    talk.speak("b", made.text("Reverted."))
    talk.ask("thanks, looks good")
    talk.speak("c", made.text("Welcome."))
    return talk


def records(source: Path, out: Path, **settings: Any) -> tuple[karl_fast.Conversion, list[Record]]:
    account = karl_fast.convert(source, out, to="karl", force=True, **settings)
    found = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert account.records == len(found)
    assert account.written_bytes == out.stat().st_size
    assert account.rewarded == sum(one["outcome"]["reward_score"] is not None for one in found)
    return account, found


def timeless(record: Record) -> Record:
    """Return a record without times and rewards, which KARL's taps take from a clock and a store."""
    signals = ("correction_detected", "build_success", "redo_detected", "session_continued")
    kept = {key: value for key, value in record.items() if key not in TIMES}
    events = [
        {key: value for key, value in event.items() if key not in ("ts", "exit_code")}
        for event in record["trajectory"]["events"]
    ]
    outcome = {name: record["outcome"][name] for name in signals}
    return kept | {"trajectory": record["trajectory"] | {"events": events}, "outcome": outcome}


def test_records_are_those_of_the_taps_of_karl(tmp_path: Path) -> None:
    _, found = records(session().write(tmp_path / "a.jsonl"), tmp_path / "out.jsonl")
    wanted = golden("karl_taps")["records"]
    assert json.dumps([timeless(one) for one in found]) == json.dumps(wanted)
    assert [one["id"] for one in found] == [f"traj_{made.name('karl')}_{number}" for number in (0, 1)]
    assert [event["exit_code"] for event in found[0]["trajectory"]["events"]] == [None, 2, None]


def test_the_next_prompt_annotates_a_record(tmp_path: Path) -> None:
    account, [first, second] = records(session().write(tmp_path / "a.jsonl"), tmp_path / "out.jsonl")
    signals = ("correction_detected", "redo_detected", "session_continued", "annotation_status")
    assert [first["outcome"][name] for name in signals] == [True, True, True, "annotated"]
    assert [second["outcome"][name] for name in signals] == [False, False, True, "annotated"]
    assert account.notes["prompt_without_calls"] == 1
    assert first["timing"]["started_at"].endswith("+00:00")
    assert first["timing"]["duration_s"] == 7.0
    _, [alone] = records(made.plain().write(tmp_path / "b.jsonl"), tmp_path / "out.jsonl")
    assert [alone["outcome"][name] for name in signals] == [None, None, None, "pending"]


def test_redone_prompt_and_tool_text(tmp_path: Path) -> None:
    talk = made.plain(prompt="Mend the till!")
    talk.ask("<task-notification>the tests are failing</task-notification>")
    talk.speak("n", made.call("n1", "Read", file_path="/log"))
    talk.answer("n1", "log", {"type": "text"})
    talk.ask("mend the till")
    talk.speak("z", made.call("z1", "Bash", command="npm run build"))
    talk.answer("z1", "done", {"stdout": "done"}, is_error=False)
    _, [first, second] = records(talk.write(tmp_path / "a.jsonl"), tmp_path / "out.jsonl")
    assert first["trajectory"]["tool_sequence"] == ["Read", "Bash", "Read"]
    assert first["context"]["prompt_text"] == "Mend the till!"
    assert (first["outcome"]["redo_detected"], first["outcome"]["correction_detected"]) == (True, None)
    assert (second["outcome"]["build_success"], second["context"]["cwd"]) == (True, "/home/dev/shop")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_rewards_at_once_are_those_of_a_backfill(tmp_path: Path, version: Any) -> None:
    source, store = session().write(tmp_path / "a.jsonl"), tmp_path / "store.jsonl"
    _, pending = records(source, store)
    _, rated = records(source, tmp_path / "rated.jsonl", rate=f"karl-{version}")
    assert reward.backfill_rewards(path=store, version=version)["scored"] == 2
    stored = [json.loads(line) for line in store.read_text().splitlines()]
    assert json.dumps(stored) == json.dumps(rated)
    assert [reward.compute_reward(one, version=version)["reward_score"] for one in pending] == [
        one["outcome"]["reward_score"] for one in rated
    ]


def test_codex_is_written_in_the_words_of_karl(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n+x\n*** End Patch"
    address = {"repository_url": "git@github.com:dev/shop.git"}
    lines = [
        {"type": "session_meta", "payload": {"id": "c0dex", "cwd": "/shop", "git": address}},
        said("user", "mend it"),
        item("function_call", name="shell", arguments='{"command":["bash","-lc","pytest -q"]}', call_id="a"),
        item("function_call_output", call_id="a", output="Exit code: 1\nOutput:\n1 failed"),
        item("custom_tool_call", name="apply_patch", input=patch, call_id="b"),
        item("custom_tool_call_output", call_id="b", output="ok"),
    ]
    path = tmp_path / "rollout.jsonl"
    path.write_text("".join(json.dumps({"timestamp": "2026-01-01T00:00:00.000Z"} | line) + "\n" for line in lines))
    _, [found] = records(path, tmp_path / "out.jsonl")
    ran, edited = found["trajectory"]["events"]
    assert (ran["tool_name"], ran["original_name"], ran["exit_code"]) == ("Bash", "shell", 1)
    assert ran["key_params"] == {"command": "pytest -q"}
    assert (edited["tool_name"], edited["key_params"]) == ("Edit", {"file_path": "a.py"})
    assert found["trajectory"]["bash_errors"] == 1
    assert found["context"] == {"prompt_text": "mend it", "cwd": "/shop", "git_repo": "shop"}


def test_secret_is_replaced_before_the_cut(tmp_path: Path) -> None:
    talk = made.Session()
    talk.ask("go")
    talk.speak("m", made.call("c", "Bash", command="echo " + "y" * 180 + " " + SECRET))
    talk.answer("c", "ok", {"stdout": "ok"}, is_error=False)
    source = talk.write(tmp_path / "a.jsonl")
    account, _ = records(source, tmp_path / "out.jsonl")
    assert account.secrets == {"github": 1}
    assert "ghp_" not in (tmp_path / "out.jsonl").read_text()
    records(source, tmp_path / "out.jsonl", allow_secrets=True)
    assert "ghp_" in (tmp_path / "out.jsonl").read_text()


def test_force_never_replaces_a_karl_store(tmp_path: Path) -> None:
    source, out = session().write(tmp_path / "a.jsonl"), tmp_path / "out.jsonl"
    arguments = ("convert", source, "-o", out, "--to", "karl")
    assert karl(*arguments).returncode == 0
    assert karl(*arguments).returncode == 5
    assert karl(*arguments, "--force").returncode == 0
    live = json.loads(out.read_text().splitlines()[0]) | {"channel": "live"}
    with out.open("a") as file:
        file.write(json.dumps(live) + "\n")
    before = out.read_bytes()
    with pytest.raises(errors.OutputForeignError):
        records(source, out)
    assert out.read_bytes() == before
    trajectories = tmp_path / "trajectories.jsonl"
    karl_fast.convert(source, trajectories)
    with pytest.raises(errors.OutputForeignError):
        records(source, trajectories)
    with pytest.raises(errors.AlreadyConvertedError) as raised:
        records(trajectories, tmp_path / "new.jsonl")
    assert "transcripts" in str(raised.value.hint)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    talk = made.Session()
    talk.ask("hello")
    talk.speak("m", made.text("hello"))
    source, out = talk.write(tmp_path / "a.jsonl"), tmp_path / "out.jsonl"
    done = karl("convert", source, "-o", out, "--to", "karl")
    assert (done.returncode, out.exists()) == (1, False)
    assert "there is no tool call" in done.stderr
    for wrong in (("--to", "karl", "--rate", "outcomes"), ("--to", "karl", "--rate", "result"), ("--to", "verl")):
        assert karl("convert", source, "-o", out, *wrong).returncode == 2
    assert not out.exists()


def test_the_records_are_a_log_of_karl(tmp_path: Path) -> None:
    records(session().write(tmp_path / "a.jsonl"), tmp_path / "out.jsonl", rate="karl-v1")
    log = karl_fast.read(tmp_path / "out.jsonl")
    assert log.inputs[0]["format"] == "karl"
    assert len(log) == 2
    done = karl("convert", session().write(tmp_path / "b.jsonl"), "-o", tmp_path / "c.jsonl", "--to", "karl")
    assert "written   2 records of 1 trajectory to" in done.stderr


def test_real_transcripts_keep_every_call(shared_data: Path, tmp_path: Path) -> None:
    account, found = records(shared_data / "claude-code", tmp_path / "one.jsonl", threads=1)
    assert (len(found), account.trajectories) == (159, 51)
    assert sum(one["trajectory"]["total_tools"] for one in found) == sum(account.tool_calls.values()) == 1_851
    assert len({one["id"] for one in found}) == 159
    shutil.copytree(shared_data / "claude-code", tmp_path / "copy")
    karl_fast.convert(tmp_path / "copy", tmp_path / "two.jsonl", to="karl", threads=4)
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
    corrected = sum(one["outcome"]["correction_detected"] is True for one in found)
    continued = sum(one["outcome"]["session_continued"] is True for one in found)
    assert (corrected, continued) == (9, 109)
