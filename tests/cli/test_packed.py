"""Logs that are packed or encoded in a way that is not read here are told as that, and not as logs of bad rows."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import subprocess
import tarfile
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast
from karl_fast import reward
from karl_fast.errors import EncodingError, PackedError
from tests import rows
from tests.cli.run import karl
from tests.cli.test_exits import refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def zipped(text: bytes) -> bytes:
    with zipfile.ZipFile(made := io.BytesIO(), "w") as archive:
        archive.writestr("log.jsonl", text)
    return made.getvalue()


def tarred(text: bytes, form: int = tarfile.PAX_FORMAT) -> bytes:
    with tarfile.open(fileobj=(made := io.BytesIO()), mode="w", format=form) as archive:
        (file := tarfile.TarInfo("log.jsonl")).size = len(text)
        archive.addfile(file, io.BytesIO(text))
    return made.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zip": zipped,
    "tar": tarred,
    "zlib": zlib.compress,
    "lz4": lambda text: b"\x04\x22\x4d\x18" + text,
    "7-Zip": lambda text: b"7z\xbc\xaf\x27\x1c" + text,
}


TAR = "tar -xOf FILE | karl-fast sample - reads what is in it"
OTHER = "unpack it, or pack it with gzip or zstd"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    records = [{"id": f"i{n}", "group": "g", "reward": n, "messages": TALK} for n in range(9)]
    return rows.write(tmp_path / "log.jsonl", records)


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize(
    "words",
    [
        ("sample", "-k", 3, "--dry-run"),
        ("inspect",),
        ("convert", "-o", "out"),
        ("convert", "--format", "codex", "-o", "out"),
    ],
)
def test_a_file_that_is_named_is_refused(log: Path, packer: str, words: tuple[Any, ...]) -> None:
    log.write_bytes(PACKERS[packer](log.read_bytes()))
    done = karl(words[0], "log.jsonl", *words[1:], folder=log.parent)
    assert refused(done, 1) == f"log.jsonl: it is packed by {packer}, wanted gzip, zstd, or plain text"
    assert done.stderr.splitlines()[1] == f"hint: {TAR if packer == 'tar' else OTHER}"


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": lambda text: pytest.importorskip("zstandard").compress(text),  # type: ignore[no-any-return]
}


ENCODINGS = {
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16LE",
    "utf-16-be": "UTF-16BE",
    "utf-32": "UTF-32",
}


@pytest.mark.parametrize("pack", PACKED)
@pytest.mark.parametrize("codec", ENCODINGS)
def test_other_encoding_hint_converts_it(log: Path, codec: str, pack: str) -> None:
    text, name = log.read_text("utf-8"), ENCODINGS[codec]
    log.write_bytes(PACKED[pack](text.encode(codec)))
    for words in (("sample", "log.jsonl", "-k", 3, "--dry-run"), ("convert", "log.jsonl", "-o", "out")):
        done = karl(*words, folder=log.parent)
        assert refused(done, 1) == f"log.jsonl: its text is {name}, wanted UTF-8"
        assert done.stderr.splitlines()[1] == f"hint: convert it: iconv -f {name} -t UTF-8"
    with pytest.raises(EncodingError, match=name) as raised:
        karl_fast.read(log)
    assert raised.value.encoding == name
    log.write_bytes(text.encode(codec))
    text = subprocess.run(["iconv", "-f", name, "-t", "UTF-8", log], capture_output=True, check=True, text=True).stdout
    assert len(text.splitlines()) == len(json.loads(f"[{','.join(text.splitlines())}]")) == 9


def test_other_encoding_in_folder_is_passed_over(log: Path) -> None:
    (log.parent / "more.jsonl").write_text(log.read_text("utf-8"), "utf-16")
    done = karl("sample", ".", "-k", 3, "--dry-run", folder=log.parent)
    told = "1 file of a folder was passed over: more.jsonl: its text is UTF-16, wanted UTF-8"
    assert (done.returncode, told in " ".join(done.stderr.split())) == (0, True), done.stderr
    done = karl("convert", ".", "-o", "out.jsonl", folder=log.parent)
    assert (done.returncode, "more.jsonl: its text is UTF-16" in done.stderr) == (0, True), done.stderr


@pytest.mark.parametrize("level", range(10))
def test_zlib_is_recognised_at_every_level(log: Path, level: int) -> None:
    text = log.read_bytes()
    log.write_bytes(zlib.compress(text, level))
    with pytest.raises(PackedError, match="by zlib"):
        karl_fast.read(log)
    for line in ("x^2 is not a record, nor is x^é\n".encode(code) for code in ("utf-8", "latin-1")):
        log.write_bytes(line + text)
        assert len(karl_fast.read(log)) == 9


@pytest.mark.parametrize("pack", PACKED)
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT])
def test_archive_is_recognised_packed_and_piped(log: Path, pack: str, form: int) -> None:
    log.write_bytes(PACKED[pack](tarred(log.read_bytes(), form)))
    draw = ("-k", 3, "--dry-run")
    for words in (draw, (*draw, "--sampler", "weighted-reservoir", "--inverse-temperature", 1)):
        for name, given in (("log.jsonl", b""), ("-", log.read_bytes())):
            done = karl("sample", name, *words, folder=log.parent, input=given, text=False, encoding=None)
            sentence, _ = done.stderr.splitlines()
            assert sentence.decode() == f"error: {name}: it is packed by tar, wanted gzip, zstd, or plain text"
            assert done.returncode == 1


def test_archive_is_refused_by_reward_engine(log: Path) -> None:
    log.write_bytes(gzip.compress(tarred(log.read_bytes())))
    with pytest.raises(PackedError, match="by tar"):
        reward.compute_rewards(log)


def test_ustar_in_a_text_is_not_an_archive(log: Path) -> None:
    row = {"id": "a", "group": "g", "reward": 1, "messages": TALK, "note": ""}
    row["note"] = "x" * (257 - json.dumps(row).index('""') - 1) + "ustar  "
    text = json.dumps(row, ensure_ascii=False)
    assert text[257:264] == "ustar  "
    log.write_text(f"{text}\n")
    assert karl("inspect", "log.jsonl", "--strict", folder=log.parent).returncode == 0


@pytest.mark.parametrize("words", [(), ("--format", "generic")])
def test_a_file_in_a_folder_is_passed_over(log: Path, words: tuple[str, ...]) -> None:
    (log.parent / "more.jsonl").write_bytes(bz2.compress(b"x"))
    done = karl("convert", ".", "-o", "out.jsonl", *words, folder=log.parent)
    assert done.returncode == 0, done.stderr
    assert "it is packed by bzip2" in done.stderr
    assert len((log.parent / "out.jsonl").read_text().splitlines()) == 9


def test_bzip2_prefix_in_text_is_bad_row(log: Path) -> None:
    log.write_bytes(b"BZhang started this run\n" + log.read_bytes())
    done = karl("sample", "log.jsonl", "-k", 3, "--dry-run", folder=log.parent)
    assert done.returncode == 0
    assert "not an object 1" in done.stderr


@pytest.mark.parametrize("name", ["more.jsonl", "more.jsonl.bz2"])
def test_sampled_folder_names_its_packed_files(log: Path, name: str) -> None:
    for file in (name, f"a.{name}"):
        (log.parent / file).write_bytes(bz2.compress(b"x"))
    done = karl("sample", ".", "-k", 3, "--dry-run", folder=log.parent)
    words = " ".join(done.stderr.split())
    why = "its name ends in .bz2, which is not unpacked here" if name.endswith(".bz2") else "it is packed by bzip2"
    told = f"2 files of folders were passed over, the first: a.{name}: {why}"
    assert (done.returncode, told in words, "no records" in words) == (0, True, False), words
    run = json.loads(karl("inspect", ".", "--json", folder=log.parent).stdout)["run"]
    assert ([file["path"] for file in run["refused"]], run["skipped"]) == ([f"a.{name}", name], [])
    log.unlink()
    done = karl("inspect", ".", folder=log.parent)
    assert done.returncode == (2 if name.endswith(".bz2") else 4)
    assert f"a.{name}: {why}" in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["runs.tar", "runs.tgz", "runs.tar.gz", "runs.tar.zst", "log.jsonl.tar", "log.zip"])
@pytest.mark.parametrize("command", ["sample . -k 3 --dry-run", "convert . -o made"])
def test_archive_in_folder_is_never_opened(log: Path, name: str, command: str) -> None:
    (log.parent / name).write_bytes(log.read_bytes())  # as a tar of the seventh edition, which has no mark, nearly is
    done = karl(*command.split(), folder=log.parent)
    end = name.removeprefix("runs").removeprefix("log").removeprefix(".jsonl")
    told = f"{name}: its name ends in {end}, which is not unpacked here"
    assert (done.returncode, told in " ".join(done.stderr.split())) == (0, True), done.stderr
    assert "9 read" in done.stderr if command.startswith("sample") else "9" in done.stderr
