"""Transcripts that are torn, welded, packed, growing or something else; outputs that may not be written."""

from __future__ import annotations

import ctypes
import gzip
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import karl_fast
from karl_fast import errors
from tests.cli.run import karl
from tests.unit.convert import made

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert


def test_torn_last_line_is_counted(convert: Convert, tmp_path: Path) -> None:
    path = made.plain().write(tmp_path / "a.jsonl")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(whole[:-20])
    account, [found] = convert(path)
    assert account.bad == {"torn": 1}
    [file] = account.files
    torn = {"reason": "torn", "line": len(lines), "offset": len(whole) - len(lines[-1])}
    assert (file["path"], file["bad_lines"]) == (str(path), [torn])
    assert len(found["messages"]) == 5


def test_a_file_may_end_at_any_byte(convert: Convert, tmp_path: Path) -> None:
    path = made.plain().write(tmp_path / "a.jsonl")
    whole = path.read_bytes()
    said = [0]
    for cut in range(whole.index(b"\n", 300), len(whole) + 1, 37):
        path.write_bytes(whole[:cut])
        account, [found] = convert(path)
        assert sum(account.bad.values()) <= 1
        said.append(len(found["messages"]))
    assert said == sorted(said)
    assert said[-1] == 6 or len(whole) % 37


def test_welded_lines_are_read(convert: Convert, tmp_path: Path) -> None:
    session = made.plain()
    texts = [json.dumps(line) for line in session.lines]
    texts[2] += texts.pop(3)
    texts[4:4] = ["", "{broken", "[1]", json.dumps({"type": "new-thing", "uuid": "u1", "sessionId": session.id})]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(texts) + "\n", "utf-8")
    account, [found] = convert(path)
    assert account.bad == {"malformed": 1, "not_an_object": 1}
    assert [bad["line"] for bad in account.files[0]["bad_lines"]] == [6, 7]
    assert (account.welded_lines, account.blank_lines, account.types["new-thing"]) == (1, 1, 1)
    assert len(found["messages"]) == 6


def test_a_growing_transcript_gives_more_of_the_same(convert: Convert, tmp_path: Path) -> None:
    session = made.plain()
    path = tmp_path / "a.jsonl"
    before: list[object] = []
    for count in range(3, len(session.lines) + 1):
        part = made.Session()
        part.lines = session.lines[:count]
        part.write(path)
        _, [found] = convert(path)
        messages = found["messages"]
        same = [message["content"] for message in messages[: len(before)]]
        assert [old in new for old, new in zip(before, same, strict=True)] == [True] * len(before)
        before = [message["content"] for message in messages]


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
def test_packed_transcripts_are_unpacked(convert: Convert, tmp_path: Path, pack: str) -> None:
    path = made.plain().write(tmp_path / "a.jsonl")
    _, [wanted] = convert(path)
    packed = tmp_path / "b.jsonl.packed"
    if pack == "gzip":
        packed.write_bytes(gzip.compress(path.read_bytes()))
    else:
        packed.write_bytes(pytest.importorskip("zstandard").compress(path.read_bytes()))
    _, [found] = convert(packed)
    wanted["source"]["files"] = [str(packed)]
    assert found == wanted


def test_what_a_tool_cut_in_half_is_mended(convert: Convert, tmp_path: Path) -> None:
    """Half a surrogate pair is not text, and the whole conversation would be none."""
    session = made.plain()
    path = session.write(tmp_path / "a.jsonl")
    path.write_bytes(path.read_bytes().replace(b"1 failed", b"1 \\ud83d failed"))
    account, [found] = convert(path)
    assert account.notes == {"mended": 1}
    assert found["messages"][4]["content"] == "1 \ufffd failed"


def test_non_text_is_counted_by_kind(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    session.ask([made.text("see"), {"type": "image", "source": {"type": "base64", "data": "AAAA"}}])
    session.speak("m", made.text("I see"), {"type": "new_block"})
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    assert [message["content"] for message in found["messages"]] == ["see", "I see"]
    assert account.notes == {"no_text": 1, "unknown_block": 1}
    assert account.blocks == {"image": 1, "new_block": 1}


IMAGE = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}


def test_emptied_message_is_dropped_but_call_kept(convert: Convert, tmp_path: Path) -> None:
    session = made.Session()
    session.ask([IMAGE])
    session.ask("look")
    session.speak("m1", made.call("c", "Screenshot"))
    session.answer("c", [IMAGE, {"type": "document"}])
    session.speak("m2", {"type": "redacted_thinking", "data": "AA=="})
    session.ask("go on")
    session.speak("m3", made.text("done"))
    account, [found] = convert(session.write(tmp_path / "a.jsonl"))
    said = [(message["role"], message["content"]) for message in found["messages"]]
    assert said == [("user", "look"), ("assistant", ""), ("tool", ""), ("user", "go on"), ("assistant", "done")]
    assert found["messages"][2]["tool_call_id"] == "c"
    assert account.dropped == {"no_text": 1}
    assert account.blocks == {"document": 1, "image": 2, "redacted_thinking": 1}
    assert account.notes == {"empty_message": 1, "no_text": 3, "unknown_block": 1}


