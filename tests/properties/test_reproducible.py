"""Law 2: a draw is a pure function of (seed, records, settings), down to the bytes of every file that is written."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xxhash

import karl_fast
from tests import rows
from tests.properties.naive import chain as naive

if TYPE_CHECKING:
    from collections.abc import Callable

TINY = Path(__file__).parent / "tiny.jsonl"

HOW: dict[str, Any] = {
    "k": 60,
    "seed": 7,
    "score": "zscore",
    "ess": 0.4,
    "split": (0.6, 0.2, 0.2),
    "max_per_group": 12,
    "dedup": True,
    "domain": "kind",
}

Result = tuple[dict[str, bytes], dict[str, Any]]


def awkward() -> list[bytes]:
    """Records that share ids, are identical, have none, or have no reward; 300 lines of bytes."""
    random_ = random.Random(3)
    made = [
        rows.record(n, f"g{n % 13}", random_.choice([0.1, 0.2, 0.7, 1 / 3, 1.0]), kind=f"k{n % 3}") for n in range(270)
    ]
    made += [rows.record(5, "g1", reward / 7) for reward in range(8)]  # one id, different records
    made += [rows.record(9, "g2", 0.3)] * 6  # the same record several times
    made += [{key: value for key, value in rows.record(n, "g3", 0.5).items() if key != "id"} for n in range(8)]
    made += [rows.record(400 + n, "g4", None) for n in range(8)]
    return [json.dumps(row).encode() for row in made]


@pytest.fixture(scope="module")
def log_lines() -> list[bytes]:
    lines = awkward()
    assert len(lines) == 300
    return lines


@pytest.fixture(scope="module")
def draw(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Result]:
    def run(logs: Path | list[Path], **choices: Any) -> Result:
        out = tmp_path_factory.mktemp("out") / "data"
        karl_fast.sample(logs, out, **(HOW | choices))
        return rows.files(out), rows.manifest(out)

    return run


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory, log_lines: list[bytes], draw: Callable[..., Result]) -> Result:
    log = tmp_path_factory.mktemp("log") / "log.jsonl"
    log.write_bytes(b"\n".join(log_lines) + b"\n")
    result = draw(log, threads=1)
    assert set(result[0]) == {"train.jsonl", "valid.jsonl", "test.jsonl"}
    return result


def shards(folder: Path, lines: list[bytes], count: int, seed: int) -> Path:
    """The lines in a random order, in so many files of uneven length."""
    lines = lines.copy()
    random.Random(seed).shuffle(lines)
    cuts = sorted(random.Random(seed + 1).sample(range(1, len(lines)), count - 1))
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(lines)], strict=True)):
        (folder / f"{number:03}.jsonl").write_bytes(b"\n".join(lines[start:end]) + b"\n")
    return folder


@pytest.mark.parametrize("threads", [2, 8])
def test_threads_do_not_change_a_byte(
    tmp_path: Path, log_lines: list[bytes], draw: Callable[..., Result], wanted: Result, threads: int
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"\n".join(log_lines) + b"\n")
    assert draw(log, threads=threads) == wanted


@pytest.mark.parametrize("count", [1, 7, 64])
@pytest.mark.parametrize("threads", [1, 8])
def test_sharding_does_not_change_a_byte(
    tmp_path: Path, log_lines: list[bytes], draw: Callable[..., Result], wanted: Result, count: int, threads: int
) -> None:
    folder = shards(tmp_path, log_lines, count, seed=count)
    assert draw(folder, threads=threads) == wanted
    files = sorted(folder.iterdir(), reverse=True)
    assert draw(files, threads=threads) == wanted


def zst(path: Path) -> None:
    command = shutil.which("zstd")
    if command is None:
        pytest.skip("no zstd command")
    subprocess.run([command, "-q", "--rm", str(path)], check=True)


def gz(path: Path) -> None:
    path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def gz_members(path: Path) -> None:
    """Two gzip members, as `cat a.gz b.gz` makes them, cut in the middle of a line."""
    text = path.read_bytes()
    half = len(text) // 2 + 3
    path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(text[:half]) + gzip.compress(text[half:]))
    path.unlink()


@pytest.mark.parametrize("pack", [gz, gz_members, zst])
def test_packing_does_not_change_a_byte(
    tmp_path: Path, log_lines: list[bytes], draw: Callable[..., Result], wanted: Result, pack: Callable[[Path], None]
) -> None:
    for file in list(shards(tmp_path, log_lines, 3, seed=1).iterdir()):
        pack(file)
    assert draw(tmp_path) == wanted


@pytest.mark.parametrize("layout", ["array", "member", "crlf", "mark"])
def test_file_layout_does_not_change_a_byte(
    tmp_path: Path, log_lines: list[bytes], draw: Callable[..., Result], wanted: Result, layout: str
) -> None:
    array = b"[" + b",\n".join(log_lines) + b"]"
    text = {
        "array": array,
        "member": b'{"about": 1, "results": ' + array + b"}",
        "crlf": b"\r\n".join(log_lines) + b"\r\n",
        "mark": b"\xef\xbb\xbf" + b"\n".join(log_lines),
    }[layout]
    log = tmp_path / "log.json"
    log.write_bytes(text)
    assert draw(log) == wanted


def test_another_seed_draws_other_rows(
    tmp_path: Path, log_lines: list[bytes], draw: Callable[..., Result], wanted: Result
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"\n".join(log_lines))
    assert draw(log, seed=8)[0] != wanted[0]


PINNED = {
    "train.jsonl": ["r26", "r5", "r35", "r37", "r19", "r39"],
    "valid.jsonl": ["r10", "r38", "r8", "r1", "r0", "r4"],
}


def test_the_draw_for_seed_7_is_pinned(tmp_path: Path) -> None:
    """Outputs for a seed are API: if this fails, the stream changed, and that is a breaking change."""
    out = tmp_path / "data"
    karl_fast.sample(TINY, out, k=12, seed=7, score="zscore", ess=0.5, split=(0.5, 0.5, 0.0))
    found = {
        name: [json.loads(line)["karl_fast"]["id"] for line in text.splitlines()]
        for name, text in rows.files(out).items()
    }
    assert found == PINNED


def test_the_pinned_rows_equal_the_twin() -> None:
    """So the pin is no accident: the same ids come out of naive.py and the xxhash package."""
    made = [json.loads(line) for line in TINY.read_text("utf-8").splitlines()]
    names = sorted({row["group"] for row in made})
    groups = np.array([names.index(row["group"]) for row in made])
    scores = naive.zscore(np.array([row["reward"] for row in made]), groups, 0, 1e-6)
    ids = [xxhash.xxh3_128_intdigest(row["id"].encode()) for row in made]
    keys = np.array([(id_ & (2**64 - 1), id_ >> 64, 0) for id_ in ids], dtype=np.uint64)
    drawn = naive.top(naive.gumbel_keys(naive.solve(scores, 0.5) * scores, 7, keys), 12)
    assert {made[row]["id"] for row in drawn} == {id_ for part in PINNED.values() for id_ in part}


def test_one_call_equals_the_chain(tmp_path: Path, log_lines: list[bytes]) -> None:
    """`sample` writes what read, zscore, boltzmann, draw and export write one after the other."""
    log_file = tmp_path / "log.jsonl"
    log_file.write_bytes(b"\n".join(log_lines[:270]))  # every row has a reward and a group
    how: dict[str, Any] = {"seed": 7, "split": (0.6, 0.2, 0.2), "domain": "kind"}
    one = karl_fast.sample(log_file, tmp_path / "one", k=60, score="zscore", ess=0.4, **how)

    log = karl_fast.read(log_file, **how)
    scores = karl_fast.zscore(log.rewards, log.groups)
    target = karl_fast.boltzmann(scores, ess=0.4)
    chosen = karl_fast.draw(target.log_weights, 60, seed=7, keys=log.keys)
    chain = karl_fast.export(log, chosen, tmp_path / "two", scores=scores, log_weights=target.log_weights)

    assert rows.files(tmp_path / "one") == rows.files(tmp_path / "two")
    assert one.manifest["target"]["inverse_temperature"] == target.inverse_temperature
    assert one.manifest["target"]["log_z"]["value"] == target.log_z[0]
    for manifest in (one.manifest, chain):
        del manifest["export"]["files"]["README.md"]  # the card of a chain knows neither the score nor the sampler
    for part in ("export", "domains", "secrets"):
        assert one.manifest[part] == chain[part]


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = rows.write(tmp_path / "logs" / "log.jsonl", rows.records(40))
    rows.write(tmp_path / "logs" / "more.jsonl", [rows.record(100 + n) for n in range(10)])
    (tmp_path / "link.jsonl").symlink_to(log)
    (tmp_path / "hard.jsonl").hardlink_to(log)
    logs = tmp_path / "logs"
    every = [tmp_path / "link.jsonl", log, logs, logs / "*.jsonl", tmp_path / "hard.jsonl", log]
    with karl_fast.read(every) as twice, karl_fast.read(tmp_path / "logs") as once:
        assert [file["path"] for file in twice.inputs] == [str(log), str(tmp_path / "logs" / "more.jsonl")]
        assert len(twice) == len(once) == 50


def test_globs_skip_folders_without_logs(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", rows.records(40))
    karl_fast.sample(tmp_path / "log.jsonl", tmp_path / "data", k=4)
    (tmp_path / "notes").mkdir()
    with karl_fast.read(tmp_path / "*") as log:
        assert len(log) == 40
    (tmp_path / "log.jsonl").unlink()
    with pytest.raises(karl_fast.errors.UsageError, match="data is a data set of karl-fast"):
        karl_fast.read(tmp_path / "*")
