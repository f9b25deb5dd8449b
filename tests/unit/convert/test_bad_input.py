"""What every format does with damage: it is counted with its place, costs no more than itself, and stops nothing."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import errors
from tests.cli.run import karl
from tests.unit.convert.samples import ALL, DOCUMENTS, LINES, Sample

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.convert.conftest import Convert

every = pytest.mark.parametrize("sample", ALL, ids=lambda sample: sample.name)
of_lines = pytest.mark.parametrize("sample", LINES, ids=lambda sample: sample.name)
of_documents = pytest.mark.parametrize("sample", DOCUMENTS, ids=lambda sample: sample.name)


def said(found: list[dict[str, Any]]) -> list[Any]:
    """The messages of all trajectories, without what depends on the bytes of a record or the name of its file."""
    return [one["messages"] for one in found]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in" / "log.jsonl"


@every
def test_a_sound_file_has_no_damage(convert: Convert, path: Path, sample: Sample) -> None:
    account, found = convert(sample.write(path))
    assert (account.bad, account.mistyped, account.welded_lines, account.blank_lines) == ({}, [], 0, 0)
    assert "wrong_type" not in account.notes
    assert {one["source"]["format"] for one in found} == {sample.name}


@of_lines
def test_torn_last_line_is_counted_with_place(convert: Convert, path: Path, sample: Sample) -> None:
    whole = sample.write(path).read_bytes()
    lines = whole.splitlines(keepends=True)
    _, wanted = convert(sample.write(path, sample.records()[:-1]))
    path.write_bytes(whole[:-12])
    account, found = convert(path)
    assert account.bad == {"torn": 1}
    [file] = account.files
    torn = {"reason": "torn", "line": len(lines), "offset": len(whole) - len(lines[-1])}
    assert (file["path"], file["bad_lines"]) == (str(path), [torn])
    assert said(found) == said(wanted)


@of_lines
def test_welded_lines_are_all_read(convert: Convert, path: Path, sample: Sample) -> None:
    _, wanted = convert(sample.write(path))
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0] + lines[1], *lines[2:]]) + b"\n")
    account, found = convert(path)
    assert (account.welded_lines, account.bad) == (1, {})
    assert said(found) == said(wanted)


@of_lines
@pytest.mark.parametrize("at", [0, 2])
def test_bad_record_costs_only_itself(convert: Convert, path: Path, sample: Sample, at: int) -> None:
    _, wanted = convert(sample.write(path))
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:at], b"{broken", b"", b"[1]", b"done", *lines[at:]]) + b"\n")
    account, found = convert(path)
    assert (account.bad, account.blank_lines) == ({"malformed": 1, "not_an_object": 2}, 1)
    start = sum(len(line) + 1 for line in lines[:at])
    assert [(bad["reason"], bad["line"], bad["offset"]) for bad in account.files[0]["bad_lines"]] == [
        ("malformed", at + 1, start),
        ("not_an_object", at + 3, start + 9),
        ("not_an_object", at + 4, start + 13),
    ]
    assert said(found) == said(wanted)


@of_lines
@pytest.mark.parametrize("damage", ["torn in a text", "torn after a value", "comma", "unclosed"])
def test_damaged_first_line_hides_nothing(convert: Convert, path: Path, sample: Sample, damage: str) -> None:
    _, wanted = convert(sample.write(path))
    whole = path.read_bytes()
    first = whole.splitlines()[0]
    cut = first.rindex(b",")
    text = first.rindex(b'"')
    made = {
        "torn in a text": first[:text],
        "torn after a value": first[:cut],
        "comma": b'{"a": 1,}',
        "unclosed": first[:-1],
    }
    path.write_bytes(made[damage] + b"\n" + whole)
    for source in (path, path.parent):
        account, found = convert(source)
        assert sum(account.bad.values()) == 1
        assert (account.files[0]["bad_lines"][0]["line"], account.refused) == (1, [])
        assert said(found) == said(wanted)


def test_array_longer_than_line_limit_is_read(convert: Convert, path: Path) -> None:
    records = LINES[-1].records() * 8
    path.write_text(json.dumps({"results": records}), "utf-8")
    _, found = convert(path, max_line_bytes=2000)
    assert len(found) == len(records)
    path.write_text(json.dumps({"results": [1] * 2000}), "utf-8")
    with pytest.raises(errors.LogError, match="is longer than a line may be, 2000 bytes"):
        karl_fast.convert(path, path.with_name("out.jsonl"), max_line_bytes=2000)


def test_damage_in_packed_log_names_it(path: Path, tmp_path: Path) -> None:
    records = LINES[-1].records()
    path.write_bytes(gzip.compress(json.dumps({"one": records, "two": records}).encode()))
    with pytest.raises(errors.LogError) as raised:
        karl_fast.convert(path, tmp_path / "out.jsonl", format="generic")
    assert str(raised.value).startswith(f"{path}: it is one JSON object with several arrays")


@pytest.mark.parametrize(
    ("sample", "field", "wanted"),
    [(LINES[-1], "messages", "a list"), (LINES[-3], "prompt", "a text or a list")],
    ids=["generic", "prime-rl"],
)
def test_record_without_conversation_says_what_is_wanted(
    convert: Convert, path: Path, sample: Sample, field: str, wanted: str
) -> None:
    records = sample.records()
    for key in ("messages", "prompt", "completion"):
        records[1].pop(key, None)
    account, found = convert(sample.write(path, records))
    [odd] = account.mistyped
    assert (odd["field"], odd["came"], odd["wanted"]) == (field, "nothing", wanted)
    assert (account.dropped, len(found)) == ({"no_trajectory": 1}, len(records) - 1)


@every
def test_wrong_type_is_reported_with_place(convert: Convert, path: Path, sample: Sample) -> None:
    sample.write(path, sample.spoilt())
    account, found = convert(path)
    field, came, wanted = sample.told
    at = sample.odd[0]
    offset = sum(len(line) + 1 for line in path.read_bytes().splitlines()[:at])
    told = {"path": str(path), "offset": offset, "field": field, "came": came, "wanted": wanted}
    assert account.mistyped == [told]
    assert account.notes["wrong_type"] == 1
    assert account.bad == {}
    assert found


@every
def test_an_empty_file_is_named(convert: Convert, path: Path, tmp_path: Path, sample: Sample) -> None:
    empty = path.with_name("empty.jsonl")
    empty.write_text("")
    for format in (None, sample.name.removesuffix("-stream")):
        with pytest.raises(errors.LogError, match=r"empty\.jsonl: (it is empty|there is no conversation)"):
            karl_fast.convert(empty, tmp_path / "out.jsonl", format=format)
    sample.write(path)
    account, _ = convert(path.parent)
    assert account.skipped == [(str(empty), "it is empty")]


@pytest.mark.parametrize("sample", LINES[:3], ids=lambda sample: sample.name)
def test_unknown_line_type_is_counted(convert: Convert, path: Path, sample: Sample) -> None:
    _, wanted = convert(sample.write(path))
    records = sample.records()
    for at in (len(records), 1):
        records.insert(at, records[0] | {"type": "from-tomorrow", "uuid": f"u{at}", "payload": {"type": "new"}})
    account, found = convert(sample.write(path, records))
    assert account.types["from-tomorrow"] == 2
    assert said(found) == said(wanted)


@pytest.mark.parametrize("sample", LINES[3:], ids=lambda sample: sample.name)
def test_unknown_key_stays_in_record(convert: Convert, path: Path, sample: Sample) -> None:
    records = [record | {"from_tomorrow": {"n": at}} for at, record in enumerate(sample.records())]
    _, found = convert(sample.write(path, records))
    assert [one["source"]["record"]["from_tomorrow"]["n"] for one in found] == list(range(len(records)))


@every
def test_invalid_utf8_is_replaced_and_noted(convert: Convert, path: Path, sample: Sample) -> None:
    text = sample.write(path).read_bytes()
    words = (b"Mended", b"answer 1", b"said 1", b"total = 0", b"I open", b"I list")
    word = next(word for word in words if word in text)
    path.write_bytes(text.replace(word, word[:3] + b"\xff" + word[3:], 1))
    account, found = convert(path)
    assert account.notes["mended"] == 1
    assert (account.bad, account.dropped.get("damaged")) == ({}, None)
    assert sum("�" in json.dumps(one["messages"], ensure_ascii=False) for one in found) == 1


@of_lines
def test_fully_damaged_file_is_named(path: Path, tmp_path: Path, sample: Sample) -> None:
    path.write_text("{broken\n", "utf-8")
    out = tmp_path / "out.jsonl"
    with pytest.raises(errors.LogError, match=r"log\.jsonl: there is no conversation.*; line 1, byte 0: malformed"):
        karl_fast.convert(path, out, format=sample.name.removesuffix("-stream"))
    assert [file.name for file in tmp_path.iterdir()] == ["in"]


@of_documents
def test_broken_document_names_the_byte(path: Path, tmp_path: Path, sample: Sample) -> None:
    text = json.dumps(sample.records()[0])
    cases = [
        (text[:-9], f"at byte {len(text) - 9}"),
        (text[:-1] + "x}", f"byte {len(text) - 1} cannot stand there"),
        (text + text, f"; line 1, byte {len(text)}: malformed"),
    ]
    for damaged, place in cases:
        path.write_text(damaged, "utf-8")
        with pytest.raises(errors.LogError) as raised:
            karl_fast.convert(path, tmp_path / "out.jsonl")
        assert str(raised.value).startswith(f"{path}: ")
        assert place in str(raised.value)
    assert [file.name for file in tmp_path.iterdir()] == ["in"]


@of_documents
def test_empty_document_is_dropped_by_name(convert: Convert, path: Path, sample: Sample) -> None:
    empty = {"steps": [], "history": []}
    sample.write(path, [{key: empty.get(key, value) for key, value in sample.records()[0].items()}])
    sample.write(path.with_name("sound.jsonl"))
    account, found = convert(path.parent)
    assert (len(found), account.dropped, account.lines_used) == (1, {"empty": 1}, 1)


@every
def test_any_value_may_be_of_any_type(convert: Convert, path: Path, sample: Sample) -> None:
    """Each value in turn is replaced by one of each type: nothing ends the run, and every line has one fate."""
    records = sample.records()
    sound = path.with_name("sound.jsonl")
    sample.write(sound)
    for at, keys in places(records):
        for value in (None, True, 3, "x", [], [3], {}, {"type": 3}):
            changed = json.loads(json.dumps(records))
            holder = changed[at]
            for key in keys[:-1]:
                holder = holder[key]
            holder[keys[-1]] = value
            sample.write(path, changed)
            convert(path.parent)


def places(records: list[dict[str, Any]]) -> list[tuple[int, tuple[str | int, ...]]]:
    """Some of the places of values, each path of keys once."""
    seen: dict[tuple[str, ...], tuple[int, tuple[str | int, ...]]] = {}

    def walk(at: int, keys: tuple[str | int, ...], value: Any) -> None:
        if keys:
            seen.setdefault(tuple(key if isinstance(key, str) else "" for key in keys), (at, keys))
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, more in inner:
            walk(at, (*keys, key), more)

    for at, record in enumerate(records):
        walk(at, (), record)
    return list(seen.values())


PRODUCTS = {
    "Copilot CLI": {"sessionId": "s", "startTime": "t", "chatMessages": [], "timeline": []},
    "OpenHands": {"timestamp": "t", "source": "agent", "action": "run", "args": {}},
    "KARL": {key: {} for key in ("skill", "context", "trajectory", "outcome", "timing")}
    | dict.fromkeys(("id", "session_id", "channel", "recorded_at"), "x"),
}


@pytest.mark.parametrize("product", PRODUCTS)
def test_what_another_product_wrote_is_refused_by_name(tmp_path: Path, product: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(json.dumps(PRODUCTS[product]) + "\n", "utf-8")
    with pytest.raises(errors.LogError, match=rf"other\.jsonl: .*{product}"):
        karl_fast.convert(path, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_the_command_prints_each_place(path: Path) -> None:
    sample = LINES[-1]
    sample.write(path, sample.spoilt())
    path.write_text(path.read_text("utf-8") + "{broken\n", "utf-8")
    told = karl("convert", "log.jsonl", "-o", "out.jsonl", folder=path.parent)
    assert told.returncode == 0, told.stderr
    lines = path.read_bytes().splitlines(keepends=True)
    assert f"log.jsonl, line 5, byte {sum(map(len, lines[:-1]))}: malformed" in told.stderr
    assert f"log.jsonl, byte {len(lines[0])}: messages is a text, wanted a list" in told.stderr
