"""Files in which records stand in lines, in arrays and over many lines: the same rows come out of each form."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from tests.cli.run import karl
from tests.rows import files, manifest, record, records

if TYPE_CHECKING:
    from pathlib import Path

MARK = "\ufeff"


def parts(rows: list[dict[str, Any]], seed: int, *, compact: bool = False) -> str:
    """The rows in a mixture of forms; in `compact` ones each record has the bytes of its line."""
    draw, left, text = random.Random(seed), list(rows), ""
    while left:
        count = draw.randrange(1, 90)
        some, left = left[:count], left[count:]
        lines = [json.dumps(row) for row in some]
        forms = [
            "\n".join(lines),
            json.dumps(some),
            json.dumps(some, indent=2),
            "".join(f"[{line}]" for line in lines),
            "\n".join(json.dumps(row, indent=1) for row in some),
            "[\r\n" + ",\r\n".join(lines) + "\r\n]",
            ",\n".join(lines),
        ]
        forms = [form for form in forms if "{\n" not in form] if compact else forms
        text += draw.choice(["", MARK]) + draw.choice(forms) + draw.choice(["\n", "\r\n", "\n\n", "\n  \n", " "])
    return text


def naive(text: str) -> list[dict[str, Any]]:
    """Every object of a text in which arrays, commas, marks and space stand around them."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        if text[at] == "{":
            row, at = decoder.raw_decode(text, at)
            found.append(row)
        else:
            assert text[at] in f"[], \r\n{MARK}", text[at]
            at += 1
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_mixture_gives_the_rows_of_lines(seed: int, tmp_path: Path) -> None:
    text = parts(records(1000), seed)
    (tmp_path / "mixed.jsonl").write_text(text, newline="")
    (tmp_path / "mixed.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in naive(text)))
    subprocess.run(["zstd", "-q", tmp_path / "mixed.jsonl"], check=True)
    options = ["-k", 200, "--seed", 3, "--as", "chat"]
    wanted = karl("sample", "lines.jsonl", *options, "-o", "wanted", folder=tmp_path)
    assert wanted.returncode == 0, wanted.stderr
    for number, (log, threads) in enumerate(
        [("mixed.jsonl", 1), ("mixed.jsonl", 4), ("mixed.jsonl.gz", 2), ("mixed.jsonl.zst", 1), ("-", 2)]
    ):
        out = tmp_path / f"out{number}"
        done = karl("sample", log, *options, "--threads", threads, "-o", out, folder=tmp_path, input=text)
        assert done.returncode == 0, done.stderr
        counts = manifest(out)["accounting"]
        assert (counts["rows_read"], counts["dropped"]) == (1000, {})
        assert {json.dumps(sorted(row)) for row in rows_of(out)} == {
            json.dumps(sorted(row)) for row in rows_of(tmp_path / "wanted")
        }


def rows_of(folder: Path) -> list[list[str]]:
    return [path.read_text().splitlines() for path in sorted(folder.glob("*.jsonl"))]


@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_is_streamed_and_converted_like_lines(seed: int, tmp_path: Path) -> None:
    text = parts(records(400), seed, compact=True)
    (tmp_path / "mixed.jsonl").write_text(text, newline="")
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in naive(text)))
    stream = ["--sampler", "weighted-reservoir", "--inverse-temperature", 1, "-k", 50]
    for name, log in (("a", text), ("b", (tmp_path / "lines.jsonl").read_text())):
        assert karl("sample", "-", *stream, "-o", name, folder=tmp_path, input=log).returncode == 0
    assert files(tmp_path / "a").keys() == files(tmp_path / "b").keys()
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b")
    for threads in (1, 3):
        for name in ("mixed", "lines"):
            done = karl("convert", f"{name}.jsonl", "-o", "out.jsonl", "--force", "--threads", threads, folder=tmp_path)
            assert done.returncode == 0, done.stderr
            (tmp_path / "out.jsonl").rename(tmp_path / name)
        mixed = (tmp_path / "mixed").read_text().replace("mixed.jsonl", "lines.jsonl")
        assert mixed.count("\n") == 400
        assert mixed == (tmp_path / "lines").read_text()


