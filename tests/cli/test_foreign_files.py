"""Files that are no logs: the error says what they are, and the hint what makes a log of them."""

from __future__ import annotations

import json
import shlex
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from karl_fast.log.foreign_files import foreign_kind
from tests import rows
from tests.cli.run import karl
from tests.cli.test_exits import refused
from tests.cli.test_warnings import said

if TYPE_CHECKING:
    from pathlib import Path

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n"
EVENTS = 'data: {"id":"x","choices":[{"delta":{"content":"h"}}]}\n\ndata: [DONE]\n\n'
ANTHROPIC = 'event: message_start\ndata: {"type": "message_start"}\n\n'
TABLE = 'id,prompt,completion,reward\n1,"q, or not",a,0.5\n2,q,b,1\n'

FILES = {
    "log.csv": (TABLE, "a CSV file"),
    "log.txt": (TABLE, "a CSV file"),
    "log.tsv": (TABLE.replace(",", "\t"), "a TSV file"),
    "log.yaml": ("- id: 1\n  reward: 0.5\n- id: 2\n", "YAML"),
    "log.data": ("---\n- id: 1\n- id: 2\n", "YAML"),
    "log.jsonl": (POINTER, "a pointer of Git LFS in place of the file"),
    "log.parquet": (POINTER, "a pointer of Git LFS in place of the file"),
    "stream.jsonl": (EVENTS, "a stream of server-sent events, each with a part of an answer"),
    "stream.txt": (ANTHROPIC, "a stream of server-sent events, each with a part of an answer"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", [["sample", "-k", "1", "--dry-run"], ["inspect"], ["convert", "-o", "out.jsonl"]])
def test_non_json_file_error_names_the_way_out(tmp_path: Path, name: str, command: list[str]) -> None:
    text, what = FILES[name]
    (tmp_path / name).write_text(text, "utf-8")
    done = karl(*command, name, folder=tmp_path)
    assert refused(done, 1) == f"{name}: it is {what}, wanted lines of JSON"
    assert done.stderr.splitlines()[1].startswith("hint: ")
    assert "--format" not in done.stderr
    if not name.endswith("parquet"):
        done = karl(*command, "-", folder=tmp_path, input=text)
        assert refused(done, 1).startswith("-: it is ")


PRODUCTS = {
    "opencode.db": (b"SQLite format 3\0", "a database of opencode", "karl-fast collect --from"),
    "state.vscdb": (
        b"SQLite format 3\0",
        "a database of Cursor, whose form is private to it",
        "karl-fast convert ~/.cursor/projects",
    ),
    "chat.md": (
        b"# Fix the till\n\n## User\n\nFix it.\n\n## Assistant\n\n",
        "a chat exported to Markdown",
        "~/.cursor/projects",
    ),
    "old.md": (
        b"# Fix the till\n_Exported on 5/1/2025 at 10:00 from Cursor (0.49.6)_\n",
        "a chat exported to",
        "transcript",
    ),
    "0.pt": (b"PK\x03\x04", "a file of torch.save, as slime's --save-debug-rollout-data writes", "weights_only=True"),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("command", [["sample", "-k", "1", "--dry-run"], ["convert", "-o", "out.jsonl"]])
def test_files_of_products_are_named_with_what_to_do(tmp_path: Path, name: str, command: list[str]) -> None:
    begin, what, hint = PRODUCTS[name]
    (tmp_path / name).write_bytes(begin + bytes(100))
    done = karl(*command, name, folder=tmp_path)
    assert refused(done, 1).startswith(f"{name}: it is {what}")
    assert hint in done.stderr


def test_a_database_is_named(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "log.json") as database:
        database.execute("create table a (x)")
    done = karl("inspect", "log.json", folder=tmp_path)
    assert refused(done, 1) == "log.json: it is a database of SQLite, wanted lines of JSON"
    assert "sqlite3 log.json .tables" in done.stderr


LOGS = {
    "log.csv": '{"id": 1, "reward": 0.5, "text": "a, b"}\n',
    "log.yaml": '[{"id": 1, "reward": 0.5, "text": "a"}]\n',
    "log.txt": 'started, now\nfinished, then\n{"id": 1, "reward": 0.5, "text": "a"}\n',
    "log.jsonl": '\ufeff{"id": 1, "reward": 0.5, "text": "data: x"}\n',
}


@pytest.mark.parametrize("name", LOGS)
def test_json_is_read_under_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(LOGS[name], "utf-8")
    assert foreign_kind(str(tmp_path / name), name) is None
    assert karl("sample", name, "-k", 1, "--dry-run", folder=tmp_path).returncode == 0


def test_foreign_files_of_folder_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_text(POINTER)
    done = karl("sample", "logs", "-k", 1, "--dry-run", folder=tmp_path)
    assert refused(done, 1).startswith("logs/a.jsonl: it is a pointer of Git LFS")
    rows.write(tmp_path / "logs" / "b.jsonl", rows.records(8))
    done = karl("inspect", "logs", "--json", folder=tmp_path)
    skipped = json.loads(done.stdout)["run"]["skipped"]
    assert skipped == [{"path": "logs/a.jsonl", "reason": "it is a pointer of Git LFS in place of the file"}]


@pytest.mark.parametrize("name", ["log.csv", "log.tsv"])
def test_the_hint_for_a_table_makes_a_log(tmp_path: Path, name: str) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / name).write_text(FILES[name][0], "utf-8")
    hint = karl("inspect", name, folder=tmp_path).stderr.splitlines()[1]
    words = shlex.split(hint.partition("python ")[2].partition(" makes a table")[0])
    subprocess.run([sys.executable, *words], check=True, cwd=tmp_path)
    done = karl("sample", "log.parquet", "-k", 2, "-o", "-", folder=tmp_path)
    prompts = {json.loads(line)["prompt"] for line in done.stdout.splitlines()}
    assert prompts == {"q, or not" if name == "log.csv" else "q\t or not", "q"}


def test_a_folder_of_save_to_disk_is_named(tmp_path: Path) -> None:
    (tmp_path / "saved" / "train").mkdir(parents=True)
    for name, text in (("dataset_info.json", "{}"), ("state.json", '{"_data_files": []}')):
        (tmp_path / "saved" / "train" / name).write_text(text)
    (tmp_path / "saved" / "train" / "data-00000-of-00001.arrow").write_bytes(b"\xff\xff\xff\xff\x00")
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    done = karl("inspect", "saved", folder=tmp_path)
    assert refused(done, 1).startswith("saved: it is a folder of data sets that datasets saved to disk")
    done = karl("convert", "saved/train", "-o", "out.jsonl", folder=tmp_path)
    assert refused(done, 1).startswith("saved/train: it is a data set that datasets saved to disk")
    assert "load_from_disk(sys.argv[1])" in done.stderr
    done = karl("inspect", "saved/train/data-00000-of-00001.arrow", folder=tmp_path)
    assert "it is a file of Arrow" in refused(done, 1)


USER, ANSWER = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
OPENHANDS: dict[str, Any] = {
    "instance_id": "django__django-11099",
    "test_result": {"git_patch": "diff"},
    "instruction": "fix it",
    "metadata": {"agent_class": "CodeActAgent"},
    "history": [{"id": 0, "source": "user", "action": "message", "args": {"content": "fix it"}}],
    "metrics": {},
    "error": None,
}
EVENT = {"id": 1, "timestamp": "2025-03-01T10:00:00", "source": "agent", "message": "", "action": "run", "args": {}}


def test_openhands_results_are_named(tmp_path: Path) -> None:
    rows.write(tmp_path / "output.jsonl", [OPENHANDS | {"instance_id": f"i{n}"} for n in range(3)])
    (tmp_path / "trajectory.json").write_text(json.dumps([EVENT, EVENT]))
    for name, what in (("output.jsonl", "results"), ("trajectory.json", "events")):
        told = f"{name}: {what} of OpenHands, wh"
        assert told in refused(karl("sample", name, "-k", 1, "--dry-run", folder=tmp_path), 4)
        assert told in said(karl("inspect", name, folder=tmp_path).stdout)
        done = karl("convert", name, "-o", "out.jsonl", folder=tmp_path)
        assert refused(done, 1).startswith(told)
        assert "llm_completions" in done.stderr
    # What they say is to be read.
    response = {"id": "x", "choices": [{"index": 0, "message": ANSWER, "finish_reason": "stop"}]}
    rows.write(tmp_path / "one.json", [{"messages": [USER], "response": response, "cost": 0.1, "reward": 1}])
    told = "error: none of the chosen rows can be written: bad message 1; the conversation ends before its answer"
    done = karl("sample", "one.json", "-k", 1, "--dry-run", folder=tmp_path)
    assert done.stderr.startswith(told)
    options = "--prompt messages --completion response"
    assert done.stderr.splitlines()[1] == f"hint: did you mean {options}?"
    done = karl("sample", "one.json", "-k", 1, "-o", "-", *options.split(), folder=tmp_path)
    assert json.loads(done.stdout)["messages"] == [USER, ANSWER]


MINI: dict[str, Any] = {
    "info": {"exit_status": "Submitted", "submission": "diff", "model_stats": {"instance_cost": 0.1, "api_calls": 2}},
    "messages": [
        {"role": "system", "content": "s"},
        USER,
        {"role": "assistant", "content": "look", "extra": {"actions": ["ls"]}},
        {"role": "user", "content": "<returncode>0</returncode>"},
        ANSWER,
        {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff"}},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
}


def test_exit_of_mini_swe_agent_is_not_message(tmp_path: Path) -> None:
    (tmp_path / "mini.traj.json").write_text(json.dumps(MINI | {"reward": 1}, indent=1))
    done = karl("sample", "mini.traj.json", "-k", 1, "-o", "-", folder=tmp_path)
    assert [one["content"] for one in json.loads(done.stdout)["messages"]][-2:] == ["<returncode>0</returncode>", "a"]
    assert "trimmed   1 message after the last assistant turn" in done.stderr
    assert karl("convert", "mini.traj.json", "-o", "out.jsonl", folder=tmp_path).returncode == 0
    messages = json.loads((tmp_path / "out.jsonl").read_text())["messages"]
    assert [one["role"] for one in messages] == ["system", "user", "assistant", "user", "assistant"]
    in_the_middle = MINI | {"reward": 1, "messages": [USER, MINI["messages"][-1], ANSWER]}
    (tmp_path / "mini.traj.json").write_text(json.dumps(in_the_middle))
    assert "unknown role 1" in refused(karl("sample", "mini.traj.json", "-k", 1, "-o", "-", folder=tmp_path), 4)


PARTS = [{"role": "user", "parts": [{"text": "q"}, {"text": "!"}]}, {"role": "model", "parts": [{"text": "a"}]}]


@pytest.mark.parametrize("key", ["systemInstruction", "system_instruction"])
def test_parts_of_gemini_are_read(tmp_path: Path, key: str) -> None:
    system = {"role": "system", "parts": [{"text": "be "}, {"text": "brief"}]}
    rows.write(tmp_path / "log.jsonl", [{"reward": 1, key: system, "contents": PARTS}])
    done = karl("sample", "log.jsonl", "-k", 1, "--dry-run", folder=tmp_path)
    assert done.stderr.splitlines()[1] == "hint: did you mean --messages contents?"
    done = karl("sample", "log.jsonl", "-k", 1, "-o", "-", "--messages", "contents", folder=tmp_path)
    found = [(one["role"], one["content"]) for one in json.loads(done.stdout)["messages"]]
    assert found == [("system", "be brief"), ("user", "q!"), ("assistant", "a")]
    odd = [PARTS[0], {"role": "model", "parts": [{"inlineData": {"mimeType": "image/png", "data": "x"}}]}]
    rows.write(tmp_path / "log.jsonl", [{"reward": 1, "contents": odd}])
    done = karl("sample", "log.jsonl", "-k", 1, "--dry-run", "--messages", "contents", folder=tmp_path)
    assert "bad message 1" in refused(done, 4)


TALK = [USER, ANSWER]
NOT_OF_AN_AGENT = [
    {"id": 1, "score": 1.0, "history": TALK},
    {"id": 1, "score": 1.0, "history": TALK, "trajectory": []},
    {"type": "click", "sessionId": "s", "score": 1.0, "talk": TALK},
    {"type": "run", "session_id": "s", "score": 1.0, "talk": TALK},
]


@pytest.mark.parametrize("record", NOT_OF_AN_AGENT)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("indent", [None, 1])
def test_json_of_ones_own_is_no_transcript(tmp_path: Path, record: Any, count: int, indent: int | None) -> None:
    (tmp_path / "log.json").write_text("\n".join(json.dumps(record, indent=indent) for _ in range(count)))
    looked = karl("inspect", "log.json", folder=tmp_path)
    assert "transcript" not in looked.stdout + looked.stderr
    done = karl("convert", "log.json", "-o", "out.jsonl", folder=tmp_path)
    assert refused(done, 1) == "log.json: it is not a transcript of a known tool"
    assert "karl-fast sample reads records of other forms" in done.stderr
    field = "history" if "history" in record else "talk"
    done = karl("sample", "log.json", "-k", 1, "-o", "-", "--reward", "score", "--messages", field, folder=tmp_path)
    assert json.loads(done.stdout.splitlines()[0])["messages"] == TALK


@pytest.mark.parametrize(
    "keys", [{"type": "x", "sessionId": "s", "uuid": "u"}, {"type": "x", "payload": 1, "timestamp": 2}]
)
def test_record_with_messages_is_a_rollout(tmp_path: Path, keys: dict[str, Any]) -> None:
    rows.write(tmp_path / "log.jsonl", [one | keys for one in rows.records(4)])
    done = karl("convert", "log.jsonl", "-o", "out.jsonl", folder=tmp_path)
    assert (done.returncode, "4 of 4 trajectories" in done.stderr) == (0, True)