def test_texts_that_look_like_json_stay_texts(convert: Convert, tmp_path: Path) -> None:
    odd = 'a"b\\c\nd\te\r\u0001\u2028 {"type": "user"} ü😀'
    session = made.Session()
    session.ask(odd)
    session.speak("m", made.text(odd), made.call("c", "Bash", command=odd, nested={"a": [odd, 1e400, None]}))
    session.answer("c", [made.text(odd), made.text(odd)], {})
    _, [found] = convert(session.write(tmp_path / "a.jsonl"))
    asked, said, answered = found["messages"]
    assert (asked["content"], said["content"], answered["content"]) == (odd, odd, f"{odd}\n{odd}")
    assert json.loads(said["tool_calls"][0]["function"]["arguments"])["command"] == odd


def test_existing_output_stays(tmp_path: Path) -> None:
    path = made.plain().write(tmp_path / "a.jsonl")
    out = tmp_path / "out.jsonl"
    out.write_text("mine", "utf-8")
    for force in (False, True):
        with pytest.raises(errors.OutputForeignError, match="it exists and is not a file of trajectories") as raised:
            karl_fast.convert(path, out, force=force)
        assert raised.value.exit_code == 5
    assert out.read_text("utf-8") == "mine"
    out.unlink()
    karl_fast.convert(path, out)
    with pytest.raises(errors.OutputExistsError, match=r"it exists$") as raised:
        karl_fast.convert(path, out)
    assert raised.value.hint == "--force replaces it"
    karl_fast.convert(path, out, force=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.jsonl", "out.jsonl"]


def test_what_is_no_transcript_is_refused_by_name(convert: Convert, tmp_path: Path) -> None:
    copilot = {"sessionId": "s", "startTime": "t", "chatMessages": [{"role": "user", "content": "x"}]}
    folder = tmp_path / "all"
    made.plain().write(folder / "a.jsonl")
    (folder / "chat.json").write_text(json.dumps(copilot, indent=2), "utf-8")
    (folder / "one.jsonl").write_text(json.dumps(copilot), "utf-8")
    (folder / "settings.json").write_text('{"theme": "dark"}', "utf-8")
    (folder / "empty.jsonl").write_text("", "utf-8")
    account, _ = convert(folder)
    assert [path.rsplit("/")[-1] for path, _ in account.refused] == ["chat.json", "one.jsonl"]
    assert all("Copilot CLI" in why for _, why in account.refused)
    assert [path.rsplit("/")[-1] for path, _ in account.skipped] == ["empty.jsonl", "settings.json"]
    for name, why in (("chat.json", "Copilot CLI"), ("settings.json", "not a transcript")):
        with pytest.raises(errors.LogError, match=why):
            karl_fast.convert(folder / name, tmp_path / "b.jsonl")
    assert not (tmp_path / "b.jsonl").exists()


def test_no_conversation_at_all_writes_nothing(tmp_path: Path) -> None:
    session = made.Session()
    session.ask("<command-name>/exit</command-name>")
    with pytest.raises(errors.LogError, match="no conversation"):
        karl_fast.convert(session.write(tmp_path / "a.jsonl"), tmp_path / "b.jsonl")
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]


def powerless() -> None:
    """Lets root be refused like anybody: it loses what overrides the permissions of files."""
    if sys.platform == "linux" and os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def test_unlistable_folder_can_be_written_to(tmp_path: Path) -> None:
    made.plain().write(tmp_path / "a.jsonl")
    out = tmp_path / "out"
    out.mkdir(mode=0o300)
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    try:
        done = karl("convert", "a.jsonl", "-o", "out/b.jsonl", "-q", folder=tmp_path, preexec_fn=powerless)
        listed = subprocess.run(["ls", out], preexec_fn=powerless, capture_output=True, check=False)
        other = karl("convert", "a.jsonl", "-o", "locked/b.jsonl", "-q", folder=tmp_path, preexec_fn=powerless)
    finally:
        out.chmod(0o700)
        locked.chmod(0o700)
    assert (done.returncode, done.stderr) == (0, "")
    assert listed.returncode != 0
    assert [file.name for file in out.iterdir()] == ["b.jsonl"]
    assert (other.returncode, list(locked.iterdir())) == (1, [])
    assert "the folder locked may not be written to" in other.stderr


def test_parent_that_is_file_is_refused_first(tmp_path: Path) -> None:
    path = made.plain().write(tmp_path / "a.jsonl")
    with pytest.raises(errors.FileError, match=r"a\.jsonl is not a folder"):
        karl_fast.convert(tmp_path / "none.jsonl", path / "b.jsonl")


def test_settings_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    path = made.plain().write(tmp_path / "a.jsonl")
    for settings in ({"format": "emacs"}, {"rate": "stars"}):
        with pytest.raises(errors.UsageError):
            karl_fast.convert(path, tmp_path / "b.jsonl", **settings)  # type: ignore[arg-type]
    with pytest.raises(errors.FileError):
        karl_fast.convert(tmp_path / "nowhere", tmp_path / "b.jsonl")
