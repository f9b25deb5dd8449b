"""Wrong input of a first day: the error names what is there, and the hint what was meant."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from karl_fast.export.write import MESSAGE
from karl_fast.log import record_fields
from karl_fast.log.record_fields import SPEAKERS
from tests import rows
from tests.cli.run import karl
from tests.cli.test_exits import refused
from tests.cli.test_warnings import said
from tests.unit.convert.samples import ALL

if TYPE_CHECKING:
    from pathlib import Path

TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
RECORDS = [{"id": n, "task_id": f"t{n % 4}", "reward": n / 20, "conversation": TALK} for n in range(20)]
HOLD = "the records hold id, task_id, reward, conversation"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return rows.write(tmp_path / "log.jsonl", RECORDS)


@pytest.mark.parametrize("command", [["sample", "-k", "3", "--dry-run"], ["inspect"]])
@pytest.mark.parametrize(
    ("words", "sentence", "hint"),
    [
        (
            "--score zscore --group taskid",
            "--score zscore is taken within groups, but no record has the group taskid",
            1,
        ),
        ("--score zscore", "--score zscore is taken within groups, but no record has a group", 1),
        ("--partition-by group", "--partition-by is group, but no record has a group", 1),
        ("--partition-by taskid", "--partition-by is taskid, but no record has that field", 2),
        ("--score centre --group x.y", "--score centre is taken within groups, but no record has the group x.y", 0),
    ],
)
def test_2_missing_group_names_likely_field(
    log: Path, command: list[str], words: str, sentence: str, hint: int
) -> None:
    done = karl(*command, log.name, *words.split(), folder=log.parent)
    assert refused(done, 2) == f"{sentence}; {HOLD}"
    meant = ["name its path with --group", "did you mean --group task_id?", "did you mean --partition-by task_id?"]
    assert done.stderr.splitlines()[1] == f"hint: {meant[hint]}"


MISSPELT = {
    "--group qqqqqq": ("no record has the group qqqqqq; {}", "name its path with --group"),
    "--group hash(prmpt)": (
        "no record has the group hash(prmpt); the first record lacks prmpt; {}",
        "name its path with --group",
    ),
    "--group task_id,zz": (
        "no record has the group task_id,zz; the first record lacks zz; {}",
        "name its path with --group",
    ),
    "--group taskid": ("no record has the group taskid; {}", "did you mean --group task_id?"),
    "--id idd": ("no record has the id idd; {}", "did you mean --id id?"),
    "--id id,tsk_id": (
        "no record has the id id,tsk_id; the first record lacks tsk_id; {}",
        "did you mean --id id,task_id?",
    ),
    "--domain tsk_id": ("no record has the domain tsk_id; {}", "did you mean --domain task_id?"),
    "--domain nothing": ("no record has the domain nothing; {}", "name its path with --domain"),
    "--group hash(tsk_id)": (
        "no record has the group hash(tsk_id); the first record lacks tsk_id; {}",
        "did you mean --group 'hash(task_id)'?",
    ),
}


@pytest.mark.parametrize("command", [["sample", "-k", "3", "--dry-run"], ["inspect"]])
@pytest.mark.parametrize("stream", ["", "--sampler weighted-reservoir --inverse-temperature 1"])
@pytest.mark.parametrize("words", MISSPELT)
def test_unknown_optional_name_is_an_error(log: Path, command: list[str], words: str, stream: str) -> None:
    more = stream.split() if command[0] == "sample" else []
    done = karl(*command, "-" if stream else log.name, *words.split(), *more, folder=log.parent, input=log.read_text())
    sentence, hint = MISSPELT[words]
    if more:  # of a stream that is read once there are no records left to look at
        assert refused(done, 2).startswith(sentence.partition("; ")[0])
    else:
        assert refused(done, 2) == sentence.format(HOLD)
        assert done.stderr.splitlines()[1] == f"hint: {hint}"


@pytest.mark.parametrize("out", [["-o", "data"], ["-o", "-"], ["--dry-run"]])
@pytest.mark.parametrize("words", ["", "--messages turns", "--messages conversatoin"])
def test_4_missing_messages_names_likely_field(log: Path, out: list[str], words: str) -> None:
    done = karl("sample", log.name, "-k", 3, *out, *words.split(), folder=log.parent)
    assert refused(done, 4) == f"none of the chosen rows can be written: no trajectory 20; {HOLD}"
    assert done.stderr.splitlines()[1] == "hint: did you mean --messages conversation?"


@pytest.mark.parametrize(
    ("name", "hint"), [("rewrd", "did you mean --reward reward?"), ("nosuch", "name its path with --reward")]
)
def test_4_missing_reward_names_likely_field(log: Path, name: str, hint: str) -> None:
    done = karl("sample", log.name, "-k", 3, "--dry-run", "--reward", name, folder=log.parent)
    told = f"no row is left to draw: 20 read, dropped: missing reward 20; no record has the reward {name}; {HOLD}"
    assert refused(done, 4) == told
    assert done.stderr.splitlines()[1] == f"hint: {hint}"


BAD = {
    "message 1 of m.x has no role; it holds speaker, text": [{"speaker": "human", "text": "q"}],
    "message 1 of m.x is from 'narrator', who is none of system, human": [{"from": "narrator", "value": "q"}],
    "message 1 of m.x is from what is not text": [{"from": 5, "value": "q"}],
    "message 2 of m.x has a value that is neither a text nor parts of text": [TALK[0], {"from": "gpt", "value": 5}],
    "message 3 of m.x is not an object": [*TALK, "text"],
    "m.x is not a list of messages": {"role": "assistant", "content": "a"},
    "message 2 of m.x has a role that is not text": [TALK[0], {"role": 5, "content": "a"}],
    "message 1 of m.x has a content that is neither a text nor parts of text": [{"role": "user", "content": 5}, *TALK],
    "message 2 of m.x has a content that": [TALK[0], {"role": "assistant", "content": [{"type": "widget"}]}],
    "": [*TALK, TALK[1] | {"tool_calls": 5}],
}


@pytest.mark.parametrize("told", BAD)
def test_4_conversations_in_another_form(tmp_path: Path, told: str) -> None:
    rows.write(tmp_path / "log.jsonl", [{"id": n, "reward": n / 5, "m": {"x": BAD[told]}} for n in range(5)])
    done = karl("sample", "log.jsonl", "-k", 3, "--dry-run", "--messages", "m.x", folder=tmp_path)
    more = f"; in one record {told}" if told else ""
    assert refused(done, 4).startswith(f"none of the chosen rows can be written: bad message 5{more}")
    meant = f"{MESSAGE}; --messages names another path"
    assert done.stderr.splitlines()[1] == f"hint: {meant}"


def test_images_in_a_conversation_are_counted(tmp_path: Path) -> None:
    talk = [TALK[0], {"role": "assistant", "content": [{"type": "image", "source": {}}]}]
    rows.write(tmp_path / "log.jsonl", [{"id": n, "reward": n / 5, "messages": talk} for n in range(5)])
    done = karl("sample", "log.jsonl", "-k", 3, "--dry-run", folder=tmp_path)
    assert refused(done, 4).endswith("bad message 5; 5 rows have images, and only text is learned")


def test_empty_field_is_not_proposed(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [rows.record(n, None) for n in range(5)])
    done = karl("inspect", "log.jsonl", "--score", "zscore", folder=tmp_path)
    assert refused(done, 2).endswith("no record has a group; the records hold id, group, reward, messages")
    assert done.stderr.splitlines()[1] == "hint: name its path with --group"


TRANSCRIPTS = ("claude-code", "claude-code-stream", "codex", "atif", "swe-agent")
CONVERT = "karl-fast convert makes a log of it; --rate result, karl-v1 or karl-v2 gives rewards where it has none"


@pytest.mark.parametrize("one", [one for one in ALL if one.name in TRANSCRIPTS], ids=lambda one: one.name)
@pytest.mark.parametrize("words", ["", "--score zscore"])
def test_transcript_hint_names_convert(tmp_path: Path, one: Any, words: str) -> None:
    path = one.write(tmp_path / "it.jsonl")
    told = f"it.jsonl is a transcript of {one.name.removesuffix('-stream')}"
    done = karl("sample", path.name, "-k", 3, "--dry-run", *words.split(), folder=tmp_path)
    assert refused(done, 2 if words else 4).endswith(f"; {told}")
    assert done.stderr.splitlines()[1] == f"hint: {CONVERT}"
    looked = karl("inspect", path.name, folder=tmp_path)
    assert looked.returncode == 0
    assert f"warning: {told}: {CONVERT}" in said(looked.stdout)
    assert karl("convert", path.name, "-o", "log.jsonl", "--rate", "karl-v2", folder=tmp_path).returncode == 0
    assert karl("sample", "log.jsonl", "-k", 1, "--dry-run", folder=tmp_path).returncode == 0


def test_a_transcript_beside_a_log_is_told(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", rows.records(400))
    next(one for one in ALL if one.name == "claude-code").write(tmp_path / "it.jsonl")
    told = f"warning: it.jsonl is a transcript of claude-code: {CONVERT}"
    for more in ([], ["--reward", "reward"]):
        for command in (["sample", "-k", "3", "--dry-run"], ["inspect"]):
            done = karl(*command, "log.jsonl", "it.jsonl", *more, folder=tmp_path)
            assert done.returncode == 0
            assert told in said(done.stdout + done.stderr)
    assert told not in said(karl("inspect", "log.jsonl", "it.jsonl", "--format", "generic", folder=tmp_path).stdout)


RATE = "karl-fast outcomes finds what they earned, and convert --rate karl-v1 or karl-v2 gives rewards"


def test_trajectories_without_rewards_hint(tmp_path: Path) -> None:
    codex = next(one for one in ALL if one.name == "codex")
    codex.write(tmp_path / "it.jsonl")
    done = karl("convert", "it.jsonl", "-o", "log.jsonl", folder=tmp_path)
    assert "rewards   none: --rate karl-v1 or karl-v2 gives some, result that of the run\n" in done.stderr
    done = karl("sample", "log.jsonl", "-k", 3, "--dry-run", folder=tmp_path)
    assert refused(done, 4).endswith("missing reward 1; log.jsonl was converted without rewards")
    assert done.stderr.splitlines()[1] == f"hint: {RATE}"
    looked = karl("inspect", "log.jsonl", folder=tmp_path)
    assert f"warning: log.jsonl was converted without rewards: {RATE}" in said(looked.stdout)
    done = karl("sample", "log.jsonl", "-k", 3, "--dry-run", "--reward", "tokens.outptu", folder=tmp_path)
    assert done.stderr.splitlines()[1] == "hint: did you mean --reward tokens.output?"
    done = karl("convert", "it.jsonl", "-o", "log.jsonl", "--rate", "result", "--force", folder=tmp_path)
    assert "rewards   none: --rate karl-v1 or karl-v2 gives some\n" in done.stderr
    done = karl("convert", "it.jsonl", "-o", "log.jsonl", "--rate", "karl-v2", "--force", folder=tmp_path)
    assert "rewards   1 of 1 trajectory\n" in done.stderr


def test_partly_rewarded_trajectories_get_no_conversion_hint(tmp_path: Path) -> None:
    codex = next(one for one in ALL if one.name == "codex")
    codex.write(tmp_path / "it.jsonl")
    karl("convert", "it.jsonl", "-o", "one.jsonl", folder=tmp_path)
    one = json.loads((tmp_path / "one.jsonl").read_text("utf-8"))
    some = [one | {"id": f"s{at}"} | ({"reward": at / 9} if at < 6 else {}) for at in range(9)]
    rows.write(tmp_path / "mixed.jsonl", some)
    for command in (["inspect"], ["sample", "-k", "3", "--dry-run"]):
        done = karl(*command, "mixed.jsonl", folder=tmp_path)
        assert done.returncode == 0
        assert f"3 of 9 rows have no reward: {RATE}" in said(done.stdout + done.stderr)
        assert "without rewards" not in said(done.stdout + done.stderr)


@pytest.mark.parametrize("one", [one for one in ALL if one.document], ids=lambda one: one.name)
@pytest.mark.parametrize("command", [["sample", "-k", "3", "--dry-run"], ["inspect"]])
def test_1_where_a_document_is_a_transcript(tmp_path: Path, one: Any, command: list[str]) -> None:
    (tmp_path / "it.json").write_text(json.dumps(one.records()[0], indent=1), "utf-8")
    done = karl(*command, "it.json", folder=tmp_path)
    assert refused(done, 1) == f"it.json is a transcript of {one.name}"
    assert done.stderr.splitlines()[1] == f"hint: {CONVERT}"


def test_transcripts_from_pipe_and_folder(tmp_path: Path) -> None:
    codex = next(one for one in ALL if one.name == "codex")
    (tmp_path / "logs").mkdir()
    text = codex.write(tmp_path / "logs" / "a.jsonl").read_text("utf-8")
    codex.write(tmp_path / "logs" / "b.jsonl")
    done = karl("sample", "logs", "-k", 3, "--dry-run", folder=tmp_path)
    assert refused(done, 4).endswith("; logs/a.jsonl and 1 other are transcripts of codex")
    for words in ("", "--sampler weighted-reservoir --inverse-temperature 1"):
        done = karl("sample", "-", "-k", 3, "--dry-run", *words.split(), folder=tmp_path, input=text)
        assert refused(done, 4).endswith("; - is a transcript of codex")


def test_a_log_that_has_rewards_is_none(tmp_path: Path) -> None:
    odd = [row | {"type": "x", "sessionId": "s"} for row in rows.records(8)]
    rows.write(tmp_path / "log.jsonl", [*odd[:4], *({**row, "reward": None} for row in odd[4:])])
    done = karl("sample", "log.jsonl", "-k", 3, "--dry-run", "--min-reward", 9, folder=tmp_path)
    assert "transcript" not in refused(done, 4)
    done = karl("inspect", "log.jsonl", "--score", "zscore", "--group", "nowhere", folder=tmp_path)
    assert refused(done, 2).endswith("; the records hold id, group, reward, messages, type, sessionId")


@pytest.mark.parametrize("more", [{"history": []}, {"type": "x", "sessionId": "s", "messages": []}])
def test_differently_named_reward_is_not_a_transcript(tmp_path: Path, more: dict[str, Any]) -> None:
    rows.write(tmp_path / "log.jsonl", [{"id": str(at), "score": at / 8} | more for at in range(8)])
    done = karl("sample", "log.jsonl", "-k", 3, "--dry-run", folder=tmp_path)
    assert "transcript" not in refused(done, 4)
    assert done.stderr.splitlines()[1] == "hint: did you mean --reward score?"


def test_function_reward_errors_list_fields(log: Path) -> None:
    (log.parent / "mine.py").write_text("def score(completions, **columns):\n    return [1.0] * len(completions)\n")
    (log.parent / "karl.toml").write_text(
        'messages = "conversation"\n[reward]\nmine = { weight = 1, fn = "mine.py:score" }\n'
    )
    done = karl("inspect", log.name, "--config", "karl.toml", "--score", "zscore", folder=log.parent)
    assert refused(done, 2) == f"--score zscore is taken within groups, but no record has a group; {HOLD}"


def test_an_object_is_no_reward(tmp_path: Path) -> None:
    objects = [{"id": n, "info": {"a": {"x": "text"}, "b": n / 8}, "score": {"of": "text"}} for n in range(8)]
    rows.write(tmp_path / "log.jsonl", objects)
    for asked, meant in (("info.bb", "did you mean --reward info.b?"), ("scor", "name its path with --reward")):
        done = karl("sample", "log.jsonl", "-k", 3, "--dry-run", "--reward", asked, folder=tmp_path)
        assert done.stderr.splitlines()[1] == f"hint: {meant}"


def test_long_number_does_not_end_a_sentence(tmp_path: Path) -> None:
    line = '{"id": "a", "score": 0.5, "n": %s}\n'
    (tmp_path / "log.jsonl").write_text(line % ("7" * 5_000))
    done = karl("sample", "log.jsonl", "-k", 3, "--dry-run", folder=tmp_path)
    assert refused(done, 4).endswith("; the records hold id, score, n")
    assert done.stderr.splitlines()[1] == "hint: did you mean --reward score?"


def test_of_many_names_some_are_looked_at() -> None:
    many = iter(range(100_000))
    assert record_fields.likeliest_key("reward", (f"{at}" for at in many)) is None
    assert next(many) < 20_000


def test_folder_without_records_explains_first_file(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.json").write_text('{\n"a": 1}', "utf-8")
    done = karl("sample", "logs", "-k", 3, "--dry-run", folder=tmp_path)
    assert refused(done, 4).startswith(
        "no row is left to draw: 0 read; logs/a.json: it is one JSON object that neither"
    )
    done = karl("inspect", "logs", folder=tmp_path)
    assert done.stdout.startswith("read      0 files: 0 bytes; 1 file passed over: logs/a.json\n")
    assert (done.returncode, done.stderr) == (4, "error: 0 rows read, and not one is a record\n")


def test_object_group_hint_names_its_key(tmp_path: Path) -> None:
    rows.write(
        tmp_path / "log.jsonl", [{"id": n, "task": {"kind": "a", "name": f"t{n % 4}"}, "reward": n} for n in range(8)]
    )
    done = karl("inspect", "log.jsonl", "--score", "zscore", folder=tmp_path)
    assert done.stderr.splitlines()[1] == "hint: did you mean --group task.name?"
    assert karl("inspect", "log.jsonl", "--score", "zscore", "--group", "task.name", folder=tmp_path).returncode == 0
    rows.write(tmp_path / "log.jsonl", [{"id": n, "task": {"kind": "a"}, "reward": n} for n in range(8)])
    done = karl("inspect", "log.jsonl", "--score", "zscore", folder=tmp_path)
    assert done.stderr.splitlines()[1] == "hint: name its path with --group"


def test_object_groups_are_shown(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [rows.record(n) | {"group": {"task": f"t{n % 2}"}} for n in range(5)])
    done = karl("sample", "log.jsonl", "-k", 3, "--dry-run", folder=tmp_path)
    assert refused(done, 4).endswith("; the first at log.jsonl, line 1, byte 0")
    meant = "a group is a text, a number, true or false; --group names what is inside of it: task.id, hash(task)"
    assert done.stderr.splitlines()[1] == f"hint: {meant}"
    for group in ("group.task", "hash(group)"):
        assert karl("sample", "log.jsonl", "-k", 3, "--dry-run", "--group", group, folder=tmp_path).returncode == 0


def test_text_rewards_are_shown(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [rows.record(n) | {"reward": "0.5"} for n in range(5)])
    done = karl("sample", "log.jsonl", "-k", 3, "--dry-run", folder=tmp_path)
    read = "no row is left to draw: 5 read, dropped: reward not a number 5"
    assert refused(done, 4).startswith(read)
    assert refused(done, 4).endswith("; the first at log.jsonl, line 1, byte 0")
    meant = "a reward is a number, true, false or null; --reward names the field of another"
    assert done.stderr.splitlines()[1] == f"hint: {meant}"
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress((tmp_path / "log.jsonl").read_bytes()))
    done = karl("sample", "log.jsonl.gz", "-k", 3, "--dry-run", folder=tmp_path)
    assert "the first at" not in done.stderr
    (tmp_path / "log.jsonl").write_text("[1]\n{\n")
    done = karl("sample", "log.jsonl", "-k", 3, "--dry-run", folder=tmp_path)
    assert "hint:" not in done.stderr


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_everybody_who_is_known_is_heard(tmp_path: Path, speaker: str) -> None:
    said = '{"name": "f"}' if speaker == "function_call" else "x"
    talk = [{"from": speaker.title(), "value": said}, {"from": "gpt", "value": "a"}]
    rows.write(tmp_path / "log.jsonl", [{"id": n, "reward": n, "messages": talk} for n in range(4)])
    assert karl("sample", "log.jsonl", "-k", 3, "--dry-run", folder=tmp_path).returncode == 0


def test_conversations_of_share_gpt_are_told_and_taken(tmp_path: Path) -> None:
    talk = [
        {"from": "system", "value": "s"},
        {"from": "human", "value": "q"},
        {"from": "gpt", "value": "a", "weight": 1},
    ]
    log = [{"id": n, "group": f"g{n % 4}", "reward": n / 8, "conversations": talk} for n in range(8)]
    rows.write(tmp_path / "log.jsonl", log)
    done = karl("sample", "log.jsonl", "-k", 3, "-o", "data", folder=tmp_path)
    assert done.stderr.splitlines()[1] == "hint: did you mean --messages conversations?"
    done = karl("sample", "log.jsonl", "-k", 3, "-o", "-", "--messages", "conversations", folder=tmp_path)
    messages = [json.loads(line)["messages"] for line in done.stdout.splitlines()]
    answer = {"role": "assistant", "content": "a", "weight": 1}
    assert messages == [[{"role": "system", "content": "s"}, {"role": "user", "content": "q"}, answer]] * 3