def test_transcripts_may_stand_in_arrays_behind_marks(tmp_path: Path) -> None:
    lines = [
        json.dumps(
            {
                "type": kind,
                "sessionId": "s",
                "uuid": f"u{n}",
                "parentUuid": f"u{n - 1}" if n else None,
                "message": {"role": kind, "content": f"text {n}"},
            }
        )
        for n, kind in enumerate(["user", "assistant"] * 3)
    ]
    (tmp_path / "plain.jsonl").write_text("\n".join(lines))
    forms = [
        f"{lines[0]}\n{MARK}" + f"\n{MARK}".join(lines[1:]),
        f"{lines[0]}\n[{','.join(lines[1:4])}]\n[\n{lines[4]},\n{lines[5]}\n]",
        f"{lines[0]}\n" + "\n".join(json.dumps(json.loads(line), indent=2) for line in lines[1:]),
    ]
    karl("convert", "plain.jsonl", "-o", "wanted", folder=tmp_path)
    for form in forms:
        (tmp_path / "plain.jsonl").write_text(form)
        done = karl("convert", "plain.jsonl", "-o", "out", "--force", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (
            json.loads((tmp_path / "out").read_text())["messages"]
            == (json.loads((tmp_path / "wanted").read_text())["messages"])
        )


def test_a_repeated_key_is_noticed_anywhere(tmp_path: Path) -> None:
    row = json.dumps(record(1))
    for damaged, key in [
        (row[:-1] + ', "messages": []}', "messages"),
        (row.replace('"role": "assistant"', '"role": "user", "role": "assistant"'), "messages[1].role"),
        (row[:-1] + ', "extra": {"a": [{"b": 1, "b": 1}]}}', "extra.a[0].b"),
    ]:
        (tmp_path / "log.jsonl").write_text(json.dumps(record(0)) + "\n" + damaged + "\n")
        strict = karl("sample", "log.jsonl", "-k", 1, "-o", "out", "--strict", folder=tmp_path)
        assert (strict.returncode, strict.stdout) == (3, "")
        assert f"log.jsonl, line 2, byte 145: the row is not a sound record: duplicate key {key}\n" in strict.stderr
        done = karl("convert", "log.jsonl", "-o", "c.jsonl", "--force", "--json", folder=tmp_path)
        assert json.loads(done.stdout)["notes"]["duplicate_keys"] == 1


@pytest.mark.parametrize(
    ("document", "indent", "layout"),
    [
        ({f"task-{n}": record(n) for n in range(3)}, None, "object of records"),
        ({f"task-{n}": record(n) for n in range(3)}, 2, "object of records"),
        ({"meta": {"a": 1}, "results": {f"task-{n}": record(n) for n in range(3)}}, None, 'under "results"'),
        ({"version": 1, 'a b"': {f"task-{n}": record(n) for n in range(3)}}, 2, 'under "a b\\""'),
    ],
)
def test_records_by_name_are_read_with_their_names(
    document: dict[str, Any], indent: int | None, layout: str, tmp_path: Path
) -> None:
    (tmp_path / "log.json").write_text(json.dumps(document, indent=indent))
    log = karl_fast.read(tmp_path / "log.json")
    assert layout in log.inputs[0]["layout"]
    assert sorted(log.rewards) == sorted(record(n)["reward"] for n in range(3))
    karl_fast.sample(log, tmp_path / "data", k=3, split=(1, 0, 0))
    drawn = [json.loads(line) for line in (tmp_path / "data" / "train.jsonl").read_text("utf-8").splitlines()]
    assert {row["karl_fast"]["id"] for row in drawn} == {str(record(n)["id"]) for n in range(3)}
    done = karl("convert", "log.json", "-o", "out", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out").read_text("utf-8").splitlines()) == 3


def test_names_are_ids_where_records_have_none(tmp_path: Path) -> None:
    unnamed = {f'task "{n}"': {key: value for key, value in record(n).items() if key != "id"} for n in range(3)}
    (tmp_path / "log.json").write_text(json.dumps(unnamed, indent=1))
    karl_fast.sample(tmp_path / "log.json", tmp_path / "data", k=3, split=(1, 0, 0), shape="raw")
    drawn = [json.loads(line) for line in (tmp_path / "data" / "train.jsonl").read_text("utf-8").splitlines()]
    assert {row["id"]: {key: row[key] for key in row if key != "id"} for row in drawn} == unnamed
    grouped = karl_fast.read(tmp_path / "log.json", group="id")
    assert sorted(grouped.group_names) == sorted(unnamed)


def test_damage_in_an_object_of_records_keeps_the_rows_before_it(tmp_path: Path) -> None:
    # The first hundred values decide what a file is.
    text = json.dumps({f"task-{n}": record(n) for n in range(100)} | {"note": 5, "last": record(9)})
    (tmp_path / "log.json").write_text(text)
    [file] = karl_fast.read(tmp_path / "log.json").inputs
    assert (file["rows_read"], file["dropped"]) == (102, [("not_an_object", 1)])
    (tmp_path / "log.json").write_text(text[:-30])
    [file] = karl_fast.read(tmp_path / "log.json").inputs
    assert (file["rows_read"], dict(file["dropped"])) == (102, {"not_an_object": 1, "torn": 1})
    assert (file["bad_rows"][1]["line"], file["bad_rows"][1]["offset"]) == (102, text.index('"last"'))


def test_several_objects_of_records_are_refused_with_a_command(tmp_path: Path) -> None:
    one = json.dumps({f"task-{n}": record(n) for n in range(3)})
    (tmp_path / "log.json").write_text(f"{one}\n{one}\n")
    for command in (["inspect"], ["sample", "-k", 1, "-o", "out"], ["convert", "-o", "out"]):
        refused = karl(command[0], "log.json", *command[1:], folder=tmp_path)
        assert refused.returncode == 1
        assert "the first holds records by name" in refused.stderr
        assert "jq -c" in refused.stderr
    (tmp_path / "folder").mkdir()
    (tmp_path / "log.json").rename(tmp_path / "folder" / "log.json")
    (tmp_path / "folder" / "other.jsonl").write_text(json.dumps(record(7)) + "\n")
    passed = json.loads(karl("inspect", "folder", "--json", folder=tmp_path).stdout)["run"]
    assert "by name" in str(passed)
